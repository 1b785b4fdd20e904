"""Aggregation perturbation: the stated sensitivity holds and is reached, noise is sigma, one draw only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse, stats

from veilrec.core import stream
from veilrec.privacy import Noise, epsilon_of
from veilrec.privacy.mechanisms import AggregationPerturbation
from veilrec.privacy.once import AlreadyReleased, Once

QUIET = 1e-12  # a noise multiplier that lets the exact aggregate through


def _exact(mechanism: AggregationPerturbation, graph: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    bare = replace(mechanism, noise_multiplier=QUIET, once=Once())
    return bare.release(graph, x, Noise.research(0))


def test_it_is_the_sum_over_neighbours_of_normalised_rows() -> None:
    graph = sparse.csr_array(np.array([[0, 1, 1], [0, 0, 2]]))
    x = np.array([[9.0, 9.0], [3.0, 4.0], [0.0, 0.0]])
    out = _exact(AggregationPerturbation(1.0, norm=2.0), graph, x)
    assert np.allclose(out, [[1.2, 1.6], [0.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize(("directions", "norm"), [(1, 1.0), (2, 0.5)])
def test_one_edge_moves_it_by_the_stated_sensitivity(directions: int, norm: float) -> None:
    mechanism = AggregationPerturbation(1.0, norm=norm, directions=directions)
    rng = stream(1, "fuzz")
    worst = 0.0
    for _ in range(60):
        dense = rng.integers(0, 3, (6, 6))
        x = rng.normal(size=(6, 3)) * rng.choice([0.0, 1.0, 1e6], (6, 1))
        more = dense.copy()
        more[tuple(rng.integers(0, 6, 2))] += 1
        gap = _exact(mechanism, sparse.csr_array(more), x) - _exact(mechanism, sparse.csr_array(dense), x)
        worst = max(worst, float(np.linalg.norm(gap)))
    assert 0.99 * mechanism.sensitivity < worst <= mechanism.sensitivity * (1 + 1e-9)


@pytest.mark.parametrize("most_per_row", [1, 3])
@pytest.mark.parametrize("directions", [1, 2])
def test_one_user_moves_it_by_the_stated_sensitivity(most_per_row: int, directions: int) -> None:
    """Users of 6 edges, at most ``most_per_row`` in one row or column, on rows that may be parallel."""
    mechanism = AggregationPerturbation(
        1.0, "user", most_edges=6, most_per_row=most_per_row, directions=directions
    )
    rng = stream(2, "fuzz")
    worst = 0.0
    for trial in range(60):
        x = np.ones((8, 2)) if trial % 2 else rng.normal(size=(8, 2))
        mine = np.zeros((8, 8), int)
        if trial == 1 and most_per_row == 3:
            mine[0, :3] = mine[1, :3] = 1  # two full rows: the worst case of one direction
        else:
            for a, b in rng.permutation([(a, b) for a in range(8) for b in range(8)]):
                fits = mine[a].sum() < most_per_row and mine[:, b].sum() < most_per_row
                mine[a, b] = fits and mine.sum() < 6
        gap = _exact(mechanism, sparse.csr_array(mine), x)
        worst = max(worst, float(np.linalg.norm(gap)))
    assert worst <= mechanism.sensitivity * (1 + 1e-9)
    if directions == 1 or most_per_row == 1:
        assert worst > 0.99 * mechanism.sensitivity


def _noise_fits(release: Callable[[Noise], NDArray[np.float64]], sigma: float, noise: Noise) -> bool:
    """Chi-square of the variance of the release of an empty graph at level 1e-6."""
    x = release(noise).ravel()
    tail = stats.chi2.cdf(float((x**2).sum()) / sigma**2, len(x))
    return bool(5e-7 < tail < 1 - 5e-7)


@pytest.mark.parametrize("noise", [Noise.research(3), Noise.secure()], ids=["research", "secure"])
def test_the_noise_is_sigma(noise: Noise) -> None:
    empty, x = sparse.csr_array((300, 40)), np.ones((40, 50))
    mechanism = AggregationPerturbation(4.0, "user", norm=0.2, most_edges=20)
    assert mechanism.sigma == pytest.approx(0.8 * math.sqrt(20))

    def of(one: AggregationPerturbation) -> Callable[[Noise], NDArray[np.float64]]:
        return lambda source: one.release(empty, x, source)

    assert _noise_fits(of(mechanism), mechanism.sigma, noise)
    # half the noise, and the variance used as the deviation, are caught
    half = replace(mechanism, noise_multiplier=2.0, once=Once())
    assert not _noise_fits(of(half), mechanism.sigma, noise)
    squared = replace(mechanism, noise_multiplier=4.0 * mechanism.sigma, once=Once())
    assert not _noise_fits(of(squared), mechanism.sigma, noise)


def test_a_second_release_is_the_first() -> None:
    graph, x, noise = sparse.csr_array(np.eye(4)), np.eye(4), Noise.research(1)
    mechanism = AggregationPerturbation(1.0)
    first = mechanism.release(graph, x, noise)
    again = [mechanism.release(graph, x, noise) for _ in range(5)]
    assert all(one is first for one in again)
    assert len(noise.events) == 1
    with pytest.raises(AlreadyReleased):
        mechanism.release(graph, x, noise, fresh=True)
    with pytest.raises(AlreadyReleased):
        mechanism.release(graph, 2 * x[::-1], noise)
    with pytest.raises(AlreadyReleased):
        mechanism.release(sparse.csr_array(np.ones((4, 4))), x, noise)
    other = mechanism.release(graph, x, noise, key="second hop")
    assert not np.array_equal(other, first)
    assert [event.label for event in noise.events] == ["aggregate", "second hop"]
    with pytest.raises(AlreadyReleased):  # a copy with less noise shares the cache: no way round it
        replace(mechanism, noise_multiplier=0.1).release(graph, x, noise)


def test_the_budget_is_kept() -> None:
    mechanism = AggregationPerturbation.for_budget(1.0, 1e-5, unit="user", most_edges=99, directions=2)
    assert mechanism.sensitivity == pytest.approx(14.07, abs=0.01)  # sqrt(2 m) C, m = 99
    assert 0.999 < epsilon_of([mechanism.event], 1e-5) <= 1.0
    assert 0.92 < epsilon_of([AggregationPerturbation(4.0).event], 1e-5) < 0.94


def test_bad_input() -> None:
    good = AggregationPerturbation(1.0)
    with pytest.raises(ValueError, match="counts of edges"):
        good.release(sparse.csr_array(np.eye(2) / 2), np.eye(2), Noise.research(1))
    with pytest.raises(ValueError, match="features must be rows of finite numbers"):
        good.release(sparse.csr_array(np.eye(2)), [[math.nan], [1.0]], Noise.research(1))
    with pytest.raises(ValueError, match="features must be 2 rows"):
        good.release(sparse.csr_array(np.eye(2)), np.eye(3), Noise.research(1))
    with pytest.raises(ValueError, match="square"):
        AggregationPerturbation(1.0, directions=2).release(
            sparse.csr_array((2, 3)), np.eye(3), Noise.research(1)
        )
    with pytest.raises(ValueError, match="most_edges must be 1"):
        AggregationPerturbation(1.0, "edge", most_edges=5)
    with pytest.raises(ValueError, match="most_per_row must be at most most_edges"):
        AggregationPerturbation(1.0, "user", most_edges=2, most_per_row=3)
    with pytest.raises(ValueError, match="unit must be one of edge, user"):
        AggregationPerturbation(1.0, "node")  # type: ignore[arg-type]
