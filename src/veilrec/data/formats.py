"""Tables in all the formats that :func:`veilrec.read` knows, found by name and content.

| format | files |
|---|---|
| csv | separated text: comma, tab, semicolon, pipe, `::` or spaces, with or without header, gzip too |
| parquet | `.parquet`, `.pq` |
| movielens | `u.data` with `u.user`, `ratings.dat` with `users.dat`: no header, Latin-1 where UTF-8 fails |
| recbole | atomic files `.inter`, `.user`, `.net`, whose header is `name:type` |
| lightgcn | `train.txt` or `test.txt`: one line per user, `user item item ...` |
| mat | MATLAB up to v7, as Ciao and Epinions: `rating` and `trustnetwork` |
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from veilrec.core import DataError, check_choice
from veilrec.data.format_bytes import check_file, read_bytes
from veilrec.data.format_lightgcn import adjacency_lines
from veilrec.data.format_table import Table
from veilrec.data.format_text import open_text
from veilrec.data.frames import kind_of, to_polars
from veilrec.data.text_reading import ESCAPES

FORMATS = ("csv", "parquet", "movielens", "recbole", "lightgcn", "mat")
_TEXT = ("", ".csv", ".tsv", ".txt", ".tab", ".dat", ".data", ".base", ".test", ".rating", ".ratings")
_MOVIELENS = {
    "u.user": ("user", "age", "gender", "occupation", "zip"),
    "users.dat": ("user", "gender", "age", "occupation", "zip"),
}
_MATLAB = {
    "interactions": ("rating", "ratings"),
    "links": ("trustnetwork", "trust"),
}
_MATLAB_EVENTS = ("user", "item", "category", "rating", "helpfulness", "time")


def open_table(
    source: Any,
    what: str,
    *,
    format: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool | None = None,
    escape: str | None = None,
    wanted: Collection[str] = (),
) -> Table:
    """Open a path or a frame in memory; ``what`` is "interactions", "users" or "links".

    >>> open_table(pl.DataFrame({"user": [1], "item": [2]}), "interactions").names
    ('user', 'item')
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    if escape is not None:
        check_choice("escape", escape, ESCAPES)
    if kind_of(source) is not None:
        frame = to_polars(source)
        return Table(f"{what} frame", tuple(frame.columns), frame.select, in_file=False)
    path, label = check_file(source), str(source)
    found = format or find_format(path)
    if found == "parquet":
        return _open_parquet(path, label)
    if found == "mat":
        return _open_matlab(path, label, what)
    if found == "lightgcn":
        pairs, lines = adjacency_lines(path, label, encoding)
        where = pairs["line"]
        return Table(label, ("user", "item"), pairs.select, lambda row: int(where[row]), lines=lambda: lines)
    known = found in ("movielens", "recbole")
    if header is None and known:
        header = found == "recbole"
    table = open_text(
        path,
        label,
        separator=separator,
        encoding=encoding,
        header=header,
        escape="none" if known and escape is None else escape,
        wanted=wanted,
        lenient=known or _bare(path).suffix == ".dat",
    )
    if found == "recbole" and not table.kinds:
        raise DataError(
            f"a RecBole header must be like 'user_id:token', got the columns {table.listing()}. "
            'Say format="csv" for other headers.',
            file=label,
            line=1,
        )
    return _movielens_people(table, _bare(path).name) if what == "users" else table


def find_format(path: Path) -> str:
    """The format of a file, by its first bytes and its name.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "u.data"
    >>> _ = file.write_text("1\\t2\\t3\\t4\\n")
    >>> find_format(file)
    'movielens'
    """
    with path.open("rb") as handle:
        magic = handle.read(6)
    name = _bare(path)
    if magic[:4] == b"PAR1" or name.suffix in (".parquet", ".pq"):
        return "parquet"
    if magic == b"MATLAB" or name.suffix == ".mat":
        return "mat"
    if name.name in ("u.data", "u.user"):
        return "movielens"
    if name.suffix in (".inter", ".user", ".net"):
        return "recbole"
    if name.name in ("train.txt", "test.txt") and _whole_numbers(path):
        return "lightgcn"
    if name.suffix in _TEXT:
        return "csv"
    known = ", ".join(suffix for suffix in (*_TEXT[1:], ".parquet", ".inter", ".mat"))
    raise DataError(
        f"the file must be of a known kind ({known}, all text also as .gz), got {name.suffix!r}. "
        'If it is separated text, say format="csv"; else save it as CSV or Parquet.',
        file=path,
    )


