"""`veilrec budget set | show | history`."""

from __future__ import annotations

import math
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilrec.studio.commands.base import Json, console, emit, say

if TYPE_CHECKING:
    from veilrec.privacy import Account, LimitChange, Spend

LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="The ledger's file, or VEILREC_LEDGER; else the user's own.", metavar="FILE"
    ),
]
Booked = Annotated[
    str | None, typer.Option("--population", help="Whose budget it is; else that of the data's name.")
]
NewPopulation = Annotated[
    bool,
    typer.Option("--new-population", help="Data that are booked under another name get a fresh budget."),
]
Population = Annotated[
    str | None, typer.Argument(help="A name, usually that of the data set; all if left out.")
]

_BAR = 12


def set_limit(
    population: Annotated[str, typer.Argument(help="A name, usually that of the data set.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="What all runs together may spend.")],
    delta: Annotated[float, typer.Option("--delta", help="The same for delta.")],
    unit: Annotated[str, typer.Option("--unit", help="user, interaction or attribute.")] = "user",
    neighbours: Annotated[
        str | None,
        typer.Option(
            "--neighbours",
            help="add-remove, or replace (usual for attributes): what two data sets differ by.",
        ),
    ] = None,
    ledger: LedgerFile = None,
    as_json: Json = False,
) -> None:
    """Set, raise or lower what all runs on a population may spend together."""
    from veilrec.privacy import Ledger

    book = Ledger(ledger)
    known = book.populations()
    options: dict[str, Any] = {"unit": unit, "neighbours": neighbours}
    change = book.set_limit(population, epsilon=epsilon, delta=delta, **options)
    if as_json:
        emit(change.to_dict())
    else:
        typer.echo(f"{population}: at most {_amount(change.epsilon, change.delta)} per {change.unit}")
    near = get_close_matches(population, known, n=1)
    if population not in known and near:
        say(f"note: {population} is new and has a budget of its own; {near[0]} is another.", "yellow")
    if change.below_spent:
        spent = _amount(change.spent_epsilon, change.spent_delta)
        say(f"note: {spent} are spent already; no further run will be let in.", "yellow")


def show(population: Population = None, ledger: LedgerFile = None, as_json: Json = False) -> None:
    """What is spent and what is left, over all runs."""
    from veilrec.privacy import Ledger

    book = Ledger(ledger)
    accounts = book.accounts(population)
    if as_json:
        emit([account.to_dict() for account in accounts])
        return
    if not accounts:
        say(f"nothing is recorded in {book.path}")
        return
    from veilrec.studio.terminal import show_table

    columns = ("population", "per", "limit", "spent", "left", "runs", "")
    show_table(console(), columns, (_account_row(account) for account in accounts))


def history(population: Population = None, ledger: LedgerFile = None, as_json: Json = False) -> None:
    """Every spend and every change of a limit, oldest first."""
    from veilrec.privacy import Ledger, Spend

    book = Ledger(ledger)
    entries = book.history(population)
    if as_json:
        emit([entry.to_dict() for entry in entries])
        return
    if not entries:
        say(f"nothing is recorded in {book.path}")
        return
    from veilrec.studio.terminal import show_table

    rows = (_spend_row(one) if isinstance(one, Spend) else _limit_row(one) for one in entries)
    columns = ("time (UTC)", "population", "what", "per", "epsilon", "delta", "note")
    show_table(console(), columns, rows)


def _account_row(account: Account) -> tuple[Any, ...]:
    runs = f"{account.runs}" + (f" ({account.unfinished} not finished)" if account.unfinished else "")
    spent = _pair(account.epsilon, account.delta)
    if account.limit is None or account.left is None:
        return account.population, account.unit, "no limit set", spent, "", runs, ""
    share = max(
        spent / limit if limit else 0.0
        for spent, limit in zip((account.epsilon, account.delta), account.limit)
    )
    limit, left = _pair(*account.limit), _pair(*account.left)
    return account.population, account.unit, limit, spent, left, runs, _bar(share)


def _spend_row(spend: Spend) -> tuple[Any, ...]:
    what = f"run {spend.run}"
    note = f"{spend.note}; {spend.grade} noise"
    return (
        _time(spend.time),
        spend.population,
        what,
        spend.unit,
        _number(spend.epsilon),
        f"{spend.delta:g}",
        note,
    )


def _limit_row(change: LimitChange) -> tuple[Any, ...]:
    note = "below what was spent" if change.below_spent else ""
    number, delta = _number(change.epsilon), f"{change.delta:g}"
    return _time(change.time), change.population, "limit set", change.unit, number, delta, note


def _bar(share: float) -> str:
    """The fuller of epsilon and delta."""
    full = min(_BAR, math.ceil(_BAR * share - 1e-9)) if math.isfinite(share) else _BAR
    percent = f"{100 * share:.0f} %" if math.isfinite(share) else "over"
    return "█" * full + "░" * (_BAR - full) + f" {percent}"


def _pair(epsilon: float, delta: float) -> str:
    return f"ε {_number(epsilon)}, δ {delta:.3g}"


def _amount(epsilon: float, delta: float) -> str:
    return f"epsilon {_number(epsilon)} and delta {delta:.3g}"


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "infinite"


def _time(text: str) -> str:
    return text[:19].replace("T", " ")
