"""`veilrec compare | tune`."""

from __future__ import annotations

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
    console,
    emit,
    list_of,
    say,
    short_name,
    silent,
    text_of,
)


def compare(
    models: Annotated[list[str] | None, typer.Argument(help="Words of models; see `veilrec models`.")] = None,
    data: Data = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="How many seeds.", min=1)] = None,
    k: Lengths = None,
    protocol: Protocol = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="first, best, or a model: what the others are tested against."),
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

    flags: dict[str, Any] = {
        "data": data,
        "data.dir": text_of(data_dir),
        "seeds": seeds,
        "reference": reference,
        "device": device,
    }
    flags |= {"evaluate.k": list_of(k), "evaluate.protocol": protocol, "out": text_of(out)}
    plan = load_plan(config, overrides or [], models=models or [], null=null, flags=flags)
    folder = Path(plan.out or f"runs/compare-{short_name(plan.data.source)}")
    loud = not (quiet or as_json)
    note = say if loud else silent
    done = run_plan(plan, folder, progress=loud, command=command_line(), say=note)
    if not as_json:
        from veilrec.studio.terminal import show_comparison

        show_comparison(console(), done.record)
    if plot:
        try:
            for kind in ("png", "svg"):
                note(f"wrote {plot_comparison(done.record, folder / f'comparison.{kind}')}")
        except MissingExtra as error:
            say(f"no plot: {error}", "yellow")
    if as_json:
        emit(done.record)


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

    flags = {"model": model, "data": data, "data.dir": text_of(data_dir), "seed": seed, "device": device}
    spec = load_config(config, overrides or [], flags=flags | {"out": text_of(out)})
    folder = Path(spec.out or f"runs/tune-{spec.model}-{short_name(spec.data.source)}")
    loud = not (quiet or as_json)
    note = say if loud else silent
    found = run_tuning(
        spec, folder, trials=trials, metric=metric, progress=loud, command=command_line(), say=note
    )
    if as_json:
        emit(found.record)
        return
    from veilrec.studio.terminal import show_tuning

    show_tuning(console(), found.record, str(found.config))