def siblings(path: Path) -> dict[str, Path]:
    """The RecBole files beside ``name.inter`` that exist: ``name.user`` (users) and ``name.net`` (links)."""
    name = _bare(path)
    if name.suffix != ".inter":
        return {}
    stem = path.name[: -len(".inter.gz" if path.suffix.lower() == ".gz" else ".inter")]
    found: dict[str, Path] = {}
    for what, suffix in (("users", ".user"), ("links", ".net")):
        for end in ("", ".gz"):
            beside = path.with_name(stem + suffix + end)
            if beside.is_file():
                found.setdefault(what, beside)
    return found


def _bare(path: Path) -> Path:
    """The name in lower case and without `.gz`."""
    name = Path(path.name.lower())
    return name.with_suffix("") if name.suffix == ".gz" else name


def _whole_numbers(path: Path) -> bool:
    source, _ = read_bytes(path, str(path), "utf-8")
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as handle:
        start = handle.read(100_000)
    fields = start.lstrip().split(b"\n")[0].split(b" ")
    return len(fields) > 1 and all(field.strip().isdigit() for field in fields if field.strip())


def _movielens_people(table: Table, name: str) -> Table:
    """Names for the columns of MovieLens user files, which have no header."""
    known = _MOVIELENS.get(name, ())
    if table.named or len(known) != len(table.names):
        return table
    places = dict(zip(known, table.names))

    def load(names: Sequence[str]) -> pl.DataFrame:
        return table.load([places[name] for name in names]).rename({places[name]: name for name in names})

    return replace(table, names=known, load=load, named=True)


def _open_parquet(path: Path, label: str) -> Table:
    lazy = pl.scan_parquet(path, glob=False)

    def load(names: Sequence[str]) -> pl.DataFrame:
        try:
            return lazy.select(names).collect()
        except pl.exceptions.PolarsError as error:
            raise _broken(label, "Parquet", error) from None

    try:
        names = tuple(lazy.collect_schema().names())
    except pl.exceptions.PolarsError as error:
        raise _broken(label, "Parquet", error) from None
    return Table(label, names, load)


def _open_matlab(path: Path, label: str, what: str) -> Table:
    from scipy.io import loadmat

    try:
        variables = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
    except NotImplementedError:
        message = "the file must be MATLAB v7 or older, got v7.3. Save it with -v7."
        raise DataError(message, file=label) from None
    except Exception as error:  # scipy lets through whatever broken bytes lead to
        raise _broken(label, "MATLAB", error) from None
    tables = {name: value for name, value in variables.items() if getattr(value, "ndim", 0) == 2}
    name = next((name for name in _MATLAB.get(what, ()) if name in tables), None)
    if name is None and len(tables) == 1:
        name = next(iter(tables))
    width = tables[name].shape[1] if name is not None else 0
    names = _MATLAB_EVENTS[:width] if width != 3 else ("user", "item", "rating")
    if what == "links":
        names = ("source", "target", *(f"column_{i}" for i in range(3, width + 1)))
    if name is None or what == "users" or len(names) != width or width < 2:
        shapes = ", ".join(f"{key} {'x'.join(map(str, value.shape))}" for key, value in tables.items())
        raise DataError(
            f"a MATLAB file must hold the matrix 'rating' (2 to 6 columns) or 'trustnetwork' (2 or more), "
            f"got {shapes or 'no matrix'} for the {what}. Save the table as CSV instead.",
            file=label,
        )
    frame = pl.DataFrame({column: tables[name][:, i] for i, column in enumerate(names)})
    return Table(label, names, frame.select)


def _broken(label: str, kind: str, error: Exception) -> DataError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return DataError(f"the file must be whole {kind}, but {reason}. Fetch or save it again.", file=label)
