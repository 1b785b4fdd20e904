"""Graphs released by a trusted curator: LapGraph, and Gaussian noise on the adjacency matrix.

Guarantee. Unit: one edge, added or removed; a user with k edges pays k epsilon (LapGraph), or k times the
distance (Gaussian). LapGraph: the number of edges gets Laplace noise of scale 1 / (count_share epsilon),
every cell Laplace noise of scale 1 / ((1 - count_share) epsilon), and that many largest cells become the
edges, which is post-processing: pure epsilon. Reference: Wu, Long, Zhang and Li, "LinkTeller: recovering
private edges from graph neural networks via influence analysis", IEEE S&P 2022, section VI (count_share
0.01). Gaussian: one edge moves one cell by 1, an L2 distance of 1 (sqrt(2) if a graph and its transpose get
*separate* noise; the transpose of one noisy matrix is free). The baseline called EdgeRand in DIPSGNN is
this Gaussian form; LinkTeller's EdgeRand flips cells (``EdgeRand``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_fraction, check_positive
from veilrec.privacy.calibration import gaussian_multiplier
from veilrec.privacy.events import GaussianEvent, LaplaceEvent
from veilrec.privacy.mechanisms.graph import BLOCK, Edges, check_spend, report
from veilrec.privacy.mechanisms.graph_top import expected_precision, top_cells
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class LapGraph:
    """Keeps the largest cells of the noisy graph, as many as a noisy count of edges says.

    >>> mechanism = LapGraph(5.0)
    >>> noise = Noise.research(1)
    >>> mechanism.perturb(([0, 2, 3], [0, 1, 2], 4), noise).shape, len(noise.events)
    ((2, 4), 2)
    """

    epsilon: float
    count_share: float = 0.01

    def __post_init__(self) -> None:
        check_spend(self.epsilon)
        check_fraction("count_share", self.count_share)
        check_spend(self.epsilon, self.count_epsilon, self.cell_epsilon)

    @property
    def count_epsilon(self) -> float:
        """What the noise on the number of edges spends."""
        return self.count_share * self.epsilon

    @property
    def cell_epsilon(self) -> float:
        """What the noise on the cells spends."""
        return self.epsilon - self.count_epsilon

    @property
    def events(self) -> tuple[LaplaceEvent, LaplaceEvent]:
        """The cells and the count, for one edge."""
        return (
            LaplaceEvent(noise_multiplier=1 / self.cell_epsilon, label="cells"),
            LaplaceEvent(noise_multiplier=1 / self.count_epsilon, label="count"),
        )

    def perturb(self, adjacency: Any, noise: Noise, label: str = "") -> Any:
        """The released graph, a CSR array."""
        edges = Edges.of(adjacency)
        noisy = noise.add_laplace([len(edges.indices)], 1 / self.count_epsilon, 1.0)
        keep = np.clip(np.floor(noisy), 0, edges.cells).astype(np.int64)
        rows, items = top_cells(edges, keep, self.cell_epsilon, noise)
        for event in self.events:
            noise.record(event.named(f"{label} {event.label}".strip()))
        return report(rows, items, edges)

    def added_edges(self, users: int, items: int) -> float:
        """By how many edges the noise is expected to lengthen the graph, at most: half a scale.

        >>> round(LapGraph(5.0).added_edges(6040, 3706))
        10
        """
        return min(users * items, 0.5 / self.count_epsilon)

    def expected_precision(self, edges: int, cells: int) -> float:
        """The share of true edges in a released graph of ``edges`` edges in ``cells`` cells."""
        return expected_precision(edges, cells, self.cell_epsilon)


@dataclass(frozen=True)
class GaussianAdjacency:
    """Adds N(0, noise_multiplier^2) to every cell of a graph whose cells count edges.

    >>> from scipy.sparse import csr_array
    >>> mechanism = GaussianAdjacency.for_budget(5.0, 1e-5)
    >>> noise = Noise.research(1)
    >>> mechanism.release(csr_array(np.eye(3)), noise).shape, len(noise.events)
    ((3, 3), 1)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    @classmethod
    def for_budget(cls, epsilon: float, delta: float) -> GaussianAdjacency:
        """The least noise that keeps (epsilon, delta) per edge."""
        return cls(gaussian_multiplier(epsilon, delta))

    @property
    def event(self) -> GaussianEvent:
        """One release of the whole matrix, for one edge."""
        return GaussianEvent(noise_multiplier=self.noise_multiplier)

    def release(self, adjacency: Any, noise: Noise, label: str = "") -> NDArray[np.float64]:
        """The dense noisy matrix, of a graph small enough for one."""
        cells = int(np.prod(adjacency.shape))
        remedy = "Take it from `blocks`."
        check(cells <= 16 * BLOCK, "adjacency", f"at most {16 * BLOCK} cells", cells, remedy)
        parts = [part for _, part in self.blocks(adjacency, noise, label)]
        return np.concatenate(parts) if parts else np.zeros(adjacency.shape)

    def blocks(
        self, adjacency: Any, noise: Noise, label: str = ""
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The same matrix in blocks of rows: (first row, block). One event, recorded with the first block."""
        from scipy import sparse

        graph = sparse.csr_array(adjacency)
        good = bool((graph.data >= 0).all() and (graph.data % 1 == 0).all())
        check(good, "adjacency", "counts of edges", graph.data[:3])
        noise.record(self.event.named(label))
        size = max(1, BLOCK // max(1, graph.shape[1]))
        for start in range(0, graph.shape[0], size):
            dense = graph[start : start + size].toarray()
            yield start, noise.add_gaussian(dense, self.noise_multiplier, 1.0, coordinates=1)
