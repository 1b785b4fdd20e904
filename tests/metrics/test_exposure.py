"""Coverage, concentration and popularity of what is listed: worked values, oracles, limits, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilrec.metrics import coverage, exposure_gini, popularity

LISTS = np.array([[0, 1, 2], [0, 3, -1], [-1, -1, -1]])


@st.composite
def lists(draw: st.DrawFn) -> tuple[NDArray[np.int64], int]:
    n_items, k = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    rows = draw(st.lists(st.permutations(range(n_items)), min_size=1, max_size=8))
    ranked = np.full((len(rows), k), -1)
    for u, row in enumerate(rows):
        end = draw(st.integers(0, min(k, n_items)))
        ranked[u, :end] = row[:end]
    return ranked, n_items


def test_worked_values() -> None:
    assert coverage(LISTS, 5, 1) == 1 / 5
    assert coverage(LISTS, 5, 3) == 4 / 5
    assert popularity(LISTS, [9, 3, 0, 1, 100], 2).tolist() == [6.0, 5.0, 0.0]
    # counts 0 1 1 1 2 of five items: (-4*0 - 2*1 + 0*1 + 2*1 + 4*2) / (5 * 5)
    assert exposure_gini(LISTS, 5, 3) == pytest.approx(8 / 25)


@given(lists())
def test_equals_the_oracle(case: tuple[NDArray[np.int64], int]) -> None:
    ranked, n_items = case
    k = ranked.shape[1]
    listed = [item for row in ranked.tolist() for item in row if item >= 0]
    counts = [listed.count(item) for item in range(n_items)]
    assert coverage(ranked, n_items, k) == pytest.approx(len(set(listed)) / n_items)
    apart = sum(
        abs(a - b) for a in counts for b in counts
    )  # the mean absolute difference, the other definition
    expected = apart / (2 * n_items * sum(counts)) if listed else 0.0
    assert exposure_gini(ranked, n_items, k) == pytest.approx(expected)
    worth = np.arange(n_items) ** 2
    means = [np.mean([worth[i] for i in row if i >= 0] or [0.0]) for row in ranked.tolist()]
    np.testing.assert_allclose(popularity(ranked, worth, k), means)


def test_limits() -> None:
    every = np.array([[0, 1], [2, 3]])
    assert exposure_gini(every, 4, 2) == 0.0
    assert exposure_gini(np.zeros((7, 1), int), 4, 1) == 0.75
    nothing = np.full((3, 2), -1)
    assert coverage(nothing, 4, 2) == exposure_gini(nothing, 4, 2) == 0.0
    assert popularity(nothing, [1, 2, 3, 4], 2).tolist() == [0.0, 0.0, 0.0]
    assert coverage(np.empty((0, 2), int), 4, 2) == 0.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ranked must be codes from 0 to 2, or -1, got \[3\]"):
        coverage(LISTS, 3, 1)
    with pytest.raises(ValueError, match="free of repeated items"):
        exposure_gini(np.array([[1, 1]]), 3, 1)
    with pytest.raises(ValueError, match="n_items must be a whole number of at least 1"):
        coverage(LISTS, 0, 1)
    for counts in ([1, 2, -1, 0], [1, 2, np.nan, 0], [[1, 2, 3, 4]], []):
        with pytest.raises(ValueError, match="item_counts must be one finite count, 0 or above, per item"):
            popularity(LISTS, counts, 1)
