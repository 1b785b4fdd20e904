"""`veilrec attack`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilrec.studio.commands.base import (
    Data,
    DataDir,
    Json,
    Quiet,
    check_target,
    each_once,
    emit,
    numbers_of,
    say,
    text_of,
    words_of,
)

if TYPE_CHECKING:
    from veilrec.data import Dataset, Split
    from veilrec.training import Recommender


def attack(
    run: Annotated[Path, typer.Argument(help="Folder of a run; or a saved model, with --data.")],
    kind: Annotated[
        str, typer.Option("--kind", help="attribute, links or membership.", metavar="WORD")
    ] = "attribute",
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Attributes, by comma; by default all that can be.", metavar="NAME,..."
        ),
    ] = None,
    attackers: Annotated[
        str | None,
        typer.Option(
            "--attackers", help="By comma; by default all; a wrong word lists them.", metavar="WORD,..."
        ),
    ] = None,
    leave_out: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            help="Of links and membership: attackers to do without, by comma.",
            metavar="WORD,...",
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            "--input", help="history, list, both, adaptive; by comma; by default both.", metavar="WORD,..."
        ),
    ] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "-k",
            "--k",
            help="List lengths, by comma (10); of links and membership one (50).",
            metavar="K,...",
        ),
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option("--bins", help="Public edges of a number's classes.", metavar="NAME=EDGE,..."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Splits of the users; by default 5.", min=1)
    ] = None,
    adversary: Annotated[
        str | None,
        typer.Option("--adversary", help="Of links and membership: O, X, S; by comma.", metavar="LETTER,..."),
    ] = None,
    known: Annotated[
        float | None, typer.Option("--known", help="Of links and membership: share of known users.")
    ] = None,
    cells: Annotated[
        int | None, typer.Option("--cells", help="Of links and membership: cells that are asked.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Of links and membership: the curves.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Drives splits and attackers.", min=0)] = 0,
    data: Data = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The record; by default attack*.json in the run.", metavar="FILE"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Infer attributes, interactions or training membership from a model, beside what needs no model."""
    from veilrec.attacks import ATTACKS, attribute_attack
    from veilrec.core import check, check_choice, write_json
    from veilrec.experiments import attack_record, command_line

    check_choice("--kind", kind, ATTACKS)
    of_attributes = {"--target": target, "--input": inputs, "--bins": bins or None, "--repeats": repeats}
    of_links = {"--adversary": adversary, "--known": known, "--cells": cells, "--plot": plot}
    of_links |= {"--leave-out": leave_out}
    for flag, value in (of_links if kind == "attribute" else of_attributes).items():
        check(value is None, flag, f"left out of an attack of kind {kind!r}", value)
    check_target("--out", out)
    check_target("--plot", plot)
    model, histories, about = _opened(run, data, data_dir)
    loud = not (quiet or as_json)
    began = time.perf_counter()
    chosen = None if attackers is None else words_of(attackers)
    found: Any
    if kind == "attribute":
        found = attribute_attack(
            model,
            histories,
            None if target is None else words_of(target),
            attackers=chosen,
            inputs=words_of(inputs or "both"),
            k=numbers_of(k or "10") or (),
            bins=each_once("--bins", map(_edges, bins or [])),
            repeats=repeats or 5,
            seed=seed,
            progress=loud,
        )
    else:
        lengths = numbers_of(k or "50") or ()
        check(len(lengths) == 1, "--k", f"one length for an attack of kind {kind!r}", k)
        sides = None if adversary is None else words_of(adversary)
        out_of_it = None if leave_out is None else words_of(leave_out)
        given = {"adversaries": sides, "known": known, "cells": cells, "leave_out": out_of_it}
        more = {name: value for name, value in given.items() if value is not None}
        found = ATTACKS[kind](
            model, histories, attackers=chosen, k=lengths[0], seed=seed, progress=loud, **more
        )
    record = attack_record(
        found.to_dict(),
        run.name,
        **about,
        protection=model.guarantee.to_dict()["protection"],
        seconds=time.perf_counter() - began,
        command=command_line(),
    )
    name = "attack.json" if kind == "attribute" else f"attack-{kind}.json"
    place = out or (run / name if (run / "run.json").exists() else None)
    if place is not None:
        write_json(place, record)
    if plot is not None:
        found.plot(plot)
    if as_json:
        emit(record)
        return
    typer.echo(str(found))
    for written in (place, plot):
        if loud and written is not None:
            say(f"wrote {written}")


def _opened(
    run: Path, data: str | None, data_dir: Path | None
) -> tuple[Recommender, Dataset | Split, dict[str, Any]]:
    """The model, the histories that the attacker holds, and what the record says of them."""
    from veilrec.core import check
    from veilrec.experiments import DataSpec, load_data, open_run
    from veilrec.systems import load_model

    if (run / "run.json").exists() or (data is None and run.is_dir() and not (run / "model.json").exists()):
        opened = open_run(run)
        loaded, split = opened.parts(data, text_of(data_dir))
        prints = {"data_fingerprint": loaded.fingerprint, "split_fingerprint": split.fingerprint}
        return opened.model, split, prints
    model = load_model(run)
    remedy = "A model that is no run does not say where its data are."
    check(data is not None, "--data", "given with a saved model", data, remedy)
    assert data is not None
    loaded = load_data(DataSpec(data, dir=text_of(data_dir)))
    return model, loaded, {"data_fingerprint": loaded.fingerprint, "split_fingerprint": None}


def _edges(text: str) -> tuple[str, tuple[float, ...]]:
    name, _, edges = text.partition("=")
    try:
        return name.strip(), tuple(float(edge) for edge in words_of(edges))
    except ValueError:
        raise ValueError(
            f"--bins must be a name and numbers, got {text!r}. Write, say, --bins age=35,46."
        ) from None
