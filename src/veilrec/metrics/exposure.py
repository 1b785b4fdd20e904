"""What the lists of all users together show of the catalogue: coverage, concentration, popularity.

``ranked`` is as in :mod:`veilrec.metrics.ranking`: item codes [n_users, length], -1 where a list has ended.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count
from veilrec.metrics.ranking import check_lists


def coverage(ranked: NDArray[np.int32], n_items: int, k: int) -> float:
    """Coverage@k: the share of the ``n_items`` that stand in at least one list's first k. No lists: 0.

    >>> coverage(np.array([[0, 1], [0, 2]]), n_items=4, k=2)
    0.75
    """
    return float(np.count_nonzero(_exposure(ranked, n_items, k)) / n_items)


def exposure_gini(ranked: NDArray[np.int32], n_items: int, k: int) -> float:
    """The Gini coefficient of how often each item is listed in the first k.

    With counts c(1) <= ... <= c(n), n = ``n_items``, and their sum C: G = sum over i of
    (2i - n - 1) c(i) / (n C). 0 when every item is listed equally often, 1 - 1/n when all places go to one
    item. No listed item: 0.

    >>> exposure_gini(np.array([[0], [0]]), n_items=4, k=1)
    0.75
    """
    counts = np.sort(_exposure(ranked, n_items, k))
    if counts.sum() == 0:
        return 0.0
    weights = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float((weights * counts).sum() / (n_items * counts.sum()))


def popularity(ranked: NDArray[np.int32], item_counts: ArrayLike, k: int) -> NDArray[np.float64]:
    """Per user, the mean training count of the items in the first k; the mean over users is the ARP.

    ARP is the average recommendation popularity. ``item_counts`` are the interactions of each item in the
    data the model was fitted on. A shorter list is averaged over what it holds; an empty list gives 0. To
    judge a bias, compare it with the same mean over the users' own histories.

    >>> popularity(np.array([[0, 1], [2, -1]]), item_counts=[10, 4, 1], k=2).tolist()
    [7.0, 1.0]
    """
    counts = np.asarray(item_counts, dtype=np.float64)
    good = (
        counts.ndim == 1 and counts.size > 0 and bool((counts >= 0).all()) and bool(np.isfinite(counts).all())
    )
    check(good, "item_counts", "one finite count, 0 or above, per item", item_counts)
    check_lists(ranked, len(counts), k)
    lists = ranked[:, :k]
    listed = lists >= 0
    total = np.where(listed, counts[lists], 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(listed.sum(axis=1), 1), dtype=np.float64)


def _exposure(ranked: NDArray[np.int32], n_items: int, k: int) -> NDArray[np.int64]:
    check_count("n_items", n_items)
    check_lists(ranked, n_items, k)
    lists = ranked[:, :k]
    return np.bincount(lists[lists >= 0], minlength=n_items)
