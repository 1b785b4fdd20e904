from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from veilrec.cli import app


def call(*words: str, code: int = 0):
    result = CliRunner().invoke(app, ["audit", *words], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


def test_a_mechanism_holds_and_is_drawn(tmp_path) -> None:
    out = tmp_path / "laplace.png"
    said = call("mechanism", "laplace", "--epsilon", "1", "--runs", "4000", "--seed", "1", "-o", str(out))
    assert "holds" in said.stdout
    assert "●" in said.stdout
    assert "does not prove privacy" in said.stdout
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_a_mutant_is_refuted() -> None:
    said = call("mutant", "half-noise", "--seed", "1", "--quiet")
    assert "refuted" in said.stdout
    assert "does not prove" not in said.stdout


def test_json_is_nothing_but_json() -> None:
    row = json.loads(call("mechanism", "bit-response", "--runs", "2000", "--seed", "1", "--json").stdout)[0]
    assert (row["mechanism"], row["claimed_epsilon"], row["refuted"]) == ("bit-response", 1.0, False)
    assert len(row["curve"]) == 9
    rows = json.loads(call("mutant", "all", "--seed", "1", "--json").stdout)
    assert all(row["refuted"] for row in rows)
    assert len({row["level"] for row in rows}) == 1
    assert rows[0]["level"] == pytest.approx(0.05 / len(rows))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("mechanism", "laplce"), "Did you mean 'laplace'?"),
        (("mutant", "half"), "mutant must be one of"),
        (("mechanism", "laplace", "--epsilon", "0"), "epsilon must be a finite number above 0, got 0.0"),
        (("mechanism", "all", "-o", "x.png"), "--out must be given for one mechanism only"),
    ],
)
def test_errors_in_one_line(words, sentence) -> None:
    said = call(*words, code=1)
    assert sentence in said.stderr
    assert said.stderr.count("\n") == 1
