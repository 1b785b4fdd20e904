"""A table that has been opened but not yet read: its columns, how to load them, where its rows stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import DataError


@dataclass(frozen=True)
class Lines:
    """The lines of a text file: all, the header's, blank ones, line ends inside of fields; how it was cut.

    ``lists`` counts the lines of a user and a list of items, where a line holds any number of rows; it is
    None where a line is a row.

    >>> Lines(total=3, header=1, blank=0, inside=0, how={"separator": ","}).total
    3
    """

    total: int
    header: int
    blank: int
    inside: int
    how: Mapping[str, str]
    lists: int | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """One opened table.

    ``load(names)`` reads these columns, as text from text files and typed otherwise. ``line(row)`` is the
    1-based line of a row in its file. ``named`` is False when the names are mere positions, because the
    file has no header. ``kinds`` are types the file itself declares ("token" or "float"). ``lines()``
    accounts for the lines of a text file. ``null_words`` mean a missing value.

    >>> table = Table("people", ("a",), lambda names: pl.DataFrame({"a": [1]}).select(names), in_file=False)
    >>> str(table.error("a must be even, got 1.", row=0))
    'people, row 0: a must be even, got 1.'
    """

    label: str
    names: tuple[str, ...]
    load: Callable[[Sequence[str]], pl.DataFrame]
    line: Callable[[int], int] | None = None
    named: bool = True
    in_file: bool = True
    kinds: Mapping[str, str] = field(default_factory=dict)
    lines: Callable[[], Lines] | None = None
    null_words: tuple[str, ...] = ()
    kept: NDArray[np.int64] | None = None  # where the rows that are left stood, once some were left out

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise self.error(
                    f"column names must be distinct, got {name!r} more than once. Rename one of them."
                )
            seen.add(name)

    def rows(self, names: Sequence[str]) -> pl.DataFrame:
        """These columns, of one row or more."""
        frame = self.load(names)
        if frame.height == 0:
            raise self.error("the table must have a row or more, got none below its header.")
        return frame

    def error(self, message: str, row: int | None = None) -> DataError:
        """A DataError that says where: file and line, or frame and row (counted from 0)."""
        if row is not None and self.line is not None:
            return DataError(message, file=self.label, line=self.line(self._place(row)))
        place = "" if row is None else f"{self.where(row)}: "
        if self.in_file:
            return DataError(place + message, file=self.label)
        return DataError(f"{self.label}{', ' if place else ': '}{place}{message}")

    def where(self, row: int) -> str:
        """The place of a row in words.

        >>> Table("t", ("a", "b"), lambda names: pl.DataFrame(), kept=np.array([4, 7])).where(1)
        'row 7'
        """
        place = self._place(row)
        return f"row {place}" if self.line is None else f"line {self.line(place)}"

    def _place(self, row: int) -> int:
        return row if self.kept is None else int(self.kept[row])

    def listing(self, most: int = 20) -> str:
        """The column names for a message.

        >>> Table("t", ("a", "b"), lambda names: pl.DataFrame()).listing()
        "'a', 'b'"
        """
        shown = ", ".join(repr(name) for name in self.names[:most])
        return shown + (", ..." if len(self.names) > most else "")


def one_line(text: object, most: int = 60) -> str:
    """A value for a message: quoted, and cut when long.

    >>> one_line("a" * 100, most=5)
    "'aaaaa...'"
    """
    if isinstance(text, str) and len(text) > most:
        text = text[:most] + "..."
    return repr(text)
