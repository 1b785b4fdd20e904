"""Which column is which, and what its values mean: ratings, times and marks, each checked.

A column is found by a common name (case, spaces, `_` and `-` do not matter); of several, the one that
stands first in the lists below wins. A file without header gives user, item, rating, time by position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.data.format_table import Table, one_line


def _ids(*nouns: str) -> tuple[str, ...]:
    """The names of id columns: with "id" first, so that movie_id beats a movie's title."""
    return (*(f"{noun}id" for noun in nouns), *nouns)


COMMON: Mapping[str, tuple[str, ...]] = {
    "user": (
        *_ids("user", "customer", "member", "account", "household", "client", "visitor", "reviewer"),
        *_ids("person", "reader", "listener", "viewer", "buyer", "shopper", "subscriber", "player"),
        "uid", "username", "userkey", "customerkey",
    ),
    "item": (
        *_ids("item", "product", "movie", "film", "artist", "book", "article", "track", "song", "album"),
        *_ids("business", "venue", "place", "poi", "game", "video", "show", "news", "course", "recipe"),
        *_ids("content", "page", "anime", "joke", "restaurant", "app"),
        "iid", "sku", "isbn", "asin", "productcode", "stockcode", "itemcode", "itemkey", "ean", "gtin",
    ),
    "rating": ("rating", "ratings", "stars", "star", "score", "ratingvalue", "bookrating", "overall",
               "weight", "playcount", "preference"),
    "time": ("timestamp", "time", "datetime", "date", "ts", "when", "unixtime", "unixtimestamp", "eventtime",
             "eventtimestamp", "transactiontimestamp", "transactiontime", "transactiondate", "createdat",
             "orderdate", "ordertime", "purchasedate", "purchasetime", "reviewtime", "unixreviewtime",
             "reviewdate", "ratingdate", "invoicedate", "watchedat", "listenedat", "eventdate"),
    "sensitive": ("sensitive", "issensitive", "private", "isprivate"),
    "source": (*_ids("source", "truster", "trustor", "follower", "from"), "src", "user1", "userid1"),
    "target": (*_ids("target", "trustee", "friend", "followee", "followed", "following", "to"), "dst",
               "user2", "userid2", "otheruser", "otheruserid"),
}  # fmt: skip
_TIME_FORMATS = (
    ("%Y-%m-%d %H:%M:%S%.f", None),
    ("%Y-%m-%d", None),
    ("%Y-%m-%d %H:%M:%S%.f%z", "UTC"),
    ("%Y-%m-%d %H:%M", None),
    ("%Y-%m-%d %H:%M%z", "UTC"),
)
_TRUE, _FALSE = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")


def plain_name(name: str) -> str:
    """A column name without case and punctuation.

    >>> plain_name("User ID"), plain_name("user_id")
    ('userid', 'userid')
    """
    return re.sub(r"[\W_]+", "", name.lower())


_ALL = frozenset(name for names in COMMON.values() for name in names)


def is_common_name(name: str) -> bool:
    """Whether a text is one of the common column names.

    >>> is_common_name("MovieID"), is_common_name("42")
    (True, False)
    """
    return plain_name(name) in _ALL


def find_common(names: Sequence[str], role: str) -> str | None:
    """The column with a common name for ``role``, None without one.

    >>> find_common(["Title", "Movie", "movie_id"], "item")
    'movie_id'
    """
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(plain_name(name), name)
    return next((plain[known] for known in COMMON[role] if known in plain), None)


def find_roles(table: Table, given: Mapping[str, str | bool | None]) -> dict[str, str]:
    """The column of each role; ``given`` holds the caller's names, None to look, False to leave out.

    The first two roles must be found, the others may be absent.
    """
    found: dict[str, str] = {}
    for role, name in given.items():
        if isinstance(name, str):
            found[role] = find_named(table, role, name)
    for place, (role, name) in enumerate(given.items()):
        if name is not None:
            continue
        free = [name for name in table.names if name not in found.values()]
        if table.named:
            column = find_common(free, role)
        else:
            column = f"column_{place + 1}" if f"column_{place + 1}" in free and place < 4 else None
        if column is not None:
            found[role] = column
        elif place < 2:
            header = "header=False if the first line is data" if table.named else "header=True"
            raise table.error(
                f"the {role} column must have a common name, but the columns are {table.listing()}. "
                f"Name it with {role}=... (--{role}), or say {header}."
            )
    if len(set(found.values())) < len(found):
        raise ValueError(f"columns must be different for each role, got {found!r}. Name each only once.")
    return found


def find_named(table: Table, role: str, name: str) -> str:
    """The column the caller named: exactly, or but for case and punctuation."""
    if name in table.names:
        return name
    alike = [column for column in table.names if plain_name(column) == plain_name(name)]
    if len(alike) == 1:
        return alike[0]
    raise table.error(
        f"{role} must be one of the columns {table.listing()}, got {name!r}. "
        f"Name the column with {role}=... (--{role})."
    )


