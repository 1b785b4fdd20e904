"""`veilrec demo | models | fit | recommend | evaluate | report`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from veilrec.studio.commands.base import (
    Config,
    Data,
    DataDir,
    Device,
    Json,
    Lengths,
    Out,
    Protocol,
    Quiet,
    Set,
    check_target,
    console,
    emit,
    numbers_of,
    say,
    short_name,
    text_of,
    words_of,
)
from veilrec.studio.commands.budget import Booked, LedgerFile, NewPopulation


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("veilrec-demo"),
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Train, compare and recommend on embedded data in under a minute, and write a page."""
    from veilrec.privacy import Ledger
    from veilrec.studio.demo import run_demo

    result = run_demo(out, console=None if as_json else console(), ledger=Ledger(ledger))
    if as_json:
        emit(result)


def models(as_json: Json = False) -> None:
    """What can be fitted: the word, what it protects from whom, and one line about it."""
    from veilrec.systems import SYSTEMS

    rows = [
        {"model": word, "protects": getattr(system, "protects", "nothing"), "summary": system.summary}
        for word, system in SYSTEMS.items()
    ]
    if as_json:
        emit([row | {"settings": _defaults(SYSTEMS[row["model"]])} for row in rows])
        return
    from veilrec.studio.terminal import show_table

    show_table(console(), ("model", "protects", "what it is"), (row.values() for row in rows))


def _defaults(system: Callable[[], Any]) -> dict[str, Any]:
    settings: dict[str, Any] = system().settings()
    return settings


def fit(
    model: Annotated[str | None, typer.Argument(help="The word of a model; see `veilrec models`.")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    out: Out = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Drives split, start and sampling.")] = None,
    research: Annotated[
        bool,
        typer.Option("--research", help="Seeded noise, repeatable, spends no budget; never publish with it."),
    ] = False,
    ledger: LedgerFile = None,
    population: Booked = None,
    new_population: NewPopulation = False,
    device: Device = None,
    config: Config = None,
    overrides: Set = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run of another experiment.")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", help="Sign the model with this secret key (veilrec keys new).", metavar="KEY"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a model and save it with its statement, record and log; a stopped run goes on."""
    from veilrec.experiments import command_line, fit_run, load_config, read_record
    from veilrec.privacy import Ledger
    from veilrec.systems import SYSTEMS

    flags: dict[str, Any] = {"model": model, "data": data, "data.dir": text_of(data_dir), "seed": seed}
    flags |= {"device": device, "out": text_of(out), "secure": False if research else None}
    spec = load_config(config, overrides or [], flags=flags)
    folder = Path(spec.out or f"runs/{spec.model}-{short_name(spec.data.source)}")
    check_target("out", folder, folder=True)
    done = (folder / "record.json").exists() and not overwrite
    spends = spec.secure and SYSTEMS[spec.model].is_private()
    fit_run(
        spec,
        folder,
        overwrite=overwrite,
        progress=not (quiet or as_json),
        command=command_line(),
        ledger=Ledger(ledger) if spends else None,
        population=population,
        new_population=new_population,
        sign=sign,
    )
    record = read_record(folder)
    if done and not quiet:
        say(f"{folder} is finished already; nothing was done. --overwrite runs it again.")
    if as_json:
        emit(record)
        return
    from rich.text import Text

    from veilrec.studio.terminal import show_evaluation

    screen = console()
    show_evaluation(screen, record["name"], record["evaluation"])
    screen.print(Text(f"\n{record['statement']}\n"), soft_wrap=True)
    screen.print(
        Text(f"saved to {folder}, fitted in {record['seconds']['fit']:.1f} s", style="dim"), soft_wrap=True
    )


def recommend(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or a .veil file.")],
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user; again for more.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All users of the data.")] = False,
    k: Annotated[int, typer.Option("-k", "--k", help="Items per list.")] = 10,
    history: Annotated[
        str | None, typer.Option("--history", help="Items of a new user, by comma.", metavar="ITEM,...")
    ] = None,
    new: Annotated[
        Path | None, typer.Option("--new", help="Interactions of new users, a table.", metavar="FILE")
    ] = None,
    people: Annotated[
        Path | None, typer.Option("--users", help="Their attributes, a table.", metavar="FILE")
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option("--reports", help="Keeps what they report to the model, drawn once.", metavar="FILE"),
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option("--candidates", help="File with one item per line to choose from.")
    ] = None,
    seen: Annotated[bool, typer.Option("--seen", help="May recommend what the user already has.")] = False,
    ledger: LedgerFile = None,
    population: Booked = None,
    new_population: NewPopulation = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the lists to a CSV file.")] = None,
    as_json: Json = False,
) -> None:
    """The best items for known users, or for new ones given by a history or a table.

    With --reports the new users' profiles reach models that take any, with the noise of their statement:
    drawn at the first call and booked in the ledger, read from the file ever after.
    """
    from veilrec.core import atomic_path, check
    from veilrec.data import read_newcomers
    from veilrec.privacy import Ledger
    from veilrec.studio.lists import lists
    from veilrec.systems import load_model

    ways = [bool(user), everyone, history is not None, new is not None]
    check(sum(ways) == 1, "users", "named by one of --user, --all, --history and --new", sum(ways))
    check(new is not None or not (people or reports), "--users and --reports", "given with --new", "no --new")
    remedy = "A profile reaches a model as a report, which is drawn once and kept in a file: --reports FILE."
    check(people is None or reports is not None, "--users", "given with --reports", str(people), remedy)
    check_target("--csv", csv)
    check_target("--reports", reports)
    model = load_model(run)
    found = lists(
        model,
        users=None if everyone or history is not None else user,
        history=None if history is None else words_of(history),
        new=None if new is None else read_newcomers(new, people, model.facts.get("profile")),
        reports=reports,
        ledger=None if reports is None else Ledger(ledger),
        population=population,
        new_population=new_population,
        candidates=candidates,
        k=k,
        exclude_seen=not seen,
    )
    if csv is not None:
        with atomic_path(csv) as temporary:
            found.frame.write_csv(temporary)
        say(f"wrote {len(found.frame):,} rows to {csv}")
    if as_json:
        emit(found.frame.to_dicts())
    elif csv is None:
        from veilrec.studio.terminal import show_lists

        show_lists(console(), found.frame.to_dicts(), found.histories)


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    k: Lengths = None,
    protocol: Protocol = None,
    part: Annotated[str, typer.Option("--part", help="test or valid.")] = "test",
    data: Data = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Judge a finished run again, on its own data and split."""
    from veilrec.experiments import evaluate_run

    judged = evaluate_run(
        run,
        k=numbers_of(k),
        protocol=protocol,
        part=part,
        data=data,
        data_dir=text_of(data_dir),
        progress=not (quiet or as_json),
    ).to_dict()
    if as_json:
        emit(judged)
        return
    from veilrec.studio.terminal import show_evaluation

    show_evaluation(console(), run.name, judged)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders with runs, at any depth.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.", metavar="FILE")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = "veilrec report",
    as_json: Json = False,
) -> None:
    """One self-contained page of runs, comparisons and tunings."""
    from veilrec.studio.report import write_report

    check_target("--out", out)
    page = write_report(folders, out, title=title)
    if as_json:
        emit({"page": str(page), "bytes": page.stat().st_size})
    else:
        typer.echo(f"wrote {page}")
