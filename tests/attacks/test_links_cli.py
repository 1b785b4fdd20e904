from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

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


@pytest.mark.parametrize("kind", ["links", "membership"])
def test_a_run_is_attacked_and_the_record_stands_beside_it(run, kind, tmp_path) -> None:
    words = ("attack", str(run), "--kind", kind, "--attackers", "score,influence", "--cells", "2000")
    said = call(*words, "--adversary", "X", "--plot", str(tmp_path / "curves.png"))
    assert "over null" in said.stdout.lower()
    assert (tmp_path / "curves.png").stat().st_size > 1000
    record = json.loads((run / f"attack-{kind}.json").read_text(encoding="utf-8"))
    assert (record["kind"], record["attack"], record["settings"]["adversaries"]) == ("attack", kind, ["X"])
    assert str(run.parent) not in json.dumps(record)
    again = json.loads(call(*words, "--adversary", "X", "--json").stdout)
    assert again["rows"] == record["rows"]


def test_an_overwritten_run_loses_the_attacks_on_the_old_model(run) -> None:
    call("attack", str(run), "--kind", "links", "--attackers", "score", "--cells", "2000", "--quiet")
    assert (run / "attack-links.json").exists()
    call("fit", "ease", "--data", WORLD, "--out", str(run), "--quiet", "--overwrite")
    assert not (run / "attack-links.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--kind", "link"), "--kind must be one of attribute, links, membership, got 'link'"),
        (("--kind", "links", "--target", "gender"), "--target must be left out of an attack of kind 'links'"),
        (("--kind", "links", "--repeats", "2"), "--repeats must be left out"),
        (("--known", "0.3"), "--known must be left out of an attack of kind 'attribute', got 0.3"),
        (("--plot", "x.png"), "--plot must be left out"),
        (("--kind", "links", "--adversary", "Z"), "adversaries must be one of O, X, S, got 'Z'"),
        (("--kind", "links", "--attackers", "tree"), "attackers must be one of fold-in"),
        (("--kind", "membership", "-k", "5,10"), "--k must be one length for an attack of kind 'membership'"),
        (("--kind", "links", "--cells", "3"), "cells must be a whole number of at least 100, got 3"),
        (("--kind", "links", "--known", "2"), "known must be strictly between 0 and 1, got 2.0"),
    ],
)
def test_errors_in_one_line(run, words, sentence) -> None:
    said = call("attack", str(run), *words, code=2)
    assert sentence in said.stderr
    assert said.stderr.count("\n") == 1