def first(mask: pl.Series | NDArray[Any]) -> int:
    """The first row where ``mask`` holds.

    >>> first(np.array([False, True]))
    1
    """
    return int(np.argmax(mask.to_numpy() if isinstance(mask, pl.Series) else mask))


def numbers(series: pl.Series) -> pl.Series:
    """A column as 64-bit floats, null where it is no number; white space around numbers is ignored.

    >>> numbers(pl.Series(["1.5", " 2", "x"])).to_list()
    [1.5, 2.0, None]
    """
    if series.dtype.is_nested() or series.dtype.is_temporal():
        return pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    found = series.cast(pl.Float64, strict=False)
    if series.dtype == pl.String and found.null_count() > series.null_count():
        found = series.str.strip_chars().cast(pl.Float64, strict=False)
    return found


def ratings(table: Table, series: pl.Series, declared: tuple[float, float] | None) -> NDArray[np.float32]:
    """A column of ratings: finite numbers, inside the declared range."""
    found = numbers(series)
    good = found.is_finite().fill_null(False)
    if not good.all():
        row = first(~good)
        remedy = "Write decimals with a point, or leave out rows without a rating."
        raise table.error(f"rating must be a number, got {one_line(series[row])}. {remedy}", row)
    if declared is not None:
        inside = found.is_between(*declared)
        if not inside.all():
            row = first(~inside)
            low, high = declared
            raise table.error(
                f"rating must be from {low:g} to {high:g}, got {found[row]:g}. "
                "Correct the value, or declare another rating_range.",
                row,
            )
    return found.cast(pl.Float32).to_numpy()


def seconds(table: Table, series: pl.Series) -> NDArray[np.int64]:
    """A column of times as whole UTC seconds since 1970 (fractions are cut off).

    The first value decides whether they are numbers or text. Numbers: the largest magnitude decides for the
    whole column; below 1e11 they are seconds, below 1e14 milliseconds, below 1e17 microseconds, else
    nanoseconds. Text: ISO dates, or dates and times, in UTC unless they carry an offset.
    """
    if series.dtype == pl.Date:
        series = series.cast(pl.Datetime("us"))
    if series.dtype == pl.Datetime:
        found = series.dt.epoch("s")
    elif series.dtype == pl.String and numbers(series.head(1)).null_count():
        found = _iso_seconds(series)
    else:
        found = _unix_seconds(series)
    if found.null_count():
        row = first(found.is_null())
        raise table.error(
            f"time must be unix seconds or milliseconds, or an ISO date like 2024-05-31 or "
            f"2024-05-31T18:30:00Z, got {one_line(series[row])}. Correct the value.",
            row,
        )
    return found.cast(pl.Int64).to_numpy()


def _unix_seconds(series: pl.Series) -> pl.Series:
    whole = series.cast(pl.Int64, strict=False) if not series.dtype.is_float() else series
    found = whole if whole.null_count() == series.null_count() else numbers(series)
    if found.dtype.is_float():
        found = found.set(~found.is_finite().fill_null(False), None)
    largest = found.abs().max()
    size = 0.0 if largest is None else float(largest)  # type: ignore[arg-type]
    unit = 1 if size < 1e11 else 10**3 if size < 1e14 else 10**6 if size < 1e17 else 10**9
    if found.dtype.is_float():
        return (found / unit).floor().cast(pl.Int64, strict=False)
    return found if unit == 1 else found // unit


def _iso_seconds(series: pl.Series) -> pl.Series:
    text = series.str.strip_chars().str.replace(r"^(\d{4})/(\d{1,2})/", "$1-$2-")
    text = text.str.replace(r"^(\S+)[Tt]", "$1 ").str.replace(r"\s*(Z|z|UTC)$", "+00:00")
    found = pl.repeat(None, len(text), dtype=pl.Int64, eager=True)
    for pattern, zone in _TIME_FORMATS:
        if not found.null_count():
            break
        parsed = text.str.to_datetime(pattern, strict=False, time_unit="us", time_zone=zone).dt.epoch("s")
        found = found.zip_with(found.is_not_null(), parsed)
    return found


def marks(table: Table, series: pl.Series) -> NDArray[np.bool_]:
    """A column of sensitivity marks: true/false, yes/no or 1/0."""
    if series.dtype.is_float():
        series = series.cast(pl.Int64, strict=False)
    text = series.cast(pl.String).str.strip_chars().str.to_lowercase()
    yes = text.is_in(_TRUE).fill_null(False)
    good = yes | text.is_in(_FALSE).fill_null(False)
    if not good.all():
        row = first(~good)
        raise table.error(
            f"sensitive must be true or false (1 or 0, yes or no), got {one_line(series[row])}. "
            "Correct the value.",
            row,
        )
    return yes.to_numpy()
