"""The statement that travels with every model: what is kept from whom, and what is not.

A model without a mechanism has a statement too, and it says so plainly. Epsilon is never an argument: it is
composed from the events of the mechanisms that ran, and a model with no events has none to compose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Guarantee:
    """What a fitted model promises about the people in its data.

    >>> print(Guarantee.none("ease", reads=("interactions",)))
    Privacy statement of ease
      protection: none. No mechanism ran, so no finite epsilon holds for anyone.
      read without noise: interactions
      not covered: everything released by the model: its parameters, scores and lists
    """

    model: str
    reads: tuple[str, ...]
    not_covered: tuple[str, ...]

    @classmethod
    def none(cls, model: str, *, reads: tuple[str, ...]) -> Guarantee:
        """The statement of a model that adds no noise."""
        return cls(model, reads, ("everything released by the model: its parameters, scores and lists",))

    @property
    def epsilon(self) -> float:
        """The composed epsilon; infinite when no mechanism ran."""
        return math.inf

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON-ready values; an infinite epsilon is written as null."""
        return {
            "model": self.model,
            "protection": "none",
            "epsilon": None,
            "reads": list(self.reads),
            "not_covered": list(self.not_covered),
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Guarantee:
        """The statement saved in ``privacy.json``.

        >>> statement = Guarantee.none("ease", reads=("interactions",))
        >>> Guarantee.from_dict(statement.to_dict()) == statement
        True
        """
        return cls(value["model"], tuple(value["reads"]), tuple(value["not_covered"]))

    def __str__(self) -> str:
        lines = [
            f"Privacy statement of {self.model}",
            "  protection: none. No mechanism ran, so no finite epsilon holds for anyone.",
            f"  read without noise: {', '.join(self.reads)}",
        ]
        return "\n".join([*lines, *(f"  not covered: {thing}" for thing in self.not_covered)])
