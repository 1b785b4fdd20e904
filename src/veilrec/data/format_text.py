"""Separated text (CSV, TSV, `::`, ...), plain or gzip, read as text so that the id "007" stays "007".

Polars reads; Python's csv module finds the line when something is wrong, and reads what Polars refuses
(a lone quote inside a field). Lines without any value are skipped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from veilrec.core import DataError, check
from veilrec.data.columns import is_common_name
from veilrec.data.format_bytes import decode, read_bytes
from veilrec.data.format_table import Table, one_line

SEPARATORS = ("::", "\t", ",", ";", "|", " ")
_STAND_IN = "\x1f"  # takes the place of a separator of several characters
_TYPED = re.compile(r"(.+):(token|token_seq|float|float_seq)")


@dataclass(frozen=True)
class _Text:
    """Where the text is and how it is cut: ``source`` is UTF-8, as a file or as bytes."""

    label: str
    source: Path | bytes
    separator: str
    quoted: bool
    skip: int  # empty lines before the first one
    headed: bool
    width: int

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and fields of each row that has a value, header included."""
        stream = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
        with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as lines:
            if self.quoted:
                reader = csv.reader(lines, delimiter=self.separator, strict=True)
            else:
                reader = csv.reader(lines, delimiter=self.separator, quoting=csv.QUOTE_NONE)
            line = 0
            try:
                for fields in reader:
                    if any(fields):
                        yield line + 1, fields
                    line = reader.line_num
            except csv.Error as error:
                raise DataError(
                    f"fields must be properly quoted, but {error}. Double a quote inside a quoted field.",
                    file=self.label,
                    line=line + 1,
                ) from None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Like :meth:`records`, without the header."""
        found = self.records()
        if self.headed:
            next(found)
        return found

    def line(self, row: int) -> int:
        """The 1-based line of a row."""
        return next(line for place, (line, _) in enumerate(self.rows()) if place == row)

    def load(self, positions: Sequence[int], names: Sequence[str]) -> pl.DataFrame:
        """These columns as text, null where empty."""
        source = io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        try:
            # all columns are looked at, so that a row that is too long is found; only these are kept
            frame = (
                pl.scan_csv(
                    source,
                    separator=self.separator,
                    quote_char='"' if self.quoted else None,
                    has_header=self.headed,
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
            return self._load_slowly(positions, names)
        empty = frame.drop_in_place("\x00empty")
        return frame.filter(~empty) if empty.any() else frame

    def _load_slowly(self, positions: Sequence[int], names: Sequence[str]) -> pl.DataFrame:
        raw = self.source if isinstance(self.source, bytes) else self.source.read_bytes()
        decode(raw, "utf-8", self.label)
        columns: list[list[str | None]] = [[] for _ in positions]
        for line, fields in self.rows():
            if len(fields) > self.width:
                raise DataError(
                    f"a row must have {self.width} columns, got {len(fields)}. "
                    "Quote fields that hold the separator, or name another separator with separator=.",
                    file=self.label,
                    line=line,
                )
            for column, place in zip(columns, positions):
                column.append((fields[place] or None) if place < len(fields) else None)
        return pl.DataFrame(dict(zip(names, columns)), schema=dict.fromkeys(names, pl.String))


def open_text(
    path: Path,
    label: str,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool | None = None,
    wanted: Collection[str] = (),
    plain: bool = False,
) -> Table:
    """Open a file of separated text; ``plain`` means no quotes, and Latin-1 where UTF-8 fails.

    Without ``header``, the first line is a header if it holds a common column name or one of ``wanted``,
    or if none of its fields is a number.
    """
    good = separator is None or _good_separator(separator)
    check(good, "separator", "text without quotes or line ends", separator)
    source = read_bytes(path, label, encoding, lenient=plain)
    first, skip = _first_line(source, label)
    cut = separator or find_separator(first)
    if len(cut) > 1 or cut == " ":
        source = _one_character(source if isinstance(source, bytes) else path.read_bytes(), cut, label)
        first, skip = _first_line(source, label)
    one = _STAND_IN if len(cut) > 1 else cut
    typed = all(_TYPED.fullmatch(field.strip()) for field in first.split(one))
    quoted = not (plain or typed or len(cut) > 1)
    fields = next(csv.reader([first], delimiter=one)) if quoted else first.split(one)
    fields = [field.strip() for field in fields]
    if len(fields) < 2:
        raise DataError(
            f"a row must have two columns or more, got one when cut at {cut!r}: {one_line(first)}. "
            f"Name the separator with separator={find_separator(first)!r} or another.",
            file=label,
            line=skip + 1,
        )
    if header is None:
        known = typed or any(is_common_name(field) or field in wanted for field in fields)
        header = known or not any(_is_number(field) for field in fields)
    kinds = dict(_split_typed(field) for field in fields) if typed and header else {}
    names = tuple(kinds) if len(kinds) == len(fields) else _names(fields, header)
    text = _Text(label, source, one, quoted, skip, header, len(fields))

    def load(chosen: Sequence[str]) -> pl.DataFrame:
        return text.load([names.index(name) for name in chosen], chosen)

    return Table(label, names, load, text.line, named=header, kinds=kinds)


def find_separator(line: str) -> str:
    """The separator of a line: ``::`` or a tab, else the most frequent of ``,;|``, else a space.

    >>> find_separator("user id;item id;rating"), find_separator("1::2::3"), find_separator("1 2 3")
    (';', '::', ' ')
    """
    bare = re.sub(r'"[^"]*"', "", line)
    for separator in SEPARATORS[:2]:
        if separator in bare:
            return separator
    best = max(SEPARATORS[2:5], key=bare.count)
    return best if best in bare else " " if " " in bare.strip() else ","


def _first_line(source: Path | bytes, label: str) -> tuple[str, int]:
    """The first line with something in it, and how many empty ones stand before it."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as lines:
        for skip, line in enumerate(lines):
            text = line.removeprefix(b"\xef\xbb\xbf") if skip == 0 else line
            if text.strip():
                try:
                    return text.decode().rstrip("\r\n"), skip
                except UnicodeDecodeError:  # say it again with the place in the whole file
                    decode(source if isinstance(source, bytes) else source.read_bytes(), "utf-8", label)
                    raise
    raise DataError("the file must hold a table, got an empty file.", file=label)


def _one_character(raw: bytes, separator: str, label: str) -> bytes:
    """The same text with a separator of one character and, for spaces, no runs of them."""
    if separator == " ":
        return re.sub(rb"(?m)^ +| +(?=\r?$)", b"", re.sub(rb"  +", b" ", raw))
    if _STAND_IN.encode() in raw:
        raise DataError(
            f"text cut at {separator!r} must not hold the control character 0x1f. Remove it.", file=label
        )
    return raw.replace(separator.encode(), _STAND_IN.encode())


def _good_separator(separator: object) -> bool:
    if not isinstance(separator, str) or not separator or set(separator) & set('"\r\n'):
        return False
    return len(separator) > 1 or separator.isascii()


def _split_typed(field: str) -> tuple[str, str]:
    name, _, kind = field.rpartition(":")
    return name, kind


def _names(fields: Sequence[str], header: bool) -> tuple[str, ...]:
    return tuple((field if header else "") or f"column_{i}" for i, field in enumerate(fields, start=1))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
