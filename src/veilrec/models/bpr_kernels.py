"""Compiled inner loop of BPR: one stratum of the stratified stochastic gradient (Gemulla et al., KDD 2011).

Users and items are each dealt into blocks; strata that share neither a block of users nor a block of items
touch disjoint parameters, so threads may run them side by side without a race and in any order.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def deal(
    users: Array, items: Array, user_block: Array, item_block: Array, blocks: int
) -> tuple[Array, Array, Array]:
    """Interactions sorted into blocks x blocks strata: their users, items, and where each stratum begins."""
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
    return int(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def _holds(values: Array, first: int, last: int, wanted: int) -> bool:
    """Whether the sorted values[first:last] hold ``wanted``; bisection without unpredictable branches."""
    length = last - first
    while length > 1:
        half = length // 2
        first += half if values[first + half - 1] < wanted else 0
        length -= half
    return length == 1 and values[first] == wanted


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def bpr_stratum(
    users: Array,
    items: Array,
    candidates: Array,
    indptr: Array,
    indices: Array,
    p: Array,
    q: Array,
    rate: float,
    decay: float,
    seed: int,
) -> float:
    """One pass of BPR over the interactions (users, items), shuffled in place; returns the sum of the losses.

    x_ui = p_u . q_i + b_i, with b_i in the last column of ``q``. For each (u, i) a negative j is drawn from
    ``candidates`` until u does not have it (at most 31 times, then the pair is left out), and p_u, q_i, q_j,
    b_i, b_j take one gradient step on -ln sigmoid(x_ui - x_uj) + decay / 2 (|p_u|^2 + |q_i|^2 + |q_j|^2 +
    b_i^2 + b_j^2).
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
        first, end = indptr[u], indptr[u + 1]
        j = candidates[_draw(state, len(candidates))]
        tries = 1
        while _holds(indices, first, end, j) and tries < 32:
            j = candidates[_draw(state, len(candidates))]
            tries += 1
        if tries == 32:
            continue
        pu, qi, qj = p[u], q[i], q[j]
        x = qi[size] - qj[size]
        for a in range(size):
            x += pu[a] * (qi[a] - qj[a])
        z = np.exp(min(max(-x, -limit), limit))
        pull = z / (one + z)
        total += np.log(one + z)
        for a in range(size):
            pa, ia, ja = pu[a], qi[a], qj[a]
            pu[a] = pa + rate32 * (pull * (ia - ja) - decay32 * pa)
            qi[a] = ia + rate32 * (pull * pa - decay32 * ia)
            qj[a] = ja - rate32 * (pull * pa + decay32 * ja)
        qi[size] += rate32 * (pull - decay32 * qi[size])
        qj[size] -= rate32 * (pull + decay32 * qj[size])
    return total
