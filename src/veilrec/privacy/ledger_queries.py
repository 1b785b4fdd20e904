"""The questions that the ledger puts to its file. Each takes an open connection; none opens one."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from veilrec.core import BudgetExhausted, check
from veilrec.privacy.events import Event, UnboundedEvent
from veilrec.privacy.guarantee import UNITS, Unit
from veilrec.privacy.ledger_records import Account, LimitChange, Spend, fits
from veilrec.privacy.ledger_units import USUAL, Pair, applies, counted, why_infinite

_SPEND = (
    "id, population, fingerprint, unit, neighbours, per_user, events, epsilon, delta, grade, run, version, "
    "reserved_at, released_at"
)
_CHANGE = "population, unit, neighbours, epsilon, delta, spent_epsilon, spent_delta, version, time"

Amount = tuple[float, float]


def populations(db: sqlite3.Connection, wanted: str | None = None) -> list[str]:
    """All names, or the one that is wanted; an unknown one is refused with the nearest."""
    query = "SELECT population FROM spend UNION SELECT population FROM limit_change ORDER BY 1"
    known = [name for (name,) in db.execute(query)]
    if wanted is None:
        return known
    near = get_close_matches(str(wanted), known, n=1, cutoff=0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known) or 'none yet'}."
    check(wanted in known, "population", "one with a limit or a spend", wanted, remedy)
    return [wanted]


def spends(db: sqlite3.Connection, population: str) -> list[Spend]:
    """Its spends, oldest first."""
    query = f"SELECT {_SPEND} FROM spend WHERE population = ? ORDER BY number"
    return [_spend(row) for row in db.execute(query, (population,))]


def find_spend(db: sqlite3.Connection, spend_id: str) -> tuple[int, Spend] | None:
    """The number and the spend of an id."""
    row = db.execute(f"SELECT number, {_SPEND} FROM spend WHERE id = ?", (str(spend_id),)).fetchone()
    return None if row is None else (row[0], _spend(row[1:]))


def changes(db: sqlite3.Connection, population: str) -> list[LimitChange]:
    """The changes of its limits, oldest first."""
    query = f"SELECT {_CHANGE} FROM limit_change WHERE population = ? ORDER BY number"
    names = _CHANGE.split(", ")
    return [LimitChange(**dict(zip(names, row))) for row in db.execute(query, (population,))]


def limits(db: sqlite3.Connection, population: str) -> dict[Unit, LimitChange]:
    """The limit that holds for each unit: the one set last."""
    return {change.unit: change for change in changes(db, population)}


def without_cost(db: sqlite3.Connection, population: str, pair: Pair) -> list[Spend]:
    """The spends whose cost for the unit and relation was not worked out yet."""
    query = (
        f"SELECT {_SPEND} FROM spend WHERE population = ? AND NOT EXISTS "
        "(SELECT 1 FROM cost WHERE cost.spend = spend.number AND cost.unit = ? AND cost.neighbours = ?)"
    )
    return [_spend(row) for row in db.execute(query, (population, *pair))]


def total(db: sqlite3.Connection, population: str, pair: Pair) -> Amount:
    """What all spends, reserved or released, take from a limit for the unit and relation."""
    query = (
        "SELECT cost.epsilon, cost.delta FROM cost JOIN spend ON cost.spend = spend.number "
        "WHERE spend.population = ? AND cost.unit = ? AND cost.neighbours = ?"
    )
    costs = db.execute(query, (population, *pair)).fetchall()
    costs += [cost_of(spend, pair) for spend in without_cost(db, population, pair)]
    return math.fsum(epsilon for epsilon, _ in costs), math.fsum(delta for _, delta in costs)


def cost_of(spend: Spend, pair: Pair) -> Amount:
    """What a spend takes from a limit for the unit and relation."""
    return counted(spend.events, spend.delta, spend.unit, spend.per_user, *pair)


def accounts(db: sqlite3.Connection, population: str) -> list[Account]:
    """How it stands, for each unit with a limit or a spend."""
    set_for, made = limits(db, population), spends(db, population)
    replacing = any(event.neighbours == "replace" for spend in made for event in spend.events)
    found = []
    for unit in UNITS:
        limit = set_for.get(unit)
        if limit is None and not any(spend.unit == unit for spend in made):
            continue
        neighbours = limit.neighbours if limit else "replace" if replacing else USUAL[unit]
        epsilon, delta = total(db, population, (unit, neighbours))
        mine = [spend for spend in made if applies(spend.unit, unit)]
        found.append(
            Account(
                population=population,
                unit=unit,
                neighbours=neighbours,
                limit=None if limit is None else (limit.epsilon, limit.delta),
                epsilon=epsilon,
                delta=delta,
                runs=len(mine),
                unfinished=sum(spend.released_at is None for spend in mine),
            )
        )
    return found


def refuse_renamed(db: sqlite3.Connection, spend: Spend) -> None:
    """Refuse data that were booked under another population and never under this one."""
    query = "SELECT DISTINCT population FROM spend WHERE fingerprint = ? ORDER BY 1"
    names = [name for (name,) in db.execute(query, (spend.fingerprint,))]
    new = bool(names) and spend.population not in names
    remedy = (
        f"The same data are booked there, and another name would give them a fresh budget. Book under "
        f"{names[0]!r}, or say that this is meant: new_population=True, --new-population."
        if new
        else ""
    )
    known = ", ".join(repr(name) for name in names)
    check(not new, "population", known, spend.population, remedy)


def refuse_beyond(
    limit: LimitChange, spent: Amount, spends: Sequence[Spend], costs: Sequence[Amount]
) -> None:
    """Raise :class:`BudgetExhausted` when the spends of a run do not fit under the limit together."""
    asked = sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)
    if fits(spent[0] + asked[0], limit.epsilon) and fits(spent[1] + asked[1], limit.delta):
        return
    left = max(0.0, limit.epsilon - spent[0]), max(0.0, limit.delta - spent[1])
    why, unknown = "", "No finite epsilon is known for all interactions of a user together."
    bare = [one for one in spends if any(isinstance(event, UnboundedEvent) for event in one.events)]
    for one, cost in zip(spends, costs):
        if math.isinf(cost[0]) and (not bare or one in bare):  # what no other limit would help stands alone
            pair = (limit.unit, limit.neighbours)
            words = why_infinite(one.events, one.delta, one.unit, one.per_user, *pair) or unknown
            why += f" {words}" if words not in why else ""
    spend = spends[0]
    raise BudgetExhausted(
        f"run {spend.run!r} asks for {say(asked)} per {limit.unit} of {spend.population!r}, and "
        f"{say(left)} are left of {say((limit.epsilon, limit.delta))}.{why} Nothing was spent.",
        population=spend.population,
        unit=limit.unit,
        asked=asked,
        left=left,
    )


def say(amount: Amount) -> str:
    """An amount in words.

    >>> say((8.0, 1e-5))
    'epsilon 8 and delta 1e-05'
    """
    return f"epsilon {amount[0]:.4g} and delta {amount[1]:.4g}"


# -- writing ----------------------------------------------------------------------------------------------


def add_spend(db: sqlite3.Connection, spend: Spend, costs: Mapping[Pair, Amount], token: str) -> int:
    """A new row, reserved, with what it costs and the token of who may go on with it; gives its number."""
    number = _insert(db, "spend", {**vars(spend), "events": _text(spend.events), "state": spend.state})
    for pair, cost in costs.items():
        add_cost(db, spend.id, pair, cost)
    _insert(db, "turn", {"spend": number, "token": token})
    return number


def pass_on(db: sqlite3.Connection, number: int, spend_id: str, tokens: Sequence[str], token: str) -> None:
    """The spend gets ``token`` if it has one of ``tokens``; another one means that the run is elsewhere."""
    check(bool(token) and token not in tokens, "token", "a new one", token, "Draw it with new_token().")
    row = db.execute("SELECT token FROM turn WHERE spend = ?", (number,)).fetchone()
    check(
        row is not None and row[0] in tokens,
        "reservation",
        "taken up where it was left last",
        spend_id,
        "The run went on elsewhere since this copy was made: go on in that folder, or choose a new one and "
        "pay again.",
    )
    db.execute("UPDATE turn SET token = ? WHERE spend = ?", (token, number))


def add_cost(db: sqlite3.Connection, spend_id: str, pair: Pair, cost: Amount) -> None:
    """What a spend costs for a unit and relation, worked out once."""
    (number,) = db.execute("SELECT number FROM spend WHERE id = ?", (spend_id,)).fetchone()
    names = ("spend", "unit", "neighbours", "epsilon", "delta")
    _insert(db, "cost", dict(zip(names, (number, *pair, *cost))))


def add_change(db: sqlite3.Connection, change: LimitChange) -> None:
    """A limit that holds from now on."""
    _insert(db, "limit_change", vars(change))


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    marks = ", ".join("?" for _ in row)
    cursor = db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    return int(cursor.lastrowid or 0)


def _text(events: Iterable[Event]) -> str:
    return json.dumps([event.to_dict() for event in events], allow_nan=False)


def _spend(row: tuple[Any, ...]) -> Spend:
    values = dict(zip(_SPEND.split(", "), row))
    values["events"] = tuple(Event.from_dict(event) for event in json.loads(values["events"]))
    return Spend(**values)
