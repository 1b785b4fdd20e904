"""Accuracy of recommendation lists at k: recall, precision, hit, NDCG, MAP, MRR.

``ranked`` holds one list per user, best first: item codes [n_users, length], -1 where the list has ended.
``relevant`` is users x items, row for row the same users; its stored entries are the held-out items.
In the formulas R is a user's set of relevant items, rel(r) is 1 when the item at rank r is in R, else 0 (a
padded place is 0), and hits(k) = rel(1) + ... + rel(k).

The empty cases. A user *without a relevant item* has no recall, NDCG or MAP, and is no part of any average:
such a row is refused, not counted as zero; keep the rows of :func:`evaluated_users`. An *empty list* scores
0. A *shorter list* is not excused: precision still divides by k. An item *twice in one list* is an error, for
it would be found twice. So no function here gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import check, check_count
from veilrec.metrics.patterns import as_pattern

Values = NDArray[np.float64]


def ranking_metrics(
    ranked: NDArray[np.int32], relevant: sp.csr_matrix, ks: Iterable[int] = (5, 10, 20)
) -> dict[str, Values]:
    """Every metric of this module at every k, one value per user, by name ("recall@20").

    The lists are looked up once. A value does not depend on the other users or on the other ``ks``.

    >>> found = ranking_metrics(np.array([[2, 0, 1]]), sp.csr_matrix([[1, 0, 0, 1]]), ks=(1, 2))
    >>> {name: float(value[0]) for name, value in found.items() if name.startswith("r")}
    {'recall@1': 0.0, 'recall@2': 0.5}
    """
    wanted = sorted(set(ks))
    check(bool(wanted), "ks", "one cut-off or more", ks)
    for k in wanted:
        check_count("k", k)
    check_lists(ranked, relevant.shape[1], wanted[-1])
    hits, sizes = _hits(ranked[:, : wanted[-1]], relevant)
    curves = {name: curve(hits, sizes) for name, curve in _CURVES.items()}
    return {f"{name}@{k}": curve[:, k - 1].copy() for k in wanted for name, curve in curves.items()}


def recall(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """Recall@k = hits(k) / |R|. With more than k relevant items it cannot reach 1.

    >>> recall(np.array([[2, 0]]), sp.csr_matrix([[1, 0, 0, 1]]), 2).tolist()
    [0.5]
    """
    return _one("recall", ranked, relevant, k)


def precision(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """Precision@k = hits(k) / k, also where the list is shorter than k.

    >>> precision(np.array([[3, 0, -1, -1]]), sp.csr_matrix([[1, 0, 0, 1]]), 4).tolist()
    [0.5]
    """
    return _one("precision", ranked, relevant, k)


def hit(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """Hit@k = 1 when hits(k) > 0, else 0; its mean is the hit rate.

    >>> hit(np.array([[2, 0]]), sp.csr_matrix([[1, 0, 0, 1]]), 1).tolist()
    [0.0]
    """
    return _one("hit", ranked, relevant, k)


def ndcg(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """NDCG@k = DCG / ideal, DCG = sum over r <= k of rel(r) / log2(r + 1).

    The ideal is the DCG of a list that begins with min(k, |R|) relevant items.

    >>> ndcg(np.array([[0, 2]]), sp.csr_matrix([[1, 0, 0, 1]]), 2).round(4).tolist()
    [0.6131]
    """
    return _one("ndcg", ranked, relevant, k)


def average_precision(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """AP@k = (sum over r <= k of rel(r) hits(r) / r) / min(k, |R|); its mean is MAP@k.

    Some tools (trec_eval among them) divide by |R| instead, and give less where |R| > k.

    >>> average_precision(np.array([[2, 0]]), sp.csr_matrix([[1, 0, 0, 1]]), 2).tolist()
    [0.25]
    """
    return _one("map", ranked, relevant, k)


def reciprocal_rank(ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    """RR@k = 1 / (rank of the first relevant item), 0 when there is none in the first k; its mean is MRR@k.

    >>> reciprocal_rank(np.array([[2, 0]]), sp.csr_matrix([[1, 0, 0, 1]]), 2).tolist()
    [0.5]
    """
    return _one("mrr", ranked, relevant, k)


def check_lists(ranked: NDArray[np.int32], n_items: int, k: int) -> None:
    """``ranked`` must hold lists of k or more distinct item codes, with -1 only at their ends."""
    check_count("k", k)
    got = f"{ranked.dtype} {ranked.shape}" if isinstance(ranked, np.ndarray) else type(ranked).__name__
    good = isinstance(ranked, np.ndarray) and ranked.ndim == 2 and np.issubdtype(ranked.dtype, np.integer)
    check(good, "ranked", "a matrix of item codes, one row per user", got)
    check(
        k <= ranked.shape[1],
        "k",
        f"at most the length of the lists, {ranked.shape[1]}",
        k,
        "Rank more items.",
    )
    outside = ranked[(ranked < -1) | (ranked >= n_items)]
    check(outside.size == 0, "ranked", f"codes from 0 to {n_items - 1}, or -1", outside[:3].tolist())
    holes = ((ranked[:, :-1] < 0) & (ranked[:, 1:] >= 0)).any(axis=1)
    check(not holes.any(), "ranked", "padded with -1 at the end only", _first(ranked, np.asarray(holes)))
    ordered = np.sort(ranked, axis=1)
    repeats = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    check(
        not repeats.any(),
        "ranked",
        "free of repeated items",
        _first(ranked, np.asarray(repeats)),
        "List each item once.",
    )


def _first(ranked: NDArray[np.int32], bad: NDArray[np.bool_]) -> dict[str, object]:
    rows = np.flatnonzero(bad)
    return {"row": int(rows[0]), "items": ranked[rows[0]].tolist()} if rows.size else {}


def _hits(ranked: NDArray[np.int32], relevant: sp.csr_matrix) -> tuple[Values, NDArray[np.int64]]:
    """rel(r) per user and rank, and the number of relevant items per user."""
    pattern = as_pattern("relevant", relevant, n_rows=len(ranked))
    sizes = np.diff(pattern.indptr).astype(np.int64)
    empty = np.flatnonzero(sizes == 0)
    check(
        empty.size == 0,
        "relevant",
        "non-empty in every row",
        f"{empty.size} rows without an entry (first: row {empty[0] if empty.size else ''})",
        "Keep the rows of evaluated_users(relevant), in ranked too.",
    )
    width = np.int64(pattern.shape[1] + 1)  # codes are shifted by one, so that -1 is never found
    keys = np.repeat(np.arange(len(sizes)), sizes) * width + pattern.indices + 1
    asked = np.arange(len(sizes))[:, None] * width + ranked.astype(np.int64) + 1
    place = np.minimum(np.searchsorted(keys, asked), max(len(keys) - 1, 0))
    found = keys[place] == asked if len(keys) else np.zeros(ranked.shape, np.bool_)
    return found.astype(np.float64), sizes


def _one(name: str, ranked: NDArray[np.int32], relevant: sp.csr_matrix, k: int) -> Values:
    check_lists(ranked, relevant.shape[1], k)
    hits, sizes = _hits(ranked[:, :k], relevant)
    return _CURVES[name](hits, sizes)[:, k - 1].copy()


# Each metric as a curve [n_users, length]: column k - 1 is its value at k. Sums run along a list in order,
# so that a perfect list gives exactly 1.


def _ranks(hits: Values) -> NDArray[np.int64]:
    return np.arange(1, hits.shape[1] + 1)


def _possible(hits: Values, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(_ranks(hits), sizes[:, None])


def _ndcg(hits: Values, sizes: NDArray[np.int64]) -> Values:
    discount = 1.0 / np.log2(_ranks(hits) + 1)
    ideal = np.cumsum(discount)
    return np.asarray(np.cumsum(hits * discount, axis=1) / ideal[_possible(hits, sizes) - 1])


def _average_precision(hits: Values, sizes: NDArray[np.int64]) -> Values:
    at_hits = hits * (np.cumsum(hits, axis=1) / _ranks(hits))
    return np.asarray(np.cumsum(at_hits, axis=1) / _possible(hits, sizes))


_CURVES: dict[str, Callable[[Values, NDArray[np.int64]], Values]] = {
    "recall": lambda hits, sizes: np.cumsum(hits, axis=1) / sizes[:, None],
    "precision": lambda hits, sizes: np.cumsum(hits, axis=1) / _ranks(hits),
    "hit": lambda hits, sizes: np.maximum.accumulate(hits, axis=1),
    "ndcg": _ndcg,
    "map": _average_precision,
    "mrr": lambda hits, sizes: np.maximum.accumulate(hits / _ranks(hits), axis=1),
}
