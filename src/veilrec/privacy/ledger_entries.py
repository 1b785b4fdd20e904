"""A new spend, checked: what is wrong with it is said before the ledger is even opened."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime

from veilrec import __version__
from veilrec.core import check, check_choice, check_count
from veilrec.privacy.accountant import epsilon_of
from veilrec.privacy.events import EVENTS, RELATIONS, Event, Neighbours, UnsupportedEvent
from veilrec.privacy.guarantee import UNITS, Unit
from veilrec.privacy.ledger_records import Spend

GRADES = ("secure", "research")


def new_spend(
    population: str,
    fingerprint: str,
    events: Iterable[Event],
    delta: float,
    run: str,
    unit: Unit,
    neighbours: Neighbours,
    *,
    per_user: int | None,
    grade: str,
) -> Spend:
    """A spend with an id of its own and the epsilon that the accountant finds.

    >>> from veilrec.privacy.events import PureEvent
    >>> event = PureEvent(epsilon=0.5)
    >>> new_spend(
    ...     "shop", "f", [event], 0.0, "first", "user", "replace", per_user=None, grade="secure"
    ... ).epsilon
    1.0
    """
    for name, value in (("population", population), ("fingerprint", fingerprint), ("run", run)):
        check_name(name, value)
    check_choice("unit", unit, UNITS)
    check_choice("neighbours", neighbours, RELATIONS)
    check_choice("grade", grade, GRADES)
    if per_user is not None:
        check(unit == "interaction", "per_user", "None unless the unit is interaction", per_user)
        check_count("per_user", per_user)
    events = known_events(events)
    return Spend(
        id=secrets.token_hex(8),
        population=population,
        fingerprint=fingerprint,
        unit=unit,
        neighbours=neighbours,
        per_user=per_user,
        events=events,
        epsilon=epsilon_of(events, delta, neighbours),
        delta=float(delta),
        grade=grade,
        run=run,
        version=__version__,
        reserved_at=now(),
        released_at=None,
    )


def known_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events as a tuple: at least one, and none that the ledger does not know.

    >>> known_events([3])
    Traceback (most recent call last):
        ...
    veilrec.privacy.events.UnsupportedEvent: the ledger does not know the event int.
    """
    events = tuple(events)
    check(bool(events), "events", "at least one", events, "What no mechanism covers is an UnboundedEvent.")
    for event in events:
        if not isinstance(event, EVENTS):
            raise UnsupportedEvent(f"the ledger does not know the event {type(event).__name__}.")
    return events


def check_name(name: str, value: str) -> None:
    """Names are printable, so that a history can be read, and without space around them, so that they differ.

    >>> check_name("run", "nightly")
    """
    good = isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and value == value.strip()
    check(good, name, "a printable name of 1 to 200 characters, without space around it", value)


def new_token() -> str:
    """Says of a folder that a run was there last: drawn anew whenever the run goes on.

    >>> len(new_token())
    32
    """
    return secrets.token_hex(16)


def now() -> str:
    """The time in UTC, to the microsecond.

    >>> now().endswith("+00:00")
    True
    """
    return datetime.now(UTC).isoformat(timespec="microseconds")
