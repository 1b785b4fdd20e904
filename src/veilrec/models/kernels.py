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


# -- pairwise ranking by stratified stochastic gradient -----------------------------------------------


@njit(cache=True, nogil=True)
def deal(
    users: Array, items: Array, user_block: Array, item_block: Array, blocks: int
) -> tuple[Array, Array, Array]:
    """Interactions sorted into blocks x blocks strata: their users, their items, where each stratum begins."""
    begin = np.zeros(blocks * blocks + 1, np.int64)
    for at in range(len(users)):
        begin[user_block[users[at]] * blocks + item_block[items[at]] + 1] += 1
    begin = np.cumsum(begin)
    place = begin.copy()
    dealt_users, dealt_items = np.empty_like(users), np.empty_like(items)
    for at in range(len(users)):
        stratum = user_block[users[at]] * blocks + item_block[items[at]]
        dealt_users[place[stratum]] = users[at]
        dealt_items[place[stratum]] = items[at]
        place[stratum] += 1
    return dealt_users, dealt_items, begin


@njit(cache=True, nogil=True)
def _draw(state: Array, n: int) -> int:
    """A whole number from 0 to n - 1 (n < 2^32) from a splitmix64 generator whose state is ``state[0]``."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def _holds(values: Array, first: int, last: int, wanted: int) -> bool:
    """Whether the sorted values[first:last] hold ``wanted``; bisection without unpredictable branches."""
    length = last - first
    while length > 1:
        half = length // 2
        first += half if values[first + half - 1] < wanted else 0
        length -= half
    return length == 1 and values[first] == wanted


@njit(cache=True, nogil=True, fastmath=_SUMS)
def bpr_stratum(
    users: Array,
    items: Array,
    candidates: Array,
    indptr: Array,
    indices: Array,
    p: Array,
    q: Array,
    bias: Array,
    rate: float,
    decay: float,
    seed: int,
) -> float:
    """One pass of BPR over the interactions (users, items), shuffled in place; returns the sum of the losses.

    For each (u, i) a negative j is drawn from ``candidates`` until u does not have it (at most 32 times, then the
    pair is left out), and p[u], q[i], q[j], bias[i], bias[j] take one gradient step on -ln sigmoid(x_ui - x_uj).
    """
    size = p.shape[1]
    state = np.empty(1, np.uint64)
    state[0] = np.uint64(seed)
    rate32, decay32, one, limit = np.float32(rate), np.float32(decay), np.float32(1), np.float32(30)
    for last in range(len(users) - 1, 0, -1):
        other = _draw(state, last + 1)
        users[last], users[other] = users[other], users[last]
        items[last], items[other] = items[other], items[last]
    total = 0.0
    for at in range(len(users)):
        u, i = users[at], items[at]
        first, last = indptr[u], indptr[u + 1]
        j = candidates[_draw(state, len(candidates))]
        tries = 1
        while _holds(indices, first, last, j) and tries < 32:
            j = candidates[_draw(state, len(candidates))]
            tries += 1
        if tries == 32:
            continue
        pu, qi, qj = p[u], q[i], q[j]
        x = bias[i] - bias[j]
        for a in range(size):
            x += pu[a] * (qi[a] - qj[a])
        z = np.exp(min(max(-x, -limit), limit))
        pull = z / (one + z)
        total += np.log(one + z)
        for a in range(size):
            pa, ia, ja = pu[a], qi[a], qj[a]
            pu[a] += rate32 * (pull * (ia - ja) - decay32 * pa)
            qi[a] += rate32 * (pull * pa - decay32 * ia)
            qj[a] += rate32 * (-pull * pa - decay32 * ja)
        bias[i] += rate32 * (pull - decay32 * bias[i])
        bias[j] += rate32 * (-pull - decay32 * bias[j])
    return total
