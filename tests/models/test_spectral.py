from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from veilrec.core import stream
from veilrec.models.spectral import top_right_vectors


def table(users: int, items: int, density: float, seed: int = 0) -> sp.csr_matrix:
    """A normalised interaction matrix with a long tail, whose largest singular value is 1."""
    rng = stream(seed, "table")
    tail = density / np.arange(1, items + 1) ** 0.5
    found = (rng.random((users, items)) < tail * items / tail.sum() * density).astype(np.float32)
    scale = [1 / np.sqrt(np.maximum(found.sum(axis=axis), 1)) for axis in (1, 0)]
    return sp.csr_matrix((scale[0][:, None] * found * scale[1]).astype(np.float32))


@pytest.mark.parametrize(("shape", "k"), [((300, 200), 20), ((60, 250), 10)])
def test_values_and_subspace_are_those_of_the_dense_svd(shape: tuple[int, int], k: int) -> None:
    matrix = table(*shape, 0.2)
    values, vectors = top_right_vectors(matrix, k, stream(0, "start"))
    _, expected, right = np.linalg.svd(matrix.toarray().astype(np.float64), full_matrices=False)
    np.testing.assert_allclose(values, expected[:k], atol=2e-4)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-4)
    captured = np.square(right[:k] @ vectors).sum() / k
    assert captured > 0.999


def test_a_steep_spectrum_does_not_overflow() -> None:
    rng = stream(1, "steep")
    left, right = (
        np.linalg.qr(rng.standard_normal((200, 150)))[0],
        np.linalg.qr(rng.standard_normal((150, 150)))[0],
    )
    matrix = sp.csr_matrix((left * 10.0 ** np.linspace(0, -3, 150)) @ right.T)
    values, _ = top_right_vectors(matrix, 30, stream(0, "start"))
    np.testing.assert_allclose(values, 10.0 ** np.linspace(0, -3, 150)[:30], rtol=1e-2)


def test_a_smaller_rank_gives_fewer_vectors() -> None:
    matrix = sp.csr_matrix(np.outer(np.ones(30), np.arange(1.0, 21.0)))
    values, vectors = top_right_vectors(matrix, 5, stream(0, "start"))
    assert vectors.shape == (20, 1)
    assert values[0] == pytest.approx(np.linalg.norm(matrix.toarray()), rel=1e-5)


def test_the_seed_decides_the_bits() -> None:
    matrix = table(120, 100, 0.2)
    first, again = (top_right_vectors(matrix, 10, stream(3, "start")) for _ in range(2))
    np.testing.assert_array_equal(first[1], again[1])
    with pytest.raises(ValueError, match="k must be"):
        top_right_vectors(matrix, 0, stream(3, "start"))
