"""The leading singular vectors of a large sparse matrix, by Chebyshev-filtered subspace iteration.

A block of vectors is pushed through a polynomial in M = R^T R that is small on the unwanted part of the
spectrum and grows fast above it (Zhou, Saad, Tiago and Chelikowsky, J. Comput. Phys. 2006); then a
Rayleigh-Ritz step sorts the block. It needs only products with R and R^T, all on many columns at once.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilrec.core import check_count
from veilrec.models.propagation import gather_rows

_EXTRA = 64  # vectors beyond those wanted: they carry the part of the spectrum that converges last
_GROWTH = 16.0  # the filter may magnify by e^16, what float32 can bear


def top_right_vectors(
    matrix: sp.csr_matrix, k: int, rng: np.random.Generator, *, tolerance: float = 1e-3, rounds: int = 20
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The ``k`` largest singular values of ``matrix`` [n, m] and their right vectors [m, k], in float32.

    Stops when every |M v - s^2 v| is at most ``tolerance`` times the smallest wanted s^2 (or 1/1000 of the
    largest), or after ``rounds``. Fewer than ``k`` come back where the rank is smaller.

    >>> diagonal = sp.csr_matrix(np.diag([3.0, 1.0, 2.0]))
    >>> values, vectors = top_right_vectors(diagonal, 2, np.random.default_rng(0))
    >>> values.round(4).tolist(), abs(vectors.round(4)).tolist()
    ([3.0, 2.0], [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    """
    check_count("k", k)
    matrix = matrix.astype(np.float32)
    transposed = matrix.T.tocsr()
    width = min(k + _EXTRA, matrix.shape[1])

    def product(block: Tensor) -> Tensor:
        return _times(transposed, _times(matrix, block))

    start = torch.from_numpy(rng.standard_normal((matrix.shape[1], width), dtype=np.float32))
    squares, block = _rayleigh_ritz(matrix, product(start))
    for _ in range(rounds):
        wanted = min(k, width)
        error = torch.linalg.vector_norm(
            product(block[:, :wanted]) - block[:, :wanted] * squares[:wanted], dim=0
        )
        if error.max() <= tolerance * max(squares[wanted - 1], 1e-3 * squares[0]):
            break
        half = max(float(squares[-1]), 1e-6 * float(squares[0])) / 2  # the filter is small on [0, 2 half]
        degree = max(1, int(_GROWTH / np.arccosh(float(squares[0]) / half - 1)))
        before, now = block, product(block) / half - block
        for _ in range(degree - 1):  # T_n+1(y) = 2 y T_n(y) - T_n-1(y) with y = M / half - 1
            before, now = now, 2 * (product(now) / half - now) - before
        squares, block = _rayleigh_ritz(matrix, now)
    rank = min(k, int((squares > 1e-6 * squares[0]).sum()))
    return squares[:rank].sqrt().numpy(), np.ascontiguousarray(block[:, :rank].numpy())


def _rayleigh_ritz(matrix: sp.csr_matrix, block: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues and vectors of R^T R within the span of ``block``, largest first."""
    basis = torch.linalg.qr(block / torch.linalg.vector_norm(block, dim=0).clamp_min(1e-30))[0]
    image = _times(matrix, basis)
    squares, turn = torch.linalg.eigh((image.T @ image).double())
    return squares.flip(0).clamp_min(0).float(), basis @ turn.flip(1).float()


def _times(matrix: sp.csr_matrix, block: Tensor) -> Tensor:
    """matrix @ block, 64 columns at a time: the kernel is fastest so."""
    parts = [gather_rows(matrix, part.contiguous()) for part in torch.split(block, 64, dim=1)]
    return torch.cat(parts, dim=1)
