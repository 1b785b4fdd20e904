"""Frames of each kind in and out."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from veilrec.core import DataError, DataWarning
from veilrec.data.dataset import Dataset
from veilrec.data.frames import kind_of, to_kind, to_polars


def test_kinds() -> None:
    assert kind_of(pd.DataFrame({"a": [1]})) == "pandas"
    assert kind_of(pl.DataFrame({"a": [1]})) == kind_of(pl.LazyFrame({"a": [1]})) == "polars"
    assert kind_of(pa.table({"a": [1]})) == "pyarrow"
    assert kind_of("a.csv") is None
    assert kind_of([1, 2]) is None


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_round_trip(kind: str) -> None:
    frame = pl.DataFrame(
        {
            "user": ["ann", "bób"],
            "item": [1, 2],
            "score": [0.5, float("nan")],
            "good": [True, False],
            "maybe": ["x", None],
            "when": [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 3)],
        }
    )
    out = to_kind(frame, kind)
    assert kind_of(out) == kind
    back = to_polars(out)
    assert back.columns == frame.columns
    filled = frame.with_columns(pl.col("score").fill_nan(None))
    assert back.with_columns(pl.col("score").fill_nan(None)).equals(filled)


def test_pandas_columns_of_every_kind() -> None:
    big = 2**60 + 1  # would not survive a float
    frame = pd.DataFrame(
        {
            "nullable": pd.array([big, None], dtype="Int64"),
            "category": pd.Categorical(["p", None]),
            "mixed": [1, "z"],
            "nothing": [None, None],
            "zoned": pd.to_datetime(["2024-01-01T02:00:00+02:00", None], utc=True),
            "float": [1.5, np.nan],
            7: [1, 2],
        }
    )
    with pytest.warns(DataWarning, match="column 'mixed' must be of one kind"):
        got = to_polars(frame)
    assert got["nullable"].to_list() == [big, None]
    assert got["category"].to_list() == ["p", None]
    assert got["mixed"].to_list() == ["1", "z"]
    assert got["nothing"].to_list() == [None, None]
    assert got["zoned"].to_list() == [dt.datetime(2024, 1, 1), None]
    assert got["7"].to_list() == [1, 2]


def test_numbers_beside_text_are_never_one_in_silence() -> None:
    mixed = [7, "7", "07", 7.0, np.int64(7), None, Decimal("7.0")]
    words = "column 'user' must be of one kind, got text beside .*, so that 7 and '7' are one. Convert"
    with pytest.warns(DataWarning, match=words):
        got = to_polars(pd.DataFrame({"user": mixed}, dtype=object))
    assert got["user"].to_list() == ["7", "7", "07", "7", "7", None, "7"]
    with pytest.warns(DataWarning, match=words):
        data = Dataset.from_arrays(["7", 7, 7.0, "07"], [1, 2, 3, 4])
    assert data.users.values.to_list() == ["07", "7"]
    with pytest.warns(DataWarning, match="column 'item' must be of one kind"):
        Dataset.from_arrays([1, 2], np.array(["a", 1], dtype=object))


def test_numbers_alone_are_numbers_however_they_are_typed() -> None:
    big = 2**60 + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = to_polars(pd.DataFrame({"a": [7, 7.0, big], "b": [1, 2.5, None]}, dtype=object))
        data = Dataset.from_arrays([7, 7.0, np.int32(8)], ["x", "y", "z"])
    assert got["a"].to_list() == [7, 7, big]
    assert got["b"].to_list() == [1.0, 2.5, None]
    assert data.users.values.to_list() == [7, 8]


def test_repeated_pandas_columns_are_an_error() -> None:
    with pytest.raises(DataError, match="column names must be distinct, got 'a' more than once"):
        to_polars(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="column names must be distinct, got 'a' more than once"):
        to_polars(pa.table([[1], [2]], names=["a", "a"]))


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="frame must be a pandas, Polars or Arrow frame, got list"):
        to_polars([1])
    with pytest.raises(ValueError, match="kind must be one of pandas, polars, pyarrow, got 'panda'"):
        to_kind(pl.DataFrame(), "panda")


def test_pandas_works_without_pyarrow() -> None:
    code = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd, polars as pl
from veilrec.data.dataset import Dataset
from veilrec.data.frames import kind_of, to_kind, to_polars
frame = pd.DataFrame({"a": ["x", None], "b": [1, 2], "c": pd.to_datetime(["2024-01-01", None])})
inside = to_polars(frame)
assert inside["a"].to_list() == ["x", None] and inside["c"].null_count() == 1
assert kind_of(to_kind(inside.select("a", "b"), "pandas")) == "pandas"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
