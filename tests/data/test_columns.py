"""Common names, and what finds what."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from veilrec.core import DataError
from veilrec.data.columns import COMMON, find_common, find_roles, marks, numbers, plain_name, ratings, seconds
from veilrec.data.format_table import Table


def _table(*names: str, named: bool = True) -> Table:
    return Table("t.csv", names, lambda chosen: pl.DataFrame(), named=named)


def test_the_lists_are_plain_and_each_name_stands_once_per_role() -> None:
    for role, names in COMMON.items():
        assert len(set(names)) == len(names), role
        assert [plain_name(name) for name in names] == list(names), role
    assert not set(COMMON["user"]) & set(COMMON["item"])


@pytest.mark.parametrize(
    ("role", "names", "found"),
    [
        ("user", ["UserID", "x"], "UserID"),
        ("user", ["household_id"], "household_id"),
        ("user", ["Member"], "Member"),
        ("item", ["sku"], "sku"),
        ("item", ["artistID"], "artistID"),
        ("item", ["movie", "movie-id"], "movie-id"),
        ("item", ["ISBN", "Book Title"], "ISBN"),
        ("rating", ["Stars"], "Stars"),
        ("rating", ["weight", "rating"], "rating"),
        ("time", ["transaction_timestamp"], "transaction_timestamp"),
        ("time", ["date", "timestamp"], "timestamp"),
        ("sensitive", ["private"], "private"),
        ("item", ["user"], None),
    ],
)
def test_common_names(role: str, names: list[str], found: str | None) -> None:
    assert find_common(names, role) == found


def test_roles_by_position_give_way_to_names() -> None:
    table = _table("column_1", "column_2", "column_3", named=False)
    roles = ("user", "item", "rating", "time", "sensitive")
    free: dict[str, str | bool | None] = dict.fromkeys(roles)
    assert find_roles(table, free) == {"user": "column_1", "item": "column_2", "rating": "column_3"}
    timed = find_roles(table, {**free, "time": "column_3"})
    assert timed == {"time": "column_3", "user": "column_1", "item": "column_2"}
    assert "rating" not in find_roles(table, {**free, "rating": False})
    with pytest.raises(DataError, match=r"user must be one of the columns .*got 'uid'"):
        find_roles(table, {**free, "user": "uid"})


def test_a_name_that_fits_two_columns_is_not_guessed() -> None:
    with pytest.raises(DataError, match="got 'user id'"):
        find_roles(_table("user_id", "UserID", "item"), {"user": "user id", "item": None})


def test_numbers() -> None:
    assert numbers(pl.Series(["1", " 2.5 ", "x", None])).to_list() == [1.0, 2.5, None, None]
    assert numbers(pl.Series([True, False])).to_list() == [1.0, 0.0]
    assert numbers(pl.Series(["3"], dtype=pl.Categorical)).to_list() == [3.0]
    assert numbers(pl.Series([[1]])).to_list() == [None]


def test_values_have_the_lean_types() -> None:
    table = _table("a")
    assert ratings(table, pl.Series(["1", "2.5"]), (1, 5)).dtype == np.float32
    assert seconds(table, pl.Series([1, 2])).dtype == np.int64
    assert marks(table, pl.Series(["Yes", "f", "T", "0"])).tolist() == [True, False, True, False]
    assert marks(table, pl.Series([1.0, 0.0])).tolist() == [True, False]
    assert marks(table, pl.Series([True, False])).tolist() == [True, False]


def test_the_largest_time_decides_the_unit() -> None:
    table = _table("a")
    assert seconds(table, pl.Series([0, 99_999_999_999])).tolist() == [0, 99_999_999_999]
    assert seconds(table, pl.Series([5_000, 100_000_000_000])).tolist() == [5, 100_000_000]
    assert seconds(table, pl.Series([1.5, 2.5e12])).tolist() == [0, 2_500_000_000]
    assert seconds(table, pl.Series([-1_500, 1_600_000_000_000])).tolist() == [-2, 1_600_000_000]
