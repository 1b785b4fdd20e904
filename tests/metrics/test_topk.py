"""Top-k of score blocks: a sorting oracle, ties, exclusions, padding, NaN, and calls from several threads."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilrec.metrics import kernels, top_k

Lists = tuple[list[list[int]], list[list[float]]]


def oracle(scores: NDArray[np.float32], k: int, seen: list[set[int]], candidates: set[int]) -> Lists:
    """Sort everything that may be listed by falling score, then by code; cut; pad."""
    items, best = [], []
    for row, known in zip(scores.tolist(), seen, strict=True):
        left = [item for item in range(len(row)) if item not in known and item in candidates]
        left = sorted((item for item in left if row[item] > -math.inf), key=lambda item: (-row[item], item))[
            :k
        ]
        items.append(left + [-1] * (k - len(left)))
        best.append([row[item] for item in left] + [-math.inf] * (k - len(left)))
    return items, best


def as_matrix(sets: list[set[int]], n_items: int) -> sp.csr_matrix:
    rows = [row for row, members in enumerate(sets) for _ in members]
    columns = [item for members in sets for item in members]
    return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(sets), n_items))


@st.composite
def blocks(draw: st.DrawFn) -> tuple[NDArray[np.float32], int, list[set[int]], list[int] | None]:
    n_rows, n_items = draw(st.integers(1, 4)), draw(st.integers(1, 200))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    levels = draw(st.sampled_from([1, 3, 1000]))  # few levels: mostly ties
    scores = rng.integers(-levels, levels + 1, (n_rows, n_items)).astype(np.float32)
    scores[rng.random(scores.shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = -np.inf
    scores[rng.random(scores.shape) < draw(st.sampled_from([0.0, 0.05]))] = np.inf
    share = draw(st.sampled_from([0.0, 0.5, 1.0]))
    seen = [set(np.flatnonzero(rng.random(n_items) < share).tolist()) for _ in range(n_rows)]
    candidates = draw(st.one_of(st.none(), st.lists(st.integers(0, n_items - 1), min_size=1, max_size=30)))
    return scores, draw(st.integers(1, 40)), seen, candidates


@settings(max_examples=300, deadline=None)
@given(blocks())
def test_equals_the_oracle(case: tuple[NDArray[np.float32], int, list[set[int]], list[int] | None]) -> None:
    scores, k, seen, candidates = case
    n_items = scores.shape[1]
    allowed = set(range(n_items)) if candidates is None else set(candidates)
    before = scores.copy()
    items, best = top_k(scores, k, seen=as_matrix(seen, n_items), candidates=candidates)
    assert (items.tolist(), best.tolist()) == oracle(scores, k, seen, allowed)
    assert items.dtype == np.int32
    assert best.dtype == np.float32
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("order", ["random", "rising", "falling", "flat"])
def test_large_blocks_in_threads_equal_the_oracle(order: str) -> None:
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((54, 20_001)).astype(np.float32)
    scores = {"rising": np.sort(scores, 1), "falling": -np.sort(scores, 1), "flat": scores * 0}.get(
        order, scores
    )
    assert scores.size > kernels._SMALL
    seen = [set(rng.integers(0, 20_001, 40).tolist()) for _ in scores]
    items, best = top_k(scores, 20, seen=as_matrix(seen, 20_001))
    assert (items.tolist(), best.tolist()) == oracle(scores, 20, seen, set(range(20_001)))


def test_worked_ties_go_to_the_smaller_code() -> None:
    items, best = top_k(np.array([[5, 7, 7, 5, 7]], np.float32), 4)
    assert items.tolist() == [[1, 2, 4, 0]]
    assert best.tolist() == [[7, 7, 7, 5]]
    assert top_k(np.array([[0.0, -0.0]], np.float32), 2)[0].tolist() == [[0, 1]]


def test_minus_infinity_is_never_listed_and_plus_infinity_is() -> None:
    items, best = top_k(np.array([[-np.inf, 1, np.inf], [-np.inf] * 3], np.float32), 3)
    assert items.tolist() == [[2, 1, -1], [-1, -1, -1]]
    assert best.tolist() == [[np.inf, 1, -np.inf], [-np.inf] * 3]


@pytest.mark.parametrize("place", [0, 63, 64, 70_000])
def test_nan_is_an_error_that_names_the_row(place: int) -> None:
    scores = np.ones((40, 70_001), np.float32)
    scores[[37, 39], place] = np.nan
    with pytest.raises(ValueError, match="scores must be free of NaN, got NaN in row 37"):
        top_k(scores, 3)
    with pytest.raises(ValueError, match="row 0"):  # also where the item could not have been listed
        top_k(scores[37:38], 3, seen=as_matrix([{place}], 70_001), candidates=[5])


def test_unsorted_seen_and_strided_blocks_are_handled() -> None:
    wide = np.arange(20, dtype=np.float32).reshape(2, 10)
    seen = sp.csr_matrix((np.ones(3), np.array([4, 0, 2]), np.array([0, 3, 3])), shape=(2, 5))
    assert top_k(wide[:, ::2], 2, seen=seen)[0].tolist() == [[3, 1], [4, 3]]
    assert top_k(np.asfortranarray(wide), 1)[0].tolist() == [[9], [9]]


def test_no_rows_give_no_lists() -> None:
    items, best = top_k(np.empty((0, 4), np.float32), 3)
    assert items.shape == best.shape == (0, 3)


def test_threads_may_call_at_once_beside_torch() -> None:
    import torch

    rng = np.random.default_rng(0)
    scores = rng.standard_normal((64, 30_000)).astype(np.float32)
    expected = top_k(scores, 10)[0]
    left, right = torch.ones(300, 300), torch.ones(300, 300)

    def work(turn: int) -> bool:
        assert float((left @ right)[0, 0]) == 300
        return bool((top_k(scores, 10)[0] == expected).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


def test_numba_is_imported_at_the_first_call_only() -> None:
    code = (
        "import sys, numpy as np, veilrec.metrics as m; assert 'numba' not in sys.modules;"
        "assert 'torch' not in sys.modules;"
        "m.top_k(np.ones((1, 2), np.float32), 1); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bad_arguments_are_refused() -> None:
    scores = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        top_k(scores, 0)
    with pytest.raises(
        ValueError, match="scores must be a float32 NumPy matrix of rows x items, got 'float64"
    ):
        top_k(scores.astype(np.float64), 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scores must be a float32 NumPy matrix"):
        top_k(scores[0], 1)
    with pytest.raises(ValueError, match=r"scores must be .* got 'list'"):
        top_k([[1.0]], 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seen must be 2 users x 3 items"):
        top_k(scores, 1, seen=sp.csr_matrix((3, 3)))
    with pytest.raises(ValueError, match=r"candidates must be item codes from 0 to 2, got \[3\]"):
        top_k(scores, 1, candidates=[0, 3])
    with pytest.raises(ValueError, match="candidates must be a list of one item code or more"):
        top_k(scores, 1, candidates=[])
    with pytest.raises(ValueError, match="candidates must be a list"):
        top_k(scores, 1, candidates=[0.5])
