"""Noise that is added to vectors: as wide as the event says, whatever the sensitivity."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from veilrec.privacy.mechanisms.additive import Additive

SIZE = 100_000
# For each kind: the deviation in units of noise_multiplier x sensitivity, and the kurtosis.
KINDS: dict[type[Additive], tuple[float, int]] = {
    Gaussian: (1.0, 3),
    Laplace: (math.sqrt(2), 6),
    DiscreteGaussian: (1.0, 3),
    DiscreteLaplace: (math.sqrt(2), 6),
}


def as_wide_as_stated(mechanism: Additive, drawn: np.ndarray, sigmas: float) -> bool:
    """Whether the mean square is what the mechanism states, to the rounding of whole numbers (2 %)."""
    width, kurtosis = KINDS[type(mechanism)]
    stated = (width * mechanism.noise_multiplier * mechanism.sensitivity) ** 2
    room = sigmas * math.sqrt((kurtosis - 1) / drawn.size) + 0.02
    return abs(float(np.square(drawn.astype(float)).mean()) / stated - 1) < room


@pytest.mark.parametrize("grade", ["research", "secure"])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_as_wide_as_the_event_says(kind: type[Additive], grade: str) -> None:
    """With a sensitivity other than 1, where a width that forgets it shows."""
    for multiplier, sensitivity in ((2.0, 7.0), (30.0, 0.4)):
        mechanism = kind(multiplier, sensitivity)
        noise = Noise.secure() if grade == "secure" else Noise.research(3, "additive")
        drawn = mechanism.release(np.zeros(SIZE, np.int64), noise, "counts")
        assert as_wide_as_stated(mechanism, drawn, sigmas=6)
        assert not as_wide_as_stated(mechanism, drawn / sensitivity, sigmas=6)  # the control
        (event,) = noise.events
        spent = getattr(event, "noise_multiplier", None) or 1 / event.epsilon
        assert spent == pytest.approx(multiplier, rel=1e-2)
        assert (event.label, event.neighbours) == ("counts", "add-remove")
