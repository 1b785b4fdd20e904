"""Laplace noise on a bounded vector.

Guarantee. Whatever moves the vector by at most ``sensitivity`` in L1 norm changes the density of the output
by at most a factor exp(1 / noise_multiplier): pure epsilon = sensitivity / scale. Reference: Dwork, McSherry,
Nissim and Smith, TCC 2006. In secure mode the noise is discrete Laplace on a lattice of 2^28 steps per scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.privacy.events import LaplaceEvent
from veilrec.privacy.mechanisms.additive import PureBudget
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class Laplace(PureBudget):
    """Adds Laplace noise of scale noise_multiplier x sensitivity to every coordinate.

    >>> mechanism = Laplace.for_budget(0.5, sensitivity=2.0)
    >>> mechanism.scale
    4.0
    >>> mechanism.release([1.0, 2.0], Noise.research(1)).shape
    (2,)
    """

    @property
    def event(self) -> LaplaceEvent:
        """One release."""
        return LaplaceEvent(noise_multiplier=self.noise_multiplier, neighbours=self.neighbours)

    def release(self, values: ArrayLike, noise: Noise, label: str = "") -> NDArray[np.float64]:
        """The values with noise. The caller has clipped them: nothing here can check the sensitivity."""
        out = noise.add_laplace(values, self.scale, self.sensitivity)
        noise.record(self.event.named(label))
        return out
