"""Shares whose sum is Laplace noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.privacy import LaplaceEvent, Noise
from veilrec.privacy.gaussian_profile import gaussian_delta
from veilrec.privacy.mechanisms import ExponentialNormalShares, GammaShares
from veilrec.privacy.mechanisms.shares import _gammas

SCALE = 2.0


def p_value(noise_values: np.ndarray, scale: float = SCALE) -> float:
    return float(stats.kstest(noise_values.ravel(), stats.laplace(scale=scale).cdf).pvalue)


def summed(shares, count: int, noise: Noise) -> np.ndarray:
    return shares.release(np.zeros((shares.parties, count)), noise)


@pytest.mark.parametrize("kind", [ExponentialNormalShares, GammaShares])
@pytest.mark.parametrize(("parties", "count"), [(1, 50_000), (7, 50_000), (300, 5_000)])
def test_the_sum_is_laplace(kind, parties, count):
    noise = Noise.research(1, kind.__name__, parties)
    assert p_value(summed(kind(SCALE, parties), count, noise)) > 1e-4
    # negative controls: three quarters of the noise, and normal noise of the same variance
    assert p_value(summed(kind(0.75 * SCALE, parties), count, noise)) < 1e-9
    assert p_value(SCALE * math.sqrt(2) * noise.normals((count,))) < 1e-9
    assert p_value(summed(kind(SCALE, min(parties, 20)), 3_000, Noise.secure())) > 1e-8


@pytest.mark.parametrize("kind", [ExponentialNormalShares, GammaShares])
def test_moments_of_the_sum(kind):
    count = 100_000
    x = summed(kind(SCALE, 4), count, Noise.research(2))
    assert x.var() == pytest.approx(2 * SCALE**2, rel=4 * math.sqrt(5 / count))
    assert np.abs(x).mean() == pytest.approx(SCALE, abs=4 * SCALE / math.sqrt(count))
    for t in (1.0, 5.0):
        tail = math.exp(-t / SCALE) / 2
        assert (x > t).mean() == pytest.approx(tail, abs=4 * math.sqrt(tail / count))


def test_two_scales_make_the_known_density():
    a, b = 2.0, 0.7
    noise = Noise.research(3)
    x = summed(GammaShares(a, 3), 50_000, noise) + summed(GammaShares(b, 3), 50_000, noise)

    def cdf(t):
        s = np.abs(t)
        tail = (a**2 * np.exp(-s / a) - b**2 * np.exp(-s / b)) / (2 * (a**2 - b**2))
        return np.where(t < 0, tail, 1 - tail)

    assert stats.kstest(x, cdf).pvalue > 1e-4
    assert stats.kstest(1.1 * x, cdf).pvalue < 1e-9  # negative control


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.02, 0.001])
def test_gamma_numbers(alpha):
    def p(shape, noise, count):
        drawn = _gammas(shape, (count,), noise)
        drawn = np.where(drawn > 1e-250, drawn, 0.0)  # below it lies what double precision has no digits for
        few = float((drawn == 0).mean())
        above = drawn[drawn > 0]
        floor = stats.gamma.cdf(1e-250, alpha)
        assert abs(few - floor) < 0.01 + 6 * math.sqrt(floor / count)
        return stats.kstest((stats.gamma.cdf(above, alpha) - floor) / (1 - floor), "uniform").pvalue

    assert p(alpha, Noise.research(4), 50_000) > 1e-4
    assert p(alpha, Noise.secure(), 5_000) > 1e-8
    if alpha >= 0.02:
        drawn = _gammas(1.3 * alpha, (50_000,), Noise.research(5))  # negative control
        assert stats.kstest(drawn, stats.gamma(alpha).cdf).pvalue < 1e-9


def test_variance_of_one_share():
    shares, noise = GammaShares(SCALE, 5), Noise.research(6)
    x = shares.share((200_000,), noise)
    assert shares.share_variance == pytest.approx(2 * SCALE**2 / 5)
    assert x.var() == pytest.approx(
        shares.share_variance, rel=4 * math.sqrt((x**4).mean() / x.var() ** 2 / len(x))
    )
    normal = ExponentialNormalShares(SCALE, 5)
    y = normal.share(np.full(200_000, 0.5), noise)
    assert y.var() == pytest.approx(SCALE**2 / 5, rel=0.02)
    assert noise.events == []


def test_the_event_is_that_of_the_sum():
    for kind in (ExponentialNormalShares, GammaShares):
        noise = Noise.research(7)
        shares = kind(6.0, 3, sensitivity=2.0, neighbours="replace")
        out = shares.release(np.full((3, 2), 1e6), noise, "sum")
        assert out.shape == (2,)
        assert np.abs(out - 3e6).max() < 200
        assert noise.events == [LaplaceEvent(noise_multiplier=3.0, neighbours="replace", label="sum")]


def test_who_knows_the_common_number_sees_gaussian_noise():
    """The delta of the pair (h, sum), measured over drawn h, and far from the pure epsilon of the sum."""
    shares, noise = ExponentialNormalShares(SCALE, 4, sensitivity=1.0), Noise.research(8)
    h = shares.common((20_000,), noise)
    for epsilon in (0.1, 0.5, 2.0):
        seen = np.mean([gaussian_delta(1 / (SCALE * math.sqrt(2 * x)), epsilon) for x in h[:4000]])
        assert shares.delta_knowing(epsilon) == pytest.approx(seen, rel=0.1)
    assert shares.delta_knowing(5.0) > 1e-3 > 0  # the sum alone has delta 0 from epsilon 0.5 on
    # divided by what h tells, the noise is standard normal, not Laplace
    drawn = sum(shares.share(h, noise) for _ in range(4)) / (SCALE * np.sqrt(2 * h))
    assert stats.kstest(drawn, "norm").pvalue > 1e-4


def mean_on_a_grid(ratio: float, epsilon: float) -> float:
    """The mean over h of the Gaussian delta, by the midpoint rule over log h from e^-90 to e^6."""
    log_h = np.linspace(-90.0, 6.0, 200_001)
    log_h = (log_h[1:] + log_h[:-1]) / 2
    mu = np.exp(-log_h / 2) / (ratio * math.sqrt(2))
    plus, minus = stats.norm.logcdf(mu / 2 - epsilon / mu), stats.norm.logcdf(-mu / 2 - epsilon / mu)
    delta = np.exp(plus) - np.exp(np.minimum(epsilon + minus, plus))
    return float(np.sum(np.exp(log_h - np.exp(log_h)) * delta) * 96 / 200_000)


RATIOS = [0.01, 0.1, 1, 2, 5, math.sqrt(10) / 1.1, 10, math.sqrt(10) / 0.11, 100, 300, 1000]


@pytest.mark.parametrize("ratio", RATIOS)  # scale / sensitivity
def test_the_delta_of_who_knows_the_common_number_on_a_grid(ratio):
    shares = ExponentialNormalShares(8.0 * ratio, 4, sensitivity=8.0)
    for epsilon in (0.0, 0.01, 1 / ratio, 0.1, 1.0, 5.0, 30.25, 100.0):
        assert shares.delta_knowing(epsilon) == pytest.approx(mean_on_a_grid(ratio, epsilon), rel=1e-6)
    # negative control: the grid tells shares of a tenth more noise from these
    assert shares.delta_knowing(1e3) != pytest.approx(mean_on_a_grid(1.1 * ratio, 1e3), rel=1e-3)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_delta_of_who_knows_the_common_number_by_simulation(ratio):
    """Drawn pairs (h, sum): the mean of what the likelihood ratio leaves above e^epsilon."""
    shares, noise = ExponentialNormalShares(ratio, 1), Noise.research(10, ratio)
    h = shares.common((400_000,), noise)
    deviation = ratio * np.sqrt(2 * h)
    drawn = 1.0 + shares.share(h, noise)  # the world with the value; the other has 0 in its place
    loss = (drawn - 0.5) / deviation**2
    for epsilon in (0.0, 0.1, 1 / ratio, 1.0, 5.0):
        excess = -np.expm1(np.minimum(epsilon - loss, 0.0))
        error = 5 * float(excess.std()) / math.sqrt(len(h)) + 15 / len(h)
        assert shares.delta_knowing(epsilon) == pytest.approx(float(excess.mean()), abs=error)


def test_the_spike_at_a_small_common_number_is_not_lost():
    """PrivSR with epsilon_s = 0.11 and 10 factors: an integral over h gives 3.8e-14 and 0 here."""
    shares = ExponentialNormalShares(scale=2 * 4 * math.sqrt(10) / 0.11, parties=1, sensitivity=8.0)
    assert shares.delta_knowing(5.0) == pytest.approx(6.05e-5, rel=1e-3)
    assert shares.delta_knowing(30.25) == pytest.approx(1.0e-5, rel=1e-3)
    for epsilon in (1e3, 1e6, 1e300):  # no finite epsilon holds: delta falls like 1 / epsilon
        assert shares.delta_knowing(epsilon) == pytest.approx((0.11**2 / 10) / 4 / epsilon, rel=1e-4)
    assert ExponentialNormalShares(1e-300, 1, sensitivity=1e300).delta_knowing(1.0) == 1.0
    assert ExponentialNormalShares(1e300, 1, sensitivity=1e-300).delta_knowing(1.0) == 0.0


def test_bad_input():
    for kind in (ExponentialNormalShares, GammaShares):
        for arguments in ((0.0, 3), (math.nan, 3), (1.0, 0), (1.0, 2, 0.0), (1.0, 2, 1.0, "swap")):
            with pytest.raises(ValueError, match="must be"):
                kind(*arguments)
        noise = Noise.research(9)
        for bad in (np.zeros((2, 4)), 1.0):
            with pytest.raises(ValueError, match="contributions must be 3 along the first axis"):
                kind(1.0, 3).release(bad, noise)
        with pytest.raises(ValueError, match="contributions must be finite numbers"):
            kind(1.0, 2).release([[1.0], [math.inf]], noise)
        assert noise.events == []
    with pytest.raises(ValueError, match="common must be"):
        ExponentialNormalShares(1.0, 2).share([-1.0], noise)
    with pytest.raises(ValueError, match="epsilon must be"):
        ExponentialNormalShares(1.0, 2).delta_knowing(-1)
