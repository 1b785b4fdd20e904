"""Laplace noise on every cell of a graph, of which only the largest cells are ever looked at.

Above a threshold t >= 0 Laplace noise has no memory: it exceeds t with probability exp(-t / scale) / 2, and
by an exponential amount that does not depend on t. So the cells without an edge that may be among the k
largest are drawn directly, exactly as if all had been drawn; the cells with an edge all get their noise.
Should more be asked for than lie above t, the rest of the rows concerned is drawn too, from Laplace noise
given to be below t. The result has the distribution of the dense algorithm and costs about k cells instead
of all. Secure noise has a scale that is enlarged to cover rounding, and lies on a lattice of 2^-28 of it: the
mass above t is that of the enlarged scale, rounded up by more than a step of the lattice, so that the odds of
a true cell above t are never above e^epsilon times those of a false one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, in_threads
from veilrec.privacy import kernels
from veilrec.privacy.mechanisms.graph import Edges, Ints
from veilrec.privacy.mechanisms.graph_sampling import false_cells
from veilrec.privacy.noise import Noise

Floats = NDArray[np.float64]


def top_cells(edges: Edges, keep: Ints, epsilon: float, noise: Noise) -> tuple[Ints, Ints]:
    """Rows and items of the largest cells of (graph + Laplace noise of scale 1 / epsilon).

    ``keep``: how many, for each row, or a single number for all rows together. Ties go to the first cell.

    >>> graph = Edges.of(([0, 1, 2], [0, 2], 3))
    >>> rows, items = top_cells(graph, np.array([1, 3]), 50.0, Noise.research(1))
    >>> rows.tolist(), items.tolist()
    ([0, 1, 1, 1], [0, 0, 1, 2])
    """
    single = keep.shape == (1,) and edges.users != 1
    check(single or keep.shape == (edges.users,), "keep", f"{edges.users} numbers or one", keep.shape)
    group = np.zeros(edges.users, np.int64) if single else np.arange(edges.users)
    scale = 1 / epsilon
    drawn, up = noise.laplace_scale(scale, 1.0, coordinates=1), 1 + noise.laplace_step
    threshold = _threshold(int(keep.max(initial=0)), edges.cells if single else edges.items, drawn)
    wrong, where = false_cells(edges, min(1.0, up * math.exp(-threshold / drawn) / 2), noise)
    over = threshold + np.abs(_laplace(len(wrong), scale, noise))
    true = noise.add_laplace(np.ones(len(edges.indices)), scale, 1.0, coordinates=1)
    high = true > threshold
    rows = np.concatenate([edges.rows[high], wrong])
    items = np.concatenate([edges.indices[high], where])
    value = np.concatenate([true[high], over])
    short = np.bincount(group[rows], minlength=len(keep)) < keep
    if short.any():
        users = np.flatnonzero(short[group])
        by_row = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[by_row], np.arange(edges.users + 1))
        taken = [items[by_row[ends[user] : ends[user + 1]]] for user in users]
        more = [_rest(edges, int(u), true, got, threshold, scale, noise) for u, got in zip(users, taken)]
        rows = np.concatenate([rows, np.repeat(users, [len(found) for found, _ in more])])
        items = np.concatenate([items, *(found for found, _ in more)])
        value = np.concatenate([value, *(size for _, size in more)])
    cells = rows * edges.items + items
    order = np.argsort(cells)
    cells, ends = cells[order], np.searchsorted(group[rows[order]], np.arange(len(keep) + 1))
    chosen = np.zeros(len(cells), bool)
    in_threads(kernels.mark_largest, len(keep), value[order], ends, keep, chosen, block=512)
    return np.divmod(cells[chosen], edges.items)


def expected_precision(degree: float, cells: float, epsilon: float) -> float:
    """The share of true edges among the ``degree`` largest of ``cells`` noisy cells, ``degree`` of them true.

    Solves degree P(1 + L > t) + (cells - degree) P(L > t) = degree for t; the answer is P(1 + L > t).

    >>> round(expected_precision(132, 3706, 4.5), 3)
    0.726
    """
    check(0 < degree <= cells, "degree", f"above 0 and at most {cells}", degree)
    low, high = -40 / epsilon, 1 + 40 / epsilon
    for _ in range(100):
        t = (low + high) / 2
        above = degree * _tail(t - 1, epsilon) + (cells - degree) * _tail(t, epsilon)
        low, high = (t, high) if above > degree else (low, t)
    return _tail(low - 1, epsilon)


def _tail(t: float, epsilon: float) -> float:
    half = math.exp(-abs(t) * epsilon) / 2
    return half if t >= 0 else 1 - half


def _threshold(keep: int, cells: int, scale: float) -> float:
    """A threshold with more false cells above it than are wanted, nearly always, but not many more."""
    share = (keep + 6 * math.sqrt(keep) + 20) / max(cells, 1)
    return max(0.0, -scale * math.log(2 * share))


def _laplace(size: int, scale: float, noise: Noise) -> Floats:
    return noise.add_laplace(np.zeros(size), scale, 1.0, coordinates=1)


def _rest(
    edges: Edges, user: int, true: Floats, taken: Ints, threshold: float, scale: float, noise: Noise
) -> tuple[Ints, Floats]:
    """The cells of one user that are not above the threshold, with their noisy values."""
    value = _laplace(edges.items, scale, noise)
    while (above := np.flatnonzero(value > threshold)).size:
        value[above] = _laplace(len(above), scale, noise)
    own = slice(edges.indptr[user], edges.indptr[user + 1])
    value[edges.indices[own]] = true[own]
    left = np.ones(edges.items, bool)
    left[taken] = False
    return np.flatnonzero(left), value[left]
