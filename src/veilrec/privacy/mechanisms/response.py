"""Randomised response: a bit, or one of k categories, told truly with a probability that is known.

Guarantee. Unit: one bit or one category, replaced. Local: the report itself is epsilon-DP, whoever sees it.
A bit is kept with p1 = e^epsilon / (1 + e^epsilon) (Warner, 1965); a category with e^epsilon / (e^epsilon +
k - 1), else one of the other k - 1 evenly (Kairouz, Bonawitz, Ramage, ICML 2016). The ratio of any two
output probabilities is e^epsilon exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_positive
from veilrec.privacy.events import PureEvent
from veilrec.privacy.noise import Noise

# Coins have 128 binary places; a larger epsilon is not used up.
_LARGEST = 80.0
# Rounds the chance of a lie up, by far more than the error of exp.
_SAFE = 2.0**-48


def _inverse_exp(epsilon: float) -> float:
    return (1 + _SAFE) * math.exp(-min(epsilon, _LARGEST))


@dataclass(frozen=True)
class BitResponse:
    """Flips each bit with probability 1 / (1 + e^epsilon).

    >>> mechanism = BitResponse(epsilon=1.0)
    >>> mechanism.perturb([True, False], Noise.research(1)).dtype
    dtype('bool')
    >>> mechanism.estimate([1, 0]).round(2).tolist()   # unbiased for the true bits
    [1.58, -0.58]
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    @property
    def keep(self) -> float:
        """The probability of telling the truth."""
        return 1 - self.flip

    @property
    def flip(self) -> float:
        """The probability of a lie."""
        small = _inverse_exp(self.epsilon)
        return small / (1 + small)

    @property
    def event(self) -> PureEvent:
        """One report of one bit."""
        return PureEvent(epsilon=self.epsilon, neighbours="replace")

    def perturb(self, bits: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.bool_]:
        """The reports. Each bit belongs to another unit; one unit with k bits pays k epsilon."""
        x = np.asarray(bits)
        check(bool(np.isin(x, (0, 1)).all()), "bits", "0 or 1", x)
        out = x.astype(bool) ^ noise.coins(self.flip, x.shape)
        noise.record(self.event.named(label))
        return out

    def estimate(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Unbiased estimates; the variance is keep x flip / (keep - flip)^2."""
        return (np.asarray(reports, np.float64) - self.flip) / (self.keep - self.flip)


@dataclass(frozen=True)
class CategoryResponse:
    """Keeps a category of ``categories`` with probability e^epsilon / (e^epsilon + categories - 1).

    >>> mechanism = CategoryResponse(epsilon=1.0, categories=4)
    >>> reports = mechanism.perturb([0, 3, 2], Noise.research(1))
    >>> bool(((reports >= 0) & (reports < 4)).all())
    True
    """

    epsilon: float
    categories: int

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_count("categories", self.categories, 2)

    @property
    def keep(self) -> float:
        """The probability of telling the truth."""
        return 1 / (1 + (self.categories - 1) * _inverse_exp(self.epsilon))

    @property
    def lie(self) -> float:
        """The probability of each of the other categories."""
        return _inverse_exp(self.epsilon) * self.keep

    @property
    def event(self) -> PureEvent:
        """One report of one category."""
        return PureEvent(epsilon=self.epsilon, neighbours="replace")

    def perturb(self, codes: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.int64]:
        """The reports of the category codes 0 to ``categories`` - 1."""
        x = np.asarray(codes)
        good = np.issubdtype(x.dtype, np.integer) and ((x >= 0) & (x < self.categories)).all()
        check(bool(good), "codes", f"whole numbers from 0 to {self.categories - 1}", x)
        lies = noise.coins((self.categories - 1) * self.lie, x.shape)
        others = (x + 1 + noise.below(self.categories - 1, x.shape)) % self.categories
        noise.record(self.event.named(label))
        return np.where(lies, others, x).astype(np.int64)

    def estimate(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Unbiased counts of the categories from the reports."""
        counts = np.bincount(np.asarray(reports), minlength=self.categories)
        return np.asarray((counts - counts.sum() * self.lie) / (self.keep - self.lie))
