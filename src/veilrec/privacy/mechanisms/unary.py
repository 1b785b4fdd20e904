"""Optimised unary encoding: one of k categories, reported as k noisy bits.

Guarantee. Unit: one category, replaced. Local: the report itself is epsilon-DP, whoever sees it. The bit of
the true category is 1 with probability p = 1/2, every other bit with q = 1 / (e^epsilon + 1). Two categories
differ in two bits, so the largest ratio is p (1 - q) / (q (1 - p)) = e^epsilon. Reference: Wang, Blocki, Li
and Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_positive
from veilrec.privacy.events import PureEvent
from veilrec.privacy.noise import Noise

_SMALLEST = 1e-6  # below it p - q, by which estimates divide, drowns in rounding
_LARGEST = 80.0  # coins have 128 binary places; a larger epsilon is not used up
_SAFE = 2.0**-48  # rounds q up, by far more than the error of exp


@dataclass(frozen=True)
class UnaryEncoding:
    """Reports a code below ``categories`` as that many bits.

    >>> mechanism = UnaryEncoding(epsilon=2.5, categories=3)
    >>> reports = mechanism.perturb([0, 2, 2, 1], Noise.research(1))
    >>> reports.shape, reports.dtype
    ((4, 3), dtype('bool'))
    >>> round(mechanism.variance_zero, 3), round(mechanism.variance_one, 3)
    (0.39, 1.39)
    """

    epsilon: float
    categories: int

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        remedy = "With less, reports are coin flips from which nothing can be estimated."
        check(self.epsilon >= _SMALLEST, "epsilon", f"at least {_SMALLEST:g}", self.epsilon, remedy)
        check_count("categories", self.categories, 2)

    @property
    def truth(self) -> float:
        """p: the probability that the bit of the true category is reported as 1."""
        return 0.5

    @property
    def false(self) -> float:
        """q: the probability that the bit of any other category is reported as 1."""
        small = math.exp(-min(self.epsilon, _LARGEST))
        return min(0.5, (1 + _SAFE) * small / (1 + small))

    @property
    def event(self) -> PureEvent:
        """One report of one category."""
        return PureEvent(epsilon=self.epsilon, neighbours="replace")

    def perturb(self, codes: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.bool_]:
        """The reports, one more axis than the codes. Each code belongs to another unit."""
        out = self.draw(codes, noise)
        noise.record(self.event.named(label))
        return out

    def draw(self, codes: ArrayLike, noise: Noise) -> NDArray[np.bool_]:
        """The reports, unrecorded: for a mechanism that records the event of a whole of which this is part.

        >>> UnaryEncoding(1.0, 4).draw([3], Noise.research(1)).shape
        (1, 4)
        """
        x = np.asarray(codes)
        good = np.issubdtype(x.dtype, np.integer) and ((x >= 0) & (x < self.categories)).all()
        check(bool(good), "codes", f"whole numbers from 0 to {self.categories - 1}", x)
        chosen = x[..., None] == np.arange(self.categories)
        return noise.coins(np.where(chosen, self.truth, self.false), chosen.shape)

    def estimate(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Unbiased frequencies of the categories (they may lie below 0 or above 1).

        >>> UnaryEncoding(2.5, 2).estimate([[1, 0], [1, 0]]).round(3).tolist()
        [2.179, -0.179]
        """
        bits = np.asarray(reports, np.float64)
        good = bits.ndim >= 1 and bits.shape[-1] == self.categories and bits.size > 0
        check(good, "reports", f"some rows of {self.categories} bits", bits.shape)
        share = bits.reshape(-1, self.categories).mean(axis=0)
        return np.asarray((share - self.false) / (self.truth - self.false))

    @property
    def variance_zero(self) -> float:
        """The variance that one report adds to the estimate of a category it has not: 4 e / (e - 1)^2."""
        return 4 * math.exp(-self.epsilon) / math.expm1(-self.epsilon) ** 2

    @property
    def variance_one(self) -> float:
        """The same for the category that it has: 1 more."""
        return self.variance_zero + 1
