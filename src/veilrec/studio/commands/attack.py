"""`veilrec attack`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilrec.studio.commands.base import (
    Data,
    DataDir,
    Json,
    Quiet,
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
    inputs: Annotated[
        str, typer.Option("--input", help="history, list, both, adaptive; by comma.", metavar="WORD,...")
    ] = "both",
    k: Annotated[str, typer.Option("-k", "--k", help="List lengths, by comma.", metavar="K,...")] = "10",
    bins: Annotated[
        list[str] | None,
        typer.Option("--bins", help="Public edges of a number's classes.", metavar="NAME=EDGE,..."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", help="Splits of the users.", min=1)] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Drives splits and attackers.", min=0)] = 0,
    data: Data = None,
    data_dir: DataDir = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The record; by default attack.json in the run.", metavar="FILE"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Infer users' attributes from what a model shows, beside what needs no model at all."""
    from veilrec.attacks import attribute_attack
    from veilrec.core import environment, write_json
    from veilrec.experiments import command_line

    model, histories, about = _opened(run, data, data_dir)
    loud = not (quiet or as_json)
    began = time.perf_counter()
    found = attribute_attack(
        model,
        histories,
        None if target is None else words_of(target),
        attackers=None if attackers is None else words_of(attackers),
        inputs=words_of(inputs),
        k=numbers_of(k) or (),
        bins=dict(_edges(text) for text in bins or []),
        repeats=repeats,
        seed=seed,
        progress=loud,
    )
    record = {
        "format": 1,
        "kind": "attack",
        "name": run.name,
        **found.to_dict(),
        **about,
        "protection": model.guarantee.to_dict()["protection"],
        "seconds": round(time.perf_counter() - began, 3),
        "command": command_line(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
    }
    place = out or (run / "attack.json" if (run / "run.json").exists() else None)
    if place is not None:
        write_json(place, record)
    if as_json:
        emit(record)
        return
    typer.echo(str(found))
    if loud and place is not None:
        say(f"wrote {place}")


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
        return name, tuple(float(edge) for edge in words_of(edges))
    except ValueError:
        raise ValueError(
            f"--bins must be a name and numbers, got {text!r}. Write, say, --bins age=35,46."
        ) from None
