"""What a spend costs under a limit that speaks of another unit or another neighbouring relation.

A unit is what is protected: a ``user`` (everything of one person), an ``interaction`` (one of their ratings,
clicks, ...) or the ``attribute`` values of one person (all the sensitive ones together, interactions fixed).
A spend states one unit and covers everything that its run releases about it. A run that releases something
about interactions and something about attributes makes a spend for each.

| spend for one | user limit | interaction limit | attribute limit |
|---|---|---|---|
| user | as it is | as replacing a user | as replacing a user |
| interaction, at most k per user | as a group of k | as it is | nothing |
| interaction, no k | infinite | as it is | nothing |
| attribute | as it is | nothing | as it is |

"As it is" means: the epsilon of the same events at the same delta, under the limit's relation.

- Changing one interaction or attribute of a user exchanges one version of the user for another. That is
  *replacing* the user, even if the interaction is added or removed: with f(user) between -1 and 1 and Laplace
  noise of scale 1 on the sum, a user more costs 1, but a changed user costs 2.
- A user is a group of k interactions. That needs events proven for adding and removing an interaction:
  replacing alone does not hide how many there are.
- Events that were proven for replacing say nothing under an add-remove limit: infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from veilrec.core import check_choice
from veilrec.privacy.accountant import epsilon_of
from veilrec.privacy.events import RELATIONS, Event, Neighbours, UnboundedEvent, UnsupportedEvent
from veilrec.privacy.guarantee import UNITS, Unit

Pair = tuple[Unit, Neighbours]

# The relation of a limit unless its owner says otherwise; an attribute is never absent, only another.
USUAL: dict[Unit, Neighbours] = {"user": "add-remove", "interaction": "add-remove", "attribute": "replace"}


def applies(unit: Unit, limit_unit: Unit) -> bool:
    """Whether a spend for one ``unit`` takes anything from a limit for ``limit_unit``.

    >>> applies("user", "interaction"), applies("attribute", "interaction")
    (True, False)
    """
    return limit_unit in (unit, "user") or unit == "user"


def counted(
    events: Sequence[Event],
    delta: float,
    unit: Unit,
    per_user: int | None,
    limit_unit: Unit,
    neighbours: Neighbours,
) -> tuple[float, float]:
    """The (epsilon, delta) that a spend for one ``unit`` takes from a limit; infinite where nothing holds.

    >>> from veilrec.privacy.events import PureEvent
    >>> events = [PureEvent(epsilon=0.5)]
    >>> counted(events, 0.0, "user", None, "interaction", "add-remove")
    (1.0, 0.0)
    >>> counted(events, 0.0, "interaction", 20, "user", "add-remove")
    (10.0, 0.0)
    >>> counted(events, 0.0, "attribute", None, "interaction", "add-remove")
    (0.0, 0.0)
    """
    check_choice("unit", unit, UNITS)
    check_choice("unit", limit_unit, UNITS)
    check_choice("neighbours", neighbours, RELATIONS)
    if not applies(unit, limit_unit):
        return 0.0, 0.0
    if why_infinite(events, delta, unit, per_user, limit_unit, neighbours):
        return math.inf, delta
    if unit == "user" and limit_unit != "user":
        return epsilon_of(events, delta, "replace"), delta
    group = per_user if unit == "interaction" and limit_unit == "user" else 1
    return epsilon_of(events, delta, neighbours, group=group or 1), delta


def why_infinite(
    events: Sequence[Event],
    delta: float,
    unit: Unit,
    per_user: int | None,
    limit_unit: Unit,
    neighbours: Neighbours,
) -> str:
    """The sentence that says why no finite epsilon can hold; empty when one may.

    >>> why_infinite([UnboundedEvent(reason="raw counts")], 0.0, "user", None, "user", "replace")
    'No finite epsilon covers: raw counts.'
    """
    for event in events:
        if isinstance(event, UnboundedEvent):
            return f"No finite epsilon covers: {event.reason.rstrip('.')}."
    if unit == "user" and limit_unit != "user":
        neighbours = "replace"
    grouped = unit == "interaction" and limit_unit == "user"
    if grouped and per_user is None:
        return "Without per_user, the most interactions of one user, no finite epsilon holds for a user."
    proven_for_replacing = any(event.neighbours == "replace" for event in events)
    if grouped and proven_for_replacing:
        return "Its events are proven for replacing an interaction, which does not hide how many a user has."
    if neighbours == "add-remove" and proven_for_replacing:
        return (
            "Its events are proven for replacing a unit, and the limit counts adding and removing one; "
            "set the limit with neighbours replace."
        )
    try:
        found = epsilon_of(events, delta, neighbours)
    except UnsupportedEvent as error:
        return str(error)
    if math.isinf(found):
        return f"Its events have no finite epsilon at delta {delta:g}; ask at a larger delta."
    return ""
