"""Which data these are: the pairs of user and item decide, and a part belongs to the whole."""

from __future__ import annotations

import inspect
import random
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilrec as vr
from veilrec.data import Dataset, Ids, filters, identity, like, load_dataset, read, save_dataset, split
from veilrec.data.identity import identity_of
from veilrec.data.split import Split


@pytest.fixture(scope="module")
def data() -> Dataset:
    found = vr.synthetic(users=60, items=40, interactions=900, seed=1)
    return replace(found, users=Ids(range(60)), items=Ids(range(100, 140)))


FORMS: dict[str, Callable[[Dataset, Path], Any]] = {
    "no ratings": lambda data, file: read(file, rating=False),
    "a range of ratings": lambda data, file: read(file, rating_range=(0, 10)),
    "no times": lambda data, file: read(file, time=False),
    "all repeats": lambda data, file: read(pl.concat([data.frame()] * 2), duplicates="keep"),
    "rows in another order": lambda data, file: read(data.frame().sample(fraction=1, shuffle=True, seed=3)),
    "ids as text": lambda data, file: read(data.frame().with_columns(pl.col("user", "item").cast(pl.String))),
    "other column names": lambda data, file: read(data.frame().rename({"user": "member", "item": "sku"})),
    "another name": lambda data, file: read(file, name="other"),
    "attributes": lambda data, file: read(file, users=data.user_frame()),
    "attributes gone": lambda data, file: replace(data, attributes={}, links=None),
    "a declared number of users": lambda data, file: replace(data, declared_users=1000),
    "a longer catalogue": lambda data, file: like(data, Ids([*data.items.values, 10_000, 10_001])),
    "saved and loaded": lambda data, file: load_dataset(save_dataset(data, file.parent / "kept")),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_told_beside_the_pairs_makes_no_other_data(data: Dataset, tmp_path: Path, form: str) -> None:
    file = tmp_path / "shop.csv"
    data.frame().write_csv(file)
    found = FORMS[form](data, file)
    assert found.identity == data.identity
    assert found.origin == ""


def test_rows_that_lack_a_rating_belong_to_the_whole(tmp_path: Path) -> None:
    """Which of them are dropped depends on the columns that are read: that is a flag, and no other data."""
    file = tmp_path / "shop.csv"
    file.write_text("user,item,rating,time\n1,2,5,9\n1,3,,9\n2,2,4,\n,2,4,9\n1,4,2,8\n7,7,,\n")
    every = read(file, rating=False, time=False, missing="drop")
    assert every.origin == ""
    rated, timed = read(file, time=False, missing="drop"), read(file, rating=False, missing="drop")
    assert (len(rated), len(timed), len(read(file, missing="drop"))) == (3, 3, 2)
    assert {rated.identity, timed.identity, read(file, missing="drop").identity} == {every.identity}


def _row_changed(data: Dataset) -> Dataset:
    frame = data.frame()
    frame[0, "item"] = 10_000
    return read(frame)


OTHERS: dict[str, Callable[[Dataset], Dataset]] = {
    "a row less": lambda data: read(data.frame()[1:]),
    "an item changed": _row_changed,
    "users and items swapped": lambda data: read(data.frame().rename({"user": "item", "item": "user"})),
    "items dealt out anew": lambda data: Dataset.from_arrays(
        data.users.take(data.user).to_list(), np.roll(data.items.take(data.item).to_numpy(), 1)
    ),
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_pairs_are_other_data(data: Dataset, form: str) -> None:
    """The control: what is said to make no difference could be said of a hash of nothing."""
    assert OTHERS[form](data).identity != data.identity


PARTS: dict[str, Callable[[Dataset], Dataset | Split | Iterable[Split]]] = {
    "take": lambda data: data.take(np.arange(len(data) - 1)),
    "without": lambda data: data.without(data.users.values[0]),
    "read_from": lambda data: data.read_from(),
    "k_core": lambda data: filters.k_core(data, 12, 12),
    "min_rating": lambda data: filters.min_rating(data, 4),
    "holdout": lambda data: split.holdout(data, valid=0.1),
    "k_fold": lambda data: split.k_fold(data, 3),
    "leave_one_out": lambda data: split.leave_one_out(data),
    "temporal": lambda data: split.temporal(data),
    "global_temporal": lambda data: split.global_temporal(data),
    "predefined": lambda data: split.predefined(data, np.arange(len(data)) % 5 == 0),
    "default_split": lambda data: split.default_split(data),
    "load_split": lambda data: split.load_split(split.holdout(data).save(tempfile.mkdtemp()), data),
    "carve_validation": lambda data: split.carve_validation(split.holdout(data)),
}


def _sets(found: Dataset | Split | Iterable[Split]) -> list[Dataset]:
    if isinstance(found, Dataset):
        return [found]
    if isinstance(found, Split):
        return [part for part in (found.train, found.valid, found.test) if part is not None]
    return [part for one in found for part in _sets(one)]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_answers_for_the_whole(data: Dataset, part: str) -> None:
    parts = _sets(PARTS[part](data))
    assert parts
    for found in parts:
        assert found.identity == data.identity
        again = found.take(np.arange(len(found) // 2)).without(found.users.values[1])  # a part of a part
        assert again.identity == data.identity


def test_every_way_to_a_part_is_tried() -> None:
    ways = {name for name, found in vars(Dataset).items() if _returns(found, "Dataset")}
    for room in (filters, split):
        public = {name: found for name, found in vars(room).items() if not name.startswith("_")}
        ways |= {
            name for name, found in public.items() if _returns(found, "Dataset", "Split", "Sequence[Split]")
        }
    assert ways == PARTS.keys()


def _returns(found: Any, *kinds: str) -> bool:
    return inspect.isfunction(found) and found.__annotations__.get("return") in kinds


def test_a_saved_part_stays_a_part(data: Dataset, tmp_path: Path) -> None:
    part = filters.k_core(data, 12, 12)
    assert load_dataset(save_dataset(part, tmp_path / "part")).identity == data.identity


def test_of_no_row_nothing_is_computed(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards hand out such a shell at every look."""
    fresh = replace(data)
    monkeypatch.setattr("veilrec.data.dataset.identity_of", lambda *about: pytest.fail("it was computed"))
    assert fresh.take(np.empty(0, np.int64)).origin == ""
    monkeypatch.undo()
    assert fresh.take(np.arange(3)).take(np.empty(0, np.int64)).origin == data.identity


PAIRS = st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 5)), max_size=40)


@given(one=PAIRS, two=PAIRS, seed=st.integers(0, 9))
def test_identities_are_equal_where_sets_of_pairs_are(
    one: list[tuple[int, int]], two: list[tuple[int, int]], seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "_CHUNK", 3)  # many chunks in few rows
        assert (_identity(one) == _identity(two)) == (set(one) == set(two))
        mixed = [*one, *one[:5]]
        random.Random(seed).shuffle(mixed)
        assert _identity(mixed) == _identity(one)


def _identity(pairs: list[tuple[int, int]]) -> str:
    rows = sorted(pairs, key=lambda pair: pair[0])  # by user, in any order within
    users, items = Ids([str(user) for user, _ in rows]), Ids([item for _, item in rows])
    codes = (users.codes([user for user, _ in rows]), items.codes([item for _, item in rows]))
    return identity_of(*codes, users, items)


def test_people_without_any_row_are_told_apart_by_their_ids() -> None:
    none = np.zeros(0, np.int32)
    found = {Dataset(none, none, Ids(ids), Ids([])).identity for ids in (["ann"], ["bob"], ["ann", "bob"])}
    assert len(found) == 3
