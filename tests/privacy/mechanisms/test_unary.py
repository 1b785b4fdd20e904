"""Optimised unary encoding against its closed forms."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from veilrec.privacy import Noise, PureEvent
from veilrec.privacy.mechanisms import BitResponse, UnaryEncoding

N = 100_000


def exact(mechanism: UnaryEncoding, code: int) -> dict[tuple[int, ...], Fraction]:
    """The exact probability of every report."""
    p, q = Fraction(mechanism.truth), Fraction(mechanism.false)
    chances = [p if j == code else q for j in range(mechanism.categories)]
    return {
        bits: math.prod((c if b else 1 - c) for b, c in zip(bits, chances, strict=True))
        for bits in itertools.product((0, 1), repeat=mechanism.categories)
    }


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.5, 20.0, 60.0])
def test_extreme_ratio_is_the_budget(epsilon):
    first, second = (exact(UnaryEncoding(epsilon, 3), code) for code in (0, 2))
    worst = max(first[bits] / second[bits] for bits in first)
    assert epsilon - 1e-9 < math.log(worst) <= epsilon


def test_total_variation():
    mechanism = UnaryEncoding(2.5, 4)
    first, second = exact(mechanism, 1), exact(mechanism, 2)
    distance = sum(abs(first[bits] - second[bits]) for bits in first) / 2
    assert float(distance) == pytest.approx((1 - 2 * mechanism.false) / 2)
    assert float(distance) == pytest.approx(0.424, abs=5e-4)


def p_value(reports: np.ndarray, mechanism: UnaryEncoding, code: int) -> float:
    codes = reports @ (1 << np.arange(mechanism.categories)[::-1])
    expected = np.array([float(v) for v in exact(mechanism, code).values()])
    counts = np.bincount(codes, minlength=len(expected))
    return float(stats.chisquare(counts, expected * len(codes)).pvalue)


def test_distribution_of_whole_reports():
    mechanism, noise = UnaryEncoding(1.0, 3), Noise.research(1)
    assert p_value(mechanism.perturb(np.full(N, 1), noise), mechanism, 1) > 1e-4
    assert p_value(mechanism.perturb(np.full(20_000, 1), Noise.secure()), mechanism, 1) > 1e-8
    assert p_value(UnaryEncoding(1.2, 3).perturb(np.full(N, 1), noise), mechanism, 1) < 1e-9  # less noise
    alike = mechanism.perturb(np.full(1, 1), noise).repeat(N, axis=0)  # one draw for everybody
    assert p_value(alike, mechanism, 1) < 1e-9


def test_estimates_are_unbiased_with_the_stated_variance():
    mechanism = UnaryEncoding(2.5, 3)
    assert mechanism.variance_zero == pytest.approx(0.390, abs=5e-4)
    assert mechanism.variance_one == pytest.approx(1.390, abs=5e-4)
    codes = np.repeat([0, 1, 2], [N // 2, N // 4, N // 4])
    reports = mechanism.perturb(codes, Noise.research(2))
    estimate = mechanism.estimate(reports)
    for found, true in zip(estimate, (0.5, 0.25, 0.25), strict=True):
        spread = math.sqrt((mechanism.variance_zero + true) / N)
        assert abs(found - true) < 4 * spread
    single = (reports - mechanism.false) / (mechanism.truth - mechanism.false)
    one, zero = single[codes == 0, 0].var(), single[codes != 0, 0].var()
    assert one == pytest.approx(mechanism.variance_one, rel=0.03)
    assert zero == pytest.approx(mechanism.variance_zero, rel=0.03)


def test_randomised_response_closed_forms():
    mechanism, noise = BitResponse(1.2), Noise.research(3)
    keep, flip = mechanism.keep, mechanism.flip
    assert keep / flip == pytest.approx(math.exp(1.2))
    single = mechanism.estimate(mechanism.perturb(np.ones(N, int), noise))
    variance = keep * flip / (keep - flip) ** 2
    assert abs(single.mean() - 1) < 4 * math.sqrt(variance / N)
    assert single.var() == pytest.approx(variance, rel=0.02)


def test_events_shapes_and_bad_input():
    mechanism, noise = UnaryEncoding(0.5, 4), Noise.research(4)
    assert mechanism.perturb(np.zeros((2, 3), int), noise, "job").shape == (2, 3, 4)
    mechanism.draw([1], noise)
    assert noise.events == [PureEvent(epsilon=0.5, neighbours="replace", label="job")]
    assert mechanism.perturb(np.zeros(0, int), noise).shape == (0, 4)
    assert math.isfinite(UnaryEncoding(1e4, 2).variance_zero)
    for bad in ([4], [-1], [0.5], [math.nan]):
        with pytest.raises(ValueError, match="codes must be whole numbers from 0 to 3"):
            mechanism.perturb(bad, noise)
    for bad in (np.zeros((2, 3)), np.zeros((0, 4)), 1.0):
        with pytest.raises(ValueError, match="reports must be some rows of 4 bits"):
            mechanism.estimate(bad)
    with pytest.raises(ValueError, match="categories must be"):
        UnaryEncoding(1.0, 1)
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon must be"):
            UnaryEncoding(bad, 3)


def test_an_epsilon_too_small_for_an_estimate_is_refused():
    """At 1e-15 p and q were the same number, and estimates divided by nothing."""
    estimate = UnaryEncoding(1e-6, 3).estimate(np.eye(3))
    assert np.isfinite(estimate).all()
    assert UnaryEncoding(1e-6, 3).truth - UnaryEncoding(1e-6, 3).false == pytest.approx(2.5e-7, rel=1e-6)
    for small in (9e-7, 1e-15):
        with pytest.raises(
            ValueError, match=r"epsilon must be at least 1e-06, got .* nothing can be estimated"
        ):
            UnaryEncoding(small, 3)
