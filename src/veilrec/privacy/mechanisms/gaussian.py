"""Gaussian noise on a bounded vector.

Guarantee. Unit and relation: whatever moves the vector by at most ``sensitivity`` in L2 norm. One release is
(epsilon, delta)-DP for exactly the curve of ``gaussian_profile`` with mu = 1 / noise_multiplier. Reference:
Balle and Wang, ICML 2018, theorem 8 (the analytic Gaussian mechanism). In secure mode the noise is discrete
Gaussian on a lattice of 2^24 steps per sigma. That is a post-processing of N(0, sigma^2 - 2 steps^2) up to
6e-17 per coordinate (``integer.py``), a sigma smaller by 4e-15 of itself; the noise is enlarged for the
rounding by far more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.privacy.calibration import gaussian_multiplier
from veilrec.privacy.events import GaussianEvent, Neighbours
from veilrec.privacy.mechanisms.additive import Additive
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class Gaussian(Additive):
    """Adds N(0, (noise_multiplier x sensitivity)^2) to every coordinate.

    >>> mechanism = Gaussian.for_budget(1.0, 1e-5, sensitivity=2.0)
    >>> round(mechanism.sigma, 2)
    7.46
    >>> noise = Noise.research(1)
    >>> mechanism.release([10.0, 20.0], noise).shape, len(noise.events)
    ((2,), 1)
    """

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: float = 1.0,
        *,
        count: int = 1,
        neighbours: Neighbours = "add-remove",
    ) -> Gaussian:
        """The least noise that keeps (epsilon, delta) over ``count`` releases."""
        return cls(gaussian_multiplier(epsilon, delta, count=count), sensitivity, neighbours)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """One release."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.float64]:
        """The values with noise. The caller has clipped them: nothing here can check the sensitivity."""
        out = noise.add_gaussian(values, self.sigma, self.sensitivity)
        noise.record(self.event.named(label))
        return out
