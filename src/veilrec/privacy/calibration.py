"""Budget in, noise out: the smallest noise that keeps a budget, never less.

Closed forms where there are any, else a search over the accountant that ends on the safe side.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from veilrec.core import check, check_count
from veilrec.privacy.accountant import epsilon_of
from veilrec.privacy.events import Event, GaussianEvent, Neighbours, SkellamEvent, check_budget
from veilrec.privacy.gaussian_profile import gaussian_mu

TOLERANCE = 1e-5
_MOST_KNOWN = 16
_known: ContextVar[tuple[float, ...] | None] = ContextVar("known noise", default=None)
_P = ParamSpec("_P")
_R = TypeVar("_R")


@contextmanager
def known_noise(events: Iterable[Event]) -> Iterator[None]:
    """Inside, :func:`smallest_noise` searches nothing: it takes the noise of one of these events, if that is
    what the budget asks for, and else refuses. To check what a file says takes one composition, not twenty.

    >>> found = gaussian_multiplier(8.0, 1e-5, count=300, sampling_rate=0.1)
    >>> with known_noise([GaussianEvent(noise_multiplier=found)]):
    ...     gaussian_multiplier(8.0, 1e-5, count=300, sampling_rate=0.1) == found
    True
    """
    noise = dict.fromkeys(
        math.sqrt(event.variance) / event.l2 if isinstance(event, SkellamEvent) else event.noise_multiplier
        for event in events
        if isinstance(event, SkellamEvent | GaussianEvent)
    )
    check(len(noise) <= _MOST_KNOWN, "noise", f"of at most {_MOST_KNOWN} kinds", len(noise))
    before = _known.set(tuple(noise))
    try:
        yield
    finally:
        _known.reset(before)


def remembered(search: Callable[_P, _R]) -> Callable[_P, _R]:
    """The answers of a search, kept; but none that rests on :func:`known_noise`.

    >>> remembered(lambda epsilon: gaussian_multiplier(epsilon, 1e-5))(8.0) > 0.5
    True
    """
    kept = functools.lru_cache(maxsize=64)(search)

    @functools.wraps(search)
    def answer(*given: _P.args, **named: _P.kwargs) -> _R:
        if _known.get() is not None:
            return search(*given, **named)
        return kept(*given, **named)  # type: ignore[arg-type]

    return answer


def default_delta(n_users: int, chosen: float | None = None) -> float:
    """The delta of user-level systems: ``chosen``, else 1e-5, or N^-1.1 where there are many users.

    With a delta near 1/N a mechanism may publish a whole user at random and still keep its budget.

    >>> default_delta(6040), default_delta(1_000_000) < 1e-6, default_delta(6040, 1e-9)
    (1e-05, True, 1e-09)
    """
    check_count("n_users", n_users)
    good = chosen is None or chosen < 1 / n_users
    check(good, "delta", f"below 1 / {n_users}, one over the number of users", chosen, "1e-5 is usual.")
    return min(1e-5, math.pow(n_users, -1.1)) if chosen is None else chosen


def gaussian_multiplier(
    epsilon: float,
    delta: float,
    *,
    count: int = 1,
    sampling_rate: float = 1.0,
    neighbours: Neighbours = "add-remove",
) -> float:
    """The smallest sigma / sensitivity that keeps (epsilon, delta) over ``count`` releases.

    The sensitivity is that of adding or removing a unit; ``neighbours="replace"`` asks for a budget that
    also covers replacing one.

    >>> round(gaussian_multiplier(8.0, 1e-5, count=20), 2)
    2.68
    """
    check_budget(epsilon, delta)
    check(delta > 0, "delta", "above 0 for Gaussian noise", delta, "Use Laplace noise for delta 0.")
    if sampling_rate == 1:
        distance = 2.0 if neighbours == "replace" else 1.0
        return distance * math.sqrt(count) / gaussian_mu(epsilon, delta)

    def events(multiplier: float) -> list[Event]:
        return [GaussianEvent(noise_multiplier=multiplier, sampling_rate=sampling_rate, count=count)]

    return smallest_noise(events, epsilon, delta, neighbours)


def smallest_noise(
    events: Callable[[float], Sequence[Event]],
    epsilon: float,
    delta: float,
    neighbours: Neighbours = "add-remove",
    start: float = 1.0,
) -> float:
    """The smallest number x for which ``events(x)`` keep the budget, to one part in 100,000, rounded up.

    ``events`` must leak less as x grows.

    >>> from veilrec.privacy.events import LaplaceEvent
    >>> round(smallest_noise(lambda b: [LaplaceEvent(noise_multiplier=b)], 0.5, 0.0), 3)
    2.0
    """
    check_budget(epsilon, delta)
    check(epsilon <= 1e4, "epsilon", "at most 10,000", epsilon, "With more nothing is hidden.")

    def over(x: float) -> float:
        """Above 0 when ``events(x)`` cost more than epsilon; nearly a straight line in log x."""
        found = epsilon_of(events(x), delta, neighbours)
        return math.log(min(max(found, 1e-12), 1e12) / epsilon) if found != epsilon else 0.0

    known = _known.get()
    if known is not None:
        good = [x for x in known if -1e-3 < over(x) <= 1e-9]
        check(bool(good), "noise", f"what epsilon {epsilon:g} asks for", list(known), "It was changed.")
        return good[0]
    ends = {"low": (start, over(start)), "high": (start, over(start))}
    while ends["high"][1] > 0:
        x = 2 * ends["high"][0]
        check(x < 1e30, "epsilon", "reachable with some noise", epsilon, "Another part already costs more.")
        ends = {"low": ends["high"], "high": (x, over(x))}
    while ends["low"][1] <= 0:
        x = ends["low"][0] / 2
        if x < 1e-9:
            return ends["low"][0]
        ends = {"low": (x, over(x)), "high": ends["low"]}
    turn = 0
    while ends["high"][0] / ends["low"][0] > 1 + TOLERANCE:
        (low, above), (high, below) = ends["low"], ends["high"]
        # A straight line between the ends; every fourth time the middle, in case it is not one.
        share = 0.5 if turn % 4 == 3 else above / (above - below)
        guess = low * (high / low) ** share
        for x in (guess * (1 + TOLERANCE / 3), guess / (1 + TOLERANCE / 3)):
            if ends["low"][0] < x < ends["high"][0]:
                found = over(x)
                ends["low" if found > 0 else "high"] = (x, found)
        turn += 1
    return ends["high"][0]
