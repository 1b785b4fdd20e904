"""The inverse of a large positive definite matrix, in place, a block of rows at a time.

A = L L^T, W = L^-1 and A^-1 = W^T W, each step over the matrix of the last. Only blocks of some hundred rows
are ever factorised or inverted by LAPACK; the rest is matrix products, n^3 operations in all. A factorisation
of the whole is not asked of it: that of OpenBLAS 0.3.30 on two threads dies from about 16,300 rows on.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilrec.core import check, check_count


def invert_in_place(matrix: NDArray[np.float64], *, block: int = 512) -> None:
    """Replace a symmetric positive definite ``matrix`` (of which the lower half is read) by its inverse.

    Beside it, 2 n ``block`` numbers are held.

    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> invert_in_place(matrix)
    >>> (3 * matrix).round(9).tolist()
    [[2.0, -1.0], [-1.0, 2.0]]
    """
    check_count("block", block)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    check(square, "matrix", "square", matrix.shape)
    a, n = torch.from_numpy(matrix), len(matrix)
    parts = [slice(start, min(start + block, n)) for start in range(0, n, block)]
    for part in parts:
        _factor(a, part, parts)
    for part in parts:
        _invert_rows(a, part, parts)
    for part in parts:
        a[part, : part.stop] = a[part.start :, part].T @ a[part.start :, : part.stop]
    for part in parts:
        own = a[part, part].tril()
        a[part, part] = own + own.tril(-1).T
        a[: part.start, part] = a[part, : part.start].T


def _factor(a: Tensor, part: slice, parts: list[slice]) -> None:
    """The columns ``part`` of L, taken out of what is right of them."""
    own = a[part, part].tril()
    a[part, part] = torch.linalg.cholesky(own + own.tril(-1).T)
    below = a[part.stop :, part]
    below.copy_(torch.linalg.solve_triangular(a[part, part].T, below, upper=True, left=False))
    for other in parts:
        if other.start >= part.stop:
            rows = a[other, part.stop : other.stop]
            rows.addmm_(a[other, part], a[part.stop : other.stop, part].T, alpha=-1)


def _invert_rows(a: Tensor, part: slice, parts: list[slice]) -> None:
    """The rows ``part`` of W from those of L and the rows of W above: W_i = -L_ii^-1 (L_i W)."""
    one = torch.eye(part.stop - part.start, dtype=a.dtype)
    own = torch.linalg.solve_triangular(a[part, part], one, upper=False)
    left = a[part, : part.start].clone()
    for other in parts:
        if other.stop <= part.start:
            a[part, other] = left[:, other.start :] @ a[other.start : part.start, other]
    a[part, : part.start] = -own @ a[part, : part.start]
    a[part, part] = own
