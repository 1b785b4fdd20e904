"""Any table that another program wrote comes back exactly, or is refused: never anything between.

R and MySQL are not here; what they do is written down from their manuals: R doubles quotes or puts a
backslash before them and leaves backslashes alone, MySQL puts one before everything that has a meaning.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from veilrec.core import DataError, DataWarning
from veilrec.data.read import read

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Written:
    """A file: its text, what names it to the reader, whether the ids it was given can be read back at all."""

    text: str
    escape: str
    header: bool = True
    lossy: bool = False  # neither quotes nor escapes
    options: dict[str, Any] = field(default_factory=dict)


def by_csv(names: list[str], rows: list[Row], separator: str, end: str, draw: Callable[..., Any]) -> Written:
    """Python's csv module."""
    quoting = draw([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, csv.QUOTE_NONE])
    escape = draw([None, "\\"])
    options: dict[str, Any] = {"quoting": quoting, "escapechar": escape, "doublequote": draw([True, False])}
    if quoting == csv.QUOTE_NONE and draw([True, False]):
        options["quotechar"] = None
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=end, **options)
    writer.writerows([names, *rows])
    bare = options.get("quotechar", "") is None
    name = ("backslash-plain" if bare else "backslash") if escape else "none" if bare else "double"
    return Written(out.getvalue(), name, lossy=bare and not escape, options=options)


def by_pandas(
    names: list[str], rows: list[Row], separator: str, end: str, draw: Callable[..., Any]
) -> Written:
    """pandas, with and without its index."""
    quoting = draw([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, csv.QUOTE_NONE])
    escape = draw([None, "\\"])
    options = {"quoting": quoting, "escapechar": escape, "doublequote": draw([True, False])}
    frame = pd.DataFrame(rows, columns=names)
    text = frame.to_csv(sep=separator, lineterminator=end, index=draw([separator != " ", False]), **options)
    return Written(text, "backslash" if escape else "double", options=options)


def by_polars(
    names: list[str], rows: list[Row], separator: str, end: str, draw: Callable[..., Any]
) -> Written:
    """Polars."""
    style = draw(["necessary", "always", "non_numeric", "never"])
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    text = frame.write_csv(separator=separator, line_terminator=end, quote_style=style)
    never = style == "never"
    return Written(text, "none" if never else "double", lossy=never, options={"style": style})


def by_r(names: list[str], rows: list[Row], separator: str, end: str, draw: Callable[..., Any]) -> Written:
    """R's write.table and write.csv."""
    quote, method, row_names = draw([True, False]), draw(["escape", "double"]), draw([None, True, "NA"])

    def cell(value: Any) -> str:
        if value is None:
            return "NA"
        if not isinstance(value, str) or not quote:
            return str(value)
        return '"' + value.replace('"', '\\"' if method == "escape" else '""') + '"'

    head = [*([""] if row_names == "NA" else []), *names]
    table = [[cell(name) for name in head]]
    for number, row in enumerate(rows, start=1):
        table.append([cell(value) for value in ([str(number), *row] if row_names else row)])
    text = "".join(separator.join(line) + end for line in table)
    name = "none" if not quote else "backslash-quote" if method == "escape" else "double"
    return Written(text, name, lossy=not quote, options={"method": method, "row_names": row_names})


def by_mysql(
    names: list[str], rows: list[Row], separator: str, end: str, draw: Callable[..., Any]
) -> Written:
    """MySQL's INTO OUTFILE and mysqldump --tab: no header."""
    enclosed, escaped = draw(["", "all", "optionally"]), draw([True, True, False])

    def cell(value: Any) -> str:
        if value is None:
            return "\\N" if escaped else "NULL"
        text = str(value)
        inside = enclosed == "all" or (enclosed == "optionally" and isinstance(value, str))
        if escaped:
            special = {"\\", end[0], '"' if inside else separator}
            text = "".join("\\" + c if c in special else "\\0" if c == "\0" else c for c in text)
        elif inside:
            text = text.replace('"', '""')
        return f'"{text}"' if inside else text

    text = "".join(separator.join(cell(value) for value in row) + end for row in rows)
    name = ("backslash" if enclosed else "backslash-plain") if escaped else "double" if enclosed else "none"
    return Written(
        text, name, header=False, lossy=not enclosed and not escaped, options={"enclosed": enclosed}
    )


WRITERS = (by_csv, by_pandas, by_polars, by_r, by_mysql)


EXAMPLES = int(os.environ.get("EX", "500"))
ODD = [
    *("NULL", "NA", "\\N", '"', '""', '"a"', '"a,b"', '"a""b"', "a\\", "\\", "\\\\", '\\"', '\\",\\"', '","'),
    *(
        "a\n,b",
        '12" disc',
        "x\r",
        "\r\n",
        "\ufeff",
        " a",
        "a ",
        "#a",
        "'a'",
        "a::b",
        "007",
        "1",
        "&amp;",
        "é",
    ),
    *("\\n", "C:\\new", "a\\,b", '"a\\"', "\\0", "a\\\n", '"\\""', '\\\\"', '""a""', ' "a"', '"a" '),
]
PIECES = st.sampled_from(
    ["a", "b", "1", ",", ";", "\t", "|", " ", '"', "\\", "\n", "\r", "N", "0", "é", "\ufeff"]
)
IDS = st.one_of(
    st.lists(PIECES, min_size=1, max_size=5).map("".join),
    st.sampled_from(ODD),
    st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=6),
    st.integers(0, 999).map(str),
)
PLAIN = st.text(
    st.characters(categories=("L", "N"), include_characters='"\\,;\t| .:-'), min_size=1, max_size=8
)
quick = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)


