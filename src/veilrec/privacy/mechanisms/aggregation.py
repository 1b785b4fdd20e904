"""Aggregation perturbation: one noisy sum over the neighbours in a graph, released once and kept.

Guarantee. G = A X + N(0, sigma^2), where the rows of X are scaled to norm C (zero rows stay zero) and X is
public or already private. Adding or removing one edge adds or takes 1 at one cell of A, so it moves one row
of A X by one row of X: distance C. A unit that owns at most m edges, at most s of them in the same row of
A, moves row i by k_i rows with sum k_i <= m and k_i <= s: distance at most C sqrt(sum k_i^2) <= C sqrt(m
s). If A X and A^T X are both released (two directions; s then bounds columns too), the squares add up:

    edge:  C sqrt(directions)          user:  C sqrt(directions m s)

For rows that are items and columns that are users, or for sequences in which an item is left and entered at
most once, s = 1; a symmetric graph holds each edge twice (unit "user", m = 2). Reference: Sajadmanesh,
Shamsabadi, Bellet and Gatica-Perez, "GAP: differentially private graph neural networks with aggregation
perturbation", USENIX Security 2023. The relation is adding or removing the unit. Nothing here can check m
and s: whoever builds the graph caps the edges first.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_choice, check_count, check_positive
from veilrec.privacy.calibration import gaussian_multiplier
from veilrec.privacy.events import GaussianEvent
from veilrec.privacy.noise import Noise
from veilrec.privacy.once import Once

UNITS = ("edge", "user")


@dataclass(frozen=True)
class AggregationPerturbation:
    """Releases A X (and A^T X, with ``directions=2``) with Gaussian noise, once for each key.

    >>> from scipy.sparse import csr_array
    >>> graph = csr_array(np.array([[0, 1], [1, 0]]))
    >>> mechanism = AggregationPerturbation(4.0, unit="user", most_edges=20, directions=2)
    >>> round(mechanism.sensitivity ** 2), mechanism.sigma == 4.0 * mechanism.sensitivity
    (40, True)
    >>> noise = Noise.research(1)
    >>> first = mechanism.release(graph, np.eye(2), noise)
    >>> first.shape, mechanism.release(graph, np.eye(2), noise) is first, len(noise.events)
    ((2, 2, 2), True, 1)
    """

    noise_multiplier: float
    unit: Literal["edge", "user"] = "edge"
    norm: float = 1.0
    most_edges: int = 1
    most_per_row: int = 1
    directions: int = 1
    once: Once = field(default_factory=Once, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)
        check_positive("norm", self.norm)
        check_choice("unit", self.unit, UNITS)
        check_count("most_edges", self.most_edges)
        check_count("most_per_row", self.most_per_row)
        check(self.directions in (1, 2), "directions", "1 or 2", self.directions)
        fits = self.most_per_row <= self.most_edges
        check(fits, "most_per_row", "at most most_edges", self.most_per_row)
        remedy = "Say unit='user' where one unit owns several."
        check(self.unit == "user" or self.most_edges == 1, "most_edges", "1", self.most_edges, remedy)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float, **settings: Any) -> AggregationPerturbation:
        """The least noise that keeps (epsilon, delta) for one release."""
        return cls(gaussian_multiplier(epsilon, delta), **settings)

    @property
    def sensitivity(self) -> float:
        """The L2 distance that one unit can move the aggregate, all directions together."""
        return self.norm * math.sqrt(self.directions * self.most_edges * self.most_per_row)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in every coordinate."""
        return self.noise_multiplier * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """The one release."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def release(
        self,
        adjacency: Any,
        features: ArrayLike,
        noise: Noise,
        key: str = "aggregate",
        *,
        fresh: bool = False,
        label: str = "",
    ) -> NDArray[np.float64]:
        """The noisy aggregate: (rows, width), or (2, nodes, width) for two directions of a square graph.

        Called again with the same key it returns the same array, draws nothing and records nothing. With
        ``fresh=True`` the second call raises ``AlreadyReleased``, as does a key used for other data.
        """
        from scipy import sparse

        graph = sparse.csr_array(adjacency)
        x = np.asarray(features, np.float64)
        good = graph.data.size == 0 or bool((graph.data >= 0).all() and (graph.data % 1 == 0).all())
        remedy = "Normalise after the release: a normalised graph has another sensitivity."
        check(good, "adjacency", "counts of edges", graph.data[:3], remedy)
        check(x.ndim == 2 and bool(np.isfinite(x).all()), "features", "rows of finite numbers", features)
        check(graph.shape[1] == len(x), "features", f"{graph.shape[1]} rows", len(x))
        square = graph.shape[0] == graph.shape[1] or self.directions == 1
        check(square, "adjacency", "square for two directions", graph.shape)

        def draw() -> NDArray[np.float64]:
            rows = self._normalised(x)
            parts = [graph @ rows] if self.directions == 1 else [graph @ rows, graph.T @ rows]
            out = noise.add_gaussian(np.stack(parts), self.sigma, self.sensitivity)
            noise.record(self.event.named(label or key))
            return out if self.directions == 2 else out[0]

        return self.once.release(key, self._fingerprint(graph, x), draw, fresh=fresh)

    def _normalised(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        largest = np.abs(x).max(axis=1, keepdims=True, initial=0.0)
        scaled = x / np.where(largest > 0, largest, 1.0)
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        return np.asarray(self.norm * scaled / np.where(length > 0, length, 1.0))

    def _fingerprint(self, graph: Any, x: NDArray[np.float64]) -> str:
        graph = graph.copy()
        graph.sum_duplicates()
        graph.eliminate_zeros()
        digest = hashlib.sha256(repr((self, graph.shape, x.shape)).encode())
        for part in (graph.indptr, graph.indices):
            digest.update(np.asarray(part, np.int64).tobytes())
        digest.update(np.asarray(graph.data, np.float64).tobytes())
        digest.update(np.ascontiguousarray(x).tobytes())
        return digest.hexdigest()
