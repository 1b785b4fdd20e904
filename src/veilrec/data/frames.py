"""Frames at the border: pandas, Polars or Arrow come in, Polars works inside, the caller's kind goes out."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from veilrec.core import DataError, check_choice, require
from veilrec.data.ids import one_kind

KINDS = ("pandas", "polars", "pyarrow")


def kind_of(frame: Any) -> str | None:
    """The kind of a frame in memory ("pandas", "polars" or "pyarrow"), None if it is no frame.

    Frames of another library that narwhals knows (DuckDB, Dask, ...) count as "polars".

    >>> kind_of(pl.DataFrame({"a": [1]})), kind_of("events.csv")
    ('polars', None)
    """
    if nw.dependencies.is_pandas_dataframe(frame):
        return "pandas"
    if nw.dependencies.is_pyarrow_table(frame):
        return "pyarrow"
    native = nw.from_native(frame, pass_through=True)
    return "polars" if isinstance(native, nw.DataFrame | nw.LazyFrame) else None


def to_polars(frame: Any) -> pl.DataFrame:
    """Any frame as an eager Polars frame; a lazy one is collected. pandas needs no pyarrow for this.

    >>> to_polars(pl.LazyFrame({"a": [1]})).shape
    (1, 1)
    """
    kind = kind_of(frame)
    if kind is None:
        raise ValueError(
            f"frame must be a pandas, Polars or Arrow frame, got {type(frame).__name__}. "
            "Give a path or one of these."
        )
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if kind == "pandas":
        names = _distinct([str(name) for name in frame.columns])
        return pl.DataFrame({name: _from_column(name, frame.iloc[:, i]) for i, name in enumerate(names)})
    if kind == "pyarrow":
        _distinct(frame.column_names)
        return pl.DataFrame(frame)
    native = nw.from_native(frame)
    eager = native.collect(backend="polars") if isinstance(native, nw.LazyFrame) else native
    collected: pl.DataFrame = eager.to_polars()
    return collected


def to_kind(frame: pl.DataFrame, kind: str) -> Any:
    """A Polars frame as the kind the caller works with. pandas needs no pyarrow for this.

    >>> to_kind(pl.DataFrame({"a": [1]}), "polars").columns
    ['a']
    """
    check_choice("kind", kind, KINDS)
    if kind == "pandas":
        pandas = require("pandas", extra="frames", purpose="a pandas frame")
        columns = {name: _to_array(frame[name]) for name in frame.columns}
        return pandas.DataFrame(columns, columns=frame.columns)
    if kind == "pyarrow":
        require("pyarrow", extra="frames", purpose="an Arrow table")
        return frame.to_arrow()
    return frame


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column names must be distinct, got {twice!r} more than once. Rename one of them.")
    return names


def _from_column(name: str, column: Any) -> pl.Series:
    """One pandas column; what NumPy holds without loss goes over as it is, the rest value by value."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return pl.Series(name, column.to_numpy())
    if getattr(dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return pl.Series(name, column.to_numpy().astype("datetime64[us]"))
    values = [None if gone else value for value, gone in zip(column.tolist(), column.isna().tolist())]
    values = one_kind(name, values)
    return pl.Series(name, values, dtype=pl.String if all(value is None for value in values) else None)


def _to_array(series: pl.Series) -> Any:
    """A column for pandas: NumPy for numbers and times, Python values for the rest."""
    if series.dtype.is_numeric() or (series.dtype == pl.Boolean and not series.null_count()):
        return series.to_numpy()
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is None:
        return series.to_numpy()
    return series.to_list()
