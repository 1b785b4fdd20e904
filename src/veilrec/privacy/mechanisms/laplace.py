"""Laplace noise on a bounded vector.

Guarantee. Whatever moves the vector by at most ``sensitivity`` in L1 norm changes the density of the output
by at most a factor exp(1 / noise_multiplier): pure epsilon = sensitivity / scale. Reference: Dwork, McSherry,
Nissim and Smith, TCC 2006. In secure mode the noise is discrete Laplace on a lattice of 2^28 steps per scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check_choice, check_positive
from veilrec.privacy.events import RELATIONS, LaplaceEvent, Neighbours
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class Laplace:
    """Adds Laplace noise of scale noise_multiplier x sensitivity to every coordinate.

    >>> mechanism = Laplace.for_budget(0.5, sensitivity=2.0)
    >>> mechanism.scale
    4.0
    >>> mechanism.release([1.0, 2.0], Noise.research(1)).shape
    (2,)
    """

    noise_multiplier: float
    sensitivity: float = 1.0
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)
        check_positive("sensitivity", self.sensitivity)
        check_choice("neighbours", self.neighbours, RELATIONS)

    @classmethod
    def for_budget(
        cls, epsilon: float, sensitivity: float = 1.0, *, neighbours: Neighbours = "add-remove"
    ) -> Laplace:
        """The least noise that keeps epsilon."""
        check_positive("epsilon", epsilon)
        return cls(1 / epsilon, sensitivity, neighbours)

    @property
    def scale(self) -> float:
        """The scale b of the noise; its standard deviation is b sqrt(2)."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> LaplaceEvent:
        """One release."""
        return LaplaceEvent(noise_multiplier=self.noise_multiplier, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.float64]:
        """The values with noise. The caller has clipped them: nothing here can check the sensitivity."""
        out = noise.add_laplace(values, self.scale, self.sensitivity)
        noise.record(self.event.named(label))
        return out
