"""Columns of ids at the door: present in every row, text or whole numbers, known or not, alike or not."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import warn
from veilrec.data.columns import first
from veilrec.data.format_table import Table, one_line
from veilrec.data.identity import identity_of
from veilrec.data.ids import Ids, encode
from veilrec.data.order import stable_order
from veilrec.data.read_attributes import as_text

Coding = dict[str, tuple[NDArray[np.int32], Ids]]
LONGEST = 1000  # characters of an id


def id_column(table: Table, role: str, series: pl.Series) -> pl.Series:
    """A column of ids as text or whole numbers, null where missing."""
    if series.dtype.is_float():
        whole = series.fill_nan(None).cast(pl.Int64, strict=False)
        wrong = (whole.cast(series.dtype) != series).fill_null(False)
        if wrong.any():
            row = first(wrong)
            raise table.error(
                f"{role} ids must be text or whole numbers, got {series[row]!r}. Use another column.", row
            )
        return whole
    if not series.dtype.is_integer():
        if series.dtype.is_nested() or series.dtype in (pl.Boolean, pl.Binary, pl.Object):
            raise table.error(
                f"{role} ids must be text or whole numbers, got the type {series.dtype}. Use another column."
            )
        return series.cast(pl.String)
    return series


def coded(table: Table, role: str, series: pl.Series) -> tuple[NDArray[np.int32], Ids, NDArray[np.bool_]]:
    """Codes, vocabulary, and where the id is missing: null, white space, or a word that means null.

    An id with a line break or of more than 1,000 characters is an error: it is several rows that wrong quotes
    made one.
    """
    gone = series.is_null().to_numpy()
    codes, ids = encode(series.cast(pl.String).fill_null("") if gone.any() else series)
    if ids.numeric:
        return codes, ids, gone
    bare = ids.values.str.strip_chars()
    hollow = bare.is_in(["", *table.null_words])
    if hollow.any():
        gone = hollow.to_numpy()[codes]
    wrong = (ids.values.str.len_chars() > LONGEST) | ids.values.str.contains(r"[\r\n]")
    wrong &= bare != ""
    if wrong.any():
        row = first(wrong.to_numpy()[codes])
        text = str(ids.values[int(codes[row])])
        raise table.error(
            f"{role} ids must be one line of at most {LONGEST:,} characters, got {len(text):,} characters "
            f"with {text.count(chr(10)) or text.count(chr(13)):,} line breaks: {one_line(text)}. "
            "Correct the row; if quotes are escaped otherwise, say how with escape= (--escape).",
            row,
        )
    return codes, ids, gone


def given_rows(
    table: Table, series: dict[str, pl.Series], policy: str
) -> tuple[Coding, NDArray[np.int64] | None, dict[str, int], str]:
    """Codes and vocabulary of users and items, the rows that are left (None: all), and why others are not.

    Rows without an id are an error, or left out under the policy "drop", and then those without a rating or
    time too. The columns of ids are taken out of ``series``, the others lose the rows. Last comes the
    identity of all rows with ids where some of those were left out, else "": which columns are read beside
    the ids makes no other data.
    """
    coding: Coding = {}
    absent: dict[str, NDArray[np.bool_]] = {}
    for role in ("user", "item"):
        codes, ids, gone = coded(table, role, id_column(table, role, series.pop(role)))
        if gone.any() and policy == "error":
            raise missing_id(table, role, gone)
        coding[role], absent[role] = (codes, ids), gone
    if policy == "drop":
        absent |= {role: as_text(series[role]).is_null().to_numpy() for role in series if role != "sensitive"}
    left = np.ones(len(absent["user"]), np.bool_)
    why: dict[str, int] = {}
    for role, gone in absent.items():
        why[f"missing {role}"] = int((left & gone).sum())
        left &= ~gone
    if left.all():
        return coding, None, {}, ""
    if not left.any():
        raise table.error("the table must have a row without missing values, got none.")
    for role, column in series.items():
        series[role] = column.filter(pl.Series(left))
    named = ~(absent["user"] | absent["item"])
    origin = "" if bool((left == named).all()) else _identity(coding, np.flatnonzero(named))
    coding = {role: encode(ids.take(codes[left])) for role, (codes, ids) in coding.items()}
    return coding, np.flatnonzero(left), why, origin


def _identity(coding: Coding, rows: NDArray[np.int64]) -> str:
    (user, users), (item, items) = coding["user"], coding["item"]
    rows = rows[stable_order(user[rows])]
    return identity_of(user[rows], item[rows], users, items)


def missing_id(table: Table, role: str, gone: NDArray[np.bool_]) -> Exception:
    """The error for rows without an id."""
    return table.error(
        f"the {role} id must be given in every row, got none. Fill it in, remove the row, or leave such "
        'rows out with missing="drop" (--missing drop).',
        first(gone),
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


def known_rows(
    table: Table, external: pl.Series, codes: NDArray[np.int32], gone: NDArray[np.bool_], policy: str
) -> NDArray[np.int64]:
    """The rows whose user is known; others (not those ``gone``) are an error, or left out under "drop"."""
    strange = (codes < 0) & ~gone
    if policy == "error" and strange.any():
        row = first(strange)
        raise table.error(
            f"users must have interactions, got user {external[row]!r} without any "
            f"({int(strange.sum()):,} such rows). "
            'Remove them, or say unknown_users="drop" (--unknown-users drop).',
            row,
        )
    return np.flatnonzero(~strange & ~gone)
