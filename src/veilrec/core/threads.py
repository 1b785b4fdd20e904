"""Rows dealt to plain Python threads, for compiled loops that release the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def thread_count() -> int:
    """How many threads kernels run on: the cores of this process, or the variable ``NUMBA_NUM_THREADS``.

    >>> thread_count() >= 1
    True
    """
    import numba  # here: it is slow to import

    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


def in_threads(kernel: Callable[..., Any], rows: int, *arguments: Any, block: int = 64) -> list[Any]:
    """``kernel(start, stop, *arguments)`` for each block of rows, on all cores; what each returned, in order.

    >>> in_threads(lambda start, stop, step: list(range(start, stop, step)), 5, 2, block=3)
    [[0, 2], [3]]
    """
    edges = [(start, min(start + block, rows)) for start in range(0, rows, block)]
    if len(edges) < 2 or thread_count() == 1:
        return [kernel(start, stop, *arguments) for start, stop in edges]
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(lambda edge: kernel(*edge, *arguments), edges))
