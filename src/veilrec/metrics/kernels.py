"""Compiled loops over score rows. Imports numba: import this module inside functions, not at the top.

The loops release the interpreter lock and carry no parallel section of their own; ``first_bad`` splits the
rows over plain Python threads. So they may be called from several threads at once, survive a fork, and
need no second OpenMP beside the one of torch.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from veilrec.core import in_threads

_SMALL = 1 << 20  # below this many scores, starting threads costs more than it saves
_CHUNK = 32  # rows per piece of work


def first_bad(kernel: Callable[..., int], n_rows: int, n_columns: int, *arguments: Any) -> int:
    """Run ``kernel(first, last, *arguments)`` over all rows; the least answer that is not -1, else -1.

    >>> first_bad(lambda first, last: -1, 10, 10)
    -1
    """
    block = _CHUNK if n_rows * n_columns > _SMALL else max(n_rows, 1)
    answers = in_threads(kernel, n_rows, *arguments, block=block)
    return min((int(answer) for answer in answers if answer >= 0), default=-1)


@njit(cache=True, nogil=True)
def _sift(scores: Any, items: Any, root: int, size: int) -> None:
    """Restore the heap below ``root``; its top is the worst entry (lowest score, then largest code)."""
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        other = child + 1
        if other < size and (
            scores[other] < scores[child] or (scores[other] == scores[child] and items[other] > items[child])
        ):
            child = other
        if scores[child] > scores[root] or (scores[child] == scores[root] and items[child] < items[root]):
            return
        scores[root], scores[child] = scores[child], scores[root]
        items[root], items[child] = items[child], items[root]
        root = child


@njit(cache=True, nogil=True)
def top_rows(
    first: int,
    last: int,
    block: NDArray[np.float32],
    rows: NDArray[np.int64],
    pointers: NDArray[np.int64],
    columns: NDArray[np.int32],
    allowed: NDArray[np.bool_],
    items: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> int:
    """Lists ``first:last``: list i takes the best of ``block[rows[i]]`` without its seen columns.

    ``columns[pointers[i]:pointers[i + 1]]`` are the seen items, ascending; ``allowed`` is empty or one flag
    per item. Fills ``items`` and ``scores``; answers the list that met NaN, else -1.
    """
    n_items, k = block.shape[1], items.shape[1]
    for i in range(first, last):
        row, heap, codes = block[rows[i]], scores[i], items[i]
        next_seen, end_seen = pointers[i], pointers[i + 1]
        size = 0
        threshold = np.float32(-np.inf)
        for start in range(0, n_items, 64):
            stop = min(start + 64, n_items)
            if stop - start == 64:
                above = 0  # a constant trip count, so that this compiles to vector compares; NaN counts
                for j in range(64):
                    above += not (row[start + j] <= threshold)
                if above == 0:
                    continue
            for item in range(start, stop):
                score = row[item]
                if score <= threshold:
                    continue
                if score != score:
                    return i
                while next_seen < end_seen and columns[next_seen] < item:
                    next_seen += 1
                if next_seen < end_seen and columns[next_seen] == item:
                    continue
                if allowed.size > 0 and not allowed[item]:
                    continue
                if size < k:
                    heap[size], codes[size] = score, item
                    size += 1
                    if size < k:
                        continue
                    for root in range(k // 2 - 1, -1, -1):
                        _sift(heap, codes, root, k)
                else:
                    heap[0], codes[0] = score, item
                    _sift(heap, codes, 0, k)
                threshold = heap[0]
        if size < k:
            for root in range(size // 2 - 1, -1, -1):
                _sift(heap, codes, root, size)
        for end in range(size - 1, 0, -1):  # the worst goes to the back, until the list is in order
            heap[0], heap[end] = heap[end], heap[0]
            codes[0], codes[end] = codes[end], codes[0]
            _sift(heap, codes, 0, end)
        heap[size:], codes[size:] = -np.inf, -1
    return -1


@njit(cache=True, nogil=True)
def count_rows(
    first: int,
    last: int,
    block: NDArray[np.float32],
    rows: NDArray[np.int64],
    held_pointers: NDArray[np.int64],
    held_columns: NDArray[np.int32],
    rated_pointers: NDArray[np.int64],
    rated_columns: NDArray[np.int32],
    ranks: NDArray[np.int64],
) -> int:
    """The rank of each held-out item of users ``first:last`` among the items they have not rated.

    Counts all scores at or above the positive's and takes back those of rated items, itself included.
    Fills ``ranks`` in the order of ``held_columns``; answers the user that met NaN, else -1.
    """
    n_items = block.shape[1]
    for i in range(first, last):
        row = block[rows[i]]
        bad = 0
        for item in range(n_items):
            bad += row[item] != row[item]
        if bad > 0:
            return i
        for place in range(held_pointers[i], held_pointers[i + 1]):
            score = row[held_columns[place]]
            count = 1
            for item in range(n_items):
                count += row[item] >= score
            for other in range(rated_pointers[i], rated_pointers[i + 1]):
                count -= row[rated_columns[other]] >= score
            ranks[place] = count
    return -1
