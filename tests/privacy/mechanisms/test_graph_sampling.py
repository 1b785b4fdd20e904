"""Sparse sampling is exact: counts are binomial, sets even, cells never an edge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse, stats

from veilrec.core import stream
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms.graph import Edges, report
from veilrec.privacy.mechanisms.graph_sampling import binomial, false_cells, subset


def _fits(draw: Callable[[], object], expected: dict[object, float], count: int) -> bool:
    """Chi-square of ``count`` draws at level 1e-6; rare outcomes are put together."""
    seen = Counter(draw() for _ in range(count))
    if set(seen) - set(expected):
        return False
    often = [key for key in expected if expected[key] * count >= 10]
    observed = [seen[key] for key in often]
    wanted = [expected[key] * count for key in often]
    rest = count - sum(wanted)
    if rest > 1:
        observed, wanted = [*observed, count - sum(observed)], [*wanted, rest]
    wanted = [w * count / sum(wanted) for w in wanted]
    return bool(stats.chisquare(observed, wanted).pvalue > 1e-6)


@pytest.mark.parametrize(("trials", "p"), [(200, 0.13), (130, 0.7), (63, 0.5), (500, 0.003)])
def test_binomial(trials: int, p: float) -> None:
    noise = Noise.research(1)
    expected = {k: float(stats.binom.pmf(k, trials, p)) for k in range(trials + 1)}
    assert _fits(lambda: binomial(trials, p, noise), expected, 1200)
    assert not _fits(lambda: binomial(trials, min(1.0, 1.3 * p), noise), expected, 1200)


def test_binomial_with_secure_noise() -> None:
    noise = Noise.secure()
    expected = {k: float(stats.binom.pmf(k, 90, 0.2)) for k in range(91)}
    assert _fits(lambda: binomial(90, 0.2, noise), expected, 800)
    assert not _fits(lambda: binomial(90, 0.3, noise), expected, 800)


def test_binomial_of_many() -> None:
    found = binomial(200_000_000, 1e-3, Noise.research(1))
    assert abs(found - 200_000) < 5 * 450
    assert binomial(10**18, 0.0, Noise.research(1)) == 0
    assert binomial(7, 1.0, Noise.research(1)) == 7


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_subset_is_equally_likely(size: int) -> None:
    noise = Noise.research(2)
    every = list(combinations(range(5), size))
    expected: dict[object, float] = {one: 1 / len(every) for one in every}
    assert _fits(lambda: tuple(subset(5, size, noise).tolist()), expected, 2000)
    # a twin that folds the last of six numbers on the one before
    assert not _fits(lambda: tuple(np.sort(noise.subsets(1, 6, size)[0]).clip(0, 4)), expected, 2000)


def test_the_smallest_and_the_largest_subset() -> None:
    assert subset(5, 0, Noise.research(1)).tolist() == []
    assert subset(5, 5, Noise.research(1)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_false_cells_are_independent_coins(p: float) -> None:
    """Row 0 has items 0 and 2 of 4, row 1 none, row 2 all: six free cells, 64 outcomes."""
    edges = Edges.of(([0, 2, 2, 6], [2, 0, 0, 1, 2, 3], 4))
    free = [(0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    expected: dict[object, float] = {
        chosen: p ** len(chosen) * (1 - p) ** (6 - len(chosen))
        for size in range(7)
        for chosen in combinations(free, size)
    }
    noise = Noise.research(3)

    def draw(probability: float) -> object:
        rows, items = false_cells(edges, probability, noise)
        return tuple(sorted(zip(rows.tolist(), items.tolist())))

    assert _fits(lambda: draw(p), expected, 2000)
    assert not _fits(lambda: draw(p + 0.1), expected, 2000)


def test_false_cells_of_a_random_graph_are_no_edges_and_even() -> None:
    rng = stream(4, "graph")
    dense = rng.random((60, 80)) < rng.random((60, 1))
    dense[3], dense[5] = False, True
    edges = Edges.of(sparse.csr_array(dense.astype(int)))
    rows, items = false_cells(edges, 1.0, Noise.research(1))
    found = np.zeros_like(dense)
    found[rows, items] = True
    assert (found == ~dense).all()
    assert len(rows) == (~dense).sum()


def test_edges_from_both_forms_agree() -> None:
    dense = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    one, two = Edges.of(sparse.coo_array(dense)), Edges.of(([0, 2, 2, 3], [2, 1, 0], 3))
    assert one.indices.tolist() == two.indices.tolist() == [1, 2, 0]
    assert (report(one.rows, one.indices, one).toarray() == dense).all()
    assert (report(one.rows, one.indices, one).T @ np.ones(3)).tolist() == [1, 1, 1]
    taken = one.take(np.array([2, 0]))
    assert (taken.indptr.tolist(), taken.indices.tolist()) == ([0, 1, 3], [0, 1, 2])
    parts = list(one.blocks(np.array([2, 1, 0]), cells=3))
    assert [users.tolist() for users, _ in parts] == [[2], [1], [0]]


def test_bad_graphs() -> None:
    with pytest.raises(ValueError, match="zeros and ones"):
        Edges.of(sparse.csr_array(np.array([[2]])))
    with pytest.raises(ValueError, match="zeros and ones"):
        Edges.of(sparse.csr_array(np.array([[np.nan]])))
    with pytest.raises(ValueError, match="adjacency must be sparse"):
        Edges.of(np.eye(2))
    with pytest.raises(ValueError, match="different for one user"):
        Edges.of(([0, 2], [1, 1], 3))
    with pytest.raises(ValueError, match="indices must be from 0 to 2"):
        Edges.of(([0, 1], [3], 3))
    with pytest.raises(ValueError, match="indptr must be growing"):
        Edges.of(([0, 2], [1], 3))
    with pytest.raises(ValueError, match="indptr must be growing"):
        Edges.of(([0, 2, 1, 3], [0, 1, 2], 3))
    with pytest.raises(ValueError, match="whole numbers"):
        Edges.of(([0, 1], [0.5], 3))
    with pytest.raises(ValueError, match="items must be"):
        Edges.of(([0, 0], [], 0))
    assert Edges.of(([0], [], 3)).users == 0
