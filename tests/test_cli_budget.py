from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veilrec.cli import app
from veilrec.privacy import Ledger, PureEvent, UnboundedEvent


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    """A ledger of its own and a wide terminal."""
    monkeypatch.setenv("VEILREC_LEDGER", str(tmp_path / "budget.sqlite"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("VEILREC_DEBUG", raising=False)


def call(*words: str, code: int = 0):
    result = CliRunner().invoke(app, ["budget", *words])
    if result.exit_code != code:
        raise AssertionError(f"{words} ended with {result.exit_code}: {result.output}") from result.exception
    return result


def machine(*words: str):
    return json.loads(call(*words, "--json").stdout)


def spend(epsilon: float, run: str, population: str = "ml-100k", **more):
    return Ledger().reserve(population, "f", [PureEvent(epsilon=epsilon)], delta=0.0, run=run, **more)


SET = ("set", "ml-100k", "--epsilon", "8", "--delta", "1e-5")


def test_set_show_history():
    assert call(*SET).stdout == "ml-100k: at most epsilon 8 and delta 1e-05 per user\n"
    spend(2.0, "first").release()
    spend(1.5, "second")
    head, row = call("show").stdout.splitlines()
    assert head.split() == ["population", "per", "limit", "spent", "left", "runs"]
    assert "ε 8, δ 1e-05  ε 3.5, δ 0  ε 4.5, δ 1e-05  2 (1 not finished)" in row
    assert "██████░░░░░░ 44 %" in row
    [account] = machine("show", "ml-100k")
    assert account["left"] == {"epsilon": 4.5, "delta": 1e-5}
    assert (account["runs"], account["unfinished"]) == (2, 1)
    lines = call("history", "ml-100k").stdout.splitlines()
    assert "limit set" in lines[1]
    assert "run first" in lines[2]
    assert lines[2].rstrip().endswith("released; secure noise")
    assert "not finished; counted as spent; secure noise" in lines[3]
    entries = machine("history")
    assert [entry["kind"] for entry in entries] == ["limit", "spend", "spend"]
    assert entries[1]["events"][0]["event"] == "pure"
    assert entries[1]["fingerprint"] == "f"


def test_lowering_below_what_is_spent_says_so_and_stops_further_runs():
    spend(3.0, "first")
    assert "no limit set" in call("show").stdout
    done = call("set", "ml-100k", "--epsilon", "2", "--delta", "0")
    assert "note: epsilon 3 and delta 0 are spent already; no further run will be let in." in done.stderr
    assert "150 %" in call("show").stdout
    assert "below what was spent" in call("history").stdout


def test_an_infinite_spend_is_shown_and_is_null_in_json():
    Ledger().reserve("raw", "f", [UnboundedEvent(reason="raw counts")], delta=0.0, run="plain")
    assert "ε infinite" in call("show", "raw").stdout
    call("set", "raw", "--epsilon", "2", "--delta", "0")
    assert "over" in call("show", "raw").stdout
    assert machine("show", "raw")[0]["epsilon"] is None
    assert machine("history", "raw")[0]["epsilon"] is None


def test_other_units_other_files(tmp_path: Path):
    other = ("--ledger", str(tmp_path / "other" / "b.sqlite"))
    change = machine("set", "shop", "--epsilon", "2.5", "--delta", "0", "--unit", "attribute", *other)
    assert (change["unit"], change["neighbours"]) == ("attribute", "replace")
    machine("set", "shop", "--epsilon", "2.5", "--delta", "0", "--neighbours", "replace", *other)
    assert [account["unit"] for account in machine("show", *other)] == ["user", "attribute"]
    assert machine("show") == []
    assert not (tmp_path / "budget.sqlite").exists()
    assert "nothing is recorded in" in call("show").stderr
    assert "nothing is recorded in" in call("history").stderr


def test_a_new_name_beside_a_similar_one_is_noted():
    assert call(*SET).stderr == ""
    assert call(*SET).stderr == ""
    done = call("set", "ML-100k", "--epsilon", "8", "--delta", "1e-5")
    assert "note: ML-100k is new and has a budget of its own; ml-100k is another." in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "ml-10k"), "population must be one with a limit or a spend, got 'ml-10k'. Did you mean"),
        (("history", "zzz"), "got 'zzz'. Known are: ml-100k."),
        (("set", "a", "--epsilon", "0", "--delta", "0"), "epsilon must be a finite number above 0, got 0.0."),
        (
            ("set", "a", "--epsilon", "nan", "--delta", "0"),
            "epsilon must be a finite number above 0, got nan",
        ),
        (("set", "a", "--epsilon", "1", "--delta", "1"), "delta must be from 0 up to but not including 1"),
        (("set", "a", "--epsilon", "1", "--delta", "0", "--unit", "usr"), "Did you mean 'user'?"),
        (("set", " a", "--epsilon", "1", "--delta", "0"), "population must be a printable name"),
        (("show", "--ledger", "."), "is a folder. Name a file for the budget ledger."),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(words, sentence, tmp_path: Path):
    call(*SET)
    before = (tmp_path / "budget.sqlite").read_bytes()
    refused = call(*words, code=1)
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert refused.stdout == ""
    assert (tmp_path / "budget.sqlite").read_bytes() == before
