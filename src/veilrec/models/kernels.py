"""Compiled inner loops of the classical recommenders.

Each kernel works on the rows ``start:stop`` and writes only to them, without the interpreter lock; :func:`in_threads`
deals fixed blocks of rows to threads. No two threads write to one place and no sum runs across blocks, so results do
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

_SUMS = {"reassoc", "contract", "nsz"}  # lets sums be vectorised; NaN and infinity keep their meaning


def in_threads(kernel: Callable[..., object], rows: int, *arguments: object, block: int = 256) -> list[Any]:
    """``kernel(start, stop, *arguments)`` for each block of rows, on all cores; what each returned, in order.

    >>> in_threads(lambda start, stop, step: list(range(start, stop, step)), 5, 2, block=3)
    [[0, 2], [3]]
    """
    edges = [(start, min(start + block, rows)) for start in range(0, rows, block)]
    if len(edges) < 2 or numba.config.NUMBA_NUM_THREADS == 1:
        return [kernel(start, stop, *arguments) for start, stop in edges]
    with ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS) as pool:
        return list(pool.map(lambda edge: kernel(*edge, *arguments), edges))


# -- alternating least squares ------------------------------------------------------------------------


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
    return np.sum(blocks, axis=0, dtype=np.float32)


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
) -> None:
    """``steps`` of conjugate gradient, from what ``out`` holds, on one linear system per row.

    With V the ``vectors`` of the row's entries and t their ``target``:
    (base + weight V^T V + ridge[row] I) x = V^T t. A row without entries has the solution 0.
    """
    size = vectors.shape[1]
    weight32 = np.float32(weight)
    x = np.empty(size, np.float32)
    r = np.empty(size, np.float32)
    p = np.empty(size, np.float32)
    q = np.empty(size, np.float32)
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
            s = target[entry] - weight32 * s
            for a in range(size):
                r[a] += s * v[a]
        rr = np.float32(0)
        for a in range(size):
            p[a] = r[a]
            rr += r[a] * r[a]
        for _ in range(steps):
            if rr < np.float32(1e-20):
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
