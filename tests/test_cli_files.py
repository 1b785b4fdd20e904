"""Keys, signatures and damaged models on the command line: exit code 1 and one sentence."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilrec.cli import app

SMALL = "synthetic:80,50,1600"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("VEILREC_DEBUG", raising=False)


def call(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result


def test_sign_verify_and_report() -> None:
    made = json.loads(call("keys", "new", "keys/shop", "--json").stdout)
    assert Path(made["secret"]).stat().st_mode & 0o777 == 0o600
    assert "must be a new file" in call("keys", "new", "keys/shop", code=1).stderr
    fit = ["fit", "popularity", "--data", SMALL, "--out", "runs/pop", "--quiet"]
    call(*fit)
    assert "must be signed, got no signature" in call("verify", "runs/pop", code=1).stderr
    call("report", "runs", "-o", "page.html")
    assert "Not signed: pop." in Path("page.html").read_text()
    call(*fit, "--sign", made["secret"])  # finished already: it is signed as it lies there
    said = call("verify", "runs/pop", "--key", made["public"]).stdout
    assert f"good signature by {made['fingerprint']}\n" in said
    assert "a key that you have not named" in call("verify", "runs/pop").stdout
    call("report", "runs", "-o", "page.html")
    assert f"Signature of pop: good, by {made['fingerprint']}." in Path("page.html").read_text()
    call("keys", "new", "other")
    assert "must be signed by" in call("verify", "runs/pop", "--key", "other.pub", code=1).stderr
    assert "got a secret one" in call("verify", "runs/pop", "--key", "other.key", code=1).stderr
    about = Path("runs/pop/model.json")
    about.write_text(about.read_text().replace("polars", "pandas", 1))
    for words in (["verify", "runs/pop"], ["recommend", "runs/pop", "--all"]):
        assert "model.json was changed" in call(*words, code=1).stderr
    call("report", "runs", "-o", "page.html")
    assert "Signature of pop: broken" in Path("page.html").read_text()


def test_a_run_is_signed_when_it_is_fitted() -> None:
    call("keys", "new", "shop")
    words = ["fit", "dp-gram", "--data", SMALL, "--research", "--out", "run", "--quiet"]
    call(*words, "--sign", "shop.key")
    found = json.loads(call("verify", "run", "--key", "shop.pub", "--json").stdout)
    assert found["model"] == "dp-gram"
    assert found["known_key"]
    Path("shop.key").chmod(0o644)
    assert (
        "mode must be 0o600 or less"
        in call(*words[:-3], "--out", "other", "--sign", "shop.key", code=1).stderr
    )
    assert not Path("other").exists()  # refused before any work


def test_damaged_models_end_in_a_sentence_and_exit_code_1() -> None:
    call("fit", "item-knn", "--data", SMALL, "--out", "run", "--quiet")
    call("recommend", "run", "--user", "u1")
    ids, arrays = Path("run/ids.json"), Path("run/model.safetensors")
    honest = ids.read_bytes(), arrays.read_bytes()
    for damaged in (
        lambda: ids.write_text("["),
        lambda: ids.write_text('{"kind": "text", "ids": ["a", "b"]}'),
        lambda: arrays.write_bytes(honest[1][:-3]),
        lambda: arrays.write_bytes(b"\xff" * 8 + honest[1][8:]),
        lambda: (ids.unlink(), ids.symlink_to("/etc/passwd")),
    ):
        damaged()
        said = call("recommend", "run", "--user", "u1", code=1).stderr
        assert said.startswith("error: run: ")
        assert said.count("\n") == 1
        ids.unlink()
        ids.write_bytes(honest[0])
        arrays.write_bytes(honest[1])
    call("recommend", "run", "--user", "u1")
    with zipfile.ZipFile("bomb.veil", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", bytes(1 << 25))
    assert "must be stored as it is" in call("recommend", "bomb.veil", "--all", code=1).stderr
    assert "No such option" in call("recommend", "run", "--nonsense", code=2).stderr  # wrong usage stays 2
