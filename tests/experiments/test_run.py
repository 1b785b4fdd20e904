from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import veilrec
from veilrec.core import DataError
from veilrec.experiments import DataSpec, evaluate_run, fit_run, open_run, read_record
from veilrec.privacy import Ledger


def events(path, extra=""):
    rows = [f"u{u},i{(u * 3 + n) % 17},{1 + n % 5}" for u in range(30) for n in range(8)]
    path.write_text("user,item,rating\n" + "\n".join(rows) + "\n" + extra)
    return path


def test_a_run_leaves_what_architecture_promises(small, tmp_path):
    folder = fit_run(small(), tmp_path / "pop", command="veilrec fit popularity", progress=False)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "model.json",
        "ids.json",
        "model.safetensors",
        "privacy.json",
        "private/users.json",
        "private/state.safetensors",
        "run.json",
        "record.json",
        "log.jsonl",
    }
    record = read_record(folder)
    run = open_run(folder)
    data, split = run.parts()
    assert record["data"]["fingerprint"] == data.fingerprint
    assert record["split"]["fingerprint"] == split.fingerprint
    assert record["split"]["sizes"] == {
        "train": len(split.train),
        "valid": len(split.valid),
        "test": len(split.test),
    }
    assert record["guarantee"] == json.loads((folder / "privacy.json").read_text())
    assert record["statement"] == str(run.model.guarantee)
    assert set(record["seconds"]) == {"load", "split", "fit", "evaluate"}
    assert record["environment"]["veilrec"]
    assert (record["command"], record["seed"], record["settings"]) == ("veilrec fit popularity", 1, {})
    judged = evaluate_run(folder, progress=False).to_dict()
    assert judged["metrics"] == record["evaluation"]["metrics"]
    events_logged = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in events_logged] == ["started", "finished"]


def test_evaluate_takes_other_lengths_protocols_and_parts(small, tmp_path):
    folder = fit_run(small(), tmp_path / "pop", progress=False)
    judged = evaluate_run(folder, k=(3,), protocol="one-positive", part="valid", progress=False)
    assert (judged.protocol, judged.part) == ("one-positive", "valid")
    assert {name.partition("@")[2].partition(" ")[0] for name in judged.mean()} == {"3"}


def test_the_same_command_again_does_nothing(small, toy, tmp_path):
    folder = fit_run(small("toy"), tmp_path / "toy", progress=False)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    steps = len(toy.steps)
    assert fit_run(small("toy"), folder, progress=False) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert len(toy.steps) == steps > 0


def test_another_experiment_is_refused_before_any_work(small, toy, tmp_path, monkeypatch):
    folder = fit_run(small("toy"), tmp_path / "toy", progress=False)
    monkeypatch.setattr("veilrec.experiments.run.load_data", lambda spec: pytest.fail("data was read"))
    with pytest.raises(
        DataError, match=r"a finished run of another experiment \(settings.size was 1.0 and is 2.0\)"
    ):
        fit_run(small("toy", settings={"size": 2.0}), folder, progress=False)
    with pytest.raises(DataError, match="seed was 1 and is 2"):
        fit_run(small("toy", seed=2), folder, progress=False)
    with pytest.raises(DataError, match="model was 'toy' and is 'popularity'"):
        fit_run(small(), folder, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="a folder with other files"):
            fit_run(small(), tmp_path / "other", overwrite=overwrite, progress=False)
    with pytest.raises(DataError, match="out must be a folder, got a file"):
        fit_run(small(), tmp_path / "other" / "letter.txt", progress=False)


def test_overwrite_replaces_the_run_and_keeps_strangers(small, toy, tmp_path):
    folder = fit_run(small("toy"), tmp_path / "toy", progress=False)
    (folder / "notes.txt").write_text("mine")
    fit_run(small("toy", settings={"size": 2.0}), folder, overwrite=True, progress=False)
    assert read_record(folder)["settings"]["size"] == 2.0
    assert (folder / "notes.txt").read_text() == "mine"


def test_overwrite_with_a_mistake_keeps_the_old_run(small, toy, tmp_path):
    folder = fit_run(small("toy"), tmp_path / "toy", progress=False)
    wrong = small("toy", data=DataSpec(str(tmp_path / "absent.csv")))
    with pytest.raises(DataError):
        fit_run(wrong, folder, overwrite=True, progress=False)
    assert open_run(folder).model.word == "toy"


