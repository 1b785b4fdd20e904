"""Mechanisms, events, the accountant and the statement. The statement comes first: no model is without."""

from veilrec.privacy.accountant import delta_of, epsilon_of
from veilrec.privacy.calibration import (
    default_delta,
    gaussian_multiplier,
    known_noise,
    remembered,
    smallest_noise,
)
from veilrec.privacy.clipping import (
    check_clip_norm,
    clip_parts,
    clip_rows,
    clip_users,
    clip_values,
    joint_norm,
)
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
from veilrec.privacy.ledger import Ledger, Reservation
from veilrec.privacy.ledger_entries import new_token
from veilrec.privacy.ledger_records import Account, LimitChange, Spend
from veilrec.privacy.noise import Noise, check_laplace_lattice, check_lattice
from veilrec.privacy.once import AlreadyReleased, Once

__all__ = [
    "Account",
    "AlreadyReleased",
    "Claim",
    "Event",
    "GaussianEvent",
    "Guarantee",
    "LaplaceEvent",
    "Ledger",
    "LimitChange",
    "Neighbours",
    "Noise",
    "Once",
    "PureEvent",
    "Reservation",
    "SkellamEvent",
    "Spend",
    "UnboundedEvent",
    "UnsupportedEvent",
    "check_clip_norm",
    "check_laplace_lattice",
    "check_lattice",
    "clip_parts",
    "clip_rows",
    "clip_users",
    "clip_values",
    "default_delta",
    "delta_of",
    "epsilon_of",
    "gaussian_multiplier",
    "joint_norm",
    "known_noise",
    "new_token",
    "remembered",
    "smallest_noise",
]
