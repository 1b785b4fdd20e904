"""Randomised response on every edge bit of a user-item graph, sampled sparsely.

Guarantee. Unit: one edge, added or removed; local: each user can run it alone. An edge is reported with p1
= t e^epsilon / (1 + e^epsilon), a cell without one with p0 = t / (1 + e^epsilon), t a public thinning rate:
pure epsilon per edge, whoever sees the report. A user with k edges pays k epsilon for all of them together.
Of one user, no encoder that treats items alike and keeps epsilon per edge reports a larger share of true
edges (Warner, 1965, attains the bound posterior odds <= e^epsilon x prior odds). The probability of a false
edge is rounded up, that of a true one down, and neither uses up an epsilon above 80: no report is certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilrec.core import check, check_fraction, check_positive
from veilrec.privacy.events import PureEvent
from veilrec.privacy.mechanisms.graph import Edges, check_spend, report
from veilrec.privacy.mechanisms.graph_sampling import false_cells
from veilrec.privacy.noise import Noise

_LARGEST = 80.0  # coins have 128 binary places; a larger epsilon is not used up


@dataclass(frozen=True)
class EdgeResponse:
    """Tells each bit truly with e^epsilon / (1 + e^epsilon), then keeps a ``thinning`` share of the ones.

    >>> mechanism = EdgeResponse(5.0)
    >>> round(mechanism.expected_precision(132, 3706), 3)
    0.846
    >>> noise = Noise.research(1)
    >>> mechanism.perturb(([0, 1, 2], [0, 2], 3), noise).shape, noise.events[0].epsilon
    ((2, 3), 5.0)
    """

    epsilon: float
    thinning: float = 1.0

    def __post_init__(self) -> None:
        check_spend(self.epsilon)
        good = isinstance(self.thinning, int | float) and 0 < self.thinning <= 1
        check(good, "thinning", "above 0 and at most 1", self.thinning)

    @property
    def p1(self) -> float:
        """The probability that an edge is reported."""
        # Rounded down, so that the odds of no report, 1 - p0 to 1 - p1, are not above e^epsilon either.
        return self.thinning / (1 + _inverse_exp(self.epsilon)) * (1 - 2.0**-50)

    @property
    def p0(self) -> float:
        """The probability that a cell without an edge is reported."""
        # Four units in the last place are more than the error of the formula.
        small = _inverse_exp(self.epsilon)
        return self.thinning * small / (1 + small) * (1 + 2.0**-50)

    @property
    def event(self) -> PureEvent:
        """The report, for one edge."""
        return PureEvent(epsilon=self.epsilon)

    def perturb(self, adjacency: Any, noise: Noise, label: str = "") -> Any:
        """The reported graph, a CSR array. Its size is about p1 x edges + p0 x cells: thin what is sparse."""
        edges = Edges.of(adjacency)
        rows, items = [], []
        for users, block in edges.blocks():
            kept = noise.coins(self.p1, (len(block.indices),))
            wrong, where = false_cells(block, self.p0, noise)
            rows += [users[block.rows[kept]], users[wrong]]
            items += [block.indices[kept], where]
        noise.record(self.event.named(label))
        return _joined(rows, items, edges)

    def added_edges(self, users: int, items: int) -> float:
        """By how many edges the noise is expected to lengthen the report, at most.

        >>> round(EdgeResponse(5.0).added_edges(6040, 3706))
        149814
        """
        return self.p0 * users * items

    def operator(self, reported: Any) -> Any:
        """(report - p0) / (p1 - p0), unbiased for the true graph, as a scipy LinearOperator.

        The part with p0 has rank one and is applied without ever being written out.

        >>> EdgeResponse(5.0).operator(report(np.array([0]), np.array([1]), Edges.of(([0, 0], [], 2)))).shape
        (1, 2)
        """
        from scipy.sparse.linalg import LinearOperator

        width = self.p1 - self.p0

        def forth(x: Any) -> Any:
            return (reported @ x - self.p0 * x.sum(axis=0)) / width

        def back(x: Any) -> Any:
            return (reported.T @ x - self.p0 * x.sum(axis=0)) / width

        return LinearOperator(
            reported.shape, matvec=forth, rmatvec=back, matmat=forth, rmatmat=back, dtype=np.float64
        )

    def expected_precision(self, degree: float, items: int) -> float:
        """The share of true ones among reported edges of a user with ``degree`` of ``items``."""
        return self.p1 * degree / (self.p1 * degree + self.p0 * (items - degree))


@dataclass(frozen=True)
class EdgeRand:
    """EdgeRand (Wu, Long, Zhang, Li, "LinkTeller", IEEE S&P 2022): a ``share`` of cells become fair coins.

    The same distribution as ``EdgeResponse`` with epsilon = log(2 / share - 1), run by a trusted curator on
    the whole graph. Unit: one edge, added or removed; a user with k edges pays k epsilon.

    >>> mechanism = EdgeRand.for_budget(2.0)
    >>> round(mechanism.share, 4), round(mechanism.epsilon, 9)
    (0.2384, 2.0)
    >>> mechanism.perturb(([0, 1], [0], 2), Noise.research(1)).shape
    (1, 2)
    """

    share: float

    def __post_init__(self) -> None:
        check_fraction("share", self.share)

    @classmethod
    def for_budget(cls, epsilon: float) -> EdgeRand:
        """The smallest share that keeps ``epsilon``."""
        check_positive("epsilon", epsilon)
        small = _inverse_exp(epsilon)
        return cls(2 * small / (1 + small))

    @property
    def epsilon(self) -> float:
        """What one edge pays."""
        return math.log(2 / self.share - 1)

    @property
    def event(self) -> PureEvent:
        """The released graph, for one edge."""
        return PureEvent(epsilon=self.epsilon)

    def perturb(self, adjacency: Any, noise: Noise, label: str = "") -> Any:
        """The released graph, a CSR array."""
        return EdgeResponse(self.epsilon).perturb(adjacency, noise, label)


def _inverse_exp(epsilon: float) -> float:
    return math.exp(-min(epsilon, _LARGEST))


def _joined(rows: list[Any], items: list[Any], edges: Edges) -> Any:
    empty = np.empty(0, np.int64)
    return report(np.concatenate([empty, *rows]), np.concatenate([empty, *items]), edges)
