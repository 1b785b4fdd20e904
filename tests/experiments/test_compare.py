from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from veilrec.core import DataError
from veilrec.data import synthetic
from veilrec.experiments import (
    DataSpec,
    Entry,
    EvaluateSpec,
    Plan,
    SplitSpec,
    compare,
    read_record,
    run_plan,
)
from veilrec.experiments.cells import Cell
from veilrec.experiments.compare import summarise
from veilrec.metrics import cohen_dz, holm, mean_interval, paired_t
from veilrec.systems import Popularity

PLAN = Plan(
    models=(Entry("popularity", "popularity"), Entry("toy", "toy"), Entry("wild", "toy", {"size": 3.0})),
    seeds=(0, 1),
    data=DataSpec("synthetic:150,50,3000"),
    split=SplitSpec("holdout", 0.2, 0.1),
    evaluate=EvaluateSpec((5, 10)),
)


def cell(users, **values):
    about = {
        "settings": {},
        "guarantee": {"protection": "none"},
        "statement": "s",
        "seconds": 1.0,
        "overall": {"coverage@1": 0.5},
    }
    return Cell(np.asarray(users), {name: np.asarray(array, float) for name, array in values.items()}, about)


def test_worked_summary():
    entries = [Entry("a", "a"), Entry("b", "b")]
    cells = {
        "a": [cell([0, 1, 2], hit=[1, 0, 1]), cell([1, 2, 3], hit=[1, 1, 0])],
        "b": [cell([0, 1, 2], hit=[0, 0, 1]), cell([1, 2, 3], hit=[1, 0, 0])],
    }
    first, second = summarise(entries, cells, "first")
    ours, theirs = np.array([1, 0.5, 1, 0]), np.array([0, 0.5, 0.5, 0])  # users 0..3, mean over their seeds
    interval = mean_interval(ours)
    assert first["metrics"]["hit"]["mean"] == pytest.approx(0.625)
    assert first["metrics"]["hit"]["users"] == pytest.approx([interval.low, interval.high])
    spread = mean_interval([2 / 3, 2 / 3])
    assert first["metrics"]["hit"]["seeds"] == pytest.approx([spread.low, spread.high])
    assert first["metrics"]["hit"]["test"] is None
    test = second["metrics"]["hit"]["test"]
    assert (test["against"], test["test"]) == ("a", "sign-flip permutation")
    assert test["difference"] == pytest.approx(-0.375)
    assert test["effect"] == pytest.approx(cohen_dz(theirs, ours))
    assert test["p"] == test["p_raw"] == 0.5  # two users differ: 2 of 4 sign patterns are as far
    assert first["metrics"]["coverage@1"] == {"mean": 0.5}


def test_holm_over_models_and_t_test_with_many_users():
    rng = np.random.default_rng(0)
    users = np.arange(300)
    base = rng.random(300)
    shifts = {"a": 0.0, "b": 0.02, "c": 0.01, "d": 0.0}
    values = {label: base + shift + 0.1 * rng.random(300) for label, shift in shifts.items()}
    rows = summarise(
        [Entry(label, label) for label in shifts],
        {label: [cell(users, ndcg=array)] for label, array in values.items()},
        "a",
    )
    raw = [paired_t(values[label], values["a"]).p_value for label in "bcd"]
    found = [row["metrics"]["ndcg"]["test"] for row in rows[1:]]
    assert [test["p_raw"] for test in found] == pytest.approx(raw)
    assert [test["p"] for test in found] == pytest.approx(holm(raw).tolist())
    assert all(test["p"] >= test["p_raw"] for test in found)
    assert rows[0]["metrics"]["ndcg"]["seeds"] is None


def test_best_is_chosen_metric_by_metric():
    users = np.arange(4)
    cells = {
        "a": [cell(users, hit=[1, 1, 1, 0], ndcg=[0, 0, 0, 0.1])],
        "b": [cell(users, hit=[0, 1, 0, 0], ndcg=[0, 0, 1, 0.2])],
    }
    rows = summarise([Entry("a", "a"), Entry("b", "b")], cells, "best")
    assert rows[0]["metrics"]["hit"]["test"] is None
    assert rows[1]["metrics"]["hit"]["test"]["against"] == "a"
    assert rows[0]["metrics"]["ndcg"]["test"]["against"] == "b"
    assert rows[1]["metrics"]["ndcg"]["test"] is None


def test_an_infinite_effect_is_written_as_none(tmp_path):
    cells = {"a": [cell([0, 1], hit=[0, 0])], "b": [cell([0, 1], hit=[1, 1])]}
    rows = summarise([Entry("a", "a"), Entry("b", "b")], cells, "first")
    assert rows[1]["metrics"]["hit"]["test"]["effect"] is None
    json.dumps(rows, allow_nan=False)


