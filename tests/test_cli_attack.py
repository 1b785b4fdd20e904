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
        (
            ("--bins", "age=35", "--bins", "age=46"),
            "--bins must be given once for each name, got 'age' again",
        ),
        (("--bins", "age=35"), "bins must be given for numeric attributes only, got 'age'"),
        (("-k", "ten"), "--k must be whole numbers by comma"),
    ],
)
def test_errors_in_one_line(run, words, sentence) -> None:
    said = call("attack", str(run), "--target", "age", *words, code=1)
    assert sentence in said.stderr
    assert said.stderr.count("\n") == 1


def test_what_is_no_run_is_refused(run, tmp_path) -> None:
    assert "must be a folder that `veilrec fit` wrote" in call("attack", str(tmp_path), code=1).stderr
    path = vr.load_model(run).save(tmp_path / "m.veil")
    assert "--data must be given with a saved model" in call("attack", str(path), code=1).stderr


@pytest.mark.parametrize("kind", ["links", "membership"])
def test_links_are_stolen_and_the_record_stands_beside_the_run(run, kind, tmp_path) -> None:
    words = ("attack", str(run), "--kind", kind, "--attackers", "score,influence", "--cells", "2000")
    said = call(*words, "--adversary", "X", "--plot", str(tmp_path / "curves.png"))
    assert "over null" in said.stdout.lower()
    assert (tmp_path / "curves.png").stat().st_size > 1000
    record = json.loads((run / f"attack-{kind}.json").read_text(encoding="utf-8"))
    assert (record["kind"], record["attack"], record["settings"]["adversaries"]) == ("attack", kind, ["X"])
    assert str(run.parent) not in json.dumps(record)
    again = json.loads(call(*words, "--adversary", "X", "--json").stdout)
    assert again["rows"] == record["rows"]


@pytest.mark.parametrize("kind", ["links", "membership"])
def test_attackers_are_left_out(run, kind, tmp_path) -> None:
    words = ("attack", str(run), "--kind", kind, "--adversary", "X", "--attackers", "score,influence")
    few = ("--cells", "2000", "--leave-out", "influence, boosting", "--out", str(tmp_path / "found.json"))
    record = json.loads(call(*words, *few, "--json").stdout)
    assert [row["attacker"] for row in record["rows"] if row["adversary"]] == ["score"]


def test_an_overwritten_run_loses_the_links_stolen_from_the_old_model(run) -> None:
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
        (
            ("--leave-out", "score"),
            "--leave-out must be left out of an attack of kind 'attribute', got 'score'",
        ),
        (("--kind", "links", "--leave-out", "scor"), "leave_out must be one of fold-in"),
        (("--kind", "links", "--adversary", "Z"), "adversaries must be one of O, X, S, got 'Z'"),
        (("--kind", "links", "--attackers", "tree"), "attackers must be one of fold-in"),
        (("--kind", "membership", "-k", "5,10"), "--k must be one length for an attack of kind 'membership'"),
        (("--kind", "links", "--cells", "3"), "cells must be a whole number of at least 100, got 3"),
        (("--kind", "links", "--known", "2"), "known must be strictly between 0 and 1, got 2.0"),
    ],
)
def test_errors_about_links_in_one_line(run, words, sentence) -> None:
    said = call("attack", str(run), *words, code=1)
    assert sentence in said.stderr
    assert said.stderr.count("\n") == 1
