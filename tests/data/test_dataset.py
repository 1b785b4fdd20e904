"""The Dataset itself: order, views, identity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.core import DataError
from veilrec.data.dataset import Categorical, Dataset, Links, Numeric
from veilrec.data.ids import Ids


def _shop() -> Dataset:
    return Dataset.from_arrays(
        ["bob", "ann", "bob", "ann"],
        ["tea", "tea", "mate", "rum"],
        rating=[3, 5, 4, 1],
        time=[10, 30, 5, 20],
        sensitive=[False, False, True, True],
    )


def test_rows_are_sorted_by_user_and_time() -> None:
    data = _shop()
    assert data.frame().rows() == [
        ("ann", "rum", 1.0, 20, True),
        ("ann", "tea", 5.0, 30, False),
        ("bob", "mate", 4.0, 5, True),
        ("bob", "tea", 3.0, 10, False),
    ]
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.user_counts.tolist() == [2, 2]
    assert data.item_counts.tolist() == [1, 1, 2]
    assert data.density == 4 / 6
    assert repr(data).startswith("Dataset 'data': 4 interactions of 2 users with 3 items with rating, time")


def test_without_times_the_given_order_stays() -> None:
    data = Dataset.from_arrays(["b", "a", "b", "a"], ["z", "y", "x", "w"])
    assert data.frame()["item"].to_list() == ["y", "w", "z", "x"]


def test_unsorted_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="user must be sorted"):
        Dataset(np.array([1, 0], np.int32), np.array([0, 0], np.int32), Ids([1, 2]), Ids([1]))
    with pytest.raises(ValueError, match="item must be one per interaction"):
        Dataset(np.array([0], np.int32), np.array([0, 0], np.int32), Ids([1]), Ids([1]))


def test_matrix_counts_pairs_once_and_keeps_the_last_rating() -> None:
    data = Dataset.from_arrays(["a", "a", "a"], ["x", "x", "y"], rating=[1, 2, 5], time=[2, 1, 3])
    assert data.matrix().toarray().tolist() == [[1.0, 1.0]]
    assert data.matrix("rating").toarray().tolist() == [[1.0, 5.0]]
    with pytest.raises(DataError, match="has no ratings"):
        Dataset.from_arrays(["a"], ["x"]).matrix("rating")
    with pytest.raises(ValueError, match="values must be 'ones' or 'rating'"):
        data.matrix("stars")


def test_take_keeps_the_vocabularies() -> None:
    part = _shop().take(np.array([3, 0]))
    assert (part.n_users, part.n_items, len(part)) == (2, 3, 2)
    assert part.frame()["user"].to_list() == ["ann", "bob"]
    assert _shop().take(np.array([True, False, False, False])).frame()["item"].to_list() == ["rum"]


def test_attributes_stand_in_the_user_frame() -> None:
    attributes = {
        "sex": Categorical(np.array([1, -1], np.int32), ("f", "m")),
        "age": Numeric(np.array([np.nan, 30], np.float32), 0, 120),
    }
    data = replace(_shop(), attributes=attributes)
    assert data.user_frame().rows() == [("ann", "m", None), ("bob", None, 30.0)]
    assert attributes["sex"].take(np.array([1])).missing.tolist() == [True]
    assert attributes["age"].take(np.array([1])).values.tolist() == [30]
    with pytest.raises(ValueError, match="attribute x must be one value per user"):
        replace(_shop(), attributes={"x": Categorical(np.zeros(1, np.int32), ("a",))})


@pytest.mark.parametrize("gone", range(4))
def test_without_a_person_everybody_else_stays_who_they_were(gone: int) -> None:
    """Attributes, links and rows of the others are theirs under new codes; nothing of the person is left."""
    names = ["ann", "bob", "cid", "dan"]
    ends = [(one, other) for one in range(4) for other in range(4) if one != other and (one, other) != (2, 0)]
    data = replace(
        Dataset.from_arrays([*names, "cid"], ["tea", "mate", "rum", "tea", "mate"], rating=[1, 2, 3, 4, 5]),
        attributes={
            "age": Numeric(np.array([20, 30, 40, np.nan], np.float32), 0, 120),
            "sex": Categorical(np.array([0, 1, -1, 1], np.int32), ("f", "m")),
        },
        links=Links(*(np.array(side, np.int32) for side in zip(*ends, strict=True))),
    )

    def linked(some: Dataset) -> set[tuple[str, str]]:
        assert some.links is not None
        people = some.users.values.to_list()
        return {(people[a], people[b]) for a, b in zip(some.links.source, some.links.target, strict=True)}

    rest, name = data.without(names[gone]), names[gone]
    assert rest.users.values.to_list() == [one for one in names if one != name]
    for frame in (Dataset.frame, Dataset.user_frame):
        assert frame(rest).rows() == [row for row in frame(data).rows() if row[0] != name]
    assert linked(rest) == {pair for pair in linked(data) if name not in pair}
    assert (rest.n_items, rest.public_users, rest.name) == (3, 4, data.name)
    assert rest.without(rest.users.take([0])[0]).public_users == 4


def test_bad_attributes() -> None:
    with pytest.raises(ValueError, match="codes must be from -1 to 0"):
        Categorical(np.array([1], np.int32), ("a",))
    with pytest.raises(ValueError, match="low must be below high"):
        Numeric(np.zeros(1, np.float32), 2, 2)
    with pytest.raises(ValueError, match="range must be declared with both ends"):
        Numeric(np.zeros(1, np.float32), 2)


@given(st.permutations(range(6)))
def test_fingerprint_does_not_depend_on_row_order_when_times_differ(order: list[int]) -> None:
    user, item, time = np.array([0, 1, 2, 0, 1, 2]), np.array([5, 4, 3, 3, 4, 5]), np.arange(6)
    place = np.array(order)
    first = Dataset.from_arrays(user, item, time=time)
    other = Dataset.from_arrays(user[place], item[place], time=time[place], name="other")
    assert first.fingerprint == other.fingerprint


def test_fingerprint_sees_every_part() -> None:
    data = _shop()
    assert data.rating is not None
    assert data.time is not None
    assert data.sensitive is not None
    links = Links(np.array([0], np.int32), np.array([1], np.int32))
    kind = Categorical(np.array([0, 1], np.int32), ("a", "b"))
    others = [
        replace(data, rating=data.rating + 1),
        replace(data, time=data.time + 1),
        replace(data, sensitive=~data.sensitive),
        replace(data, rating=None),
        replace(data, item=data.item[::-1].copy()),
        replace(data, users=Ids(["ann", "carl"])),
        replace(data, rating_range=(1.0, 5.0)),
        replace(data, links=links),
        replace(data, attributes={"k": kind}),
        replace(data, attributes={"k": Categorical(kind.codes, ("a", "c"))}),
        replace(data, attributes={"k": Numeric(np.zeros(2, np.float32))}),
        replace(data, attributes={"k": Numeric(np.zeros(2, np.float32), 0, 1)}),
    ]
    prints = [data.fingerprint, *(other.fingerprint for other in others)]
    assert len(set(prints)) == len(prints)
    assert replace(data, name="x").fingerprint == data.fingerprint
    assert len(links) == 1


def test_empty() -> None:
    data = Dataset(np.zeros(0, np.int32), np.zeros(0, np.int32), Ids([]), Ids([]))
    assert (len(data), data.density, data.matrix().shape) == (0, 0.0, (0, 0))
    assert isinstance(data.frame(), pl.DataFrame)


@pytest.mark.parametrize("rating", [[50, 60], [1, 0.5], [5, np.nan]])
def test_ratings_outside_their_range_are_refused(rating) -> None:
    with pytest.raises(DataError, match=r"rating of user '(ann|bob)' must be from 1 to 5, got (50|0.5|nan)"):
        Dataset.from_arrays(["ann", "bob"], ["tea", "mate"], rating=rating, rating_range=(1, 5))
    assert len(Dataset.from_arrays(["ann", "bob"], ["tea", "mate"], rating=rating)) == 2