def test_cells_are_kept_and_reused(toy, tmp_path):
    heard: list[str] = []
    first = run_plan(PLAN, tmp_path / "table", progress=False, say=heard.append)
    assert [line.endswith("fitting") for line in heard] == [True] * 6
    steps = len(toy.steps)
    heard.clear()
    again = run_plan(PLAN, tmp_path / "table", progress=False, say=heard.append)
    assert [line.endswith("kept") for line in heard] == [True] * 6
    assert len(toy.steps) == steps
    assert again.record["models"] == first.record["models"]
    more = replace(PLAN, models=(*PLAN.models, Entry("tame", "toy", {"size": 0.5})), seeds=(0, 1, 2))
    heard.clear()
    run_plan(more, tmp_path / "table", progress=False, say=heard.append)
    assert sum(line.endswith("fitting") for line in heard) == 6  # tame on 0, 1 and all four on 2
    changed = replace(PLAN, evaluate=EvaluateSpec((5,)))
    heard.clear()
    run_plan(changed, tmp_path / "table", progress=False, say=heard.append)
    assert all(line.endswith("fitting") for line in heard)


def test_a_stopped_comparison_ends_like_one_that_was_not(toy, tmp_path):
    whole = run_plan(PLAN, tmp_path / "whole", progress=False)
    every = sorted(toy.steps)
    toy.steps.clear()
    toy.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        run_plan(PLAN, tmp_path / "stopped", progress=False)
    toy.stop_at = None
    resumed = run_plan(PLAN, tmp_path / "stopped", progress=False)
    assert sorted(toy.steps) == every  # the cell that was stopped went on from its checkpoint
    for ours, theirs in zip(resumed.record["models"], whole.record["models"]):
        assert ours["metrics"] == theirs["metrics"]
    assert not list((tmp_path / "stopped").rglob("*.checkpoint"))


def test_all_models_see_the_same_split_and_each_seed_another(toy, tmp_path):
    record = run_plan(PLAN, tmp_path / "table", progress=False).record
    by_model = {row["label"]: row["metrics"]["recall@10"]["mean"] for row in record["models"]}
    alone = run_plan(replace(PLAN, models=PLAN.models[:1]), tmp_path / "alone", progress=False)
    assert alone.mean("popularity", "recall@10") == by_model["popularity"]
    fixed = replace(PLAN, models=PLAN.models[:1], split=replace(PLAN.split, seed=0))
    row = run_plan(fixed, tmp_path / "fixed", progress=False).record["models"][0]
    low, high = row["metrics"]["recall@10"]["seeds"]
    assert low == high  # popularity draws nothing: only the split could differ
    low, high = record["models"][0]["metrics"]["recall@10"]["seeds"]
    assert low < high


def test_record_and_note(toy, tmp_path):
    done = run_plan(PLAN, tmp_path / "table", progress=False, command="veilrec compare")
    record = read_record(tmp_path / "table")
    assert record == json.loads(json.dumps(done.record))
    assert (record["kind"], record["seeds"], record["command"]) == ("comparison", [0, 1], "veilrec compare")
    assert record["note"].startswith("Intervals of 95% over users; differences to popularity: ")
    assert "never to be compared" not in record["note"]
    row = record["models"][0]
    assert row["protection"] == "none"
    assert row["seconds"] >= 0


def test_python_face_takes_words_models_and_data(tmp_path):
    data = synthetic(users=60, items=40, interactions=900)
    result = compare([Popularity()], data, seeds=2, k=[5], progress=False)
    assert [row["label"] for row in result.record["models"]] == ["popularity"]
    assert result.folder is None
    kept = compare(["popularity"], data, seeds=2, k=[5], out=tmp_path / "kept", progress=False)
    assert kept.folder == tmp_path / "kept"
    assert kept.mean("popularity", "recall@5") == result.mean("popularity", "recall@5")
    with pytest.raises(ValueError, match="label must be of a model that was compared, got 'ease'"):
        result.mean("ease", "recall@5")


def test_bad_folders_and_cells(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="out must be a folder, got a file"):
        run_plan(PLAN, tmp_path / "file", progress=False)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(DataError, match="got a run"):
        run_plan(PLAN, tmp_path / "run", progress=False)
    run_plan(PLAN, tmp_path / "table", progress=False)
    next((tmp_path / "table" / "cells").glob("toy-0-*")).write_bytes(b"torn")
    with pytest.raises(DataError, match="Delete it to compute it again"):
        run_plan(PLAN, tmp_path / "table", progress=False)
