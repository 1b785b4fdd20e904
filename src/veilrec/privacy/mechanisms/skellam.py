"""Skellam noise for secure sums: every party adds a share, the sum of the shares has the variance wanted.

Guarantee. Unit and relation: whatever moves the whole-number vector by at most ``l2`` and ``l1``. The Renyi
curve is that of ``veilrec.privacy.renyi``. Reference: Agarwal, Kairouz and Liu, "The Skellam mechanism for
differentially private federated learning", NeurIPS 2021, theorem 3.5. Skellam numbers are differences of two
Poisson counts, so sums of shares are Skellam again: B shares of variance mu / B make mu exactly.

Real vectors become whole ones by ``quantise``; ``whole_bounds`` says how far one of them can then move a sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_choice, check_count, check_positive
from veilrec.privacy.calibration import smallest_noise
from veilrec.privacy.events import RELATIONS, Neighbours, SkellamEvent
from veilrec.privacy.mechanisms.integer import whole_numbers
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class Skellam:
    """Adds Skellam noise of the given ``variance`` to every coordinate.

    >>> l2, l1 = whole_bounds(clip=1.0, scale=1000, dimension=16)
    >>> mechanism = Skellam.for_budget(2.0, 1e-5, l2, l1)
    >>> noise = Noise.research(1)
    >>> mechanism.release(quantise(np.full(16, 0.25), 1000), noise).dtype
    dtype('int64')
    >>> mechanism.share(100, (16,), noise).shape, len(noise.events)   # a share is no release
    ((16,), 1)
    """

    variance: float
    l2: float
    l1: float
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        for name in ("variance", "l2", "l1"):
            check_positive(name, getattr(self, name))
        check_choice("neighbours", self.neighbours, RELATIONS)

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        l2: float,
        l1: float,
        *,
        count: int = 1,
        neighbours: Neighbours = "add-remove",
    ) -> Skellam:
        """The least noise that keeps (epsilon, delta) over ``count`` releases."""
        check_positive("l2", l2)
        check(0 < delta < 1, "delta", "above 0 and below 1", delta)

        def events(multiplier: float) -> list[SkellamEvent]:
            variance = (multiplier * l2) ** 2
            return [SkellamEvent(variance=variance, l2=l2, l1=l1, count=count, neighbours=neighbours)]

        found = smallest_noise(events, epsilon, delta, neighbours)
        return cls((found * l2) ** 2, l2, l1, neighbours)

    @property
    def event(self) -> SkellamEvent:
        """One release of the sum with all its noise."""
        return SkellamEvent(variance=self.variance, l2=self.l2, l1=self.l1, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.int64]:
        """The sum with all its noise, drawn in one place."""
        x = whole_numbers(values)
        out = x + noise.skellam(self.variance, x.shape)
        noise.record(self.event.named(label))
        return out

    def share(self, parties: int, shape: tuple[int, ...], noise: Noise) -> NDArray[np.int64]:
        """The noise that one of ``parties`` adds; whoever releases the sum records ``event``.

        ``parties``: how many honest shares are sure to arrive, at most: with drop-outs and colluders fewer
        than there are. More shares than that only add noise; fewer void the guarantee.
        """
        check_count("parties", parties)
        return noise.skellam(self.variance / parties, shape)


def quantise(values: ArrayLike, scale: float) -> NDArray[np.int64]:
    """The whole numbers nearest to scale x values.

    >>> quantise([0.26, -1.0], 10).tolist()
    [3, -10]
    """
    check_positive("scale", scale)
    x = np.asarray(values, np.float64) * scale
    good = np.abs(x) < 2.0**62  # false for NaN too
    check(bool(good.all()), "values", "finite and below 2^62 once scaled", x[~good][:1].tolist())
    return np.rint(x).astype(np.int64)


def whole_bounds(clip: float, scale: float, dimension: int) -> tuple[float, float]:
    """The L2 and L1 norm that ``quantise`` of a vector of L2 norm ``clip`` cannot exceed.

    Rounding moves each coordinate by a half at most: D2 = scale x clip + sqrt(dimension) / 2. A whole number
    is no larger than its square: D1 = min(sqrt(dimension) D2, D2^2).

    >>> whole_bounds(clip=1.0, scale=100, dimension=4)
    (101.0, 202.0)
    """
    for name, value in (("clip", clip), ("scale", scale)):
        check_positive(name, value)
    check_count("dimension", dimension)
    l2 = scale * clip + math.sqrt(dimension) / 2
    return l2, min(math.sqrt(dimension) * l2, l2**2)


def modulus(parties: int, clip: float, scale: float, variance: float) -> int:
    """The smallest modulus of a secure sum that 2 parties (scale x clip + 12 sqrt(variance)) stays below, so
    that no sum wraps around.

    >>> modulus(parties=10, clip=1.0, scale=100, variance=25.0)
    3201
    """
    check_count("parties", parties)
    for name, value in (("clip", clip), ("scale", scale), ("variance", variance)):
        check_positive(name, value)
    return math.floor(2 * parties * (scale * clip + 12 * math.sqrt(variance))) + 1
