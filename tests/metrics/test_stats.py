"""Intervals, tests, effect sizes, Holm: worked values, scipy, enumeration, coverage with broken twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as ss

from veilrec.metrics import (
    Interval,
    bootstrap_interval,
    cliffs_delta,
    cohen_dz,
    holm,
    mean_interval,
    paired_t,
    seed_interval,
    sign_flip_test,
    wilcoxon,
)

samples = st.lists(st.floats(-50, 50), min_size=2, max_size=40)
pairs = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=2, max_size=12)


def test_worked_interval() -> None:
    # mean 3, s = sqrt(2.5), t(4, 0.975) = 2.776445
    found = mean_interval([1, 2, 3, 4, 5])
    half = 2.7764451052 * math.sqrt(2.5) / math.sqrt(5)
    assert (found.mean, found.level) == (3.0, 0.95)
    assert (found.low, found.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert mean_interval([2, 2]) == Interval(2.0, 2.0, 2.0, 0.95)


@given(samples, st.sampled_from([0.8, 0.95, 0.99]))
def test_interval_equals_scipy(values: list[float], level: float) -> None:
    found = mean_interval(values, level)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    if error > 1e-9:
        low, high = ss.t.interval(level, len(values) - 1, loc=np.mean(values), scale=error)
        assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def covered(kind: str, n_trials: int = 400) -> float:
    """How often a 90 % interval of 40 skewed values holds the true mean 1; "broken" is too narrow."""
    rng = np.random.default_rng(7)
    inside = 0
    for trial in range(n_trials):
        values = rng.exponential(size=40)
        if kind == "bootstrap":
            found = bootstrap_interval(values, seed=trial, level=0.9, n_resamples=400)
        else:
            found = mean_interval(values, 0.9)
        low, high = found.low, found.high
        if kind == "broken":
            low, high = (found.mean + (end - found.mean) / math.sqrt(40) for end in (low, high))
        inside += low <= 1 <= high
    return inside / n_trials


def test_intervals_cover_as_often_as_they_say_and_a_broken_twin_does_not() -> None:
    assert 0.83 < covered("t") < 0.95
    assert 0.83 < covered("bootstrap") < 0.95
    assert covered("broken") < 0.5


def test_bootstrap_agrees_with_scipy_and_with_its_seed() -> None:
    values = np.random.default_rng(3).exponential(size=200)
    found = bootstrap_interval(values, seed=1, n_resamples=5000)
    peer = ss.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=5000, rng=np.random.default_rng(1)
    )
    error = values.std() / math.sqrt(200)
    assert abs(found.low - peer.confidence_interval.low) < 0.15 * error
    assert abs(found.high - peer.confidence_interval.high) < 0.15 * error
    assert found == bootstrap_interval(values, seed=1, n_resamples=5000)
    assert found != bootstrap_interval(values, seed=2, n_resamples=5000)
    assert found.mean == values.mean()


def test_bootstrap_of_many_values_works_in_parts() -> None:
    values = np.random.default_rng(3).standard_normal(100_000)
    found = bootstrap_interval(values, seed=1, n_resamples=200)
    assert found.low < values.mean() < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 / math.sqrt(100_000), rel=0.25)


def test_seeds_are_the_unit_of_the_seed_interval() -> None:
    runs = [np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0]), np.array([0.25, 0.75])]
    assert seed_interval(runs) == mean_interval([0.5, 1.0, 0.5])
    with pytest.raises(
        ValueError, match=r"runs must be of two seeds or more, got 1\. One seed has no spread\."
    ):
        seed_interval(runs[:1])


def test_worked_tests_and_effects() -> None:
    a, b = [3, 5, 4, 8], [1, 4, 4, 4]  # differences 2 1 0 4: mean 1.75, s = sqrt(8.75 / 3)
    spread = math.sqrt(8.75 / 3)
    assert cohen_dz(a, b) == pytest.approx(1.75 / spread)
    assert paired_t(a, b).statistic == pytest.approx(1.75 / spread * 2)
    assert sign_flip_test(a, b, seed=0).p_value == 2 / 8  # all three moving signs alike
    assert sign_flip_test(a, b, seed=0).statistic == 1.75
    assert wilcoxon(a, b).p_value == 2 / 8
    # a = 3 beats one 1 and loses to three 4s; 5, 8 beat all; 4 beats one and ties with three
    assert cliffs_delta(a, b) == (1 - 3 + 4 + 1 + 4) / 16
    assert cliffs_delta([1, 2], [3, 4]) == -1.0


@settings(deadline=None)
@given(pairs)
def test_tests_equal_scipy(table: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, float) for column in zip(*table, strict=True))
    difference = a - b
    if len(set(difference.tolist())) > 1:
        peer = ss.ttest_rel(a, b)
        found = paired_t(a, b)
        assert (found.statistic, found.p_value) == (pytest.approx(peer.statistic), pytest.approx(peer.pvalue))
    flips = [abs(np.dot(s, difference)) for s in itertools.product([1, -1], repeat=len(a))]
    exact = np.mean(np.array(flips) >= abs(difference.sum()) - 1e-9)
    assert sign_flip_test(a, b, seed=0).p_value == pytest.approx(exact)
    delta = np.mean([np.sign(x - y) for x in a for y in b])
    assert cliffs_delta(a, b) == pytest.approx(delta)
    assert cliffs_delta(a, b) == pytest.approx(-cliffs_delta(b, a))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=9))
def test_wilcoxon_equals_enumeration(difference: list[int]) -> None:
    found = wilcoxon(difference, [0] * len(difference))
    moving = np.array([d for d in difference if d])
    if moving.size == 0:
        assert found.p_value == 1.0
        return
    ranks = ss.rankdata(np.abs(moving))
    sums = [ranks[np.array(s) > 0].sum() for s in itertools.product([1, -1], repeat=len(moving))]
    positive = ranks[moving > 0].sum()
    assert found.statistic == min(positive, ranks.sum() - positive)
    tail = min(np.mean(np.array(sums) >= positive), np.mean(np.array(sums) <= positive))
    assert found.p_value == pytest.approx(min(1.0, 2 * tail))


def test_drawn_sign_flips_agree_with_the_exact_p() -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal(14) + 0.4
    zeros = np.zeros(14)
    exact = sign_flip_test(a, zeros, seed=1, n_permutations=2**14).p_value
    drawn = sign_flip_test(a, zeros, seed=1, n_permutations=2**14 - 1).p_value
    assert drawn != exact
    assert abs(drawn - exact) < 5 * math.sqrt(exact * (1 - exact) / 2**14)
    assert drawn == sign_flip_test(a, zeros, seed=1, n_permutations=2**14 - 1).p_value


def test_sign_flip_p_values_are_uniform_under_the_null() -> None:
    rng = np.random.default_rng(11)
    found = [
        sign_flip_test(rng.standard_normal(30), np.zeros(30), seed=t, n_permutations=199) for t in range(300)
    ]
    p_values = np.array([result.p_value for result in found])
    assert ss.kstest(p_values, "uniform").pvalue > 0.001
    assert ss.kstest(p_values / 2, "uniform").pvalue < 1e-6  # the one-sided mistake would be seen
    assert p_values.min() > 0


def test_many_users_are_tested_in_parts() -> None:
    rng = np.random.default_rng(2)
    a = rng.random(60_000)
    b = a + rng.standard_normal(60_000) * 0.1
    p_value = sign_flip_test(a, b, seed=1, n_permutations=500).p_value
    assert p_value == pytest.approx(paired_t(a, b).p_value, abs=0.1)
    assert sign_flip_test(a + 0.01, b, seed=1, n_permutations=500).p_value == 1 / 501


def test_equal_and_constant_differences_have_an_answer() -> None:
    a = [0.1, 0.2, 0.3]
    assert cohen_dz(a, a) == 0.0
    assert paired_t(a, a).p_value == wilcoxon(a, a).p_value == sign_flip_test(a, a, seed=0).p_value == 1.0
    assert cohen_dz([2, 3], [1, 2]) == math.inf
    assert cohen_dz([1, 2], [2, 3]) == -math.inf
    assert paired_t([2, 3], [1, 2]).p_value == 0.0
    assert cliffs_delta(a, a) == 0.0


def test_holm_worked_and_in_order() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([0.2]).tolist() == [0.2]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_as_the_step_down_rule_does(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for alpha in (0.01, 0.05, 0.3):
        rejected = [False] * len(p_values)
        for step, index in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[index] * (len(p_values) - step) > alpha:
                break
            rejected[index] = True
        assert (adjusted <= alpha).tolist() == rejected
    assert (adjusted >= np.array(p_values)).all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"values must be 2 numbers or more, got \(1,\)"):
        mean_interval([1.0])
    with pytest.raises(ValueError, match=r"values must be finite numbers, got \[nan\]"):
        mean_interval([1.0, math.nan])
    with pytest.raises(ValueError, match="level must be strictly between 0 and 1, got 95"):
        mean_interval([1.0, 2.0], 95)
    with pytest.raises(ValueError, match=r"b must be as long as a, 2, got 3\. Pair the same users\."):
        paired_t([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="n_resamples must be a whole number of at least 100"):
        bootstrap_interval([1.0, 2.0], seed=1, n_resamples=10)
    with pytest.raises(ValueError, match="n_permutations must be a whole number of at least 100"):
        sign_flip_test([1, 2], [2, 2], seed=1, n_permutations=1)
    for p_values in ([0.5, 1.5], [-0.1]):
        with pytest.raises(ValueError, match="p_values must be from 0 to 1"):
            holm(p_values)
    with pytest.raises(ValueError, match=r"p_values must be finite numbers, got \[nan\]"):
        holm([math.nan])
    with pytest.raises(ValueError, match="p_values must be 1 numbers or more"):
        holm([])
