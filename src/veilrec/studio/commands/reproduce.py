"""`veilrec reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilrec.studio.commands.base import (
    DataDir,
    Json,
    Quiet,
    check_target,
    console,
    emit,
    say,
    silent,
    words_of,
)


def reproduce(
    table: Annotated[str, typer.Argument(help="A table of a paper; a wrong name lists them.")],
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="How many seeds; else what its data sets have: 5, 3 or 1.", min=1),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="Only these rows: labels, semicolons between.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Only these of its data sets, by comma.", metavar="NAME,...")
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Keeps the cells, so that a stopped table goes on.")
    ] = Path("runs/reproduce"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """A paper's table beside ours: record, page and plot. What was computed before is not computed again."""
    from veilrec.core import write_json
    from veilrec.experiments import command_line, write_table
    from veilrec.experiments import reproduce as run

    check_target("--out", out, folder=True)
    loud = not (quiet or as_json)
    chosen = None if rows is None else tuple(rows.split(";"))
    record = run(
        table,
        out,
        seeds=seeds,
        data=None if data is None else words_of(data),
        data_dir=data_dir,
        rows=chosen,
        progress=loud,
        command=command_line(),
    )
    write_json(out / f"{table}.json", record)
    note = say if loud else silent
    for path in write_table(record, out):
        note(f"wrote {path}")
    if as_json:
        emit(record)
        return
    from veilrec.studio.terminal import show_reproduced

    show_reproduced(console(), record, out / f"{table}.md")
