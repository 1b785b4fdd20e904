"""Sorting long arrays of whole numbers, several times faster than ``np.lexsort``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def stable_order(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Positions that sort by the first key, then the second, ...; equal rows keep their order.

    >>> stable_order(np.array([2, 1, 2]), np.array([9, 5, 3])).tolist()
    [1, 2, 0]
    """
    order: NDArray[np.int64] | None = None
    for key in reversed(keys):
        step = _stable_argsort(key if order is None else key[order])
        order = step if order is None else order[step]
    if order is None:
        raise ValueError("keys must be one array or more, got none.")
    return order


def _stable_argsort(values: NDArray[Any]) -> NDArray[np.int64]:
    """Value and position share one 64-bit word where they fit: sorting words needs no indirection."""
    places = np.arange(len(values), dtype=np.int64)
    if len(values) < 2 or bool((values[1:] >= values[:-1]).all()):
        return places
    low, bits = int(values.min()), int(len(values) - 1).bit_length()
    if (int(values.max()) - low).bit_length() + bits > 63:
        return np.argsort(values, kind="stable").astype(np.int64, copy=False)
    words = values.astype(np.int64)
    words -= low
    words <<= bits
    words |= places
    words.sort()
    words &= (1 << bits) - 1
    return words
