"""Separated text (CSV, TSV, `::`, ...), plain or gzip, read as text so that the id "007" stays "007"."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from veilrec.core import DataError, check
from veilrec.data.columns import is_common_name
from veilrec.data.format_bytes import decode, read_bytes, unmarked
from veilrec.data.format_table import Lines, Table, one_line
from veilrec.data.text_reading import ESCAPES, Walk
from veilrec.data.text_source import Text

SEPARATORS = ("::", "\t", ",", ";", "|", " ")
NULL_WORDS = ("NULL", "NA")
_TYPED = re.compile(r"(.+):(token|token_seq|float|float_seq)")


def open_text(
    path: Path,
    label: str,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool | None = None,
    escape: str | None = None,
    wanted: Collection[str] = (),
    lenient: bool = False,
) -> Table:
    """Open a file of separated text; ``lenient`` takes it for Latin-1 where UTF-8 fails.

    Without ``header``, the first line is a header if it holds a common column name or one of ``wanted``,
    or if none of its fields is a number. Without ``escape``, the one reading that fits the file is found.
    """
    good = separator is None or _good_separator(separator)
    check(good, "separator", "text without quotes, backslashes or line ends", separator)
    source, encoding = read_bytes(path, label, encoding, lenient=lenient)
    first, skip = _first_line(source, label)
    cut = separator or find_separator(first)
    typed = all(_TYPED.fullmatch(field.strip()) for field in first.split(cut))
    if escape is None and (typed or (lenient and cut == "::")):
        escape = "none"
    text = Text(label, source, encoding, cut, escape, skip)
    fields = first.split(cut) if text.simple else text.walks[0].header()
    fields = [field.strip() for field in fields]
    if len(fields) < 2:
        other = find_separator(first)
        raise DataError(
            f"a row must have two columns or more, got one when cut at {cut!r}: {one_line(first)}. "
            f"Name the separator with separator={other!r} (--separator {other!r}) or another.",
            file=label,
            line=skip + 1,
        )
    if header is None:
        known = typed or any(is_common_name(field) or field in wanted for field in fields)
        header = known or not any(_is_number(field) for field in fields)
    if header and any("\r" in field or "\n" in field for field in fields):
        raise DataError(
            "a column name must be of one line, and lines must end in LF or CR LF, got a line end in a name. "
            "Convert the file's line ends, or correct its header.",
            file=label,
            line=skip + 1,
        )
    if separator is None and not header:
        _check_one_separator(text, first)
    kinds = dict(_split_typed(field) for field in fields) if typed and header else {}
    names = tuple(kinds) if len(kinds) == len(fields) else _names(fields, header)
    headed, width = header, len(fields)

    def load(chosen: Sequence[str]) -> pl.DataFrame:
        return text.load([names.index(name) for name in chosen], chosen, headed, width)

    def line(row: int) -> int:
        return text.line(row, headed)

    def lines() -> Lines:
        return text.lines(headed)

    words = NULL_WORDS if text.simple and escape is None else ()
    return Table(label, names, load, line, named=header, kinds=kinds, lines=lines, null_words=words)


def find_separator(line: str) -> str:
    """The separator of a line: ``::`` or a tab, else the most frequent of ``,;|``, else a space.

    >>> find_separator("user id;item id;rating"), find_separator("1::2::3"), find_separator("1 2 3")
    (';', '::', ' ')
    """
    bare = re.sub(r'"[^"]*"', "q", line)
    for separator in SEPARATORS[:2]:
        if separator in bare:
            return separator
    best = max(SEPARATORS[2:5], key=bare.count)
    return best if best in bare else " " if " " in bare.strip() else ","


def _check_one_separator(text: Text, first: str) -> None:
    """Without names, nothing tells a separator from a character of an id but that it fits the whole file."""
    for other in SEPARATORS[:5]:
        if other == text.separator or other not in first:
            continue
        walks = (Walk.over(text.raw, other, name) for name in ESCAPES)
        if any(walk.fault is None and walk.width > 1 for walk in walks):
            raise DataError(
                f"a file without a header must have one separator, got {text.separator!r} and {other!r}, "
                "which both fit. Name the right one with separator= (--separator).",
                file=text.label,
                line=text.skip + 1,
            )


def _first_line(source: Path | bytes, label: str) -> tuple[str, int]:
    """The first line with something in it, and how many empty ones stand before it."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as lines:
        for skip, line in enumerate(lines):
            text = unmarked(line, label) if skip == 0 else line
            if text.strip():
                try:
                    return text.decode().rstrip("\r\n"), skip
                except UnicodeDecodeError:  # say it again with the place in the whole file
                    decode(source if isinstance(source, bytes) else source.read_bytes(), "utf-8", label)
                    raise
    raise DataError("the file must hold a table, got an empty file.", file=label)


def _good_separator(separator: object) -> bool:
    if not isinstance(separator, str) or not separator or set(separator) & set('"\\\r\n'):
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
