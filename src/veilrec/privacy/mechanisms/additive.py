"""What mechanisms that add noise to a vector have in common: a width, and the relation it is meant for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from veilrec.core import check_choice, check_positive
from veilrec.privacy.events import RELATIONS, Neighbours


@dataclass(frozen=True)
class Additive:
    """Noise of width noise_multiplier x sensitivity; ``neighbours`` is the relation of the sensitivity."""

    noise_multiplier: float
    sensitivity: float = 1.0
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)
        check_positive("sensitivity", self.sensitivity)
        check_choice("neighbours", self.neighbours, RELATIONS)


@dataclass(frozen=True)
class PureBudget(Additive):
    """For noise whose epsilon is sensitivity / width."""

    @classmethod
    def for_budget(
        cls, epsilon: float, sensitivity: float = 1.0, *, neighbours: Neighbours = "add-remove"
    ) -> Self:
        """The least noise that keeps epsilon."""
        check_positive("epsilon", epsilon)
        return cls(1 / epsilon, sensitivity, neighbours)

    @property
    def scale(self) -> float:
        """The scale b of the noise; its standard deviation is about b sqrt(2)."""
        return self.noise_multiplier * self.sensitivity
