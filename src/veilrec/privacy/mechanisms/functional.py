"""The functional mechanism on a pairwise loss, the sound form: coefficients per user, released once.

The loss of a pair with difference q is log 2 - (1/2) h.q + (1/8) (h.q)^2, the Taylor form of -log
sigma(h.q). It is a polynomial in h whose coefficients are (q / 2, q q^T / 8); noise on them makes every
later minimiser over h private.

Guarantee. Unit: one user, added or removed. Every q is clipped to norm 1 and a user gives the *mean* over
the own pairs, so the user's coefficients have joint L2 norm at most sqrt(1/4 + 1/64) = 0.5154: the upper
triangle is kept with off-diagonals times sqrt(2), which makes its Euclidean norm the Frobenius norm. One
Gaussian release of the sum over users; solving for h is post-processing. It covers h alone and needs a q
that comes from public or already private representations; if q is trained further on the same people, that
training needs a guarantee of its own. References: Zhang, Zhang, Xiao, Yang and Winslett, "Functional
mechanism", VLDB 2012; for the pairwise loss: Zhang, Yin, Chen, Huang, Cui and Nguyen, "Graph embedding for
recommendation against attribute inference attacks", WWW 2021 (``PaperFunctional`` is their form).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_positive
from veilrec.privacy.calibration import gaussian_multiplier
from veilrec.privacy.clipping import clip_rows
from veilrec.privacy.events import GaussianEvent
from veilrec.privacy.noise import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairLoss:
    """The sum over users of the pairwise loss, up to a constant: - linear.h + h^T quadratic h.

    >>> loss = PairLoss(linear=np.array([1.0]), quadratic=np.array([[0.5]]), sigma=0.0)
    >>> loss.solve(ridge=0.5).tolist()
    [0.5]
    """

    linear: Floats
    quadratic: Floats
    sigma: float

    @property
    def least_ridge(self) -> float:
        """2 sigma sqrt(d), above the largest eigenvalue (about sigma sqrt(2 d)) that the noise itself has."""
        return 2 * self.sigma * math.sqrt(len(self.linear))

    def solve(self, ridge: float | None = None) -> Floats:
        """The h that minimises the noisy loss plus ridge |h|^2, by default with the least ridge.

        Should noise leave an eigenvalue below a tenth of the ridge all the same, it is raised to that.
        """
        ridge = self.least_ridge if ridge is None else ridge
        check_positive("ridge", ridge)
        check(ridge >= self.least_ridge, "ridge", f"at least {self.least_ridge:.6g}", ridge)
        values, vectors = np.linalg.eigh(self.quadratic)
        values = np.maximum(values + ridge, ridge / 10)
        return np.asarray(vectors @ ((vectors.T @ self.linear) / (2 * values)))


@dataclass(frozen=True)
class FunctionalMechanism:
    """Noise of ``noise_multiplier`` x 0.5154 on the coefficients of the pairwise loss, drawn once.

    >>> mechanism = FunctionalMechanism.for_budget(1.0, 1e-5)
    >>> round(mechanism.sensitivity, 4), round(mechanism.sigma, 2)
    (0.5154, 1.92)
    >>> noise = Noise.research(1)
    >>> q = [[0.6, 0.8], [0.0, 0.5], [0.3, 0.0]]
    >>> loss = mechanism.release(q, [0, 0, 1], noise)
    >>> loss.solve().shape, len(noise.events)
    ((2,), 1)
    """

    noise_multiplier: float

    sensitivity: ClassVar[float] = math.sqrt(1 / 4 + 1 / 64)

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> FunctionalMechanism:
        """The least noise that keeps (epsilon, delta) for a user added or removed."""
        return cls(gaussian_multiplier(epsilon, delta))

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on every stored coefficient."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """One release of all coefficients."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def coefficients(self, differences: ArrayLike, user: ArrayLike) -> Floats:
        """The exact coefficients, not private: d linear ones, then d (d + 1) / 2 of the upper triangle."""
        q = clip_rows(differences, 1.0)
        check(q.ndim == 2 and q.shape[1] > 0, "differences", "rows of vectors", np.shape(differences))
        owner = np.asarray(user)
        check(owner.shape == (len(q),), "user", f"{len(q)} whole numbers", owner.shape)
        if not len(q):
            return np.zeros(q.shape[1] * (q.shape[1] + 3) // 2)
        _, code, count = np.unique(owner, return_inverse=True, return_counts=True)
        weighted = q / count[code, None]
        return np.concatenate([weighted.sum(0) / 2, packed(weighted.T @ q / 8)])

    def release(
        self, differences: ArrayLike, user: ArrayLike, noise: Noise, label: str = "functional: covers h only"
    ) -> PairLoss:
        """The noisy loss. Row i of ``differences`` is q of one pair (clipped here), ``user[i]`` its owner."""
        noisy = noise.add_gaussian(self.coefficients(differences, user), self.sigma, self.sensitivity)
        noise.record(self.event.named(label))
        d = np.asarray(differences).shape[1]
        return PairLoss(noisy[:d], unpacked(noisy[d:], d), self.sigma)


def packed(matrix: Floats) -> Floats:
    """The upper triangle of a symmetric matrix with off-diagonals times sqrt(2): the same Euclidean norm.

    >>> packed(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    row, column = np.triu_indices(len(matrix))
    return np.asarray(matrix[row, column] * np.where(row == column, 1.0, math.sqrt(2)))


def unpacked(values: Floats, dimension: int) -> Floats:
    """The symmetric matrix of ``packed`` values.

    >>> unpacked(packed(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(9).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    row, column = np.triu_indices(dimension)
    matrix = np.zeros((dimension, dimension))
    matrix[row, column] = values * np.where(row == column, 1.0, math.sqrt(0.5))
    return np.asarray(matrix + np.triu(matrix, 1).T)