def test_a_stopped_run_goes_on_to_the_same_bits(small, toy, tmp_path):
    whole = fit_run(small("toy"), tmp_path / "whole" / "toy", progress=False)
    every = list(toy.steps)
    toy.steps.clear()
    toy.stop_at = 4
    stopped = tmp_path / "stopped" / "toy"
    with pytest.raises(KeyboardInterrupt):
        fit_run(small("toy"), stopped, progress=False)
    assert (stopped / "checkpoints").is_dir()
    with pytest.raises(DataError, match="must be finished, got one that was stopped"):
        open_run(stopped)
    with pytest.raises(DataError, match="an unfinished run of another experiment"):
        fit_run(small("toy", seed=9), stopped, progress=False)
    toy.stop_at = None
    fit_run(small("toy"), stopped, progress=False)
    assert toy.steps == every  # nothing done twice
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (stopped, whole))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    metrics = [read_record(folder)["evaluation"]["metrics"] for folder in (stopped, whole)]
    assert metrics[0] == metrics[1]
    assert not (stopped / "checkpoints").exists()
    lines = [json.loads(line) for line in (stopped / "log.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines if "event" in line] == ["started", "resumed", "finished"]
    assert [line["epoch"] for line in lines if "epoch" in line] == [n + 1 for n in every]


def test_data_that_changed_is_noticed(small, tmp_path):
    file = events(tmp_path / "events.csv")
    spec = small(data=DataSpec(str(file)))
    folder = fit_run(spec, tmp_path / "own", progress=False)
    events(file, "u1,i16,5\n")
    with pytest.raises(DataError, match="the data must be what the run was fitted on"):
        fit_run(spec, folder, progress=False)
    with pytest.raises(DataError, match="the data must be what the run was fitted on"):
        evaluate_run(folder, progress=False)


def test_records_name_no_folder_of_the_machine_but_the_owner_finds_the_data(small, tmp_path, monkeypatch):
    (tmp_path / "ann-home").mkdir()
    file = events(tmp_path / "ann-home" / "events.csv")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    folder = fit_run(small(data=DataSpec(str(file))), "own", progress=False)
    for name in ("record.json", "run.json", "model.json", "log.jsonl", "privacy.json"):
        assert "ann-home" not in (folder / name).read_text()
    monkeypatch.chdir("/")
    place = tmp_path / "work" / "own"
    assert (
        evaluate_run(place, progress=False).to_dict()["metrics"]
        == read_record(place)["evaluation"]["metrics"]
    )
    moved = file.rename(tmp_path / "moved.csv")
    with pytest.raises(DataError):
        evaluate_run(place, progress=False)
    assert evaluate_run(place, data=str(moved), progress=False).users.size


def test_open_run_refuses_what_is_no_run(small, tmp_path):
    with pytest.raises(DataError, match="must be a folder that `veilrec fit` wrote"):
        open_run(tmp_path)
    folder = fit_run(small(), tmp_path / "pop", progress=False)
    (folder / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run.json cannot be read"):
        open_run(folder)


def test_wrong_settings_fail_before_data_is_read(small, monkeypatch, tmp_path):
    monkeypatch.setattr("veilrec.experiments.run.load_data", lambda spec: pytest.fail("data was read"))
    with pytest.raises(DataError, match="absent, because there is no setting of popularity"):
        fit_run(replace(small(), settings={"k": 1}), tmp_path / "x", progress=False)
    assert not (tmp_path / "x").exists()


def test_a_secure_run_of_a_private_model_is_always_booked(small, tmp_path):
    """Whoever calls: without a ledger the user's own is taken."""
    for number, (word, secure) in enumerate([("dp-gram", False), ("ease", True), ("dp-gram", True)]):
        fit_run(small(word, secure=secure), tmp_path / str(number), progress=False)
        assert len(Ledger().history()) == (number == 2)


def test_every_fit_outside_of_the_systems_is_booked_or_for_research():
    """In experiments, studio and attacks: a call of fit on data of people has a ledger or no secure noise."""
    found = []
    for room in ("attacks", "experiments", "studio"):
        for file in sorted((Path(veilrec.__file__).parent / room).rglob("*.py")):
            for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    named = {word.arg: ast.unparse(word.value) for word in call.keywords}
                    if call.func.attr == "fit" and named.keys() & {"progress", "seed", "secure", "device"}:
                        found.append((file.name, named.get("secure") == "False" or "ledger" in named))
    assert len(found) == 4
    assert all(good for _, good in found), found
