"""A saved data set comes back exactly, or not at all."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilrec.core import DataError
from veilrec.data.dataset import Categorical, Dataset, Links, Numeric
from veilrec.data.filters import k_core
from veilrec.data.ids import Ids
from veilrec.data.read_report import ReadReport
from veilrec.data.store import load_dataset, save_dataset


def _full() -> Dataset:
    data = Dataset.from_arrays(
        ["b ä", "a", "a"],
        ["007", "7", "x\ny"],
        rating=[1.5, 2, 5],
        time=[3, -2, 1],
        sensitive=[True, False, True],
        name="Läden",
        rating_range=(1, 5.0),
        frame_kind="pandas",
    )
    attributes = {
        "z": Categorical(np.array([-1, 1], np.int32), ("no", "yes", "never used"), declared=False),
        "age": Numeric(np.array([np.nan, 0.1], np.float32), 0, 120.5),
        "odd/name": Numeric(np.array([1, 2], np.float32)),
    }
    return replace(data, attributes=attributes, links=Links(np.array([1], np.int32), np.array([0], np.int32)))


def _bare() -> Dataset:
    return Dataset.from_arrays([5, 6], [7, 7])


def _empty() -> Dataset:
    return Dataset(np.zeros(0, np.int32), np.zeros(0, np.int32), Ids([]), Ids([]))


@pytest.mark.parametrize("data", [_full(), _bare(), _empty()], ids=["full", "bare", "empty"])
def test_round_trip(tmp_path: Path, data: Dataset) -> None:
    back = load_dataset(save_dataset(data, tmp_path / "deep" / "set"))
    assert back.fingerprint == data.fingerprint
    assert (back.name, back.frame_kind, back.rating_range) == (data.name, data.frame_kind, data.rating_range)
    assert back.users == data.users
    assert back.items == data.items
    assert list(back.attributes) == list(data.attributes)
    for label in ("user", "item", "rating", "time", "sensitive"):
        mine, other = getattr(data, label), getattr(back, label)
        assert (mine is None) == (other is None)
        assert mine is None or (mine.dtype == other.dtype and np.array_equal(mine, other))
    assert back.user_frame().equals(data.user_frame())
    assert (back.links is None) == (data.links is None)
    card = json.loads((tmp_path / "deep" / "set" / "dataset.json").read_text(encoding="utf-8"))
    assert card["fingerprint"] == data.fingerprint
    assert "veilrec" in card


def test_no_field_is_lost(tmp_path: Path) -> None:
    data = k_core(_full(), 1, 1)
    data = replace(data, declared_users=100).read_from(ReadReport("interactions", "t", 3, {}, 3))
    back = load_dataset(save_dataset(data, tmp_path / "set"))
    for one in fields(Dataset):
        value = getattr(data, one.name)
        assert value is not one.default, one.name  # what a field has anyway proves nothing
        assert _plain(getattr(back, one.name)) == _plain(value), one.name
    assert back.public_users == 100


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return str(value.dtype), repr(value.tolist())
    if isinstance(value, dict | Categorical | Numeric | Links):
        inside = value if isinstance(value, dict) else vars(value)
        return {name: _plain(one) for name, one in inside.items()}
    return value


def test_saving_again_replaces_but_never_something_else(tmp_path: Path) -> None:
    save_dataset(_full(), tmp_path / "set")
    save_dataset(_bare(), tmp_path / "set")
    assert load_dataset(tmp_path / "set").fingerprint == _bare().fingerprint
    assert not (tmp_path / "set" / "links.parquet").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="folder must be new, empty or a saved data set"):
        save_dataset(_bare(), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "set"]


def test_changed_data_are_refused(tmp_path: Path) -> None:
    folder = save_dataset(_full(), tmp_path / "set")
    rows = pl.read_parquet(folder / "interactions.parquet")
    rows.with_columns(pl.col("rating") + 1).write_parquet(folder / "interactions.parquet")
    with pytest.raises(DataError, match=r"set: the fingerprint must be .*were changed after they were saved"):
        load_dataset(folder)


@pytest.mark.parametrize("member", ["dataset.json", "interactions.parquet", "users.parquet", "links.parquet"])
def test_broken_folders(tmp_path: Path, member: str) -> None:
    folder = save_dataset(_full(), tmp_path / "set")
    (folder / member).write_bytes(b"{")
    with pytest.raises(DataError, match="set: the data set must be whole, but"):
        load_dataset(folder)
    (folder / member).unlink()
    with pytest.raises(DataError, match=r"saved data set, got one without|the data set must be whole, but"):
        load_dataset(folder)


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    folder = save_dataset(_bare(), tmp_path / "set")
    card = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**card, "layout": 99}))
    with pytest.raises(DataError, match="layout must be 1, got 99"):
        load_dataset(folder)
    with pytest.raises(DataError, match=r"nowhere: the folder must hold a saved data set"):
        load_dataset(tmp_path / "nowhere")
