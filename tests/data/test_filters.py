"""Filters: a slow oracle, shrinking vocabularies, and what is said when nothing is left."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.core import DataError
from veilrec.data.dataset import Categorical, Dataset, Links, Numeric
from veilrec.data.filters import k_core, min_rating

Pairs = list[tuple[int, int]]


def slow_core(pairs: Pairs, user_min: int, item_min: int) -> Pairs:
    """Drop one offender's rows at a time until nobody offends."""
    pairs = list(pairs)
    while True:
        users, items = Counter(u for u, _ in pairs), Counter(i for _, i in pairs)
        poor_user = next((u for u in users if users[u] < user_min), None)
        if poor_user is not None:
            pairs = [pair for pair in pairs if pair[0] != poor_user]
            continue
        poor_item = next((i for i in items if items[i] < item_min), None)
        if poor_item is None:
            return sorted(pairs)
        pairs = [pair for pair in pairs if pair[1] != poor_item]


@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40),
    user_min=st.integers(1, 4),
    item_min=st.integers(1, 4),
)
def test_k_core_equals_the_slow_oracle(pairs: Pairs, user_min: int, item_min: int) -> None:
    data = Dataset.from_arrays([u for u, _ in pairs], [i for _, i in pairs])
    wanted = slow_core(pairs, user_min, item_min)
    if not wanted:
        with pytest.raises(DataError, match="must be low enough"):
            k_core(data, user_min, item_min)
        return
    core = k_core(data, user_min, item_min)
    assert sorted(core.frame().rows()) == wanted
    assert core.n_users == len({u for u, _ in wanted})
    assert core.n_items == len({i for _, i in wanted})
    again = k_core(core, user_min, item_min)
    assert again.fingerprint == core.fingerprint


def test_k_core_needs_more_than_one_round() -> None:
    # dropping item c takes user 3 below 2, which takes item b below 3
    data = Dataset.from_arrays([1, 1, 2, 2, 3, 3, 1, 2, 4, 4], list("abab" + "bc" + "dd" + "ad"))
    core = k_core(data, 2, 3)
    assert sorted(core.frame().rows()) == sorted([(1, "a"), (1, "d"), (2, "a"), (2, "d"), (4, "a"), (4, "d")])


def social() -> Dataset:
    data = Dataset.from_arrays(
        ["u1", "u1", "u2", "u2", "u3"],
        ["a", "b", "a", "b", "c"],
        rating=[5, 4, 3, 4, 1],
        time=[1, 2, 3, 4, 5],
        sensitive=[True, False, False, True, False],
        rating_range=(1.0, 5.0),
        name="shop",
    )
    return Dataset(
        **{
            **{label: getattr(data, label) for label in ("user", "item", "users", "items", "rating", "time")},
            "sensitive": data.sensitive,
            "rating_range": data.rating_range,
            "name": data.name,
            "frame_kind": "pandas",
            "attributes": {
                "gender": Categorical(np.array([0, 1, 0], np.int32), ("F", "M")),
                "age": Numeric(np.array([20, np.nan, 40], np.float32), 1, 100),
            },
            "links": Links(np.array([0, 1, 2, 0], np.int32), np.array([1, 0, 0, 2], np.int32)),
        }
    )


def test_attributes_links_and_columns_follow() -> None:
    core = k_core(social(), 2, 2)
    assert core.frame().rows() == [
        ("u1", "a", 5.0, 1, True),
        ("u1", "b", 4.0, 2, False),
        ("u2", "a", 3.0, 3, False),
        ("u2", "b", 4.0, 4, True),
    ]
    assert core.user_frame().rows() == [("u1", "F", 20.0), ("u2", "M", None)]
    assert core.links is not None
    assert list(zip(core.links.source.tolist(), core.links.target.tolist())) == [(0, 1), (1, 0)]
    assert (core.rating_range, core.name, core.frame_kind) == ((1.0, 5.0), "shop", "pandas")
    age = core.attributes["age"]
    assert isinstance(age, Numeric)
    assert (age.low, age.high) == (1, 100)


def test_min_rating_keeps_the_threshold_itself() -> None:
    kept = min_rating(social(), 4)
    assert kept.frame().rows() == [
        ("u1", "a", 5.0, 1, True),
        ("u1", "b", 4.0, 2, False),
        ("u2", "b", 4.0, 4, True),
    ]
    assert kept.user_frame()["user"].to_list() == ["u1", "u2"]


def test_ids_that_become_numbers_keep_their_rows_and_attributes() -> None:
    # as text "10" < "9"; without "x" the ids are whole numbers and 9 < 10
    data = Dataset.from_arrays(
        ["10", "10", "9", "9", "x"],
        ["i", "j", "i", "j", "i"],
        time=[1, 2, 3, 4, 5],
        attributes={"age": Numeric(np.array([10, 9, 0], np.float32))},
        links=Links(np.array([0, 2], np.int32), np.array([1, 0], np.int32)),
    )
    core = k_core(data, 2, 2)
    assert core.frame().rows() == [(9, "i", 3), (9, "j", 4), (10, "i", 1), (10, "j", 2)]
    assert core.user_frame().rows() == [(9, 9.0), (10, 10.0)]
    assert core.links is not None
    assert (core.links.source.tolist(), core.links.target.tolist()) == ([1], [0])


def test_nothing_left_says_what_there_was_and_what_to_lower() -> None:
    data = Dataset.from_arrays([1, 1, 2, 2, 3], ["a", "b", "a", "b", "c"])
    with pytest.raises(DataError, match="5 interactions of 3 users with 3 items") as error:
        k_core(data, 3, 1)
    assert "Lower user_min: the busiest user has 2." in str(error.value)
    with pytest.raises(DataError, match="Lower item_min: the most popular item has 2"):
        k_core(data, 1, 3)
    pairs = Dataset.from_arrays([1, 1, 2, 3], ["a", "b", "c", "c"])
    with pytest.raises(DataError, match="Lower user_min or item_min"):
        k_core(pairs, 2, 2)
    with pytest.raises(DataError, match="nothing to filter"):
        k_core(data.take(np.array([], np.int64)), 1, 1)


def test_min_rating_refusals() -> None:
    with pytest.raises(DataError, match=r"the highest rating is 5\. Lower threshold"):
        min_rating(social(), 6)
    with pytest.raises(DataError, match="needs ratings"):
        min_rating(Dataset.from_arrays([1], [1]), 3)
    for bad in (float("nan"), "4"):
        with pytest.raises(ValueError, match="threshold must be a number"):
            min_rating(social(), bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_thresholds_are_whole_numbers(bad: int) -> None:
    with pytest.raises(ValueError, match="user_min must be a whole number"):
        k_core(social(), bad, 2)
    with pytest.raises(ValueError, match="item_min must be a whole number"):
        k_core(social(), 2, bad)
