"""Budget in, noise out: the smallest noise that keeps a budget, never less.

Closed forms where there are any, else a bisection over the accountant that ends on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from veilrec.core import check
from veilrec.privacy.accountant import epsilon_of
from veilrec.privacy.events import Event, GaussianEvent, Neighbours, check_budget
from veilrec.privacy.gaussian_profile import gaussian_mu

TOLERANCE = 1e-5


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

    def kept(x: float) -> bool:
        return epsilon_of(events(x), delta, neighbours) <= epsilon

    low = high = start
    for _ in range(80):
        if kept(high):
            break
        low, high = high, 2 * high
    else:
        check(False, "epsilon", "reachable with some noise", epsilon, "Another part already costs more.")
    while low == high or kept(low):
        high, low = (low, low / 2)
        if low < 1e-9:
            return high
    while high / low > 1 + TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high
