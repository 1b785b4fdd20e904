"""Sparse matrices as sets: repeats, order and values do not matter, the caller's matrix is not touched."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from veilrec.metrics import evaluated_users
from veilrec.metrics.patterns import as_pattern, row_entries


def test_unsorted_and_repeated_entries_are_put_in_order_in_a_copy() -> None:
    messy = sp.csr_matrix((np.array([1.0, 1.0, 0.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 4))
    clean = as_pattern("seen", messy)
    assert clean.indices.tolist() == [0, 2]
    assert messy.indices.tolist() == [2, 0, 2]


def test_a_stored_zero_counts() -> None:
    stored = sp.csr_matrix((np.array([0.0]), np.array([1]), np.array([0, 1, 1])), shape=(2, 3))
    assert evaluated_users(stored).tolist() == [0]


def test_sparse_arrays_and_other_formats_are_read() -> None:
    dense = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    for kind in (sp.csr_array, sp.coo_matrix, sp.csc_matrix, sp.lil_matrix):
        pattern = as_pattern("seen", kind(dense))
        assert pattern.indices.tolist() == [1, 2, 0]
        assert pattern.indptr.tolist() == [0, 2, 2, 3]


def test_row_entries_follow_the_order_asked() -> None:
    pattern = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]))
    rows = np.array([2, 1, 3, 0])
    assert pattern.indices[row_entries(pattern, rows)].tolist() == pattern[rows].indices.tolist()
    assert row_entries(pattern, np.array([], np.int64)).tolist() == []


def test_what_is_not_a_matrix_of_the_right_size_is_refused() -> None:
    with pytest.raises(
        ValueError, match="seen must be a scipy sparse matrix of users x items, got 'ndarray'"
    ):
        as_pattern("seen", np.eye(2))
    with pytest.raises(ValueError, match="seen must be 3 users x 2 items"):
        as_pattern("seen", sp.csr_matrix((2, 2)), n_rows=3)
    with pytest.raises(ValueError, match="seen must be 2 users x 5 items"):
        as_pattern("seen", sp.csr_matrix((2, 2)), n_items=5)
