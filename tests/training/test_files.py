from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.data import Dataset


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
    with pytest.raises(DataError, match="model format must be 1, got 99"):
        vr.load_model(path)


def test_only_known_members_are_unpacked(tmp_path: Path) -> None:
    path = model().save(tmp_path / "m.veil")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../escaped.txt", "no")
    vr.load_model(path)
    assert not (tmp_path.parent / "escaped.txt").exists()
    assert not (tmp_path / "escaped.txt").exists()
