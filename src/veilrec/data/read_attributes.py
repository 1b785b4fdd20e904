"""What kind of attribute a column is: categories or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from veilrec.core import check
from veilrec.data.columns import first, numbers, plain_name
from veilrec.data.dataset import Attribute, Categorical, Numeric
from veilrec.data.format_table import Table, one_line

FEW = 32  # whole numbers with at most this many different values are categories
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
_LABELS = ("zip", "zipcode", "postcode", "postalcode")  # digits, but not quantities


def attribute(
    table: Table,
    name: str,
    series: pl.Series,
    declared: tuple[float, float] | None = None,
    categories: Sequence[str] | None = None,
) -> Attribute:
    """One column as an attribute.

    A declared range makes it numeric, declared categories make it categorical. Else text is categorical,
    and so are whole numbers with at most 32 different values or written with leading zeros, all with the
    categories that are found; other numbers are numeric, without a range.

    >>> table = Table("t", ("age",), lambda names: pl.DataFrame())
    >>> attribute(table, "age", pl.Series(["1", "18", "", "7"])).categories
    ('1', '7', '18')
    """
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        raise table.error(f"attribute {name!r} must be text or numbers, got the type {series.dtype}.")
    text = as_text(series)
    if categories is not None:
        return _declared(table, name, text, categories)
    found = numbers(text)
    wrong = text.is_not_null() & ~found.is_finite().fill_null(False)
    if declared is not None:
        return _numeric(table, name, text, found, wrong, declared)
    label = table.kinds.get(name) in ("token", "token_seq") or plain_name(name) in _LABELS
    label = label or bool(wrong.any()) or bool(text.str.contains(r"^[+-]?0[0-9]").any())
    if not label:
        whole = found.drop_nulls().cast(pl.Int64, strict=False)
        few = whole.n_unique() <= FEW and whole.null_count() == 0
        if (
            table.kinds.get(name) == "float"
            or not few
            or bool((whole.cast(pl.Float64) != found.drop_nulls()).any())
        ):
            return Numeric(found.cast(pl.Float32).fill_null(float("nan")).to_numpy())
        text = found.cast(pl.Int64).cast(pl.String)
    values = text.drop_nulls().unique()
    as_numbers = numbers(values)
    values = values.gather(as_numbers.arg_sort()) if not label else values.sort()
    return replace(_coded(text, values.to_list()), declared=False)


def as_text(series: pl.Series) -> pl.Series:
    """The values as stripped text, null where missing; whole floats lose their ".0".

    >>> as_text(pl.Series([18.0, None])).to_list()
    ['18', None]
    """
    if series.dtype.is_float():
        whole = series.fill_nan(None).drop_nulls()
        exact = bool((whole.is_finite() & (whole.floor() == whole) & (whole.abs() < 2**53)).all())
        series = series.fill_nan(None).cast(pl.Int64) if exact else series.fill_nan(None)
    text = series.cast(pl.String).str.strip_chars()
    return text.set(text.is_in(MISSING).fill_null(False), None)


def _declared(table: Table, name: str, text: pl.Series, categories: Sequence[str]) -> Categorical:
    names = [str(value) for value in categories]
    check(len(set(names)) == len(names) > 0, f"categories of {name!r}", "distinct and not none", categories)
    wrong = text.is_not_null() & ~text.is_in(names).fill_null(False)
    if wrong.any():
        row = first(wrong)
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise table.error(
            f"{name} must be one of the declared categories {shown}, got {one_line(text[row])}. "
            "Correct the value, or declare it too.",
            row,
        )
    return _coded(text, names)


def _numeric(
    table: Table,
    name: str,
    text: pl.Series,
    found: pl.Series,
    wrong: pl.Series,
    declared: tuple[float, float],
) -> Numeric:
    low, high = float(declared[0]), float(declared[1])
    check(low < high, f"numeric_ranges of {name!r}", "a pair (low, high) with low below high", declared)
    wrong = wrong | ~found.is_between(low, high).fill_null(True)
    if wrong.any():
        row = first(wrong)
        raise table.error(
            f"{name} must be a number from {low:g} to {high:g}, got {one_line(text[row])}. "
            "Correct the value, or declare another range.",
            row,
        )
    return Numeric(found.cast(pl.Float32).fill_null(float("nan")).to_numpy(), low, high)


def _coded(text: pl.Series, names: list[str]) -> Categorical:
    if not names:
        return Categorical(np.full(len(text), -1, np.int32), ())
    codes = text.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(-1)
    return Categorical(codes.to_numpy(), tuple(names))
