"""Text files as UTF-8 bytes: there, whole, unpacked and decoded, or a clear error."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from pathlib import Path

from veilrec.core import DataError, check, warn

_UTF8 = ("utf-8", "utf-8-sig")
_MARKED = ("utf-16", "utf-32")  # their codecs take a mark away
BOM = b"\xef\xbb\xbf"
_NO_LATIN_1 = re.compile(rb"[\x80-\x9f]")  # control characters there, letters and signs in cp1252


def check_file(path: object) -> Path:
    """The path, if it names a file that is there and not empty."""
    good = isinstance(path, str | os.PathLike) and str(path) != ""
    check(good, "source", "a path, or a pandas, Polars or Arrow frame", path)
    file = Path(str(path)).expanduser()
    if file.is_dir():
        raise DataError("a file must be named, got a folder. Name the file inside it.", file=str(path))
    if not file.exists():
        raise DataError("the file does not exist. Check the path.", file=str(path))
    try:
        with file.open("rb") as handle:
            empty = not handle.read(1)
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}.", file=str(path)) from None
    if empty:
        raise DataError("the file must hold a table, got an empty file.", file=str(path))
    return file


def read_bytes(path: Path, label: str, encoding: str, *, lenient: bool = False) -> tuple[Path | bytes, str]:
    """The text as UTF-8 bytes, or the path itself when the file already is plain UTF-8; and what it was.

    ``lenient`` takes text that is no UTF-8 for Latin-1, unless it holds bytes that are no letters there.
    """
    try:
        codec = codecs.lookup(encoding).name
    except LookupError:
        raise ValueError(f"encoding must be one that Python knows, got {encoding!r}.") from None
    with path.open("rb") as handle:
        zipped = handle.read(2) == b"\x1f\x8b"
    if path.suffix.lower() == ".gz" or zipped:
        try:
            raw = gzip.decompress(path.read_bytes())
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            message = f"the file must be whole gzip, but {error}. Fetch it again."
            raise DataError(message, file=label) from None
        if not raw:
            raise DataError("the file must hold a table, got an empty file.", file=label)
    elif codec in _UTF8 and not lenient:
        return path, "utf-8"
    else:
        raw = path.read_bytes()
    if codec in _UTF8:
        if lenient and not _is_utf8(raw) and not _NO_LATIN_1.search(raw):
            return raw.decode("latin-1").encode(), "latin-1"
        if lenient:
            decode(raw, "utf-8", label)
        return raw, "utf-8"
    text = decode(raw, encoding, label)
    body = unmarked(text.encode(), label, marked=codec in _MARKED)
    if len(text) == len(raw) and not raw.isascii() and _is_utf8(raw):
        warn(
            f"{label}: the file is called {encoding} but reads as utf-8 too, and then names come out wrong. "
            "Leave the encoding out if it is."
        )
    return body, encoding


def unmarked(text: bytes, label: str, *, marked: bool = False) -> bytes:
    """UTF-8 text without the mark at its beginning: there may be one. ``marked``: it is gone already.

    >>> unmarked(BOM + b"user,item", "t.csv")
    b'user,item'
    """
    body = text if marked else text.removeprefix(BOM)
    if body.startswith(BOM):
        raise DataError(
            "a file must begin with one byte order mark at most, got two. Remove one: it would become a part "
            "of the first name or id.",
            file=label,
            line=1,
        )
    return body


def decode(raw: bytes, encoding: str, label: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        other = "cp1252" if _NO_LATIN_1.search(raw) else "latin-1"
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            other = "utf-16"
        raise DataError(
            f"text must be {encoding}, got byte 0x{raw[error.start]:02x} at offset {error.start}. "
            f'Name the encoding, for instance encoding="{other}" (--encoding {other}).',
            file=label,
            line=raw.count(b"\n", 0, error.start) + 1,
        ) from None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
