"""One file of separated text: which readings of its quotes and backslashes fit, and what its columns hold.

Text without quotes and backslashes goes to Polars. All other text is walked byte by byte, by every reading
that could be meant; those that fit the whole file must agree on the wanted columns, or it is refused.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from veilrec.core import DataError
from veilrec.data.format_bytes import decode, unmarked
from veilrec.data.format_table import Lines, one_line
from veilrec.data.text_reading import ESCAPES, Walk

_RULE = "quotes and backslashes must have one meaning in the whole file, got "
_NAME_IT = "Name what is meant with escape= (--escape): " + ", ".join(ESCAPES) + "."


@dataclass(frozen=True)
class Survey:
    """What a file holds, counted without cutting it."""

    lines: int
    special: bool  # quotes or backslashes
    alike: bool  # all lines end in LF, or all in CR LF
    cuts: int  # separators

    @classmethod
    def of(cls, source: Path | bytes, separator: str) -> Survey:
        """Count.

        >>> Survey.of(b"a,b\\n1,2", ",")
        Survey(lines=2, special=False, alike=True, cuts=2)
        """
        new = back = both = cuts = 0
        special, last = False, b"\n"
        for piece in _pieces(source):
            new, back, both = new + piece.count(b"\n"), back + piece.count(b"\r"), both + piece.count(b"\r\n")
            both += last == b"\r" and piece[:1] == b"\n"
            cuts += piece.count(separator.encode())
            special = special or b'"' in piece or b"\\" in piece
            last = piece[-1:]
        return cls(new + (last != b"\n"), special, back == both and both in (0, new), cuts)


@dataclass(frozen=True)
class Text:
    """Where the text is and how it is cut: ``source`` is UTF-8, as a file or as bytes."""

    label: str
    source: Path | bytes
    encoding: str
    separator: str
    escape: str | None  # None where it is to be found
    skip: int  # empty lines before the first one

    @cached_property
    def raw(self) -> bytes:
        """All of it, without the mark of UTF-8 at its beginning."""
        found = self.source if isinstance(self.source, bytes) else self.source.read_bytes()
        decode(found, "utf-8", self.label)
        return unmarked(found, self.label)

    @cached_property
    def survey(self) -> Survey:
        """What is counted before anything is cut."""
        return Survey.of(self.source, self.separator)

    @property
    def simple(self) -> bool:
        """Whether a line is a row and a separator a separator, so that Polars can read it."""
        found = self.survey
        literal = self.escape == "none" or not found.special
        return literal and found.alike and len(self.separator) == 1 and self.separator != " "

    @cached_property
    def walks(self) -> list[Walk]:
        """The readings that fit the whole file, the most common one first."""
        several = self.escape is None and b"\\" in self.raw
        names = ESCAPES[:3] if several else (self.escape or "double",)
        tried = [Walk.over(self.raw, self.separator, name) for name in names]
        good = [walk for walk in tried if walk.fault is None]
        unsaid = [walk for walk in tried if walk.offset]  # as likely as those that fit
        if unsaid or not good:
            raise self._fault(max(unsaid or tried, key=lambda walk: walk.line))
        return good

    def rivals(self, headed: bool) -> list[Walk]:
        """Readings in which quotes are mere characters, where nothing speaks against them.

        Regular quotes do, but not where they make several lines one row: titles that begin with a quote in
        one line and end with one in the next are regular too.
        """
        whole = not any(walk.breaks for walk in self.walks)
        if self.escape is not None or (whole and self.walks[0].quotes_are_regular(headed)):
            return []
        if not any(walk.quoted_line for walk in self.walks):
            return []
        names = ESCAPES[3:] if b"\\" in self.raw else ("none",)
        tried = [Walk.over(self.raw, self.separator, name) for name in names]
        for walk in tried:
            if walk.offset:
                raise DataError(
                    f'{_RULE}rows of {walk.width} fields with escape="{self.walks[0].escape}" and of '
                    f'{walk.width + 1} with escape="{walk.escape}". {_NAME_IT}',
                    file=self.label,
                    line=walk.line,
                )
        return [walk for walk in tried if walk.fault is None and walk.width > 1]

    def load(self, positions: Sequence[int], names: Sequence[str], headed: bool, width: int) -> pl.DataFrame:
        """These columns as text, null where empty."""
        if self.simple:
            frame = self._load_fast(positions, names, headed, width)
            if frame is not None:
                return frame
        chosen, *others = self.walks
        frame = _columns(chosen, positions, names, headed)
        for other in (*others, *self.rivals(headed)):
            self._agree(chosen, frame, other, _columns(other, positions, names, headed), headed)
        return frame

    def lines(self, headed: bool) -> Lines:
        """The account of the lines, after columns were loaded."""
        how = {"encoding": self.encoding, "separator": self.separator}
        if "walks" not in self.__dict__:
            return Lines(self.survey.lines, int(headed), self.skip, 0, how)
        walk = self.walks[0]
        how |= {"escape": walk.escape} if self.survey.special else {}
        return Lines(self.survey.lines, int(headed), walk.blank, walk.breaks, how)

    def line(self, row: int, headed: bool) -> int:
        """The 1-based line of a row."""
        return self.walks[0].line_of(row + headed)

    def _load_fast(
        self, positions: Sequence[int], names: Sequence[str], headed: bool, width: int
    ) -> pl.DataFrame | None:
        """The columns as Polars reads them, if the counts prove that a line is a row of ``width`` fields."""
        source = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        try:
            # all columns are looked at, so that a row that is too long is found; only these are kept
            frame = (
                pl.scan_csv(
                    source,
                    separator=self.separator,
                    quote_char=None,
                    has_header=headed,
                    skip_lines=self.skip,
                    infer_schema=False,
                    glob=False,
                )
                .select(
                    *(pl.nth(place).alias(name) for place, name in zip(positions, names)),
                    pl.all_horizontal(pl.all().is_null()).alias("\x00empty"),
                )
                .collect(engine="streaming")
            )
        except pl.exceptions.PolarsError:
            return None
        rows = frame.height + headed
        whole = self.survey.lines == self.skip + rows and self.survey.cuts == rows * (width - 1)
        return frame if whole and not frame.drop_in_place("\x00empty").any() else None

    def _agree(
        self, chosen: Walk, frame: pl.DataFrame, other: Walk, rival: pl.DataFrame, headed: bool
    ) -> None:
        if frame.equals(rival):
            return
        if frame.height != rival.height:
            raise DataError(
                f'{_RULE}{frame.height:,} rows with escape="{chosen.escape}" and {rival.height:,} with '
                f'escape="{other.escape}". {_NAME_IT}',
                file=self.label,
                line=chosen.quoted_line or None,
            )
        unlike = np.array([~frame[name].eq_missing(rival[name]).to_numpy() for name in frame.columns])
        row = int(np.argmax(unlike.any(axis=0)))
        name = frame.columns[int(np.argmax(unlike[:, row]))]
        raise DataError(
            f'{_RULE}a value that is {one_line(frame[name][row])} with escape="{chosen.escape}" and '
            f'{one_line(rival[name][row])} with escape="{other.escape}". {_NAME_IT}',
            file=self.label,
            line=self.line(row, headed),
        )

    def _fault(self, walk: Walk) -> DataError:
        reason = str(walk.fault)
        if reason.startswith("a row must"):
            message = (
                f"{reason}. Quote fields that hold the separator, name each column (R: row.names=FALSE), or "
                "name another separator with separator= (--separator)."
            )
        elif reason.startswith("some lines"):
            message = f"lines must end alike, but {reason}. Convert the file to one of them."
        else:
            message = f"fields must be properly quoted, but {reason}. Correct the line, or: {_NAME_IT}"
        return DataError(message, file=self.label, line=walk.line or None)


def _columns(walk: Walk, positions: Sequence[int], names: Sequence[str], headed: bool) -> pl.DataFrame:
    if walk.width <= max(positions):
        return pl.DataFrame()
    return pl.DataFrame({name: walk.column(place).slice(headed) for place, name in zip(positions, names)})


def _pieces(source: Path | bytes, size: int = 1 << 24) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as handle:
        while piece := handle.read(size):
            yield piece
