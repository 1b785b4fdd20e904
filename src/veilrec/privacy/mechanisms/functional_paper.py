"""The functional mechanism of GERAI as published, and what it really proves.

Each coefficient of the pairwise loss (d of degree 1, d (d + 1) / 2 of degree 2, unordered) gets Laplace
noise of scale Delta / (epsilon |D|), Delta = d + d^2 / 4, with q elementwise in (-1, 1).

Guarantee. Unit: one training pair, replaced, with q otherwise *fixed*. A pair has |q / 2|_1 + |q q^T / 8|_1
<= d / 2 + d^2 / 8 = Delta / 2. Noise on the means of batches of b pairs is pure epsilon = (Delta / b) /
scale = epsilon |D| / b per step, and per pass over the data, as a pair is in one batch of a pass: 500 at
the paper's settings, not 0.4. With b = |D|, coefficients computed one time only, it is epsilon. Noise drawn
once and reused while the coefficients change cancels in the difference of two steps: no finite epsilon. In
every case h alone is covered: the loss has no noise term in the other parameters. ``FunctionalMechanism``
is the sound form. Reference: Zhang, Yin, Chen, Huang, Cui and Nguyen, "Graph embedding for recommendation
against attribute inference attacks", WWW 2021, lemma 4.3 and algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_choice, check_count, check_positive
from veilrec.privacy.events import Event, PureEvent, UnboundedEvent
from veilrec.privacy.noise import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PaperFunctional:
    """Laplace noise on the coefficients of a batch mean: fresh at every step, or drawn once and reused.

    >>> mechanism = PaperFunctional(epsilon=0.4, dimension=60, records=80_000, batch=64)
    >>> round(mechanism.scale, 6), mechanism.event.epsilon
    (0.03, 500.0)
    >>> noise = Noise.research(1)
    >>> linear, quadratic = mechanism.perturb(np.zeros(60), np.zeros((60, 60)), noise)
    >>> bool((quadratic == quadratic.T).all()), noise.events[0].epsilon
    (True, 500.0)
    """

    epsilon: float
    dimension: int
    records: int
    batch: int
    drawn: Literal["step", "once"] = "step"

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        for name in ("dimension", "records", "batch"):
            check_count(name, getattr(self, name))
        check(self.batch <= self.records, "batch", f"at most {self.records}", self.batch)
        check_choice("drawn", self.drawn, ("step", "once"))

    @property
    def sensitivity(self) -> float:
        """Delta: the L1 distance of the coefficients of two pairs, at most."""
        return self.dimension + self.dimension**2 / 4

    @property
    def scale(self) -> float:
        """The scale of the Laplace noise on every coefficient, as the paper has it."""
        return self.sensitivity / (self.epsilon * self.records)

    @property
    def event(self) -> Event:
        """One pass over the data, for h and one pair; reused noise has no finite epsilon."""
        if self.drawn == "once":
            return UnboundedEvent(
                neighbours="replace",
                reason="noise drawn once is reused on changing coefficients; their difference shows them",
            )
        return PureEvent(epsilon=self.epsilon * self.records / self.batch, neighbours="replace")

    def coefficients(self, differences: ArrayLike) -> tuple[Floats, Floats]:
        """The exact batch means (q / 2, q q^T / 8) over ``batch``, q cut to [-1, 1]; not private."""
        q = np.asarray(differences, np.float64)
        check(q.ndim == 2 and q.shape[1] == self.dimension, "differences", f"{self.dimension} wide", q.shape)
        check(len(q) <= self.batch, "differences", f"at most {self.batch} rows", len(q))
        check(bool(np.isfinite(q).all()), "differences", "finite numbers", differences)
        q = np.clip(q, -1.0, 1.0)
        return q.sum(0) / (2 * self.batch), q.T @ q / (8 * self.batch)

    def perturb(
        self,
        linear: ArrayLike,
        quadratic: ArrayLike,
        noise: Noise,
        label: str = "functional as published: covers h only",
        *,
        same_pass: bool = False,
    ) -> tuple[Floats, Floats]:
        """Noisy coefficients; those of zeros are the noise itself, to be added to a training loss.

        An off-diagonal coefficient belongs to h_j h_k and stands twice in the matrix, so each of the two gets
        half its noise. ``same_pass``: this batch has no pair in common with the others of a pass that is
        already recorded, so it adds nothing to its cost. With ``drawn="once"`` call it one time only.
        """
        d = self.dimension
        first, second = np.asarray(linear, np.float64), np.asarray(quadratic, np.float64)
        check(first.shape == (d,), "linear", f"{d} numbers", first.shape)
        shaped = second.shape == (d, d) and bool(np.array_equal(second, second.T))
        check(shaped, "quadratic", f"a symmetric matrix of {d} rows", second.shape)
        known = any(event == self.event.named(label) for event in noise.events)
        remedy = "Record the first batch of a pass."
        check(known or not same_pass, "same_pass", "False for the first batch", same_pass, remedy)
        row, column = np.triu_indices(d)
        times = np.where(row == column, 1.0, 2.0)
        flat = np.concatenate([first, second[row, column] * times])
        noisy = noise.add_laplace(flat, self.scale, self.sensitivity / self.batch)
        if not same_pass:
            noise.record(self.event.named(label))
        matrix = np.zeros((d, d))
        matrix[row, column] = noisy[d:] / times
        return noisy[:d], matrix + np.triu(matrix, 1).T
