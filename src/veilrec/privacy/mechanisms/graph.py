"""User-item graphs as the encoders take and give them: lists of edges, never a dense matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_count, check_positive

Ints = NDArray[np.int64]

# Cells of the block that an encoder works on at a time.
BLOCK = 1 << 22
_LEAST, _MOST, _NOTHING = 1e-6, 1e4, "With less nothing is told."


@dataclass(frozen=True, eq=False)
class Edges:
    """Who has which item: the items of user u are ``indices[indptr[u]:indptr[u + 1]]``, sorted.

    >>> edges = Edges.of(([0, 2, 3], [2, 0, 1], 3))
    >>> edges.indices.tolist(), edges.degrees.tolist(), edges.cells
    ([0, 2, 1], [2, 1], 6)
    """

    indptr: Ints
    indices: Ints
    items: int

    @classmethod
    def of(cls, adjacency: Any) -> Edges:
        """From a scipy sparse matrix of zeros and ones (users x items), or (indptr, indices, items)."""
        from scipy import sparse

        if isinstance(adjacency, Edges):
            return adjacency
        if isinstance(adjacency, tuple):
            check(len(adjacency) == 3, "adjacency", "(indptr, indices, items)", len(adjacency))
            indptr, indices = (np.asarray(part) for part in adjacency[:2])
            items = adjacency[2]
        else:
            remedy = "Give a scipy sparse matrix or (indptr, indices, items)."
            check(sparse.issparse(adjacency), "adjacency", "sparse", type(adjacency).__name__, remedy)
            graph = sparse.csr_array(adjacency, copy=True)
            graph.eliminate_zeros()
            other = graph.data[graph.data != 1]
            check(not other.size, "adjacency", "zeros and ones", other[:1])
            indptr, indices, items = graph.indptr, graph.indices, int(graph.shape[1])
        check_count("items", items)
        whole = all(np.issubdtype(part.dtype, np.integer) or not part.size for part in (indptr, indices))
        check(whole, "indptr and indices", "whole numbers", (indptr.dtype, indices.dtype))
        spans = len(indptr) > 0 and indptr[0] == 0 and indptr[-1] == len(indices)
        grows = bool(spans and (np.diff(indptr) >= 0).all())
        check(grows, "indptr", "growing from 0 to the number of edges", indptr[-3:])
        inside = not len(indices) or (indices.min() >= 0 and indices.max() < items)
        check(bool(inside), "indices", f"from 0 to {items - 1}", indices[:3])
        users = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
        cells = np.sort(users * items + indices)
        check(bool((np.diff(cells) > 0).all()), "indices", "different for one user", "an item twice")
        return cls(indptr.astype(np.int64), cells - users * items, items)

    @property
    def users(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1

    @property
    def cells(self) -> int:
        """Users times items."""
        return self.users * self.items

    @property
    def degrees(self) -> Ints:
        """The number of items of each user."""
        return np.diff(self.indptr)

    @property
    def rows(self) -> Ints:
        """The user of each edge."""
        return np.repeat(np.arange(self.users, dtype=np.int64), self.degrees)

    def take(self, users: Ints) -> Edges:
        """The graph of these users, in this order."""
        count = self.degrees[users]
        indptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        where = np.arange(indptr[-1]) + np.repeat(self.indptr[users] - indptr[:-1], count)
        return Edges(indptr, self.indices[where], self.items)

    def blocks(self, order: Ints | None = None, cells: int = BLOCK) -> Iterator[tuple[Ints, Edges]]:
        """The users in parts of about ``cells`` cells, each with its graph."""
        order = np.arange(self.users, dtype=np.int64) if order is None else order
        size = max(1, cells // self.items)
        for start in range(0, self.users, size):
            users = order[start : start + size]
            yield users, self.take(users)


def check_spend(epsilon: float, *parts: float) -> None:
    """Refuse an epsilon of which a part is too small for the noise that numbers can hold.

    >>> check_spend(1e-9)
    Traceback (most recent call last):
        ...
    ValueError: epsilon must be at least 1e-06 in each of its parts, got 1e-09. With less nothing is told.
    """
    check_positive("epsilon", epsilon)
    least = min((epsilon, *parts))
    check(least >= _LEAST, "epsilon", f"at least {_LEAST:g} in each of its parts", least, _NOTHING)
    check(epsilon <= _MOST, "epsilon", f"at most {_MOST:g}", epsilon, "With more nothing is hidden.")


def report(rows: Ints, items: Ints, edges: Edges) -> Any:
    """The cells as a scipy CSR array of float32 ones, in the shape of ``edges``.

    >>> report(np.array([1]), np.array([0]), Edges.of(([0, 0, 0], [], 2))).toarray().tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    from scipy import sparse

    cells = np.sort(rows * edges.items + items)
    rows, items = np.divmod(cells, edges.items)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=edges.users))])
    return sparse.csr_array((np.ones(len(cells), np.float32), items, indptr), (edges.users, edges.items))
