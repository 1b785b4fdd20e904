"""The bounds against known truths: never above (but for their level), and close where they should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.attacks import (
    count_bounds,
    delta_points,
    gaussian_mu_bound,
    histogram_epsilon,
    one_run_epsilon,
    two_world_epsilon,
)
from veilrec.core import stream
from veilrec.privacy.gaussian_profile import gaussian_delta


def laplace(n, seed, scale=1.0):
    g = stream(seed, "audit")
    return 1 + g.laplace(0, scale, 2 * n), g.laplace(0, scale, 2 * n)


def oue(n, seed, epsilon=2.5):
    g, q = stream(seed, "oue"), 1 / (1 + math.exp(epsilon))
    one, other = (g.random(2 * n) < 0.5, g.random(2 * n) < q), (g.random(2 * n) < q, g.random(2 * n) < 0.5)
    return tuple(a.astype(float) - b for a, b in (one, other))


def test_count_bounds_are_those_of_clopper_and_pearson() -> None:
    for hits, runs in ((0, 10), (3, 10), (10, 10), (58, 1000)):
        low, high = count_bounds(hits, runs, 0.025)
        exact = stats.binomtest(hits, runs).proportion_ci(0.95, "exact")
        assert (float(low), float(high)) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize(("runs", "ceiling"), [(2_000, 6.3), (20_000, 8.6), (200_000, 10.9)])
def test_the_ceiling_of_perfect_separation(runs, ceiling) -> None:
    """What two_world_epsilon can show at most: each half has ``runs`` runs."""
    found = two_world_epsilon(np.ones(2 * runs), np.zeros(2 * runs))
    assert found == pytest.approx(ceiling, abs=0.05)


def known_event(runs, p, q) -> float:
    """What the bound is worth when the best event is known beforehand and its counts are as expected."""
    return math.log(
        count_bounds(round(p * runs), runs, 0.025)[0] / count_bounds(round(q * runs), runs, 0.025)[1]
    )


@pytest.mark.parametrize(("runs", "stated"), [(2_000, 0.90), (20_000, 0.97), (200_000, 0.98)])
def test_laplace_at_epsilon_1(runs, stated) -> None:
    found = [two_world_epsilon(*laplace(runs, seed)) for seed in range(5)]
    oracle = known_event(runs, 0.5, 0.5 / math.e)
    assert np.mean(found) == pytest.approx(oracle, abs=0.05)
    assert oracle == pytest.approx(stated, abs=0.04)
    assert max(found) < 1.0


@pytest.mark.parametrize(("runs", "stated"), [(2_000, 2.25), (20_000, 2.38), (200_000, 2.46)])
def test_unary_encoding_at_epsilon_2_5(runs, stated) -> None:
    q = 1 / (1 + math.exp(2.5))
    found = [two_world_epsilon(*oue(runs, seed)) for seed in range(20 if runs < 100_000 else 5)]
    oracle = known_event(runs, 0.5 * (1 - q), 0.5 * q)
    assert np.mean(found) == pytest.approx(oracle, abs=0.08)
    assert oracle == pytest.approx(stated, abs=0.1)
    assert max(found) < 2.5


@pytest.mark.parametrize(("runs", "expected"), [(1_000, 0.80), (5_000, 0.90), (20_000, 0.95)])
def test_gaussian_with_mu_1(runs, expected) -> None:
    found = []
    for seed in range(10):
        g = stream(seed, "gaussian")
        found.append(gaussian_mu_bound(g.normal(1, 1, 2 * runs), g.normal(0, 1, 2 * runs)))
    assert np.mean(found) == pytest.approx(expected, abs=0.06)
    assert max(found) < 1.05


def test_half_the_noise_is_refuted_and_the_right_noise_is_not() -> None:
    assert two_world_epsilon(*laplace(2_000, 1, scale=0.5)) > 1.3
    assert two_world_epsilon(*laplace(2_000, 1)) < 1


@pytest.mark.parametrize("bound", [two_world_epsilon, histogram_epsilon])
def test_a_bound_errs_no_more_often_than_its_level(bound) -> None:
    """200 audits of a true claim at level 0.2: the number of false alarms is binomial or less."""
    q = 1 / (1 + math.e)
    alarms = 0
    for seed in range(200):
        g = stream(seed, "level")
        told = (g.random(400) < 1 - q).astype(float), (g.random(400) < q).astype(float)
        alarms += bound(*told, level=0.2) > 1.0
    assert alarms <= stats.binom.ppf(1 - 1e-4, 200, 0.2)


def test_a_set_of_categories_is_counted_on_other_runs_than_it_was_chosen_on() -> None:
    """Two equal worlds of 60 categories: the best set of them looks good on the runs that chose it."""
    alarms = 0
    for seed in range(60):
        g = stream(seed, "equal worlds")
        alarms += histogram_epsilon(g.integers(0, 60, 400), g.integers(0, 60, 400), level=0.2) > 0
    assert alarms <= stats.binom.ppf(1 - 1e-4, 60, 0.2)


def test_delta_is_given_away_first() -> None:
    """A mechanism that fails with probability delta: told at that delta nothing is left to refute."""
    g = stream(3, "delta")
    fails = g.random(40_000) < 0.05
    ours = np.where(fails, 1.0, 0.0)
    theirs = np.zeros(40_000)
    assert two_world_epsilon(ours, theirs, delta=0.0) > 3
    assert two_world_epsilon(ours, theirs, delta=0.06) == 0


@pytest.mark.parametrize(
    ("guesses", "right", "expected"), [(200, 200, 4.19), (1000, 1000, 5.81), (943, 547, 0.21)]
)
def test_one_run(guesses, right, expected) -> None:
    assert one_run_epsilon(guesses, right) == pytest.approx(expected, abs=0.01)


def test_one_run_on_a_skewed_secret_would_lie() -> None:
    """Why canaries need a fair coin: guessing the majority of a 71 % class 'proves' epsilon 0.8."""
    assert one_run_epsilon(943, round(0.71 * 943)) > 0.75
    assert one_run_epsilon(943, 943 // 2) == 0


def test_one_run_never_counts_more_than_was_claimed() -> None:
    e = 1.0
    alarms = sum(
        one_run_epsilon(500, int(stream(s, "one").binomial(500, math.e / (1 + math.e))), 0.2) > e
        for s in range(200)
    )
    assert alarms <= stats.binom.ppf(1 - 1e-4, 200, 0.2)


def test_delta_points_lie_below_the_curve_and_near_it() -> None:
    g = stream(1, "points")
    grid = np.array([0.0, 0.5, 1.0, 2.0])
    points = delta_points(g.normal(1, 1, 100_000), g.normal(0, 1, 100_000), grid)
    curve = np.array([gaussian_delta(1.0, e) for e in grid])
    assert (points < curve).all()
    assert (points[:3] > 0.85 * curve[:3]).all()
    half = delta_points(g.normal(2, 1, 100_000), g.normal(0, 1, 100_000), grid)
    assert (half > curve).all(), "half the noise must lie above the claimed curve"


def test_a_histogram_finds_what_no_threshold_finds() -> None:
    """The middle category tells: a threshold on the value misses it."""
    g = stream(2, "histogram")
    ours, theirs = (g.choice(3, 20_000, p=p) for p in ([0.15, 0.7, 0.15], [0.42, 0.16, 0.42]))
    assert histogram_epsilon(ours, theirs) > 1.3
    assert two_world_epsilon(ours, theirs) < 1.1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: two_world_epsilon([1.0] * 5, [0.0] * 50), "20 runs or more"),
        (lambda: two_world_epsilon([math.nan] * 50, [0.0] * 50), "finite scores"),
        (lambda: one_run_epsilon(0, 0), "guesses must be"),
        (lambda: one_run_epsilon(5, 6), "right must be from 0 to 5"),
    ],
)
def test_bad_input(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call()
