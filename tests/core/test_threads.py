from __future__ import annotations

import threading

import pytest

from veilrec.core import in_threads


def test_in_threads_covers_every_row_once_and_keeps_the_order() -> None:
    seen: list[int] = []
    names = set()

    def kernel(start: int, stop: int) -> int:
        names.add(threading.current_thread().name)
        seen.extend(range(start, stop))
        return start

    assert in_threads(kernel, 1000, block=7) == list(range(0, 1000, 7))
    assert sorted(seen) == list(range(1000))
    assert threading.main_thread().name not in names or len(names) == 1
    assert in_threads(kernel, 0) == []


def test_in_threads_lets_errors_through() -> None:
    def kernel(start: int, stop: int) -> None:
        raise RuntimeError(f"rows {start} to {stop}")

    with pytest.raises(RuntimeError, match="rows 0 to 3"):
        in_threads(kernel, 9, block=3)
