"""Compiled inner loops of the classical recommenders.

Each kernel works on the rows ``start:stop`` and writes only to them, without the interpreter lock; :func:`in_threads`
deals fixed blocks of rows to threads. No two threads write to one place and no sum runs across blocks, so results do
not depend on the number of threads.
"""

# mypy: disable-error-code="untyped-decorator"

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


def in_threads(kernel: Callable[..., Any], rows: int, *arguments: Any, block: int = 64) -> list[Any]:
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

    A = base + weight V^T V + ridge[row] I and b = V^T t, where V holds the ``vectors`` of the row's entries and t their
    ``target``. A row without entries gets 0. Returns the sum over rows of x^T A x - 2 b^T x, which is
    the least-squares objective up to a constant.
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


# -- neighbours and filters ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def count_together(
    start: int, stop: int, item_ptr: Array, item_users: Array, user_ptr: Array, user_items: Array, out: Array
) -> None:
    """out[i - start, j] += users who have both i and j, for the items i from start to stop."""
    for item in range(start, stop):
        counts = out[item - start]
        for at in range(item_ptr[item], item_ptr[item + 1]):
            user = item_users[at]
            for entry in range(user_ptr[user], user_ptr[user + 1]):
                counts[user_items[entry]] += 1


@njit(cache=True, nogil=True)
def best_neighbours(
    start: int,
    stop: int,
    item_ptr: Array,
    item_users: Array,
    user_ptr: Array,
    user_items: Array,
    shrinkage: float,
    neighbours: Array,
    similarity: Array,
) -> None:
    """Fill rows of ``neighbours`` and ``similarity`` with the most similar other items, in the order of their codes.

    s_ij = c_ij / (sqrt(c_ii c_jj) + shrinkage). Ties go to the smaller code; an unused place keeps what it holds.
    """
    n_items, k = len(item_ptr) - 1, neighbours.shape[1]
    values = np.zeros((1, n_items), np.float32)
    for item in range(start, stop):
        values[0, :] = 0
        count_together(item, item + 1, item_ptr, item_users, user_ptr, user_items, values)
        own = np.float64(item_ptr[item + 1] - item_ptr[item])
        positive = 0
        for j in range(n_items):
            if j != item and values[0, j] > 0:
                scale = np.sqrt(own * (item_ptr[j + 1] - item_ptr[j])) + shrinkage
                values[0, j] = np.float32(values[0, j] / scale)
                positive += 1
            else:
                values[0, j] = 0
        bar = np.float32(0)
        if positive > k:
            bar = np.partition(values[0], n_items - k)[n_items - k]
        room = k  # places left for values equal to the bar
        for j in range(n_items):
            if values[0, j] > bar:
                room -= 1
        place = 0
        for j in range(n_items):
            value = values[0, j]
            if value > bar or (value == bar and value > 0 and room > 0):
                if value == bar:
                    room -= 1
                neighbours[item, place] = j
                similarity[item, place] = value
                place += 1


@njit(cache=True, nogil=True)
def add_sparse_rows(
    start: int,
    stop: int,
    indptr: Array,
    indices: Array,
    row_ptr: Array,
    columns: Array,
    values: Array,
    out: Array,
) -> None:
    """out[r] += the sum of the sparse rows named by the entries of row r."""
    for row in range(start, stop):
        for entry in range(indptr[row], indptr[row + 1]):
            for at in range(row_ptr[indices[entry]], row_ptr[indices[entry] + 1]):
                out[row, columns[at]] += values[at]


@njit(cache=True, nogil=True)
def add_dense_rows(start: int, stop: int, indptr: Array, indices: Array, table: Array, out: Array) -> None:
    """out[r] += the sum of the rows of ``table`` named by the entries of row r."""
    for row in range(start, stop):
        total = out[row]
        for entry in range(indptr[row], indptr[row + 1]):
            source = table[indices[entry]]
            for column in range(len(source)):
                total[column] += source[column]


@njit(cache=True, nogil=True)
def filter_rows(
    start: int,
    stop: int,
    indptr: Array,
    indices: Array,
    item_ptr: Array,
    item_users: Array,
    user_ptr: Array,
    user_items: Array,
    user_scale: Array,
    item_scale: Array,
    out: Array,
) -> None:
    """out[r] += h_r R^T R for binary histories h, with R = diag(user_scale) H diag(item_scale).

    Goes from items to the users who have them and back to these users' items; nothing items x items is held.
    """
    reach = np.zeros(len(user_scale), np.float32)
    reached = np.empty(len(user_scale), np.int64)
    total = np.empty(len(item_scale), np.float32)
    for row in range(start, stop):
        n = 0
        for entry in range(indptr[row], indptr[row + 1]):
            item = indices[entry]
            for at in range(item_ptr[item], item_ptr[item + 1]):
                user = item_users[at]
                if reach[user] == 0:
                    reached[n] = user
                    n += 1
                reach[user] += item_scale[item]
        total[:] = 0
        for at in range(n):
            user = reached[at]
            weight = reach[user] * user_scale[user] * user_scale[user]
            reach[user] = 0
            for entry in range(user_ptr[user], user_ptr[user + 1]):
                total[user_items[entry]] += weight
        for item in range(len(item_scale)):
            out[row, item] += total[item] * item_scale[item]
