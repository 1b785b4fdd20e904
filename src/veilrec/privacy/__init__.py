"""Mechanisms, events, the accountant and the statement. The statement comes first: no model is without."""

from veilrec.privacy.accountant import delta_of, epsilon_of
from veilrec.privacy.calibration import gaussian_multiplier, smallest_noise
from veilrec.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    Neighbours,
    PureEvent,
    SkellamEvent,
    UnboundedEvent,
    UnsupportedEvent,
)
from veilrec.privacy.guarantee import Claim, Guarantee
from veilrec.privacy.noise import Noise

__all__ = [
    "Claim",
    "Event",
    "GaussianEvent",
    "Guarantee",
    "LaplaceEvent",
    "Neighbours",
    "Noise",
    "PureEvent",
    "SkellamEvent",
    "UnboundedEvent",
    "UnsupportedEvent",
    "delta_of",
    "epsilon_of",
    "gaussian_multiplier",
    "smallest_noise",
]