@st.composite
def tables(draw: Any, ids: st.SearchStrategy[Any]) -> tuple[list[str], list[Row]]:
    """Names and rows: user, item and, in some, a rating and a note that nobody asked for."""
    extra = [
        name for name, there in (("rating", draw(st.booleans())), ("note", draw(st.booleans()))) if there
    ]
    kinds = {"rating": st.integers(1, 5), "note": IDS}
    row = st.tuples(ids, ids, *(kinds[name] for name in extra))
    return ["user", "item", *extra], draw(
        st.lists(row, min_size=1, max_size=draw(st.sampled_from([1, 3, 12])))
    )


def written(data: st.DataObject, table: tuple[list[str], list[Row]]) -> Written:
    """The table in a way that is drawn; ways in which a program refuses to write it are skipped."""
    writer = data.draw(st.sampled_from(WRITERS))
    separator = data.draw(st.sampled_from([",", ";", "\t", "|", " "]))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    try:
        found = writer(*table, separator, end, lambda choices: data.draw(st.sampled_from(choices)))
    except csv.Error:
        assume(False)
    texts = [value for row in table[1] for value in row if isinstance(value, str)]
    if found.lossy:  # who neither quotes nor escapes cannot write these
        assume(not any(mark in text for text in texts for mark in (separator, "\n", "\r")))
    if not found.header:  # without names, nothing but such a row tells one reading from the other
        assume(not all(text[0] == text[-1] == '"' for text in texts))
        assume(not all(isinstance(row[-1], str) and row[-1].endswith("\r") for row in table[1]))
        assume(not texts[0].startswith("\ufeff"))
    found.options["separator"] = separator
    return found


def put(folder: Path, found: Written, encoding: str) -> Path:
    path = folder / "t.csv"
    path.write_bytes(found.text.encode(encoding))
    return path


def rows_of(path: Path, **arguments: Any) -> list[tuple[str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        data = read(path, duplicates="keep", rating=False, time=False, **arguments)
    report = data.provenance[0]
    assert report.kept == len(data) == report.rows - sum(report.dropped.values())
    return sorted((str(user), str(item)) for user, item in data.frame().rows())


@quick
@given(data=st.data(), table=tables(IDS))
def test_any_table_comes_back_exactly_or_is_refused(
    tmp_path: Path, data: st.DataObject, table: tuple[list[str], list[Row]]
) -> None:
    found = written(data, table)
    path = put(tmp_path, found, data.draw(st.sampled_from(["utf-8", "utf-8-sig"])))
    arguments: dict[str, Any] = {}
    if not found.header:
        arguments["header"] = False
    bare = found.options["separator"] == " " and not found.header  # a space is the last that is thought of
    if bare or data.draw(st.booleans()):
        arguments["separator"] = found.options["separator"]
    try:
        back = rows_of(path, **arguments)
    except DataError:
        return
    assert back == sorted((user, item) for user, item, *_ in table[1]), found


@quick
@given(data=st.data(), table=tables(PLAIN))
def test_any_table_of_one_line_ids_comes_back_when_its_escape_is_named(
    tmp_path: Path, data: st.DataObject, table: tuple[list[str], list[Row]]
) -> None:
    """The other half: without line ends and missing values there is nothing to refuse, but for rare cases."""
    names, rows = table[0][:2], [row[:2] for row in table[1]]
    assume(all(text.strip() and text not in ("NULL", "NA") for row in rows for text in row))
    found = written(data, (names, rows))
    if found.options.get("row_names") is True:
        return  # a row is longer than the names: refused
    if found.escape == "backslash-quote":  # R leaves backslashes alone: not even R can read these
        assume(not any("\\" in text for row in rows for text in row))
    if found.options["separator"] == " " and found.lossy:
        return
    if found.options.get("escapechar") is None and found.options.get("quoting") == csv.QUOTE_NONE:
        assume(found.lossy)
    path = put(tmp_path, found, "utf-8")
    arguments = {"separator": found.options["separator"], "header": found.header, "escape": found.escape}
    assert rows_of(path, **arguments) == sorted(rows), found


@quick
@given(data=st.data(), table=tables(st.one_of(st.none(), PLAIN)))
def test_only_rows_without_ids_are_dropped(
    tmp_path: Path, data: st.DataObject, table: tuple[list[str], list[Row]]
) -> None:
    rows = [row for row in table[1] if None not in row[:2]]
    assume(rows)
    assume(not any(text.strip() in ("NULL", "NA", '""', "") for row in rows for text in row[:2]))
    try:
        found = written(data, table)
    except (IndexError, TypeError):
        assume(False)
    path = put(tmp_path, found, "utf-8")
    try:
        back = rows_of(path, missing="drop", separator=found.options["separator"], header=found.header)
    except DataError:
        return
    assert back == sorted((user, item) for user, item, *_ in rows), found


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_encodings_come_back_when_named(tmp_path: Path, encoding: str) -> None:
    text = 'user;item\n"Zoë";"naïve; \xe9"\n"Zoë";"plain"\n'
    path = put(tmp_path, Written(text, "double"), encoding)
    assert rows_of(path, encoding=encoding) == [("Zoë", "naïve; é"), ("Zoë", "plain")]
