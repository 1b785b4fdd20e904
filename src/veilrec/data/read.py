"""Users' own tables in, a checked :class:`Dataset` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from veilrec.core import bar, check, check_choice
from veilrec.data.columns import find_roles, marks, ratings, seconds
from veilrec.data.dataset import Attribute, Dataset
from veilrec.data.format_table import Table
from veilrec.data.formats import open_table, siblings
from veilrec.data.frames import kind_of
from veilrec.data.order import stable_order
from veilrec.data.read_ids import given_rows, warn_alike
from veilrec.data.read_pairs import POLICIES, Columns, settle_pairs
from veilrec.data.read_report import ReadReport
from veilrec.data.read_users import read_links, read_users


def read(
    source: Any,
    *,
    users: Any = None,
    links: Any = None,
    format: str | None = None,
    user: str | None = None,
    item: str | None = None,
    rating: str | Literal[False] | None = None,
    time: str | Literal[False] | None = None,
    sensitive: str | Literal[False] | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool | None = None,
    escape: str | None = None,
    rating_range: tuple[float, float] | None = None,
    duplicates: str = "last",
    unknown_users: str = "error",
    missing: str = "error",
    numeric_ranges: Mapping[str, tuple[float, float]] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table of interactions and, if there are, a table of users and one of links.

    Args:
        source: a path (the formats stand in :mod:`veilrec.data.formats`), or a pandas, Polars or Arrow frame.
        users: path or frame with one row per user; every column but the id becomes an attribute. For a
            RecBole ``name.inter``, ``name.user`` beside it is taken; False leaves it out.
        links: path or frame with directed links; two columns (source and target) count, others do not. For
            a RecBole ``name.inter``, ``name.net`` beside it is taken; False leaves it out.
        format: the format of ``source``, where name and content do not tell.
        user, item, rating, time, sensitive: names of columns, where they are not common ones
            (:data:`veilrec.data.columns.COMMON`). False leaves an optional column out. Without a header,
            columns are called column_1, column_2, ... and are user, item, rating, time in this order.
        separator, header: how ``source`` is cut, and whether its first line is a header; found by looking.
        encoding: of all text files that are named.
        escape: what quotes and backslashes mean in all text files: "double", "backslash", "backslash-quote",
            "backslash-plain" or "none" (:mod:`veilrec.data.text_reading`). None finds it; a file that can
            be read in two ways is refused.
        rating_range: the declared public range of ratings; a rating outside is an error.
        duplicates: what happens to rows with the same user and item: "last" or "first" (by time, or by the
            order of rows), "mean", "error", or "keep" for data such as purchases, where repeats are events.
        unknown_users: "error" or "drop", for rows of ``users`` and ``links`` whose user has no interactions.
        missing: "error" or "drop", for rows without a user, item, rating or time. In text, an id NULL or NA
            without quotes is missing too.
        numeric_ranges: the declared public range of each numeric attribute; a value outside is an error.
        categories: the declared values of categorical attributes, in this order.
        name: what the data set is called; the file's name by default.

    Times become UTC seconds (:func:`veilrec.data.columns.seconds` says how they are recognised). Bad input
    raises a DataError that names file and line; what can be used but is odd gives a DataWarning. The
    ``provenance`` of the data set says what became of every line and row.

    >>> import polars as pl
    >>> events = pl.DataFrame({"Customer": ["ann", "bob"], "SKU": ["007", "7"], "Stars": [5, 3]})
    >>> people = pl.DataFrame({"customer": ["ann", "bob"], "age": [31, 47]})
    >>> read(events, users=people, numeric_ranges={"age": (0, 120)})
    Dataset 'data': 2 interactions of 2 users with 2 items with rating, age
    """
    check_choice("duplicates", duplicates, POLICIES)
    check_choice("unknown_users", unknown_users, ("error", "drop"))
    check_choice("missing", missing, ("error", "drop"))
    declared = None if rating_range is None else _range(rating_range)
    given = {"user": user, "item": item, "rating": rating, "time": time, "sensitive": sensitive}
    table = open_table(
        source,
        "interactions",
        format=format,
        separator=separator,
        encoding=encoding,
        header=header,
        escape=escape,
        wanted=[value for value in given.values() if isinstance(value, str)],
    )
    beside = siblings(Path(table.label)) if table.in_file else {}
    roles = find_roles(table, given)
    if duplicates == "mean" and "rating" not in roles:
        raise ValueError("duplicates must be 'last', 'first', 'error' or 'keep' without ratings, got 'mean'.")

    with bar(f"reading {table.label}", total=5) as ticker:
        frame = table.rows(list(roles.values()))
        series = {role: frame[column] for role, column in roles.items()}
        rows = frame.height
        del frame  # each text column goes as soon as it is read
        ticker.advance(note="ids")
        coding, kept, dropped, origin = given_rows(table, series, missing)
        ticker.advance(note="values")
        columns: Columns = {role: codes for role, (codes, _) in coding.items()}
        vocabulary = {role: ids for role, (_, ids) in coding.items()}
        for role in ("user", "item"):
            warn_alike(vocabulary[role], role, table)
        table = replace(table, kept=kept)
        if "rating" in roles:
            columns["rating"] = ratings(table, series.pop("rating"), declared)
        if "time" in roles:
            columns["time"] = seconds(table, series.pop("time"))
        if "sensitive" in roles:
            columns["sensitive"] = marks(table, series.pop("sensitive"))
        ticker.advance(note="pairs")
        whole = len(columns["user"])
        columns = settle_pairs(columns, vocabulary["user"], vocabulary["item"], duplicates, table)
        ticker.advance(note="order")
        columns = _in_order(columns)
        ticker.advance()
    left = len(columns["user"])
    dropped["repeated pair"] = whole - left
    reports = [ReadReport.of("interactions", table, rows, dropped, left)]

    others: dict[str, Any] = {"user": roles["user"], "unknown_users": unknown_users, "missing": missing}
    people = _open_beside(users, "users", beside, encoding, escape)
    attributes: dict[str, Attribute] = {}
    if people is not None:
        declarations: dict[str, Any] = {
            "numeric_ranges": numeric_ranges or {},
            "categories": categories or {},
        }
        attributes, report = read_users(people, vocabulary["user"], **others, **declarations)
        reports.append(report)
    else:
        for label, declaration in (("numeric_ranges", numeric_ranges), ("categories", categories)):
            check(not declaration, label, "given together with a table of users", declaration)
    ties = _open_beside(links, "links", beside, encoding, escape)
    linked = None
    if ties is not None:
        linked, report = read_links(ties, vocabulary["user"], **others)
        reports.append(report)
    return Dataset(
        user=columns["user"],
        item=columns["item"],
        users=vocabulary["user"],
        items=vocabulary["item"],
        rating=columns.get("rating"),
        time=columns.get("time"),
        sensitive=columns.get("sensitive"),
        attributes=attributes,
        links=linked,
        rating_range=declared,
        name=name or _default_name(table),
        frame_kind=kind_of(source) or "polars",
        origin=origin,
    ).read_from(*reports)


def _in_order(columns: Columns) -> Columns:
    """Sorted by user, then time, then the order given."""
    order = stable_order(*(columns[role] for role in ("user", "time") if role in columns))
    if bool((order[1:] > order[:-1]).all()):
        return columns
    return {role: column[order] for role, column in columns.items()}


def _open_beside(
    source: Any, what: str, beside: Mapping[str, Path], encoding: str, escape: str | None
) -> Table | None:
    if source is None:
        source = beside.get(what)
    if source is None or source is False:
        return None
    return open_table(source, what, encoding=encoding, escape=escape)


def _range(declared: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in declared)
    except (TypeError, ValueError):
        low = high = np.nan
    good = low < high and bool(np.isfinite([low, high]).all())
    check(good, "rating_range", "a pair (low, high) of numbers with low below high", declared)
    return low, high


def _default_name(table: Table) -> str:
    if not table.in_file:
        return "data"
    file = Path(table.label)
    bare = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    return bare.stem or "data"
