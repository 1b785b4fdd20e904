from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.core import in_threads, stream
from veilrec.models import kernels


def history(users: int = 40, items: int = 30, density: float = 0.2, seed: int = 0) -> sp.csr_matrix:
    rng = stream(seed, "history")
    found = sp.csr_matrix((rng.random((users, items)) < density).astype(np.float32))
    found.sort_indices()
    return found


def both_ways(table: sp.csr_matrix) -> tuple[np.ndarray, ...]:
    by_item = table.T.tocsr()
    return by_item.indptr, by_item.indices, table.indptr, table.indices


def test_count_together_is_the_gram_matrix() -> None:
    table = history()
    out = np.zeros((30, 30))
    in_threads(kernels.count_together, 30, *both_ways(table), out, block=8)
    dense = table.toarray()
    np.testing.assert_array_equal(out, dense.T @ dense)


def slow_neighbours(table: sp.csr_matrix, k: int, shrinkage: float) -> list[list[tuple[int, float]]]:
    dense = table.toarray().astype(np.float64)
    together = dense.T @ dense
    own = together.diagonal()
    lists = []
    for i in range(len(own)):
        similar = [
            (j, np.float32(together[i, j] / (np.sqrt(own[i] * own[j]) + shrinkage)))
            for j in range(len(own))
            if j != i and together[i, j] > 0
        ]
        lists.append(sorted(sorted(similar, key=lambda pair: (-pair[1], pair[0]))[:k]))
    return lists


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 25),
    density=st.sampled_from([0.05, 0.3, 1.0]),
    shrinkage=st.sampled_from([0.0, 3.0]),
)
def test_best_neighbours_are_those_of_a_full_sort(
    seed: int, k: int, density: float, shrinkage: float
) -> None:
    """Few users give many equal similarities, so ties are exercised; density 1 makes all of them equal."""
    table = history(12, 20, density, seed)
    k = min(k, 20)
    found, similarity = np.full((20, k), -1, np.int32), np.zeros((20, k), np.float32)
    kernels.best_neighbours(0, 20, *both_ways(table), shrinkage, found, similarity)
    for item, expected in enumerate(slow_neighbours(table, k, shrinkage)):
        used = found[item] >= 0
        assert list(zip(found[item][used].tolist(), similarity[item][used], strict=True)) == expected


def test_sums_of_sparse_and_dense_rows() -> None:
    rows, table = history(9, 30, 0.3, 1), history(30, 17, 0.4, 2)
    table.data[:] = stream(0, "values").random(table.nnz)
    expected = rows.toarray() @ table.toarray()
    sparse, dense = np.zeros((9, 17), np.float32), np.zeros((9, 17), np.float32)
    kernels.add_sparse_rows(0, 9, rows.indptr, rows.indices, table.indptr, table.indices, table.data, sparse)
    kernels.add_dense_rows(0, 9, rows.indptr, rows.indices, table.toarray(), dense)
    np.testing.assert_allclose(sparse, expected, rtol=1e-5)
    np.testing.assert_allclose(dense, expected, rtol=1e-5)


def test_filter_rows_is_the_two_sparse_products() -> None:
    table = history(50, 30)
    user, before, after = (stream(0, "scale", n).random(n, dtype=np.float32) for n in (50, 30, 31))
    after = after[:30]
    some = history(11, 30, 0.1, 5)
    start = stream(0, "start").random((11, 30), dtype=np.float32)
    out = start.copy()
    arguments = (*both_ways(table), user, before, after)
    kernels.filter_rows(0, 11, some.indptr, some.indices, *arguments, out)
    table_in, table_out = table.toarray() * before, table.toarray() * after
    np.testing.assert_allclose(out, start + some.toarray() @ table_in.T * user @ table_out, rtol=1e-4)
    alone = start.copy()  # other companions in the pass, the same bits
    for row in range(11):
        kernels.filter_rows(row, row + 1, some.indptr, some.indices, *arguments, alone)
    np.testing.assert_array_equal(alone, out)
