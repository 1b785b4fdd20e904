"""Compiled inner loops of the neighbour and filter models.

Each kernel works on the rows ``start:stop`` and writes only to them, without the interpreter lock;
:func:`veilrec.core.in_threads` deals fixed blocks of rows to threads. No two threads write to one place and
no sum runs across blocks, so results do not depend on the number of threads.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(cache=True, nogil=True)
def _count_row(
    item: int, item_ptr: Array, item_users: Array, user_ptr: Array, user_items: Array, counts: Array
) -> None:
    for at in range(item_ptr[item], item_ptr[item + 1]):
        user = item_users[at]
        for entry in range(user_ptr[user], user_ptr[user + 1]):
            counts[user_items[entry]] += 1


@njit(cache=True, nogil=True)
def count_together(
    start: int, stop: int, item_ptr: Array, item_users: Array, user_ptr: Array, user_items: Array, out: Array
) -> None:
    """out[i, j] += the number of users who have both i and j."""
    for item in range(start, stop):
        _count_row(item, item_ptr, item_users, user_ptr, user_items, out[item])


@njit(cache=True, nogil=True)
def _kth_largest(values: Array, n: int, k: int) -> Any:
    """The k-th largest of values[:n] by quickselect; reorders them."""
    low, high, wanted = 0, n - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    return values[wanted]


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
    """Fill rows of ``neighbours`` and ``similarity`` with the most similar other items, ordered by code.

    s_ij = c_ij / (sqrt(c_ii c_jj) + shrinkage). Ties go to the smaller code; an unused place keeps what it
    holds.
    """
    n_items, k = len(item_ptr) - 1, neighbours.shape[1]
    values, positive = np.empty(n_items, np.float32), np.empty(n_items, np.float32)
    for item in range(start, stop):
        values[:] = 0
        _count_row(item, item_ptr, item_users, user_ptr, user_items, values)
        values[item] = 0
        n = 0
        for j in range(n_items):
            if values[j] > 0:
                together = np.float64(item_ptr[item + 1] - item_ptr[item]) * (item_ptr[j + 1] - item_ptr[j])
                values[j] = np.float32(values[j] / (np.sqrt(together) + shrinkage))
                positive[n] = values[j]
                n += 1
        bar = _kth_largest(positive, n, k) if n > k else np.float32(0)
        room = k  # places for values equal to the bar
        for j in range(n_items):
            room -= values[j] > bar
        place = 0
        for j in range(n_items):
            if values[j] > bar or (values[j] == bar and bar > 0 and room > 0):
                room -= values[j] == bar
                neighbours[item, place] = j
                similarity[item, place] = values[j]
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
    scale_in: Array,
    scale_out: Array,
    out: Array,
) -> None:
    """out[r] += h_r S_in H^T S_U H S_out for binary histories h; H holds all histories, S are diagonal.

    Goes from items to the users who have them and back to these users' items; nothing items x items is held.
    Four histories share each pass. Users are always visited in the order of their codes, so a row's bits do
    not depend on which rows it shares the pass with.
    """
    reach = np.zeros((len(user_scale), 4), np.float32)
    reached = np.zeros(len(user_scale), np.bool_)
    total = np.empty((len(scale_out), 4), np.float32)
    for first in range(start, stop, 4):
        lanes = min(4, stop - first)
        for lane in range(lanes):
            for entry in range(indptr[first + lane], indptr[first + lane + 1]):
                item = indices[entry]
                for at in range(item_ptr[item], item_ptr[item + 1]):
                    reach[item_users[at], lane] += scale_in[item]
                    reached[item_users[at]] = True
        total[:] = 0
        for user in range(len(user_scale)):
            if reached[user]:
                for lane in range(4):
                    reach[user, lane] *= user_scale[user]
                for entry in range(user_ptr[user], user_ptr[user + 1]):
                    for lane in range(4):
                        total[user_items[entry], lane] += reach[user, lane]
                reach[user] = 0
                reached[user] = False
        for lane in range(lanes):
            for item in range(len(scale_out)):
                out[first + lane, item] += total[item, lane] * scale_out[item]


@njit(cache=True, nogil=True)
def add_rounded_products(start: int, stop: int, left: Array, right: Array, out: Array) -> None:
    """out[i, k] += the sum over u of round(left[i, u] right[u, k]): each product is rounded by itself."""
    for row in range(start, stop):
        for user in range(left.shape[1]):
            factor = left[row, user]
            if factor != 0.0:
                for column in range(right.shape[1]):
                    out[row, column] += np.int64(np.rint(factor * right[user, column]))
