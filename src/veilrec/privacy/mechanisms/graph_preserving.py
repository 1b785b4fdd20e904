"""Degree-preserving randomised response (DPRR) on a user-item graph.

Guarantee. Unit: one edge, added or removed; local: each user runs it alone. Randomised response with
epsilon_1 = split x epsilon on every bit, then every one is kept with q = d / (d (2 p - 1) + n (1 - p)), cut
to [0, 1], where p = e^epsilon_1 / (1 + e^epsilon_1), n is the number of items and d the degree with Laplace
noise of scale 1 / epsilon_2. The mean number of reported edges is then the degree. Pure epsilon_1 +
epsilon_2 per edge: one edge changes one bit, and the degree by 1; the sampling reads d and the report
alone. A user with k edges pays k epsilon. Reference: Hidano and Murakami, "Degree-preserving randomized
response for graph neural networks under local differential privacy", 2022 (n - 1 possible neighbours there,
n items here).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check_fraction
from veilrec.privacy.events import Event, LaplaceEvent
from veilrec.privacy.mechanisms.graph import Edges, check_spend, report
from veilrec.privacy.mechanisms.graph_response import EdgeResponse
from veilrec.privacy.mechanisms.graph_sampling import false_cells
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class DegreePreserving:
    """Randomised response and edge sampling that keeps degrees; ``split`` is the share of the response.

    >>> mechanism = DegreePreserving(2.0)
    >>> noise = Noise.research(1)
    >>> mechanism.perturb(([0, 2, 3], [0, 1, 2], 4), noise).shape, len(noise.events)
    ((2, 4), 2)
    >>> mechanism.sampling(np.array([0.0, 100.0]), 1000).round(3).tolist()
    [0.0, 0.468]
    """

    epsilon: float
    split: float = 0.9

    def __post_init__(self) -> None:
        check_spend(self.epsilon)
        check_fraction("split", self.split)
        check_spend(self.epsilon, self.degree_epsilon)

    @property
    def response(self) -> EdgeResponse:
        """The randomised response."""
        return EdgeResponse(self.split * self.epsilon)

    @property
    def degree_epsilon(self) -> float:
        """What the noise on the degree spends."""
        return self.epsilon - self.response.epsilon

    @property
    def events(self) -> tuple[Event, Event]:
        """The bits and the degree, for one edge."""
        degree = LaplaceEvent(noise_multiplier=1 / self.degree_epsilon, label="degree")
        return self.response.event.named("bits"), degree

    def added_edges(self, users: int, items: int) -> float:
        """By how many edges the noise is expected to lengthen the reports, at most: half a scale per user.

        >>> round(DegreePreserving(5.0).added_edges(6040, 3706))
        6040
        """
        return users * min(items, 0.5 / self.degree_epsilon)

    def sampling(self, degrees: NDArray[np.float64], items: int) -> NDArray[np.float64]:
        """q: the share of the reported ones that is kept, for (noisy) degrees."""
        p, lie = self.response.p1, self.response.p0
        d = np.clip(degrees, 0.0, items)
        return np.clip(d / (d * (p - lie) + items * lie), 0.0, 1.0)

    def perturb(self, adjacency: Any, noise: Noise, label: str = "") -> Any:
        """The reported graph, a CSR array."""
        edges = Edges.of(adjacency)
        noisy = noise.add_laplace(edges.degrees, 1 / self.degree_epsilon, 1.0, coordinates=1)
        share = self.sampling(noisy, edges.items)
        rows, items = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for users, block in edges.blocks(np.argsort(share, kind="stable")):
            own = share[users]
            most = float(own.max())
            if most == 0:
                continue
            true = noise.coins(self.response.p1 * own[block.rows], block.indices.shape)
            wrong, where = false_cells(block, self.response.p0 * most, noise)
            kept = noise.coins(own[wrong] / most, wrong.shape)
            rows += [users[block.rows[true]], users[wrong[kept]]]
            items += [block.indices[true], where[kept]]
        for event in self.events:
            noise.record(event.named(f"{label} {event.label}".strip()))
        return report(np.concatenate(rows), np.concatenate(items), edges)
