"""How quotes and backslashes in separated text can be read, and one walk over the text by such a reading.

| escape | a quote in a field | who writes so |
|---|---|---|
| double | `"a ""b"" c"` | spreadsheets, pandas, Polars, R's write.csv |
| backslash | `"a \\"b\\" c"`, and `\\\\` is one backslash | databases, csv with escapechar |
| backslash-quote | `"a \\"b\\" c"`, and `\\\\` is two | R's write.table |
| backslash-plain | `a "b" c`, and `\\\\` is one backslash | mysqldump --tab, INTO OUTFILE without quotes |
| none | `a "b" c`: every character stands for itself | programs that neither quote nor escape |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import DataError


@dataclass(frozen=True)
class Reading:
    """Whether quotes enclose fields and are doubled inside, what a backslash does (0: nothing, 1: it escapes,
    2: it escapes quotes only), and whether NULL and NA without quotes are missing values."""

    quotes: bool
    doubled: bool
    escape: int
    words: bool


READINGS = {
    "double": Reading(quotes=True, doubled=True, escape=0, words=True),
    "backslash": Reading(quotes=True, doubled=True, escape=1, words=True),
    "backslash-quote": Reading(quotes=True, doubled=False, escape=2, words=True),
    "backslash-plain": Reading(quotes=False, doubled=False, escape=1, words=False),
    "none": Reading(quotes=False, doubled=False, escape=0, words=False),
}
ESCAPES = tuple(READINGS)


@dataclass(frozen=True)
class Walk:
    """One reading of a whole text: what it counts, or why it cannot be.

    >>> text = Walk.over(b'user,item\\na,"say \\\\"hi\\\\""\\n', ",", "backslash")
    >>> text.records, text.width, text.column(1).to_list()
    (2, 2, ['item', 'say "hi"'])
    >>> Walk.over(text.raw, ",", "double").fault
    'text stands between a closing quote and the separator'
    """

    raw: bytes
    separator: str
    escape: str
    records: int  # with the header
    width: int
    blank: int
    breaks: int  # line ends inside of fields
    fault: str | None
    line: int  # of the fault
    offset: bool  # the fault is that all rows have one field more than the first line, as R's row names are
    quoted_line: int  # the first record with a quoted value, 0 without any
    first: NDArray[np.int64]
    quoted: NDArray[np.int64]
    bare: NDArray[np.int64]

    @classmethod
    def over(cls, raw: bytes, separator: str, escape: str) -> Walk:
        """Read all of it."""
        from veilrec.data import text_kernel as kernel

        found, _, (quoted, bare, first) = _run(raw, separator, escape)
        width, line, fault = int(found[kernel.WIDTH]), int(found[kernel.LINE]), None
        if found[kernel.FAULT]:
            fault = {
                kernel.UNCLOSED: "a quote is not closed",
                kernel.AFTER_QUOTE: "text stands between a closing quote and the separator",
                kernel.BAD_ESCAPE: "a backslash stands before something that needs none",
                kernel.BAD_WIDTH: f"a row must have {width} columns, got {int(found[kernel.GOT])}",
                kernel.TOO_WIDE: f"a row has more than {kernel.WIDEST:,} columns",
            }[int(found[kernel.FAULT])]
        elif found[kernel.LF] and found[kernel.CRLF]:
            fault = "some lines end in CR LF and others in LF alone, so that ends of fields are in doubt"
        return cls(
            raw=raw,
            separator=separator,
            escape=escape,
            records=int(found[kernel.RECORDS]),
            width=width,
            blank=int(found[kernel.BLANK]),
            breaks=int(found[kernel.BREAKS]),
            fault=fault,
            line=line,
            offset=bool(found[kernel.OFFSET]),
            quoted_line=int(found[kernel.FIRST_QUOTED]),
            first=first[:width],
            quoted=quoted[:width],
            bare=bare[:width],
        )

    def header(self) -> list[str]:
        """The fields of the first record."""
        return [self.column(place, record=0)[0] or "" for place in range(self.width)]

    def column(self, place: int, record: int = -1) -> pl.Series:
        """The values of a column, null where missing; of one record, or of all with the first."""
        _, out, _ = _run(self.raw, self.separator, self.escape, place, record)
        values = pl.Series([out[:-1].decode()]).str.split(chr(_mark(self.raw))).explode()
        return values.set(values == "", None)

    def line_of(self, record: int) -> int:
        """The 1-based line where a record begins."""
        from veilrec.data.text_kernel import FOUND

        found, _, _ = _run(self.raw, self.separator, self.escape, record=record)
        return int(found[FOUND])

    def quotes_are_regular(self, headed: bool) -> bool:
        """Whether whole columns are quoted, as by a program that quotes all text: a few quotes are no proof.

        The names must be quoted too; else it takes ten rows, or three columns that all are.
        """
        quoted = self.quoted + (0 if headed else self.first)
        bare = self.bare + (0 if headed else 1 - self.first)
        if bool(((quoted > 0) & (bare > 0)).any()):
            return False
        if headed and bool(self.first.all()):
            return True
        return self.records - headed >= 10 or (self.width >= 3 and bool((quoted > 0).all()))


def _mark(raw: bytes) -> int:
    """A control character that the text does not hold."""
    found: int | None = next((code for code in (*range(14, 32), *range(1, 9)) if code not in raw), None)
    if found is None:
        raise DataError("text must not hold all control characters at once. Is it a text file?")
    return found


def _run(
    raw: bytes, separator: str, escape: str, column: int = -1, record: int = -1
) -> tuple[NDArray[np.int64], bytes, tuple[NDArray[Any], ...]]:
    from veilrec.data.text_kernel import SIZE, WIDEST, walk

    how, walk_over = READINGS[escape], cast(Any, walk)
    counts = tuple(np.zeros(WIDEST, np.int64) for _ in range(3))
    facts = np.zeros(13, np.int64)
    out = np.empty(len(raw) + 1 if column >= 0 else 0, np.uint8)
    text, cut = (np.frombuffer(part, np.uint8) for part in (raw, separator.encode()))
    mark = _mark(raw) if column >= 0 else 0
    reading = (how.quotes, how.doubled, how.escape, how.words)
    walk_over(text, cut, *reading, column, record, mark, out, *counts, facts)
    return facts, out[: facts[SIZE]].tobytes(), counts
