"""Mechanisms, events, the accountant and the statement. The statement comes first: no model is without."""

from veilrec.privacy.guarantee import Guarantee

__all__ = [
    "Guarantee",
]
