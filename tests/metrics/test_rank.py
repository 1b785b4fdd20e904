"""Full ranking: lists and bits that do not depend on who else is ranked, bounded tiles, bad scorers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilrec.metrics import rank_all, top_k
from veilrec.metrics.rank import score_tiles, tile_rows

N_USERS, N_ITEMS = 1100, 4001  # tiles of 512 users


def factors(seed: int = 0, size: int = 48) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((N_USERS, size)).astype(np.float32),
        rng.standard_normal((N_ITEMS, size)).astype(np.float32),
    )


USERS, ITEMS = factors()


def by_numpy(codes: NDArray[np.int64]) -> NDArray[np.float32]:
    return USERS[codes] @ ITEMS.T


def by_torch(codes: NDArray[np.int64]) -> NDArray[np.float32]:
    import torch

    scores: NDArray[np.float32] = (torch.from_numpy(USERS[codes]) @ torch.from_numpy(ITEMS).T).numpy()
    return scores


def some_seen() -> sp.csr_matrix:
    return sp.random(N_USERS, N_ITEMS, 0.005, format="csr", random_state=1)


@pytest.mark.parametrize("scorer", [by_numpy, by_torch])
@pytest.mark.parametrize("size", [1, 7, 100, 512, 1000])
def test_the_bits_do_not_depend_on_the_grouping_of_users(scorer: object, size: int) -> None:
    """Alone, by sevens, shuffled: the same lists and the same scores to the last bit, with a BLAS product."""
    assert callable(scorer)
    seen = some_seen()
    items, scores = rank_all(scorer, np.arange(N_USERS), 20, n_items=N_ITEMS, seen=seen)
    order = np.random.default_rng(size).permutation(N_USERS)
    for start in range(0, min(N_USERS, 8 * size), size):
        users = order[start : start + size]
        some_items, some_scores = rank_all(scorer, users, 20, n_items=N_ITEMS, seen=seen)
        np.testing.assert_array_equal(some_items, items[users])
        np.testing.assert_array_equal(some_scores, scores[users])


def test_the_scorer_always_meets_a_user_in_the_same_row_of_a_block_of_the_same_height() -> None:
    """The rule itself, with a scorer that gives itself away: its scores depend on row and height."""

    def telltale(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = np.arange(len(codes))[:, None]
        return (np.sin(codes[:, None] + np.arange(50)) + rows * 10 + len(codes) * 10_000).astype(np.float32)

    whole = rank_all(telltale, np.arange(1000), 5, n_items=50)[1]
    for users in (np.array([7]), np.arange(100, 900, 16), np.arange(999, -1, -1)):
        np.testing.assert_array_equal(rank_all(telltale, users, 5, n_items=50)[1], whole[users])


def test_equals_one_big_top_k() -> None:
    seen = some_seen()
    users = np.array([3, 1099, 3, 0, 77])  # repeated and unordered
    candidates = np.arange(0, N_ITEMS, 3)
    items, _ = rank_all(by_numpy, users, 15, n_items=N_ITEMS, seen=seen, candidates=candidates)
    scores = USERS.astype(np.float64) @ ITEMS.T.astype(np.float64)
    expected, _ = top_k(scores[users].astype(np.float32), 15, seen=seen[users], candidates=candidates)
    np.testing.assert_array_equal(items, expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=400), st.integers(1, 200_000))
def test_tiles_take_every_user_once_and_pack_well(users: list[int], n_items: int) -> None:
    def scorer(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.broadcast_to(codes[:, None].astype(np.float32), (len(codes), n_items))

    asked = np.array(users, np.int64)
    met: list[int] = []
    for positions, rows, block in score_tiles(scorer, asked, n_items, "", False):
        assert len(block) == tile_rows(n_items)
        np.testing.assert_array_equal(block[rows, 0], asked[positions].astype(np.float32))
        met += positions.tolist()
    assert sorted(met) == list(range(len(users)))


@pytest.mark.parametrize(
    "users",
    [
        np.arange(30_000),
        np.arange(0, 1_000_000, 128),
        np.arange(0, 300_000, 10),
        np.random.default_rng(1).integers(0, 10**6, 20_000),
    ],
    ids=["all", "every 128th", "every 10th", "random"],
)
def test_little_is_scored_in_vain(users: NDArray[np.int64]) -> None:
    calls = [0]

    def scorer(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        calls[0] += 1
        return np.zeros((len(codes), 1), np.float32)

    distinct = np.unique(users)
    assert sum(1 for _ in score_tiles(scorer, distinct, 1, "", False)) == calls[0]
    assert calls[0] * tile_rows(1) <= 1.7 * len(distinct) + tile_rows(1)


def test_memory_is_one_tile_and_the_lists() -> None:
    n_items = 60_000
    tile = tile_rows(n_items) * n_items * 4
    vector = np.random.default_rng(0).standard_normal(n_items).astype(np.float32)

    def scorer(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.multiply.outer((codes + 1).astype(np.float32), vector)

    rank_all(scorer, np.arange(2), 10, n_items=n_items)  # compile before measuring
    tracemalloc.start()
    rank_all(scorer, np.arange(1000), 10, n_items=n_items)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * tile  # a tile and the next one while it is made; all scores would be 8 tiles
    assert 1000 * n_items * 4 > 7 * tile


def test_no_users_no_lists() -> None:
    items, scores = rank_all(by_numpy, [], 4, n_items=N_ITEMS)
    assert items.shape == scores.shape == (0, 4)


def test_bad_scorers_and_arguments_are_refused() -> None:
    def broken(codes: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = np.zeros((len(codes), 10), np.float32)
        scores[codes == 17, 4] = np.nan
        return scores

    with pytest.raises(ValueError, match="score_block must give numbers, got NaN for user code 17"):
        rank_all(broken, np.arange(40), 3, n_items=10)
    with pytest.raises(ValueError, match="score_block must be 512 x 11 scores"):
        rank_all(broken, [1], 3, n_items=11)
    with pytest.raises(ValueError, match="the result of score_block must be a float32 NumPy matrix"):
        rank_all(lambda codes: np.zeros((len(codes), 10)), [1], 3, n_items=10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"users must be codes from 0 to 3, got \[4\]"):
        rank_all(broken, [4], 3, n_items=10, seen=sp.csr_matrix((4, 10)))
    with pytest.raises(ValueError, match=r"users must be codes, 0 or above, got \[-1\]"):
        rank_all(broken, [-1], 3, n_items=10)
    with pytest.raises(ValueError, match="users must be a list of user codes"):
        rank_all(broken, ["ann"], 3, n_items=10)
    with pytest.raises(ValueError, match="seen must be 4 users x 10 items"):
        rank_all(broken, [1], 3, n_items=10, seen=sp.csr_matrix((4, 9)))
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        rank_all(broken, [1], 0, n_items=10)
    with pytest.raises(ValueError, match="n_items must be a whole number of at least 1"):
        rank_all(broken, [1], 1, n_items=0)
