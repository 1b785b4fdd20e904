"""Discrete Laplace and Gaussian noise: events against exact sums over the whole numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veilrec.privacy import GaussianEvent, LaplaceEvent, Noise, PureEvent, delta_of, epsilon_of
from veilrec.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace


def masses(sigma: float, shift: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """The two discrete Gaussians of one neighbouring pair on -reach .. reach + shift."""
    k = np.arange(-reach, reach + shift + 1)
    p, q = np.exp(-(k**2) / (2 * sigma**2)), np.exp(-((k - shift) ** 2) / (2 * sigma**2))
    total = p.sum()
    return p / total, q / total


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def worst_excess(p: np.ndarray, q: np.ndarray, event: GaussianEvent) -> float:
    """How far the exact curve lies above the stated one, as a share, where delta is above 1e-12."""
    grid = np.linspace(0, 8 / event.noise_multiplier, 300)
    exact = np.array([hockey_stick(p, q, e) for e in grid])
    stated = np.array([delta_of([event], e) for e in grid])
    seen = exact > 1e-12
    assert seen.sum() > 50
    return float((exact[seen] / stated[seen] - 1).max())


@pytest.mark.parametrize("sigma", [2.0, 2.5, 4.0, 10.0, 60.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_exact_curve_lies_below_the_event(sigma, shift):
    mechanism = DiscreteGaussian(sigma / shift, shift)
    pair = masses(sigma, shift, math.ceil(20 * sigma) + 20)
    assert worst_excess(*pair, mechanism.event) <= 1e-9
    # negative control, and why the event is not that of the full sigma
    if sigma <= 10:
        assert worst_excess(*pair, GaussianEvent(noise_multiplier=sigma / shift)) > 0.01


def test_the_exact_curve_in_two_dimensions():
    """A shift of (1, 2), which is also the composition of two releases."""
    sigma, shift = 2.5, (1, 2)
    first, second = (masses(sigma, s, 60) for s in shift)
    p, q = (np.outer(a, b).ravel() for a, b in zip(first, second, strict=True))
    event = DiscreteGaussian(sigma / math.sqrt(5), math.sqrt(5)).event
    assert worst_excess(p, q, event) <= 1e-9
    assert worst_excess(p, q, GaussianEvent(noise_multiplier=1.1 * sigma / math.sqrt(5))) > 0.01


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 10.0])
def test_gaussian_budget_round_trip(epsilon, count):
    mechanism = DiscreteGaussian.for_budget(epsilon, 1e-6, 30.0, count=count)
    found = epsilon_of([mechanism.event.times(count)], 1e-6)
    assert epsilon * (1 - 1e-3) < found <= epsilon
    assert DiscreteGaussian.for_budget(1e4, 1e-6, 1.0).sigma >= 2  # never below what can be proven


def test_the_argument_of_the_docstring():
    """Rounding N(0, sigma^2 - 2) with chances exp(-(j - y)^2 / 4) gives the discrete Gaussian."""
    y = np.linspace(0, 1, 1001)
    total = np.exp(-((np.arange(-40, 42)[:, None] - y) ** 2) / 4).sum(axis=0)
    assert np.ptp(total) / total.mean() < 1e-14  # truly 5.6e-17: all that double precision can tell
    coarse = np.exp(-((np.arange(-40, 42)[:, None] - y) ** 2) / 0.5).sum(axis=0)
    assert np.ptp(coarse) / coarse.mean() == pytest.approx(4 * math.exp(-(math.pi**2) / 2), rel=1e-3)
    sigma = 3.0
    grid = np.linspace(-40, 40, 8001)
    weights = np.exp(-(grid**2) / (2 * (sigma**2 - 2)))
    j = np.arange(-15, 16)
    chances = np.exp(-((j[:, None] - grid) ** 2) / 4) / (math.sqrt(4 * math.pi))
    mass = (chances * weights).sum(axis=1) / weights.sum()
    exact = np.exp(-(j**2) / (2 * sigma**2))
    assert mass == pytest.approx(exact / np.exp(-(np.arange(-99, 100) ** 2) / (2 * sigma**2)).sum(), rel=1e-9)


@pytest.mark.parametrize(("scale", "shift"), [(0.7, 1), (3.0, 1), (3.0, 4), (50.0, 4)])
def test_laplace_ratio_is_the_budget(scale, shift):
    k = np.arange(-3000, 3001)
    p, q = np.exp(-np.abs(k) / scale), np.exp(-np.abs(k - shift) / scale)
    seen = (p > 1e-200) & (q > 1e-200)
    worst = np.abs(np.log(p[seen] / q[seen])).max()
    assert worst == pytest.approx(DiscreteLaplace(scale / shift, shift).event.epsilon)


def test_laplace_events_would_be_too_kind():
    """At sensitivity 1 the discrete loss is +- epsilon alone; that of Laplace noise on a line is smaller."""
    k = np.arange(-500, 501)
    p, q = np.exp(-np.abs(k) / 1.0), np.exp(-np.abs(k - 1) / 1.0)
    exact = hockey_stick(p / p.sum(), q / q.sum(), 0.5)
    assert exact <= delta_of([DiscreteLaplace(1.0).event], 0.5) + 1e-12
    assert exact > 1.2 * delta_of([LaplaceEvent(noise_multiplier=1.0)], 0.5)


def test_releases():
    noise = Noise.research(1)
    x = np.full((300, 300), 1000)
    laplace, gaussian = DiscreteLaplace.for_budget(0.5, 3.0), DiscreteGaussian(4.0, 3.0)
    out = laplace.release(x, noise, "counts")
    assert out.dtype == np.int64
    variance = 2 * math.exp(1 / laplace.scale) / math.expm1(1 / laplace.scale) ** 2
    assert (out - 1000).var() == pytest.approx(variance, rel=4 * math.sqrt(5 / x.size))
    other = gaussian.release(x, noise)
    assert other.var() == pytest.approx(gaussian.sigma**2, rel=4 * math.sqrt(2 / x.size))
    for drawn, width in ((out, laplace.scale * math.sqrt(2)), (other, gaussian.sigma)):
        assert abs(drawn.mean() - 1000) < 4 * width / math.sqrt(x.size)
    assert noise.events[0] == PureEvent(epsilon=0.5, label="counts")
    assert noise.events[1].noise_multiplier == pytest.approx(math.sqrt(142) / 3)
    assert laplace.release([5], Noise.secure()).shape == (1,)
    assert gaussian.release([], Noise.secure()).shape == (0,)
    replaced = DiscreteLaplace(1.0, 1.0, "replace").event
    assert replaced.neighbours == "replace"


def test_bad_input():
    noise = Noise.research(2)
    for kind in (DiscreteLaplace, DiscreteGaussian):
        for arguments in ((0.0, 9.0), (math.nan, 9.0), (3.0, 0.0), (3.0, 9.0, "swap")):
            with pytest.raises(ValueError, match="must be"):
                kind(*arguments)
        with pytest.raises(ValueError, match="values must be whole numbers"):
            kind(3.0, 9.0).release([1.5], noise)
        with pytest.raises(ValueError, match=r"below 2\^62"):
            kind(3.0, 9.0).release([2**62], noise)
    with pytest.raises(ValueError, match=r"sigma must be at least 2\.0, got 1\.5\. Count in smaller units"):
        DiscreteGaussian(1.5)
    for arguments in ((0, 1e-5), (1.0, 0.0), (1.0, 1.0), (1.0, 1e-5, 0.0)):
        with pytest.raises(ValueError, match="must be"):
            DiscreteGaussian.for_budget(*arguments)
    with pytest.raises(ValueError, match="epsilon must be"):
        DiscreteLaplace.for_budget(0)
    assert noise.events == []
