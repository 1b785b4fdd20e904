"""The piecewise mechanism: one number of [-1, 1], reported within [-C, C], right on average.

Guarantee. Unit: one number, replaced. Local: the report itself is epsilon-DP, whoever sees it. With
E = e^(epsilon/2) the report falls with probability E / (E + 1) evenly into a window around the number, else
evenly outside, and the two densities differ by the factor e^epsilon. Reference: Wang et al., "Collecting and
analyzing multidimensional data with local differential privacy", ICDE 2019, algorithm 2.

The reports are cells of a lattice, chosen by whole numbers alone, in both grades of noise: ``inner`` cells in
the window and ``outer`` = floor(inner x E) others, so the possible reports are the same for every number and
no rounding can raise the ratio of two probabilities above e^epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_choice, check_positive, warn
from veilrec.privacy.events import PureEvent
from veilrec.privacy.noise import Noise

Outside = Literal["refuse", "clamp"]
OUTSIDE: tuple[Outside, ...] = ("refuse", "clamp")

_SMALLEST = 1e-6  # below it the lattice is too coarse to tell E from 1
_LARGEST_HALF = 27.0  # e^27 < 2^39: a larger epsilon is not used up
_SAFE = 2.0**-48  # far above the error of exp, far below anything visible


@dataclass(frozen=True)
class Piecewise:
    """Reports numbers of [-1, 1]; a number outside is refused, or with ``outside="clamp"`` moved to the edge
    under a DataWarning that counts how many were.

    >>> mechanism = Piecewise(epsilon=2.5)
    >>> reports = mechanism.perturb([0.3, -1.0], Noise.research(1))
    >>> bool((abs(reports) <= mechanism.bound).all())
    True
    >>> round(float(mechanism.variance(0.0)), 4)
    0.3488
    """

    epsilon: float
    outside: Outside = "refuse"

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check(self.epsilon >= _SMALLEST, "epsilon", f"at least {_SMALLEST}", self.epsilon)
        check_choice("outside", self.outside, OUTSIDE)

    @property
    def event(self) -> PureEvent:
        """One report of one number."""
        return PureEvent(epsilon=self.epsilon, neighbours="replace")

    # -- the lattice ----------------------------------------------------------------------------------

    @property
    def root(self) -> float:
        """E = e^(epsilon/2), at most e^27."""
        return math.exp(min(self.epsilon / 2, _LARGEST_HALF))

    @property
    def inner(self) -> int:
        """How many cells the window has: a power of two, so that all cells together stay below 2^51."""
        return 1 << min(30, 49 - math.frexp(self.root)[1])

    @property
    def outer(self) -> int:
        """How many cells lie outside of the window."""
        return math.floor(self.inner * self.root * (1 - _SAFE))

    @property
    def miss(self) -> float:
        """The probability of a report outside of the window, never below 1 / (E + 1)."""
        return (1 + _SAFE) / (1 + self.root)

    @property
    def step(self) -> float:
        """The width of a cell, such that the mean of the reports is the number."""
        return 2 / (self.outer * (1 - self.miss) - self.inner * self.miss)

    @property
    def ratio(self) -> Fraction:
        """The exact ratio of the two cell probabilities, the largest there is: at most e^epsilon."""
        miss = Fraction(self.miss)
        return (1 - miss) / miss * Fraction(self.outer, self.inner)

    @property
    def bound(self) -> float:
        """C = (E + 1) / (E - 1): no report is larger."""
        return (self.inner + self.outer) / 2 * self.step

    def variance(self, x: ArrayLike) -> NDArray[np.float64]:
        """The variance of a report of ``x``: x^2 / (E - 1) + (E + 3) / (3 (E - 1)^2)."""
        e = self.root
        less = math.expm1(min(self.epsilon / 2, _LARGEST_HALF))
        return np.asarray(np.asarray(x, np.float64) ** 2 / less + (e + 3) / (3 * less**2))

    # -- the reports ----------------------------------------------------------------------------------

    def perturb(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.float64]:
        """The reports. Each number belongs to another unit; one unit with k numbers pays k epsilon."""
        out = self.draw(values, noise)
        noise.record(self.event.named(label))
        return out

    def draw(self, values: ArrayLike, noise: Noise) -> NDArray[np.float64]:
        """The reports, unrecorded: for a mechanism that records the event of a whole of which this is part.

        >>> Piecewise(1.0).draw([0.5], Noise.research(1)).shape
        (1,)
        """
        x = self._inside(np.asarray(values, np.float64))
        left = np.rint((x + 1) / 2 * self.outer).astype(np.int64)
        near = left + noise.below(self.inner, x.shape)
        far = noise.below(self.outer, x.shape)
        far = np.where(far < left, far, far + self.inner)  # skips the window
        cell = np.where(noise.coins(self.miss, x.shape), far, near)
        return np.asarray((cell + 0.5 - (self.inner + self.outer) / 2) * self.step)

    def _inside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        bad = ~(np.abs(x) <= 1)
        if not bad.any():
            return x
        first = float(x[bad][0])
        remedy = 'Scale by a public range first, or say outside="clamp".'
        good = self.outside == "clamp" and not np.isnan(x).any()
        check(good, "values", "numbers from -1 to 1", first, remedy)
        message = f"{int(bad.sum())} of {x.size} values lay outside of [-1, 1] and were moved to its edge"
        warn(message)
        return np.clip(x, -1, 1)
