from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.data import Dataset
from veilrec.training.folder import hold_folder
from veilrec.training.job import Job, folder_salt
from veilrec.training.members import SHAREABLE


def model() -> vr.Popularity:
    return vr.Popularity().fit(Dataset.from_arrays(["ä", "b b", "007"], ["x", "y", "7"]))


def test_ids_survive_exactly(tmp_path: Path) -> None:
    loaded = vr.load_model(model().save(tmp_path / "m.veil"))
    assert loaded.users.values.to_list() == ["007", "b b", "ä"]


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "m.veil").write_text("hello")
    with pytest.raises(DataError, match=r"m\.veil: path must be a veilrec model"):
        vr.load_model(tmp_path / "m.veil")
    with pytest.raises(DataError, match="there is none"):
        vr.load_model(tmp_path / "nothing")


def test_refuses_to_write_over_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="one that holds a model, got something else"):
        model().save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_keeps_its_other_files(tmp_path: Path) -> None:
    path = model().save(tmp_path / "run")
    (path / "record.json").write_text("{}")
    model().save(path)
    assert (path / "record.json").read_text() == "{}"


def test_a_failed_save_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model().save(tmp_path / "run")
    (path / "record.json").write_text("{}")

    def broken(*arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("veilrec.training.files.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        model().save(path)
    monkeypatch.undo()
    assert (path / "record.json").read_text() == "{}"
    assert vr.load_model(path).users.values.to_list() == ["007", "b b", "ä"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("missing", ["ids.json", "model.safetensors"])
def test_damaged_models_are_named(tmp_path: Path, missing: str) -> None:
    path = model().save(tmp_path / "run")
    (path / missing).write_text("{")
    with pytest.raises(DataError, match=r"run: .* Save it again"):
        vr.load_model(path)


def test_unknown_class_and_format(tmp_path: Path) -> None:
    path = model().save(tmp_path / "run")
    about = json.loads((path / "model.json").read_text())
    (path / "model.json").write_text(json.dumps(about | {"model": "os.system"}))
    with pytest.raises(DataError, match=r"must be one veilrec knows, got 'os.system'"):
        vr.load_model(path)
    (path / "model.json").write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(DataError, match="model format must be 2, got 99"):
        vr.load_model(path)


def test_a_folder_to_publish_holds_nothing_else(tmp_path: Path) -> None:
    """Checkpoints, record and log of a run stayed beside what was published."""
    path = model().save(tmp_path / "run")
    for other in ("checkpoints", "record.json", "log.jsonl"):
        (path / other).mkdir() if other == "checkpoints" else (path / other).write_text("{}")
    before = sorted(one.name for one in path.rglob("*"))
    with pytest.raises(DataError, match=r"must hold a shareable model and nothing else, got checkpoints, "):
        model().save(path, part="shareable")
    assert sorted(one.name for one in path.rglob("*")) == before  # nothing was lost
    alone = model().save(tmp_path / "shareable", part="shareable")
    model().save(alone, part="shareable")  # over itself
    assert sorted(one.name for one in alone.iterdir()) == sorted(SHAREABLE)
    (alone / "private").mkdir()
    with pytest.raises(DataError, match="got private in it"):
        model().save(alone, part="shareable")


def test_a_model_that_diverged_is_not_saved(tmp_path: Path) -> None:
    made = model()
    made.shared["count"] = made.shared["count"] * np.nan
    with pytest.raises(DataError, match="'count' must be finite numbers"):
        made.save(tmp_path / "m.veil")
    assert not (tmp_path / "m.veil").exists()


def test_the_shareable_part_of_a_private_model_has_no_hash_of_its_data(tmp_path: Path) -> None:
    data = vr.synthetic(25, 20, 200, seed=1)
    made = vr.systems.DPGram(epsilon=4.0).fit(data, progress=False, secure=False)
    folder = made.save(tmp_path / "shareable", part="shareable")
    text = b"".join(file.read_bytes() for file in folder.iterdir())
    for told in (data.fingerprint, data.fingerprint[:12], "u17"):
        assert told.encode() not in text
    whole = made.save(tmp_path / "whole")  # the control: the owner's part has it
    assert data.fingerprint in (whole / "model.json").read_text()


def test_keys_of_the_same_fit_differ_from_folder_to_folder(tmp_path: Path) -> None:
    """An unsalted hash of private data would tell that two folders are of the same people."""
    data = vr.synthetic(25, 20, 200, seed=1)
    notes = []
    for name in ("one", "other"):
        made = vr.systems.DPGram(epsilon=4.0)
        made.fit(data, progress=False, secure=False, checkpoint=tmp_path / name)
        notes.append(json.loads((tmp_path / name / "kept.json").read_text()))
    assert notes[0]["key"] != notes[1]["key"]
    assert notes[0]["salt"] != notes[1]["salt"]
    assert data.fingerprint not in json.dumps(notes)
    again = vr.systems.DPGram(epsilon=4.0)
    again.fit(data, progress=False, secure=False, checkpoint=tmp_path / "one")  # goes on: the key is the same
    with pytest.raises(ValueError, match="checkpoint must be of the same model, settings, data"):
        vr.systems.DPGram(epsilon=5.0).fit(data, progress=False, secure=False, checkpoint=tmp_path / "one")


def test_a_run_in_which_a_fit_is_at_work_is_not_saved_over(tmp_path: Path) -> None:
    path = model().save(tmp_path / "run")
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / "kept.json").write_text("{}")
    with hold_folder(path / "checkpoints"), pytest.raises(ValueError, match="checkpoint must be free"):
        model().save(path)
    (path / "checkpoints" / "kept.json-held").write_text("")  # of a fit that was killed
    model().save(path)
    assert [file.name for file in (path / "checkpoints").iterdir()] == ["kept.json"]
    with hold_folder(path / "checkpoints"):
        pass


def test_a_fit_that_is_killed_after_its_first_checkpoint_can_go_on(tmp_path: Path, monkeypatch) -> None:
    """The salt of the key is noted before anything is kept under it."""
    data = Dataset.from_arrays(["a", "b"], ["x", "y"])
    salt = folder_salt(tmp_path)
    job = Job(data, None, 1, "cpu", tmp_path, False, key=f"key {salt}", salt=salt)
    honest = Job._note

    def killed(self: Job, **changed: object) -> None:
        if "files" in changed:
            raise KeyboardInterrupt
        honest(self, **changed)

    monkeypatch.setattr(Job, "_note", killed)
    with pytest.raises(KeyboardInterrupt):
        job.keep("state", {"x": np.ones(2)}, {})
    assert job.file("state").exists()
    assert folder_salt(tmp_path) == salt
