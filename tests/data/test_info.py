"""The summary of a data set: worked values, text with bars, odd inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.data.dataset import Categorical, Dataset, Links, Numeric
from veilrec.data.info import describe, gini


def shop() -> Dataset:
    return Dataset.from_arrays(
        ["a", "a", "a", "b", "c"],
        ["x", "y", "z", "x", "x"],
        rating=[5, 4, 4, 1, 5],
        time=[0, 86_400, 90_000, 5, 31 * 86_400],
        sensitive=[True, False, False, False, True],
        attributes={
            "gender": Categorical(np.array([0, -1, 0], np.int32), ("F", "M")),
            "age": Numeric(np.array([20, 40, np.nan], np.float32), 1, 100),
            "height": Numeric(np.array([np.nan] * 3, np.float32)),
        },
        links=Links(np.array([0, 1], np.int32), np.array([1, 2], np.int32)),
        rating_range=(1.0, 5.0),
        name="shop",
    )


def test_worked_values() -> None:
    info = describe(shop())
    assert (info.interactions, info.users, info.items, info.links, info.sensitive) == (5, 3, 3, 2, 2)
    assert info.density == pytest.approx(5 / 9)
    assert info.per_user == {
        "min": 1, "10%": 1, "25%": 1, "median": 1, "75%": 2, "90%": pytest.approx(2.6), "max": 3,
        "mean": pytest.approx(5 / 3),
    }  # fmt: skip
    assert info.gini == pytest.approx(2 * (1 * 1 + 2 * 1 + 3 * 3) / (3 * 5) - 4 / 3)
    assert info.top_share == {"1%": pytest.approx(3 / 5), "10%": pytest.approx(3 / 5)}
    assert info.ratings == {"1": 1, "4": 2, "5": 2}
    assert info.times == ("1970-01-01", "1970-02-01")
    assert info.activity == {"1": 2, "2-3": 1}
    assert info.popularity == {"1": 2, "2-3": 1}
    assert info.attributes["gender"]["values"] == {"F": 2, "M": 0}
    assert info.attributes["gender"]["missing"] == pytest.approx(1 / 3)
    assert info.attributes["age"]["declared"] == (1, 100)
    assert info.attributes["age"]["values"]["mean"] == 30
    assert info.attributes["height"] == {"kind": "numeric", "missing": 1.0, "declared": None, "values": {}}
    assert info.fingerprint == shop().fingerprint


def test_dict_is_json_and_text_shows_everything() -> None:
    info = describe(shop())
    assert json.loads(json.dumps(info.to_dict(), allow_nan=False))["ratings"] == {"1": 1, "4": 2, "5": 2}
    text = info.to_text(width=8)
    lines = text.split("\n")
    assert lines[0] == "shop: 5 interactions of 3 users with 3 items"
    assert "times        1970-01-01 to 1970-02-01" in lines
    assert "  1  1  ████" in lines  # half of the longest
    assert "  5  2  ████████" in lines
    assert "  M  0" in lines
    assert "gender (categorical, 2 values, 33.3% missing)" in lines
    assert "age (numeric 1 to 100, 33.3% missing)" in lines
    assert "height (numeric, no declared range, 100.0% missing)" in lines
    assert "ratings (declared 1 to 5)" in lines
    assert all(line == line.rstrip() for line in lines)


def test_small_counts_still_show_a_sliver() -> None:
    data = Dataset.from_arrays(range(10_001), [1] * 10_001, rating=[1] + [2] * 10_000)
    line = next(line for line in describe(data).to_text().split("\n") if line.startswith("  1       1"))
    assert line.endswith("▏")


def test_plain_data_and_parts_of_splits() -> None:
    data = Dataset.from_arrays([1, 1, 2], [1, 2, 3])
    info = describe(data.take(data.user == 0))
    assert (info.silent_users, info.silent_items) == (1, 1)
    assert (info.ratings, info.times, info.links, info.sensitive) == (None, None, None, None)
    assert info.per_user["mean"] == 2
    assert "1 users without interactions, 1 items without interactions" in info.to_text()


def test_empty_data() -> None:
    data = shop().take(np.array([], np.int64))
    info = describe(data)
    assert (info.interactions, info.gini, info.density, info.times) == (0, 0.0, 0.0, None)
    assert "none" in info.to_text()
    json.dumps(info.to_dict(), allow_nan=False)


def test_many_rating_levels_are_binned() -> None:
    plays = Dataset.from_arrays([1] * 40, range(40), rating=np.geomspace(1, 99_999, 40))
    assert list(describe(plays).ratings or {}) == [
        "1 to 10", "10 to 100", "100 to 1000", "1000 to 10000", "10000 to 100000"
    ]  # fmt: skip
    even = describe(Dataset.from_arrays([1] * 41, range(41), rating=np.linspace(0, 1, 41))).ratings
    assert even is not None
    assert next(iter(even)) == "0 to 0.1"
    assert len(even) == 10
    edge = Dataset.from_arrays([1] * 30, range(30), rating=[*range(1, 30), 100_000])
    assert sum((describe(edge).ratings or {}).values()) == 30


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_gini_equals_the_mean_difference(counts: list[int]) -> None:
    differences = sum(abs(a - b) for a in counts for b in counts)
    assert gini(np.array(counts)) == pytest.approx(differences / (2 * len(counts) * sum(counts)), abs=1e-12)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60))
def test_doubling_bins_count_every_user_once(sizes: list[int]) -> None:
    user = np.repeat(np.arange(len(sizes)), sizes)
    activity = describe(Dataset.from_arrays(user, np.zeros_like(user))).activity
    assert sum(activity.values()) == len(sizes)
    for label, count in activity.items():
        low, high = (int(end) for end in (label.split("-") * 2)[:2])
        assert count == sum(low <= size <= high for size in sizes)
