from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from veilrec.core import in_threads, stream
from veilrec.models import als_kernels


def system(
    weight: float, seed: int = 0
) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = stream(seed, "system")
    table = sp.csr_matrix((rng.random((25, 40)) < 0.3).astype(np.float32))
    vectors = rng.standard_normal((40, 6)).astype(np.float32)
    target = rng.standard_normal(table.nnz).astype(np.float32)
    ridge = (0.5 + rng.random(25)).astype(np.float32)
    base = als_kernels.gram(vectors) if weight != 1 else np.zeros((6, 6), np.float32)
    return table, vectors, target, ridge, base


def exact(
    table: sp.csr_matrix,
    vectors: np.ndarray,
    target: np.ndarray,
    ridge: np.ndarray,
    base: np.ndarray,
    weight: float,
) -> tuple[np.ndarray, float]:
    """Every row's normal equations, spelled out and solved in float64; and x^T A x - 2 b^T x."""
    out, objective = np.zeros((table.shape[0], 6)), 0.0
    for row in range(table.shape[0]):
        part = slice(table.indptr[row], table.indptr[row + 1])
        v = vectors[table.indices[part]].astype(np.float64)
        a = base + weight * v.T @ v + ridge[row] * np.eye(6)
        b = v.T @ target[part]
        out[row] = np.linalg.solve(a, b)
        objective += out[row] @ a @ out[row] - 2 * b @ out[row]
    return out, objective


def test_gram() -> None:
    vectors = stream(0, "gram").standard_normal((3000, 5)).astype(np.float32)
    np.testing.assert_allclose(als_kernels.gram(vectors), vectors.T @ vectors, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("weight", [1.0, 7.0])
def test_enough_steps_solve_the_normal_equations(weight: float) -> None:
    table, vectors, target, ridge, base = system(weight)
    out = np.ones((25, 6), np.float32)  # a bad start
    objective = als_kernels.solve_rows(
        0, 25, table.indptr, table.indices, target, weight, base, ridge, vectors, out, 12
    )
    expected, value = exact(table, vectors, target, ridge, base, weight)
    np.testing.assert_allclose(out, expected, atol=2e-5)
    assert objective == pytest.approx(value, rel=1e-4)


def test_each_step_lowers_the_objective_it_reports() -> None:
    table, vectors, target, ridge, base = system(3.0)
    found = []
    for steps in range(1, 5):
        out = np.zeros((25, 6), np.float32)
        found.append(
            als_kernels.solve_rows(
                0, 25, table.indptr, table.indices, target, 3.0, base, ridge, vectors, out, steps
            )
        )
        value = 0.0
        for row in range(25):
            part = slice(table.indptr[row], table.indptr[row + 1])
            v, x = vectors[table.indices[part]].astype(np.float64), out[row].astype(np.float64)
            a = base + 3.0 * v.T @ v + ridge[row] * np.eye(6)
            value += x @ a @ x - 2 * (v.T @ target[part]) @ x
        assert found[-1] == pytest.approx(value, rel=1e-4)
    assert found == sorted(found, reverse=True)


def test_a_row_without_entries_is_zero() -> None:
    table = sp.csr_matrix((2, 3), dtype=np.float32)
    out = np.ones((2, 4), np.float32)
    als_kernels.solve_rows(
        0, 2, table.indptr, table.indices, np.empty(0, np.float32), 1.0, np.eye(4, dtype=np.float32),
        np.ones(2, np.float32), np.ones((3, 4), np.float32), out, 3,
    )  # fmt: skip
    assert not out.any()


def test_blocks_and_threads_do_not_change_bits() -> None:
    table, vectors, target, ridge, base = system(2.0)
    results = []
    for block in (1, 4, 25):
        out = np.zeros((25, 6), np.float32)
        in_threads(
            als_kernels.solve_rows, 25, table.indptr, table.indices, target, 2.0, base, ridge, vectors, out,
            3, block=block,
        )  # fmt: skip
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
