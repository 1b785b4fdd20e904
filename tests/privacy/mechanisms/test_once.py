"""Released once: the same array ever after, read-only, and no second draw."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from veilrec.privacy.once import AlreadyReleased, Once


def test_the_first_draw_is_kept() -> None:
    kept, drawn = Once(), []

    def draw() -> np.ndarray:
        drawn.append(1)
        return np.full(3, float(len(drawn)))

    first = kept.release("a", "x", draw, fresh=True)
    assert kept.release("a", "x", draw) is first
    assert "a" in kept
    assert "b" not in kept
    assert kept.release("b", "x", draw).tolist() == [2.0] * 3
    assert len(drawn) == 2


def test_a_second_draw_raises() -> None:
    kept = Once()
    kept.release("a", "x", lambda: np.zeros(1))
    with pytest.raises(AlreadyReleased, match="'a' was already released"):
        kept.release("a", "x", lambda: np.ones(1), fresh=True)
    with pytest.raises(AlreadyReleased, match="other data"):
        kept.release("a", "y", lambda: np.ones(1))


def test_what_is_kept_cannot_be_changed_from_outside() -> None:
    kept, source = Once(), np.zeros(2)
    out = kept.release("a", "x", lambda: source)
    source[0] = 5
    assert out.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        out[0] = 1


def test_a_draw_that_fails_is_not_kept() -> None:
    kept = Once()
    with pytest.raises(ZeroDivisionError):
        kept.release("a", "x", lambda: np.ones(1) * (1 // 0))
    assert "a" not in kept


def test_many_threads_get_one_draw() -> None:
    kept, drawn = Once(), []

    def draw() -> np.ndarray:
        drawn.append(1)
        return np.zeros(1)

    with ThreadPoolExecutor(8) as pool:
        out = list(pool.map(lambda _: kept.release("a", "x", draw), range(50)))
    assert len(drawn) == 1
    assert all(one is out[0] for one in out)


def test_a_key_is_a_name() -> None:
    with pytest.raises(ValueError, match="key must be a name"):
        Once().release("", "x", lambda: np.zeros(1))
