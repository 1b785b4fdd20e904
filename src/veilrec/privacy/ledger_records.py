"""What the ledger hands out: spends, changes of limits and how an account stands. Frozen, JSON-ready."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from veilrec.privacy.events import Event, Neighbours
from veilrec.privacy.guarantee import Unit

UNFINISHED = "not finished; counted as spent"


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one run took from the budget of a population.

    >>> from veilrec.privacy.events import PureEvent
    >>> spend = Spend(
    ...     id="a1", population="shop", fingerprint="f", unit="user", neighbours="replace", per_user=None,
    ...     events=(PureEvent(epsilon=1.0),), epsilon=2.0, delta=0.0, grade="secure", run="first",
    ...     version="0.1.0", reserved_at="2026-01-01T00:00:00.000+00:00", released_at=None,
    ... )
    >>> spend.state, spend.note
    ('reserved', 'not finished; counted as spent')
    """

    id: str
    population: str
    fingerprint: str
    unit: Unit
    neighbours: Neighbours
    per_user: int | None
    events: tuple[Event, ...]
    epsilon: float
    delta: float
    grade: str
    run: str
    version: str
    reserved_at: str
    released_at: str | None

    @property
    def state(self) -> str:
        """``reserved`` or ``released``; both are spent."""
        return "reserved" if self.released_at is None else "released"

    @property
    def note(self) -> str:
        """What a reader of the history should know about the state."""
        return UNFINISHED if self.released_at is None else "released"

    @property
    def time(self) -> str:
        """When it was spent: at the reservation."""
        return self.reserved_at

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; an infinite epsilon is written as null."""
        own = {name: value for name, value in vars(self).items() if name != "events"}
        events = [event.to_dict() for event in self.events]
        return {
            "kind": "spend",
            **own,
            "epsilon": _finite(self.epsilon),
            "state": self.state,
            "events": events,
        }


@dataclass(frozen=True, kw_only=True)
class LimitChange:
    """A limit was set, raised or lowered; ``spent_epsilon`` and ``spent_delta`` are what was gone by then.

    >>> change = LimitChange(
    ...     population="shop", unit="user", neighbours="add-remove", epsilon=8.0, delta=1e-5,
    ...     spent_epsilon=9.0, spent_delta=0.0, version="0.1.0", time="2026-01-01T00:00:00.000+00:00",
    ... )
    >>> change.below_spent
    True
    """

    population: str
    unit: Unit
    neighbours: Neighbours
    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    version: str
    time: str

    @property
    def below_spent(self) -> bool:
        """Whether more was spent already than the limit allows."""
        return not fits(self.spent_epsilon, self.epsilon) or not fits(self.spent_delta, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "limit", **asdict(self), "spent_epsilon": _finite(self.spent_epsilon)}


@dataclass(frozen=True, kw_only=True)
class Account:
    """How a population stands for one unit; ``limit`` is None where nobody set one.

    >>> account = Account(
    ...     population="shop", unit="user", neighbours="add-remove", limit=(8.0, 1e-5),
    ...     epsilon=3.0, delta=0.0, runs=2, unfinished=1,
    ... )
    >>> account.left
    (5.0, 1e-05)
    """

    population: str
    unit: Unit
    neighbours: Neighbours
    limit: tuple[float, float] | None
    epsilon: float
    delta: float
    runs: int
    unfinished: int

    @property
    def left(self) -> tuple[float, float] | None:
        """The (epsilon, delta) that a run may still ask for; None without a limit."""
        if self.limit is None:
            return None
        return max(0.0, self.limit[0] - self.epsilon), max(0.0, self.limit[1] - self.delta)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; no limit and an infinite epsilon are written as null."""
        left = self.left
        own = asdict(self) | {"epsilon": _finite(self.epsilon)}
        for name, pair in (("limit", self.limit), ("left", left)):
            own[name] = None if pair is None else {"epsilon": pair[0], "delta": pair[1]}
        return own


def fits(spent: float, limit: float) -> bool:
    """Whether a sum of floats is within the limit, up to their rounding (one part in a billion).

    >>> fits(0.1 + 0.2, 0.3), fits(0.30001, 0.3)
    (True, False)
    """
    return spent <= limit * (1 + 1e-9)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
