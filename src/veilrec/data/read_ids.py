"""Columns of ids at the door: present in every row, text or whole numbers, known or not, alike or not."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import DataWarning
from veilrec.data.columns import first
from veilrec.data.format_table import Table
from veilrec.data.ids import Ids


def warn(message: str) -> None:
    """Warn the caller of the function that calls the function that calls this."""
    warnings.warn(DataWarning(message), stacklevel=4)


def id_column(table: Table, role: str, series: pl.Series) -> pl.Series:
    """A column of ids as text or whole numbers, none of them missing or empty."""
    if series.dtype.is_float():
        whole = series.fill_nan(None).cast(pl.Int64, strict=False)
        wrong = (whole.cast(series.dtype) != series).fill_null(False)
        if wrong.any():
            row = first(wrong)
            raise table.error(
                f"{role} ids must be text or whole numbers, got {series[row]!r}. Use another column.", row
            )
        series = whole
    elif not series.dtype.is_integer():
        if series.dtype.is_nested() or series.dtype in (pl.Boolean, pl.Binary, pl.Object):
            raise table.error(
                f"{role} ids must be text or whole numbers, got the type {series.dtype}. Use another column."
            )
        series = series.cast(pl.String)
    if series.null_count():
        raise _missing(table, role, series.is_null())
    return series


def check_not_blank(table: Table, role: str, ids: Ids, codes: NDArray[np.int32]) -> None:
    """An id of white space alone is a missing id."""
    if not ids.numeric:
        blank = np.flatnonzero(ids.values.str.strip_chars().str.len_bytes().to_numpy() == 0)
        if len(blank):
            raise _missing(table, role, pl.Series(np.isin(codes, blank)))


def _missing(table: Table, role: str, mask: pl.Series) -> Exception:
    row = first(mask)
    return table.error(
        f"the {role} id must be given in every row, got none. Fill it in or remove the row.", row
    )


def warn_alike(ids: Ids, what: str, table: Table) -> None:
    """Warn when ids differ only by white space or case: they are probably one, but are kept apart."""
    if ids.numeric or len(ids) < 2:
        return
    folded = ids.values.str.replace_all(r"\s+", "").str.to_lowercase()
    twice = folded.is_duplicated()
    if twice.any():
        shape = folded.filter(twice)[0]
        same = ids.values.filter(folded == shape).to_list()
        warn(
            f"{table.label}: {int(twice.sum()):,} {what} ids differ only by white space or case, "
            f"for example {same[0]!r} and {same[1]!r}; they are kept apart. Clean the column if they are one."
        )


def known_rows(table: Table, external: pl.Series, codes: NDArray[np.int32], policy: str) -> NDArray[np.int64]:
    """The rows whose user is known; others are an error, or left out under the policy "drop"."""
    strange = codes < 0
    if policy == "error" and strange.any():
        row = first(strange)
        raise table.error(
            f"users must have interactions, got user {external[row]!r} without any "
            f"({int(strange.sum()):,} such rows). "
            'Remove them, or say unknown_users="drop".',
            row,
        )
    return np.flatnonzero(~strange)
