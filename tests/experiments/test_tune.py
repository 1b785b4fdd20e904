from __future__ import annotations

import dataclasses
import sys

import pytest
import yaml

from veilrec.core import DataError
from veilrec.data import Split, synthetic
from veilrec.data.split import holdout
from veilrec.experiments import Choice, Range, SplitSpec, fit_run, load_config, read_record, tune
from veilrec.experiments.tune import STATEMENT, without_test
from veilrec.systems import SYSTEMS
from veilrec.training import evaluate

SPACE = {"size": Range(0.1, 10.0, log=True), "epochs": Choice((2, 4))}


class Forbidden:
    """A test part that cannot be read in any way."""

    def __getattribute__(self, name: str):
        raise AssertionError(f"the test part was read: {name}")

    def __len__(self) -> int:
        raise AssertionError("the test part was counted")


def forbid(split: Split) -> Split:
    return dataclasses.replace(split, test=Forbidden())  # type: ignore[arg-type]


def test_the_test_part_is_never_touched(toy, small, tmp_path, monkeypatch):
    def guarded(spec, data, seed, source=None):
        return forbid(holdout(data, 0.2, 0.1, seed))

    monkeypatch.setattr(sys.modules[tune.__module__], "make_split", guarded)
    found = tune(small("toy"), tmp_path / "t", trials=2, space=SPACE, progress=False)
    assert len(found.record["trials"]) == 2
    data = synthetic(users=80, items=50, interactions=1600)
    split = forbid(holdout(data, 0.2, 0.1, 1))
    model = SYSTEMS["toy"]().fit(split.train, split.valid, progress=False)
    with pytest.raises(AssertionError, match="the test part was counted"):  # the guard can fail
        evaluate(model, split, 10, progress=False)


def test_best_settings_are_a_configuration(toy, small, tmp_path):
    found = tune(small("toy"), tmp_path / "t", trials=3, metric="recall@10", space=SPACE, progress=False)
    record = read_record(tmp_path / "t")
    assert (record["kind"], record["metric"], record["note"]) == ("tuning", "recall@10", STATEMENT)
    values = [trial["value"] for trial in record["trials"]]
    assert record["best"]["value"] == max(values)
    spec = load_config(found.config)
    assert spec.settings == found.best
    assert set(found.best) == {"size", "epochs"}
    assert (spec.model, spec.seed, spec.data.source) == ("toy", 1, "synthetic:80,50,1600")
    text = found.config.read_text()
    assert "outside any privacy guarantee" in " ".join(text.replace("#", "").split())
    assert yaml.safe_load(text)["settings"] == found.best
    folder = fit_run(spec, tmp_path / "run", progress=False)
    assert read_record(folder)["settings"] == found.best


def test_a_search_goes_on_as_if_it_had_not_stopped(toy, small, tmp_path):
    whole = tune(small("toy"), tmp_path / "whole", trials=5, space=SPACE, progress=False)
    tune(small("toy"), tmp_path / "parts", trials=2, space=SPACE, progress=False)
    toy.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        tune(small("toy"), tmp_path / "parts", trials=5, space=SPACE, progress=False)
    toy.stop_at = None
    parts = tune(small("toy"), tmp_path / "parts", trials=5, space=SPACE, progress=False)
    ours, theirs = (
        [(trial["settings"], trial["value"]) for trial in found.record["trials"]] for found in (parts, whole)
    )
    assert ours == theirs
    steps = len(toy.steps)
    tune(small("toy"), tmp_path / "parts", trials=5, space=SPACE, progress=False)
    assert len(toy.steps) == steps  # all trials were there


def test_fixed_settings_are_not_searched(toy, small, tmp_path):
    found = tune(small("toy", settings={"size": 2.0}), tmp_path / "t", trials=2, space=SPACE, progress=False)
    assert found.best["size"] == 2.0
    assert all(set(trial["settings"]) == {"epochs"} for trial in found.record["trials"])
    fixed = small("toy", settings={"size": 2.0, "epochs": 2})
    with pytest.raises(ValueError, match="space must be left with one setting or more to search"):
        tune(fixed, tmp_path / "u", trials=2, space=SPACE, progress=False)


def test_errors_of_ratings_are_made_small(small, tmp_path):
    found = tune(small("mf", settings={"epochs": 2}), tmp_path / "t", trials=3, metric="rmse", progress=False)
    values = [trial["value"] for trial in found.record["trials"]]
    assert found.record["best"]["value"] == min(values)
    with pytest.raises(ValueError, match=r"metric must be one of recall@10.*, got 'rmse'"):
        tune(small("ease"), tmp_path / "u", trials=1, metric="rmse", progress=False)


def test_what_cannot_be_tuned(toy, small, tmp_path):
    with pytest.raises(ValueError, match=r"model must be one of .*, got 'popularity'"):
        tune(small(), tmp_path / "t", progress=False)
    for metric in ("ndcg", "ndcg@0", "speed@10", "ndcg@ten"):
        with pytest.raises(ValueError, match="metric must be one like ndcg@10"):
            tune(small("toy"), tmp_path / "t", metric=metric, space=SPACE, progress=False)
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1"):
        tune(small("toy"), tmp_path / "t", trials=0, space=SPACE, progress=False)
    with pytest.raises(DataError, match="must have a validation part to tune on"):
        tune(small("toy", split=SplitSpec("holdout", 0.2, 0.0)), tmp_path / "t", space=SPACE, progress=False)
    with pytest.raises(DataError, match="Did you mean 'size'"):
        tune(small("toy"), tmp_path / "t", space={"sise": Range(1, 2)}, progress=False)
    assert not (tmp_path / "t").exists()


def test_a_folder_of_something_else_is_refused(toy, small, tmp_path):
    tune(small("toy"), tmp_path / "t", trials=1, space=SPACE, progress=False)
    with pytest.raises(DataError, match="another model, data, split, metric or ranges"):
        tune(small("toy", seed=5), tmp_path / "t", trials=1, space=SPACE, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="a folder with other files"):
        tune(small("toy"), tmp_path / "other", trials=1, space=SPACE, progress=False)


def test_without_test_keeps_the_rest():
    split = holdout(synthetic(users=60, items=40, interactions=900), 0.2, 0.1)
    blind = without_test(split)
    assert len(blind.test) == 0
    assert blind.train is split.train
    assert blind.valid is split.valid
    assert blind.fingerprint == split.fingerprint
