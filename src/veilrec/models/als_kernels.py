"""Compiled inner loop of alternating least squares, with confidence (iALS) or without (MF)."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from veilrec.core import in_threads

Array = NDArray[Any]

_SUMS = {"reassoc", "contract", "nsz"}  # lets sums be vectorised; NaN and infinity keep their meaning


@njit(cache=True, nogil=True, fastmath=_SUMS)
def gram_block(start: int, stop: int, vectors: Array) -> Array:
    """The sum of v v^T over the rows of ``vectors`` from start to stop."""
    size = vectors.shape[1]
    total = np.zeros((size, size), np.float32)
    for row in range(start, stop):
        for a in range(size):
            scale = vectors[row, a]
            for b in range(size):
                total[a, b] += scale * vectors[row, b]
    return total


def gram(vectors: Array) -> Array:
    """V^T V in float32.

    >>> gram(np.array([[1.0, 2.0]], np.float32)).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    blocks = in_threads(gram_block, len(vectors), vectors, block=1024)
    return np.asarray(np.sum(blocks, axis=0, dtype=np.float32))


@njit(cache=True, nogil=True, fastmath=_SUMS)
def solve_rows(
    start: int,
    stop: int,
    indptr: Array,
    indices: Array,
    target: Array,
    weight: float,
    base: Array,
    ridge: Array,
    vectors: Array,
    out: Array,
    steps: int,
) -> float:
    """At most ``steps`` of conjugate gradient, from what ``out`` holds, on one linear system A x = b per row.

    A = base + weight V^T V + ridge[row] I and b = V^T t, where V holds the ``vectors`` of the row's entries
    and t their ``target``. A row without entries gets 0. Returns the sum over rows of x^T A x - 2 b^T x,
    which is the least-squares objective up to a constant.
    """
    size = vectors.shape[1]
    weight32 = np.float32(weight)
    x = np.empty(size, np.float32)
    r = np.empty(size, np.float32)
    p = np.empty(size, np.float32)
    q = np.empty(size, np.float32)
    objective = 0.0
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        if first == last:
            out[row] = 0
            continue
        lam = ridge[row]
        x[:] = out[row]
        for a in range(size):  # r = b - A x
            s = lam * x[a]
            for b in range(size):
                s += base[a, b] * x[b]
            r[a] = -s
        for entry in range(first, last):
            v = vectors[indices[entry]]
            s = np.float32(0)
            for a in range(size):
                s += v[a] * x[a]
            objective -= target[entry] * s  # -b^T x, term by term
            s = target[entry] - weight32 * s
            for a in range(size):
                r[a] += s * v[a]
        rr = np.float32(0)
        for a in range(size):
            p[a] = r[a]
            rr += r[a] * r[a]
            objective -= x[a] * r[a]  # x^T A x - b^T x = -x^T r
        enough = np.float32(1e-12) * rr
        for _ in range(steps):
            if rr <= enough:
                break
            for a in range(size):  # q = A p
                s = lam * p[a]
                for b in range(size):
                    s += base[a, b] * p[b]
                q[a] = s
            for entry in range(first, last):
                v = vectors[indices[entry]]
                s = np.float32(0)
                for a in range(size):
                    s += v[a] * p[a]
                s *= weight32
                for a in range(size):
                    q[a] += s * v[a]
            s = np.float32(0)
            for a in range(size):
                s += p[a] * q[a]
            step = rr / s
            objective -= step * rr  # what this step gains
            fresh = np.float32(0)
            for a in range(size):
                x[a] += step * p[a]
                r[a] -= step * q[a]
                fresh += r[a] * r[a]
            turn = fresh / rr
            for a in range(size):
                p[a] = r[a] + turn * p[a]
            rr = fresh
        out[row] = x
    return objective
