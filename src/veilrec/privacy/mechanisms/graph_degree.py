"""The encoder of PF-GNR: noise on every cell of a user's row, and as many ones as a noisy degree says.

Guarantee. Unit: one edge, added or removed; local: each user runs it alone. An edge moves one cell of the
row by 1 and the degree by 1. Laplace noise of scale 1 / (split epsilon) and 1 / ((1 - split) epsilon) on
them is pure epsilon; picking the largest cells is post-processing. A user with k edges pays k epsilon. It
holds for the uploaded graph: training on true labels afterwards is another release. Reference: PF-GNR,
algorithm 1 (with the indices taken before the row is cleared, and the number of ones kept between 0 and the
number of items). The noisy cells are never released, so the low bits of a float show nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilrec.core import check
from veilrec.privacy.events import LaplaceEvent
from veilrec.privacy.mechanisms.graph import Edges, check_spend, report
from veilrec.privacy.mechanisms.graph_top import expected_precision, top_cells
from veilrec.privacy.noise import Noise


@dataclass(frozen=True)
class TopDegreeEncoder:
    """Sets the floor(noisy degree) largest noisy cells of each row to 1; ``split`` is the share of the cells.

    >>> mechanism = TopDegreeEncoder(5.0)
    >>> round(mechanism.expected_precision(132, 3706), 3)
    0.726
    >>> noise = Noise.research(1)
    >>> mechanism.perturb(([0, 2, 3], [0, 1, 2], 4), noise).shape
    (2, 4)
    >>> round(sum(1 / event.noise_multiplier for event in noise.events), 9)
    5.0
    """

    epsilon: float
    split: float = 0.9

    def __post_init__(self) -> None:
        check_spend(self.epsilon)
        good = isinstance(self.split, int | float) and 0 <= self.split < 1
        check(good, "split", "from 0 up to but not including 1", self.split)
        check_spend(self.epsilon, self.degree_epsilon, *([self.cell_epsilon] if self.split else []))

    @property
    def cell_epsilon(self) -> float:
        """What the noise on the cells spends; 0 makes the ones fall anywhere."""
        return self.split * self.epsilon

    @property
    def degree_epsilon(self) -> float:
        """What the noise on the degree spends."""
        return self.epsilon - self.cell_epsilon

    @property
    def events(self) -> tuple[LaplaceEvent, ...]:
        """The cells and the degree, for one edge."""
        parts = {"cells": self.cell_epsilon, "degree": self.degree_epsilon}
        return tuple(LaplaceEvent(noise_multiplier=1 / e, label=name) for name, e in parts.items() if e > 0)

    def perturb(self, adjacency: Any, noise: Noise, label: str = "") -> Any:
        """The reported graph, a CSR array."""
        edges = Edges.of(adjacency)
        noisy = noise.add_laplace(edges.degrees, 1 / self.degree_epsilon, 1.0, coordinates=1)
        keep = np.clip(np.floor(noisy), 0, edges.items).astype(np.int64)
        seen = edges if self.split > 0 else Edges(np.zeros_like(edges.indptr), edges.indices[:0], edges.items)
        rows, items = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for users, block in seen.blocks(np.argsort(keep, kind="stable")):
            row, item = top_cells(block, keep[users], self.cell_epsilon or 1.0, noise)
            rows.append(users[row])
            items.append(item)
        for event in self.events:
            noise.record(event.named(f"{label} {event.label}".strip()))
        return report(np.concatenate(rows), np.concatenate(items), edges)

    def added_edges(self, users: int, items: int) -> float:
        """By how many edges the noise is expected to lengthen the reports, at most: half a scale per user.

        >>> round(TopDegreeEncoder(5.0).added_edges(6040, 3706))
        6040
        """
        return users * min(items, 0.5 / self.degree_epsilon)

    def expected_precision(self, degree: float, items: int) -> float:
        """The share of true edges among those reported by a user with ``degree`` of ``items``."""
        if self.split == 0:
            return degree / items
        return expected_precision(degree, items, self.cell_epsilon)
