from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import veilrec as vr
from veilrec.cli import app

WORLD = "synthetic:150,60,3000"


def call(*words: str, code: int = 0):
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "ease"
    call("fit", "ease", "--data", WORLD, "--out", str(folder), "--quiet")
    return folder


def test_a_run_is_attacked_and_the_record_stands_beside_it(run) -> None:
    words = ("attack", str(run), "--attackers", "bayes,tree", "--repeats", "2", "-k", "5,10")
    said = call(*words)
    for text in ("gender: 2 classes", "majority class", "popular both @10", "leak, AUC", "age: 7 classes"):
        assert text in said.stdout
    record = json.loads((run / "attack.json").read_text(encoding="utf-8"))
    assert (record["kind"], record["attack"], record["model"]) == ("attack", "attribute", "ease")
    assert record["settings"]["k"] == [5, 10]
    assert record["protection"] == "none"
    assert str(run.parent) not in json.dumps(record)
    again = json.loads(call(*words, "--json").stdout)
    assert again["rows"] == record["rows"]
    kept = json.loads((run / "record.json").read_text(encoding="utf-8"))
    assert kept["kind"] == "run"
    call("fit", "ease", "--data", WORLD, "--out", str(run), "--quiet", "--overwrite")
    assert not (run / "attack.json").exists(), "an attack on the old model says nothing about the new one"


def test_a_saved_model_is_attacked_with_the_attackers_data(run, tmp_path) -> None:
    path = vr.load_model(run).save(tmp_path / "theirs.veil", part="shareable")
    out = tmp_path / "a.json"
    words = ("attack", str(path), "--data", WORLD, "--target", "gender", "--attackers", "bayes")
    said = call(*words, "--input", "list,both", "--repeats", "1", "--out", str(out), "--quiet")
    assert "list @10" in said.stdout
    record = json.loads(out.read_text(encoding="utf-8"))
    assert record["split_fingerprint"] is None
    assert record["targets"][0]["users"] == 150


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--target", "gendr"), "Did you mean 'gender'?"),
        (("--attackers", "forest"), "attackers must be one of network, tree, bayes"),
        (("--input", "everything"), "inputs must be one of history, list, both, adaptive"),
        (("--bins", "age=a,b"), "--bins must be a name and numbers, got 'age=a,b'"),
        (("--bins", "age=35"), "bins must be given for numeric attributes only, got 'age'"),
        (("-k", "ten"), "--k must be whole numbers by comma"),
    ],
)
def test_errors_in_one_line(run, words, sentence) -> None:
    said = call("attack", str(run), "--target", "age", *words, code=2)
    assert sentence in said.stderr
    assert said.stderr.count("\n") == 1


def test_what_is_no_run_is_refused(run, tmp_path) -> None:
    assert "must be a folder that `veilrec fit` wrote" in call("attack", str(tmp_path), code=2).stderr
    path = vr.load_model(run).save(tmp_path / "m.veil")
    assert "--data must be given with a saved model" in call("attack", str(path), code=2).stderr
