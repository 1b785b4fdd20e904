from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from veilrec.core import stream
from veilrec.models import bpr_kernels
from veilrec.models.bpr_kernels import _draw, _holds

_MASK = 2**64 - 1


def slow_draw(state: list[int], n: int) -> int:
    """Splitmix64 in Python integers, and the upper half times n."""
    state[0] = (state[0] + 0x9E3779B97F4A7C15) & _MASK
    z = state[0]
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    z ^= z >> 31
    return ((z >> 32) * n) >> 32


def test_draw_is_splitmix64_and_even() -> None:
    state, slow = np.array([12345], np.uint64), [12345]
    drawn = [_draw(state, 10) for _ in range(5000)]
    assert drawn == [slow_draw(slow, 10) for _ in range(5000)]
    assert np.bincount(drawn, minlength=10).min() > 400


def test_holds() -> None:
    values = np.array([9, 1, 4, 6, 8, 2], np.int32)
    for first in range(7):
        for last in range(first, 7):
            part = np.sort(values[first:last])
            whole = np.concatenate([values[:first], part, values[last:]])
            for wanted in range(11):
                assert _holds(whole, first, last, wanted) == (wanted in part)


def test_deal_sorts_into_strata() -> None:
    rng = stream(0, "deal")
    users, items = rng.integers(0, 20, 300).astype(np.int32), rng.integers(0, 30, 300).astype(np.int32)
    user_block, item_block = rng.permutation(20) % 3, rng.permutation(30) % 3
    dealt_users, dealt_items, begin = bpr_kernels.deal(users, items, user_block, item_block, 3)
    assert begin[0] == 0
    assert begin[-1] == 300
    assert sorted(zip(dealt_users, dealt_items, strict=True)) == sorted(zip(users, items, strict=True))
    for stratum in range(9):
        part = slice(begin[stratum], begin[stratum + 1])
        assert set(user_block[dealt_users[part]]) <= {stratum // 3}
        assert set(item_block[dealt_items[part]]) <= {stratum % 3}


def slow_stratum(
    users: list[int], items: list[int], candidates: list[int], has: list[set[int]],
    p: np.ndarray, q: np.ndarray, rate: float, decay: float, seed: int,
) -> float:  # fmt: skip
    """The paper's update, one pair after another, in float64."""
    state, total = [seed], 0.0
    order = list(range(len(users)))
    for last in range(len(order) - 1, 0, -1):
        other = slow_draw(state, last + 1)
        order[last], order[other] = order[other], order[last]
    for at in order:
        u, i = users[at], items[at]
        for _ in range(32):
            j = candidates[slow_draw(state, len(candidates))]
            if j not in has[u]:
                break
        else:
            continue
        x = p[u] @ (q[i, :-1] - q[j, :-1]) + q[i, -1] - q[j, -1]
        pull = 1 / (1 + math.exp(x))
        total += math.log1p(math.exp(-x))
        pu, qi, qj = p[u].copy(), q[i].copy(), q[j].copy()
        p[u] += rate * (pull * (qi - qj)[:-1] - decay * pu)
        q[i] += rate * (pull * np.append(pu, 1) - decay * qi)
        q[j] += rate * (-pull * np.append(pu, 1) - decay * qj)
    return total


def test_a_stratum_is_the_papers_update_pair_by_pair() -> None:
    rng = stream(0, "stratum")
    dense = rng.random((15, 25)) < 0.3
    dense[0, :12] = True  # this user has every candidate: no negative, the pairs are left out
    table = sp.csr_matrix(dense.astype(np.float32))
    table.sort_indices()
    users = np.repeat(np.arange(15, dtype=np.int32), np.diff(table.indptr))
    inside = table.indices < 12
    users, items = users[inside], table.indices[inside]
    candidates = np.arange(12)
    p, q = rng.standard_normal((15, 4)), rng.standard_normal((25, 5))
    fast_p, fast_q = p.astype(np.float32), q.astype(np.float32)
    loss = bpr_kernels.bpr_stratum(
        users.copy(), items.copy(), candidates, table.indptr, table.indices, fast_p, fast_q, 0.05, 0.01, 77
    )
    has = [set(np.flatnonzero(row)) for row in dense]
    before = p.copy()
    expected = slow_stratum(users.tolist(), items.tolist(), candidates.tolist(), has, p, q, 0.05, 0.01, 77)
    np.testing.assert_allclose(fast_p, p, atol=1e-5)
    np.testing.assert_allclose(fast_q, q, atol=1e-5)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(p[0], before[0])
    assert not np.allclose(p[1:], before[1:])
    np.testing.assert_array_equal(fast_q[12:], q[12:].astype(np.float32))  # items of other blocks stay


def test_extreme_scores_stay_finite() -> None:
    indptr, indices = np.array([0, 1], np.int32), np.array([0], np.int32)
    for sign in (1, -1):
        p, q = np.full((1, 2), 1e3, np.float32), np.zeros((2, 3), np.float32)
        q[0] = sign * 1e3
        one = np.zeros(1, np.int32)
        loss = bpr_kernels.bpr_stratum(one, one.copy(), np.array([1]), indptr, indices, p, q, 0.1, 0.0, 1)
        assert math.isfinite(loss)
        assert np.isfinite(p).all()
