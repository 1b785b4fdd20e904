"""Whole-number noise on whole-number vectors: discrete Laplace and discrete Gaussian.

Guarantee of ``DiscreteLaplace``: P(x) proportional to exp(-|x| / scale) changes by at most a factor
exp(1 / noise_multiplier) when the vector moves by ``sensitivity`` in L1 norm. It is stated as a pure event,
not as a Laplace one: at sensitivity 1 its loss takes the two extreme values only, which composes worse than
Laplace noise. Reference: Ghosh, Roughgarden and Sundararajan, STOC 2009.

Guarantee of ``DiscreteGaussian``: that of Gaussian noise of variance sigma^2 - 2. Take N(x, sigma^2 - 2) and
round y to the whole number j with a chance proportional to exp(-(j - y)^2 / 4): the sum over j of these
numbers is the same for all y up to 2 exp(-4 pi^2) = 1.4e-17 of itself (Poisson summation), so the result is
the discrete Gaussian of variance sigma^2 around x up to that factor, and rounding is post-processing. The
factor costs a pure 6e-17 per coordinate. Gaussian noise of the full sigma would be the wrong event: the
exact curve of the discrete one lies above it, by 2 % at sigma 10 (a sum overestimates where a curve bends).
Only the Renyi bound is the same (Canonne, Kamath, Steinke, "The discrete Gaussian for DP", 2020, theorem 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_positive
from veilrec.privacy.calibration import gaussian_multiplier
from veilrec.privacy.events import GaussianEvent, Neighbours, PureEvent
from veilrec.privacy.mechanisms.additive import Additive, PureBudget
from veilrec.privacy.noise import Noise

# What the argument above gives away of the variance, and the smallest sigma for which it is worth it.
ROUNDING_VARIANCE = 2.0
SMALLEST_SIGMA = 2.0
_LARGEST = 1 << 62


@dataclass(frozen=True)
class DiscreteLaplace(PureBudget):
    """Adds discrete Laplace noise of scale noise_multiplier x sensitivity (L1) to every coordinate.

    >>> mechanism = DiscreteLaplace.for_budget(0.5, sensitivity=2.0)
    >>> mechanism.scale, mechanism.event.epsilon
    (4.0, 0.5)
    >>> mechanism.release([1, 2], Noise.research(1)).dtype
    dtype('int64')
    """

    @property
    def event(self) -> PureEvent:
        """One release."""
        return PureEvent(epsilon=1 / self.noise_multiplier, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.int64]:
        """The values with noise. The caller has clipped them: nothing here can check the sensitivity."""
        x = whole_numbers(values)
        out = x + noise.discrete_laplace(self.scale, x.shape)
        noise.record(self.event.named(label))
        return out


@dataclass(frozen=True)
class DiscreteGaussian(Additive):
    """Adds discrete Gaussian noise of sigma = noise_multiplier x sensitivity (L2) to every coordinate.

    >>> mechanism = DiscreteGaussian.for_budget(1.0, 1e-5, sensitivity=20.0)
    >>> round(mechanism.sigma, 2), round(mechanism.event.noise_multiplier * 20, 2)
    (74.63, 74.61)
    >>> mechanism.release([1, 2], Noise.research(1)).dtype
    dtype('int64')
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Count in smaller units: values and sensitivity both times 10, say."
        check(self.sigma >= SMALLEST_SIGMA, "sigma", f"at least {SMALLEST_SIGMA}", self.sigma, remedy)

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: float = 1.0,
        *,
        count: int = 1,
        neighbours: Neighbours = "add-remove",
    ) -> DiscreteGaussian:
        """The least noise that keeps (epsilon, delta) over ``count`` releases."""
        check_positive("sensitivity", sensitivity)
        plain = sensitivity * gaussian_multiplier(epsilon, delta, count=count)
        sigma = max(SMALLEST_SIGMA, math.hypot(plain, math.sqrt(ROUNDING_VARIANCE)))
        return cls((1 + 1e-12) * sigma / sensitivity, sensitivity, neighbours)  # rounds up

    @property
    def sigma(self) -> float:
        """The parameter of the noise, and to all digits its standard deviation."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """One release, as Gaussian noise of variance sigma^2 - 2."""
        plain = math.sqrt(self.sigma**2 - ROUNDING_VARIANCE) / self.sensitivity
        return GaussianEvent(noise_multiplier=plain, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.int64]:
        """The values with noise. The caller has clipped them: nothing here can check the sensitivity."""
        x = whole_numbers(values)
        out = x + noise.discrete_gaussian(self.sigma, x.shape)
        noise.record(self.event.named(label))
        return out


def whole_numbers(values: ArrayLike) -> NDArray[np.int64]:
    """The values as whole numbers; anything else is refused.

    >>> whole_numbers([1.5])
    Traceback (most recent call last):
        ...
    ValueError: values must be whole numbers (an integer array), got dtype('float64'). Round them first.
    """
    x = np.asarray(values)
    good = np.issubdtype(x.dtype, np.integer) or x.size == 0
    check(good, "values", "whole numbers (an integer array)", x.dtype, "Round them first.")
    top = int(x.max(initial=0)), int(x.min(initial=0))
    check(max(top[0], -top[1]) < _LARGEST, "values", "below 2^62 in size", top)
    return x.astype(np.int64)
