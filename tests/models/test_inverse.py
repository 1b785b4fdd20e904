"""The inverse of a large matrix, block by block."""

from __future__ import annotations

import numpy as np
import pytest

from veilrec.models.inverse import invert_in_place


@pytest.mark.parametrize("size", [1, 2, 7, 100, 257])
@pytest.mark.parametrize("block", [1, 3, 64, 1000])
def test_it_is_the_inverse_whatever_the_blocks(size: int, block: int) -> None:
    x = np.random.default_rng(size).standard_normal((size, 2 * size))
    matrix = x @ x.T + np.eye(size)
    lower = np.tril(matrix) + np.triu(np.full_like(matrix, np.nan), 1)  # only the lower half is read
    invert_in_place(lower, block=block)
    np.testing.assert_allclose(lower @ matrix, np.eye(size), atol=1e-9)
    np.testing.assert_array_equal(np.tril(lower), np.triu(lower).T)


@pytest.mark.parametrize("ridge", [1.0, 1e-3, 1e-6])
def test_it_is_as_exact_as_the_condition_allows(ridge: float) -> None:
    x = np.random.default_rng(1).standard_normal((300, 200))  # of rank 200: the rest is the ridge
    matrix = x @ x.T + ridge * np.eye(300)
    found = matrix.copy()
    invert_in_place(found, block=64)
    error = np.abs(found @ matrix - np.eye(300)).max()
    assert error < 1e-12 * np.linalg.cond(matrix)


def test_only_square_matrices() -> None:
    with pytest.raises(ValueError, match=r"matrix must be square, got \(2, 3\)"):
        invert_in_place(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="block must be a whole number"):
        invert_in_place(np.eye(2), block=0)
