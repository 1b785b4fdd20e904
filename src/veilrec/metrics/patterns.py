"""Sparse matrices read as sets: a stored entry means "in the set", whatever its value."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import check


def as_pattern(
    name: str, matrix: sp.csr_matrix, n_rows: int | None = None, n_items: int | None = None
) -> sp.csr_matrix:
    """``matrix`` as CSR with ascending columns and no repeats; the caller's own matrix is left as it is.

    >>> as_pattern("seen", sp.coo_matrix(([1, 1], ([0, 0], [2, 1])), shape=(1, 3))).indices.tolist()
    [1, 2]
    """
    check(sp.issparse(matrix), name, "a scipy sparse matrix of users x items", type(matrix).__name__)
    wanted = (matrix.shape[0] if n_rows is None else n_rows, matrix.shape[1] if n_items is None else n_items)
    check(matrix.shape == wanted, name, f"{wanted[0]} users x {wanted[1]} items", matrix.shape)
    pattern = matrix.tocsr()
    if not pattern.has_canonical_format:
        pattern = pattern.copy()
        pattern.sum_duplicates()
    return pattern


def evaluated_users(relevant: sp.csr_matrix) -> NDArray[np.int64]:
    """The users with at least one relevant item, ascending: those over whom ranking metrics are averaged.

    >>> evaluated_users(sp.csr_matrix([[0, 1], [0, 0], [1, 1]])).tolist()
    [0, 2]
    """
    return np.flatnonzero(np.diff(as_pattern("relevant", relevant).indptr)).astype(np.int64)


def row_entries(pattern: sp.csr_matrix, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places in ``pattern.indices`` that belong to these rows, row after row.

    >>> row_entries(sp.csr_matrix([[0, 1], [1, 1]]), np.array([1, 0])).tolist()
    [1, 2, 0]
    """
    starts = pattern.indptr[rows].astype(np.int64)
    counts = pattern.indptr[rows + 1] - starts
    shift = starts - (np.cumsum(counts) - counts)
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(shift, counts), dtype=np.int64)
