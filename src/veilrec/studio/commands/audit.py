"""`veilrec audit mechanism | mutant`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilrec.studio.commands.base import Json, Quiet, check_target, console, emit, say, silent

if TYPE_CHECKING:
    from veilrec.attacks import Curve, Finding, Trial

Epsilon = Annotated[float, typer.Option("--epsilon", help="The budget that is claimed.")]
Runs = Annotated[int | None, typer.Option("--runs", help="Runs in each world.", min=40)]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Seeded noise instead of secure noise, to repeat an audit.")
]
Picture = Annotated[Path | None, typer.Option("--out", "-o", help="Write the plot: .png, .svg or .pdf.")]


def mechanism(
    name: Annotated[str, typer.Argument(help="A mechanism, or `all`; a wrong name lists them.")],
    epsilon: Epsilon = 1.0,
    runs: Runs = None,
    seed: Seed = None,
    out: Picture = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put a mechanism on trial: the epsilon it claims and the one its own releases prove."""
    from veilrec.attacks import TRIALS, trial

    names = list(TRIALS) if name == "all" else [name]
    _run([trial(word, epsilon) for word in names], runs, seed, out, quiet, as_json)


def mutant(
    name: Annotated[str, typer.Argument(help="A mistake, or `all`; a wrong name lists them.")],
    epsilon: Epsilon = 1.0,
    runs: Runs = None,
    seed: Seed = None,
    out: Picture = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put a deliberately broken mechanism on trial: the audit must refute its claim."""
    from veilrec.attacks import MUTANTS
    from veilrec.attacks import mutant as known

    names = list(MUTANTS) if name == "all" else [name]
    _run([known(word).broken(epsilon) for word in names], runs, seed, out, quiet, as_json)


def _run(
    trials: list[Trial], runs: int | None, seed: int | None, out: Path | None, quiet: bool, as_json: bool
) -> None:
    from veilrec.attacks import audit, audit_curve, plot_audit
    from veilrec.core import check, track
    from veilrec.privacy import Noise

    single = len(trials) == 1
    check(single or out is None, "--out", "given for one mechanism only", str(out))
    check_target("--out", out)
    noise = Noise.choose(seed is None, seed, "audit")
    loud = not (quiet or as_json)
    # Each audit of several gets its share of the level, so that all together hold at 95 %.
    level = 0.05 / len(trials)
    found = [audit(each, noise, runs, level) for each in track(trials, "auditing", show=loud)]
    curve = audit_curve(trials[0], noise, runs, progress=loud) if single else None
    note = say if loud else silent
    if out is not None and curve is not None:
        note(f"wrote {plot_audit(curve, out)}")
    if as_json:
        emit([_as_json(one, curve) for one in found])
        return
    _show(found, curve)


def _as_json(found: Finding, curve: Curve | None) -> dict[str, Any]:
    row = found.to_dict()
    if curve is not None:
        names = ("epsilon", "claimed_delta", "measured_delta")
        points = zip(curve.epsilons.tolist(), curve.claimed.tolist(), curve.measured.tolist())
        row["curve"] = [dict(zip(names, point)) for point in points]
    return row


def _show(found: list[Finding], curve: Curve | None) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("mechanism", "claimed", "proven at least", "share", "verdict"):
        table.add_column(name, justify="left" if name in ("mechanism", "verdict") else "right")
    for one in found:
        verdict = "[red]refuted[/red]" if one.refuted else "holds" if one.tight else "holds (loose attack)"
        row = (one.name, f"{one.claimed:.4g}", f"{one.measured:.4g}", f"{one.share:.0%}", verdict)
        table.add_row(*row)
    screen = console()
    screen.print(table)
    if curve is not None:
        screen.print()
        for line in _drawn(curve):
            screen.print(line, highlight=False)
    if not any(one.refuted for one in found):
        screen.print(
            "\nAn audit that finds nothing does not prove privacy; one that refutes does disprove it."
        )


def _drawn(curve: Curve, width: int = 48) -> list[str]:
    """The curve in the terminal: one row per epsilon, a line to the claimed delta, a mark at the measured."""
    top = max(float(curve.claimed.max()), float(curve.measured.max()), 1e-12)
    lines = ["epsilon   delta: ── claimed, ● measured at least"]
    for epsilon, claimed, measured in zip(curve.epsilons, curve.claimed, curve.measured):
        cells = ["─"] * round(width * claimed / top)
        mark = round(width * max(measured, 0.0) / top)
        cells += [" "] * (mark + 1 - len(cells))
        cells[mark] = "●"
        lines.append(f"{epsilon:7.3f}   {''.join(cells)}  {claimed:.3g} / {measured:.3g}")
    return lines
