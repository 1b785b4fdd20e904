"""One positive per list: an oracle for ranks, the law of the sampled negatives, ties, names, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilrec.metrics import PositiveRanks, one_positive_ranks, per_user, sampled_ranks
from veilrec.metrics.sampled import _distinct, _nth_unrated

Case = tuple[NDArray[np.float32], sp.csr_matrix, sp.csr_matrix]


def made(seed: int, n_users: int, n_items: int, levels: int) -> Case:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (n_users, n_items)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.05] = -np.inf
    held = rng.random((n_users, n_items)) < 0.1
    seen = rng.random((n_users, n_items)) < 0.2  # may overlap with what is held out
    return scores, sp.csr_matrix(held), sp.csr_matrix(seen)


cases = st.builds(
    made,
    seed=st.integers(0, 2**32 - 1),
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 40),
    levels=st.sampled_from([1, 4, 10_000]),
)


def oracle(
    scores: NDArray[np.float32], held: sp.csr_matrix, seen: sp.csr_matrix
) -> list[tuple[int, int, int]]:
    """(user, item, rank) by counting: 1 + the unrated items that score at least as much."""
    found = []
    for user, row in enumerate(scores.tolist()):
        positives = set(held[user].indices.tolist())
        unrated = set(range(len(row))) - positives - set(seen[user].indices.tolist())
        for item in sorted(positives):
            rank = 1 + sum(row[other] >= row[item] for other in unrated)
            found.append((user, item, rank))
    return found


def triples(lists: PositiveRanks) -> list[tuple[int, int, int]]:
    return list(zip(lists.user.tolist(), lists.item.tolist(), lists.rank.tolist(), strict=True))


@settings(max_examples=100, deadline=None)
@given(cases)
def test_one_positive_equals_the_oracle(case: Case) -> None:
    scores, held, seen = case
    lists = one_positive_ranks(lambda codes: scores[codes], held, seen)
    assert triples(lists) == oracle(scores, held, seen)
    assert lists.protocol == "one positive"


def test_one_positive_in_threads_equals_the_oracle() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((50, 25_000)).astype(np.float32)
    held = sp.random(50, 25_000, 0.0002, format="csr", random_state=1)
    seen = sp.random(50, 25_000, 0.002, format="csr", random_state=2)
    assert triples(one_positive_ranks(lambda codes: scores[codes], held, seen)) == oracle(scores, held, seen)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_sampling_all_unrated_items_equals_one_positive(case: Case) -> None:
    """With as many negatives as each user has unrated items, nothing is left to chance."""
    scores, held, _ = case
    held = sp.csr_matrix(np.pad(held.toarray(), ((0, 0), (0, 1)), constant_values=False))
    scores = np.pad(scores, ((0, 0), (0, 1)))
    quota = int(held.sum(axis=1).max())
    seen = np.zeros(held.shape, bool)
    for user in range(held.shape[0]):
        free = np.flatnonzero(held.toarray()[user] == 0)
        seen[user, free[: quota - held[user].nnz]] = True
    left = held.shape[1] - quota
    if left == 0:
        return
    lists = sampled_ranks(lambda codes: scores[codes], held, sp.csr_matrix(seen), seed=3, n_negatives=left)
    assert triples(lists) == oracle(scores, held, sp.csr_matrix(seen))


def test_negatives_are_distinct_unrated_and_uniform() -> None:
    n_items, count, n_lists = 12, 4, 40_000
    rated = sp.csr_matrix(np.array([[1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1], [0] * 12]))
    owner = np.repeat([0, 1], n_lists)
    high = np.array([8, 12])[owner]
    negatives = _nth_unrated(rated, owner, _distinct(np.random.default_rng(1), high, count))
    assert (np.diff(np.sort(negatives, axis=1)) > 0).all()
    for user, free in ((0, [1, 2, 5, 6, 7, 8, 9, 10]), (1, list(range(12)))):
        counts = np.bincount(negatives[owner == user].ravel(), minlength=n_items)
        assert np.flatnonzero(counts).tolist() == free
        expected = n_lists * count / len(free)
        spread = math.sqrt(n_lists * count / len(free) * (1 - count / len(free)))
        assert np.abs(counts[free] - expected).max() < 5 * spread
        # pairs too: without replacement every pair is equally likely
        first = (negatives[owner == user] == free[0]).any(1) & (negatives[owner == user] == free[-1]).any(1)
        share = count * (count - 1) / (len(free) * (len(free) - 1))
        assert abs(first.mean() - share) < 5 * math.sqrt(share / n_lists)


def test_the_expected_rank_among_sampled_negatives_is_right() -> None:
    """A positive with 30 of 300 unrated items above it meets 99 * 30 / 300 of them on average."""
    n_users, n_items = 4000, 301
    scores = np.broadcast_to(np.arange(n_items, dtype=np.float32), (n_users, n_items))
    held = sp.csr_matrix((np.ones(n_users), (np.arange(n_users), np.full(n_users, 270))), shape=scores.shape)
    none = sp.csr_matrix(scores.shape)
    lists = sampled_ranks(lambda codes: scores[codes], held, none, seed=5)
    spread = math.sqrt(99 * 0.1 * 0.9 * (300 - 99) / 299 / n_users)  # hypergeometric
    assert abs(lists.rank.mean() - (1 + 99 * 0.1)) < 5 * spread
    assert lists.protocol == "1+99 sampled"


def test_the_seed_decides_the_negatives_and_the_model_does_not() -> None:
    scores, held, seen = made(1, 40, 200, 10_000)
    shifted = scores * 2 + 1  # another model with the same order
    first = sampled_ranks(lambda codes: scores[codes], held, seen, seed=1)
    again = sampled_ranks(lambda codes: shifted[codes], held, seen, seed=1)
    other = sampled_ranks(lambda codes: scores[codes], held, seen, seed=2)
    np.testing.assert_array_equal(first.rank, again.rank)
    assert (first.rank != other.rank).any()


def test_a_constant_model_gets_the_last_rank() -> None:
    held = sp.csr_matrix(np.eye(1, 200, 5))
    none = sp.csr_matrix((1, 200))

    def constant(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.zeros((len(codes), 200), np.float32)

    assert sampled_ranks(constant, held, none, seed=0).rank.tolist() == [100]
    assert one_positive_ranks(constant, held, none).rank.tolist() == [200]


def test_metrics_are_worked_and_named_by_protocol() -> None:
    lists = PositiveRanks("one positive", np.array([0, 0, 4]), np.array([1, 2, 3]), np.array([1, 3, 6]))
    found = lists.metrics([5, 3])
    assert list(found) == [f"{name}@{k} (one positive)" for k in (3, 5) for name in ("hit", "ndcg", "mrr")]
    assert found["hit@5 (one positive)"].tolist() == [1, 1, 0]
    np.testing.assert_allclose(found["ndcg@5 (one positive)"], [1, 0.5, 0])
    np.testing.assert_allclose(found["mrr@5 (one positive)"], [1, 1 / 3, 0])
    users, means = per_user(found["hit@5 (one positive)"], lists.user)
    assert (users.tolist(), means.tolist()) == ([0, 4], [1.0, 0.0])


def test_nothing_held_out_gives_no_lists() -> None:
    empty = sp.csr_matrix((3, 200))
    for lists in (
        one_positive_ranks(lambda codes: np.zeros((len(codes), 200), np.float32), empty, empty),
        sampled_ranks(lambda codes: np.zeros((len(codes), 200), np.float32), empty, empty, seed=1),
    ):
        assert triples(lists) == []
        assert all(values.shape == (0,) for values in lists.metrics().values())


def test_bad_input_is_refused() -> None:
    scores, held, seen = made(1, 6, 30, 10)
    assert held[2].nnz > 0

    def broken(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        block = scores[codes]
        block[codes == 2] = np.nan
        return block

    with pytest.raises(ValueError, match="score_block must give numbers, got NaN for user code 2"):
        one_positive_ranks(broken, held, seen)
    with pytest.raises(ValueError, match="score_block must give numbers, got NaN for user code 2"):
        sampled_ranks(broken, held, seen, seed=1, n_negatives=3)
    with pytest.raises(
        ValueError, match=r"n_negatives must be at most \d+, what some user has not rated, got 99"
    ):
        sampled_ranks(lambda codes: scores[codes], held, seen, seed=1)
    with pytest.raises(ValueError, match="n_negatives must be a whole number of at least 1"):
        sampled_ranks(lambda codes: scores[codes], held, seen, seed=1, n_negatives=0)
    with pytest.raises(ValueError, match="seen must be 6 users x 30 items"):
        one_positive_ranks(lambda codes: scores[codes], held, sp.csr_matrix((5, 30)))
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        PositiveRanks("x", np.array([0]), np.array([0]), np.array([1])).metrics([0])
