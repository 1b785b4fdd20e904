"""Repeated pairs under every policy, against a slow oracle."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.core import DataError, DataWarning
from veilrec.data.dataset import Dataset
from veilrec.data.read import read

_ROW = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.sampled_from([1.0, 2.0, 4.5]), st.integers(0, 3), st.booleans()
)
_NAMES = ["user", "item", "rating", "time", "sensitive"]
_Row = tuple[int, int, float, int, bool]


def _read(rows: list[_Row], policy: str, names: list[str] = _NAMES) -> Dataset:
    frame = pl.DataFrame(rows, schema=_NAMES, orient="row").select(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read(frame, duplicates=policy)


def _oracle(rows: list[_Row], policy: str, timed: bool) -> dict[tuple[int, int], tuple[float, int, bool]]:
    groups: dict[tuple[int, int], list[_Row]] = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(row)
    result = {}
    for pair, group in groups.items():
        ordered = sorted(group, key=lambda row: row[3]) if timed else group
        chosen = ordered[0] if policy == "first" else ordered[-1]
        rating, mark = chosen[2], chosen[4]
        if policy == "mean":
            rating, mark = sum(row[2] for row in group) / len(group), any(row[4] for row in group)
        result[pair] = (rating, chosen[3], mark)
    return result


@settings(max_examples=60)
@given(st.lists(_ROW, min_size=1, max_size=12), st.sampled_from(["last", "first", "mean"]), st.booleans())
def test_policies_against_the_oracle(rows: list[_Row], policy: str, timed: bool) -> None:
    names = _NAMES if timed else ["user", "item", "rating", "sensitive"]
    got = _read(rows, policy, names).frame()
    expected = _oracle(rows, policy, timed)
    assert len(got) == len(expected)
    for row in got.to_dicts():
        rating, time, mark = expected[row["user"], row["item"]]
        assert row["rating"] == pytest.approx(rating)
        assert row["sensitive"] == mark
        assert not timed or row["time"] == time


def test_without_times_the_kept_rows_stay_in_order() -> None:
    rows: list[_Row] = [(1, 9, 1, 0, False), (1, 3, 2, 0, False), (1, 9, 4.5, 0, False), (1, 5, 1, 0, False)]
    assert _read(rows, "last", ["user", "item"]).frame()["item"].to_list() == [3, 9, 5]
    assert _read(rows, "first", ["user", "item"]).frame()["item"].to_list() == [9, 3, 5]


def test_keep_keeps_all() -> None:
    rows: list[_Row] = [(1, 9, 1, 5, False), (1, 9, 2, 4, False)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(pl.DataFrame(rows, schema=_NAMES, orient="row"), duplicates="keep").rating is not None
    assert _read(rows, "keep").frame()["time"].to_list() == [4, 5]


@pytest.mark.parametrize("policy", ["last", "first", "mean"])
def test_settling_is_not_silent(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user,item,rating\na,x,1\na,x,2\nb,x,3\na,x,3\n")
    with pytest.warns(
        DataWarning, match=r"t\.csv: 2 of 4 rows repeat a pair of user and item; .* Say duplicates="
    ):
        data = read(path, duplicates=policy)
    assert data.rating is not None
    assert data.rating.tolist() == [{"last": 3, "first": 1, "mean": 2}[policy], 3]


def test_error_names_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user,item\nb,y\na,x\nb,x\n\nb,y\na,x\n")
    with pytest.raises(DataError) as caught:
        read(path, duplicates="error")
    assert caught.value.line == 6
    assert "got user 'b' with item 'y' again (before in line 2)" in str(caught.value)
    with pytest.raises(DataError, match=r"row 1: .*got user 1 with item 2 again \(before in row 0\)"):
        read(pl.DataFrame({"user": [1, 1], "item": [2, 2]}), duplicates="error")


def test_mean_needs_ratings() -> None:
    with pytest.raises(ValueError, match="without ratings, got 'mean'"):
        read(pl.DataFrame({"user": [1], "item": [2]}), duplicates="mean")


def test_no_repeats_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read(pl.DataFrame({"user": [1, 2], "item": [2, 2]}), duplicates="error")
    assert np.array_equal(data.user, [0, 1])
