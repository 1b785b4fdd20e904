"""What a mechanism did, as the accountant sees it: frozen, comparable, and readable as JSON.

Two neighbouring relations. ``add-remove``: one data set has one unit (user, interaction, ...) more.
``replace``: one unit has another value. An event says for which relation its number was proven; the
accountant turns add-remove into replace (at most twice the distance) and refuses the other direction.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal

from veilrec.core import check, check_choice, check_count, check_positive

Neighbours = Literal["add-remove", "replace"]
RELATIONS: tuple[Neighbours, ...] = ("add-remove", "replace")


class UnsupportedEvent(TypeError):
    """The accountant has no proof for this event, or not for this relation."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One kind of release, repeated ``count`` times; ``label`` names it in the statement."""

    kind: ClassVar[str] = ""

    count: int = 1
    neighbours: Neighbours = "add-remove"
    label: str = ""

    def __post_init__(self) -> None:
        check_count("count", self.count)
        check_choice("neighbours", self.neighbours, RELATIONS)

    def times(self, count: int) -> Event:
        """The same event ``count`` times as often.

        >>> PureEvent(epsilon=0.5).times(3).count
        3
        """
        return replace(self, count=self.count * count)

    def named(self, label: str) -> Event:
        """The same event under another label."""
        return replace(self, label=label)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values.

        >>> Event.from_dict(PureEvent(epsilon=0.5).to_dict())
        PureEvent(count=1, neighbours='add-remove', label='', epsilon=0.5)
        """
        return {"event": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Event:
        """The event that ``to_dict`` wrote; anything else is refused by name."""
        known = {event.kind: event for event in EVENTS}
        kind = value.get("event")
        if kind not in known:
            raise UnsupportedEvent(f"event must be one of {', '.join(known)}, got {kind!r}.")
        names = {field.name for field in fields(known[kind])}
        extra = sorted(set(value) - names - {"event"})
        check(not extra, f"event {kind}", f"described by {', '.join(sorted(names))}", extra)
        return known[kind](**{name: value[name] for name in names if name in value})


@dataclass(frozen=True, kw_only=True)
class PureEvent(Event):
    """epsilon-DP with delta 0: the logarithm of the largest ratio of output probabilities.

    >>> PureEvent(epsilon=0.5, neighbours="replace", label="ages").epsilon
    0.5
    """

    kind: ClassVar[str] = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("epsilon", self.epsilon)


@dataclass(frozen=True, kw_only=True)
class LaplaceEvent(Event):
    """Laplace noise; ``noise_multiplier`` is scale / L1 sensitivity.

    >>> LaplaceEvent(noise_multiplier=2.0, count=3).count
    3
    """

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(Event):
    """Gaussian noise; ``noise_multiplier`` is sigma / L2 sensitivity under the event's own relation.

    With a ``sampling_rate`` below 1 each unit of the claim takes part by an own coin (Poisson sampling). That
    needs a fixed denominator and holds only against somebody who does not see who took part. A coin per user
    samples users: it says nothing about one interaction of a user, unless as replacing that user.

    >>> GaussianEvent(noise_multiplier=1.29, sampling_rate=0.1, count=300).sampling_rate
    0.1
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("noise_multiplier", self.noise_multiplier)
        check_sampling_rate(self.sampling_rate)


@dataclass(frozen=True, kw_only=True)
class SkellamEvent(Event):
    """Skellam noise of a total ``variance`` on whole numbers; a unit moves them by at most ``l2``, ``l1``.

    >>> SkellamEvent(variance=1e8, l2=1e4, l1=1e6).to_dict()["event"]
    'skellam'
    """

    kind: ClassVar[str] = "skellam"
    variance: float
    l2: float
    l1: float
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("variance", "l2", "l1"):
            check_positive(name, getattr(self, name))
        check_sampling_rate(self.sampling_rate)


@dataclass(frozen=True, kw_only=True)
class UnboundedEvent(Event):
    """Something was released that no finite epsilon covers; ``reason`` says why.

    >>> UnboundedEvent(reason="labels enter the loss without noise").kind
    'unbounded'
    """

    kind: ClassVar[str] = "unbounded"
    reason: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check(bool(self.reason), "reason", "a sentence", self.reason)


EVENTS: tuple[type[Event], ...] = (PureEvent, LaplaceEvent, GaussianEvent, SkellamEvent, UnboundedEvent)


def check_sampling_rate(value: float) -> None:
    """A sampling rate lies above 0 and at most at 1.

    >>> check_sampling_rate(0.5)
    """
    good = isinstance(value, int | float) and math.isfinite(value) and 0 < value <= 1
    check(good, "sampling_rate", "above 0 and at most 1", value)


def check_budget(epsilon: float, delta: float) -> None:
    """An epsilon above 0 and a delta from 0 up to but not including 1.

    >>> check_budget(1.0, 1.0)
    Traceback (most recent call last):
        ...
    ValueError: delta must be from 0 up to but not including 1, got 1.0.
    """
    check_positive("epsilon", epsilon)
    good = isinstance(delta, int | float) and 0 <= delta < 1
    check(good, "delta", "from 0 up to but not including 1", delta)
