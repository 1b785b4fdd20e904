"""The best k of each row of a score block: seen items left out, ties to the smaller item code."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count
from veilrec.metrics.patterns import as_pattern


def top_k(
    scores: NDArray[np.float32],
    k: int,
    *,
    seen: sp.csr_matrix | None = None,
    candidates: ArrayLike | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Item codes and scores of the ``k`` best items of each row, best first.

    ``seen`` has one row per row of ``scores``; its stored entries are never listed. ``candidates`` are the
    item codes that may be listed, for all rows alike. Equal scores stand in the order of their codes. An
    item scored -inf is never listed. A row with fewer than ``k`` items left ends in code -1 and score -inf.
    A NaN anywhere is an error that names the row.

    >>> items, best = top_k(np.array([[1, 3, 3, 2]], np.float32), 3, seen=sp.csr_matrix([[0, 0, 1, 0]]))
    >>> items.tolist(), best.tolist()
    ([[1, 3, 0]], [[3.0, 2.0, 1.0]])
    """
    check_block("scores", scores)
    check_count("k", k)
    n_rows, n_items = scores.shape
    pattern = None if seen is None else as_pattern("seen", seen, n_rows, n_items)
    allowed = candidate_mask(candidates, n_items)
    items, best, bad = select(scores, np.arange(n_rows), k, pattern, allowed)
    if bad >= 0:
        raise ValueError(f"scores must be free of NaN, got NaN in row {bad}. Look for a model that diverged.")
    return items, best


def check_block(name: str, scores: Any) -> None:
    """``scores`` must be a float32 matrix with a column per item."""
    got = f"{scores.dtype} {scores.shape}" if isinstance(scores, np.ndarray) else type(scores).__name__
    good = isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.dtype == np.float32
    check(good, name, "a float32 NumPy matrix of rows x items", got, "Convert it with numpy.asarray.")


def candidate_mask(candidates: ArrayLike | None, n_items: int) -> NDArray[np.bool_]:
    """One flag per item, or an empty array when every item may be listed.

    >>> candidate_mask([2, 0], 3).tolist(), candidate_mask(None, 3).tolist()
    ([True, False, True], [])
    """
    if candidates is None:
        return np.empty(0, np.bool_)
    codes = np.asarray(candidates)
    good = codes.ndim == 1 and codes.size > 0 and np.issubdtype(codes.dtype, np.integer)
    check(
        good, "candidates", "a list of one item code or more", candidates, "Leave it out to allow all items."
    )
    outside = codes[(codes < 0) | (codes >= n_items)]
    check(outside.size == 0, "candidates", f"item codes from 0 to {n_items - 1}", outside[:3].tolist())
    allowed = np.zeros(n_items, np.bool_)
    allowed[codes] = True
    return allowed


def select(
    block: NDArray[np.float32],
    rows: NDArray[np.int64],
    k: int,
    seen: sp.csr_matrix | None,
    allowed: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.float32], int]:
    """:func:`top_k` of ``block[rows]`` without checks; ``seen`` has a row per list.

    Answers items, scores and the position in ``rows`` of the first list that met NaN (-1: none).
    """
    from veilrec.metrics import kernels

    items, scores = np.empty((len(rows), k), np.int32), np.empty((len(rows), k), np.float32)
    if seen is None:
        pointers, columns = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int32)
    else:
        pointers, columns = seen.indptr.astype(np.int64), seen.indices.astype(np.int32, copy=False)
    arguments = (np.ascontiguousarray(block), rows, pointers, columns, allowed, items, scores)
    bad = kernels.first_bad(kernels.top_rows, len(rows), block.shape[1], *arguments)
    return items, scores, bad
