"""The samplers against exact distributions, and the exactness of their restart when words run out."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from veilrec.core import stream
from veilrec.privacy import kernels, samplers
from veilrec.privacy.words import secure_words, seeded_words

N = 100_000
Cdf = Callable[[np.ndarray], np.ndarray]


def p_value(sample: np.ndarray, cdf: Cdf, centre: float, width: float) -> float:
    """Chi-square over some 60 intervals of whole numbers whose probabilities the exact cdf gives."""
    grid = np.linspace(0.002, 0.998, 60)
    edges = np.unique(np.round(centre + width * stats.norm.ppf(grid)))
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(sample)
    counts = np.bincount(np.searchsorted(edges, sample), minlength=len(expected)).astype(float)
    group = np.minimum(np.cumsum(expected) // 20, (len(sample) - 20) // 20).astype(int)
    expected, counts = np.bincount(group, expected), np.bincount(group, counts)
    used = expected > 0
    assert counts[~used].sum() == 0
    if used.sum() < 2:
        return 1.0
    return float(stats.chisquare(counts[used], expected[used]).pvalue)


def laplace_cdf(scale: float) -> Cdf:
    a = math.exp(-1 / scale)
    return lambda k: np.where(k < 0, a ** np.abs(k), (1 + a) - a ** (np.abs(k) + 1)) / (1 + a)


def gaussian_cdf(sigma: float) -> Cdf:
    if sigma > 5000:  # the continuity correction is off by 1 / (24 sigma^2)
        return lambda k: stats.norm.cdf((k + 0.5) / sigma)
    reach = math.ceil(12 * sigma) + 2
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    total = np.cumsum(mass) / mass.sum()
    return lambda k: total[np.clip(k + reach, 0, 2 * reach).astype(int)]


def skellam_cdf(variance: float) -> Cdf:
    reach = math.ceil(variance + 12 * math.sqrt(variance)) + 20
    mass = stats.poisson.pmf(np.arange(reach), variance / 2)
    total = np.cumsum(np.convolve(mass, mass[::-1]))
    return lambda k: total[np.clip(k + reach - 1, 0, 2 * reach - 2).astype(int)]


CASES = {
    **{
        f"laplace {s:g}": (samplers.discrete_laplace, s, laplace_cdf(s), 0.0, 1.4 * s)
        for s in (0.3, 2.5, 100.0, 2.0**20)
    },
    **{
        f"gaussian {s:g}": (samplers.discrete_gaussian, s, gaussian_cdf(s), 0.0, s)
        for s in (0.4, 1.0, 3.7, 100.3, 4096.0, 2.0**20)
    },
    **{
        f"poisson {r:g}": (samplers.poisson, r, stats.poisson(r).cdf, r, math.sqrt(r))
        for r in (0.01, 3.0, 9.99, 10.0, 50.0, 1e6, 1e10)
    },
    **{f"skellam {v:g}": (samplers.skellam, v, skellam_cdf(v), 0.0, math.sqrt(v)) for v in (0.5, 9.0, 400.0)},
}


@pytest.mark.parametrize("name", CASES)
def test_exact_distribution(name):
    sampler, value, cdf, centre, width = CASES[name]
    words = seeded_words(stream(3, "samplers", name))
    assert p_value(sampler(words, value, N), cdf, centre, width) > 1e-4
    # negative control: a quarter more noise
    assert p_value(sampler(words, 1.25 * value, N), cdf, centre, width) < 1e-9
    assert p_value(sampler(secure_words, value, 20_000), cdf, centre, width) > 1e-8


def test_gaussian_of_the_secure_lattice_is_normal():
    words = seeded_words(stream(3, "samplers", "lattice"))
    drawn = samplers.discrete_gaussian(words, 2.0**24, N) / 2.0**24
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    assert stats.kstest(1.05 * drawn, "norm").pvalue < 1e-9
    assert stats.kstest(samplers.discrete_gaussian(secure_words, 2.0**24, N) / 2.0**24, "norm").pvalue > 1e-8


def test_signs_and_neighbours_are_independent():
    drawn = samplers.discrete_laplace(seeded_words(stream(4, "samplers")), 1000.0, N)
    ranks = stats.rankdata(drawn)
    assert abs(np.corrcoef(ranks[:-1], ranks[1:])[0, 1]) < 5 / math.sqrt(N)
    assert abs((drawn > 0).sum() - (drawn < 0).sum()) < 5 * math.sqrt(N)


# -- restart ---------------------------------------------------------------------------------------------

WORDS = stream(5, "words").integers(0, 1 << 64, 200_000, dtype=np.uint64)


class Fixed:
    """Hands out a fixed list of words, at most ``block`` at a time."""

    def __init__(self, block: int) -> None:
        self.block, self.place = block, 0

    def __call__(self, count: int) -> np.ndarray:
        count = min(count, self.block)
        self.place += count
        assert self.place <= len(WORDS)
        return WORDS[self.place - count : self.place]


SAMPLERS = [
    (samplers.discrete_laplace, 2.5),
    (samplers.discrete_laplace, 2.0**36),
    (samplers.discrete_gaussian, 3.7),
    (samplers.discrete_gaussian, 2.0**24),
    (samplers.poisson, 3.0),
    (samplers.poisson, 50.0),
]


@pytest.mark.parametrize(("sampler", "value"), SAMPLERS)
@pytest.mark.parametrize("block", [1, 7, 64])
def test_values_do_not_depend_on_the_block_size(sampler, value, block):
    whole = sampler(Fixed(len(WORDS)), value, 2000)
    assert np.array_equal(sampler(Fixed(block), value, 2000), whole)


def test_throwing_unfinished_values_away_would_be_seen(monkeypatch):
    """Negative control of the test above, and why it matters: the twin's zeros are too many."""

    def wasteful(kernel, source, size, words_each, parameters):
        out, done = np.empty(size, np.int64), 0
        while done < size:
            done, _ = kernel(out, done, source(8), *parameters)
        return out

    whole = samplers.discrete_laplace(Fixed(len(WORDS)), 2.5, 2000)
    monkeypatch.setattr(samplers, "_drawn", wasteful)
    assert not np.array_equal(samplers.discrete_laplace(Fixed(8), 2.5, 2000), whole)
    biased = samplers.discrete_laplace(seeded_words(stream(6, "words")), 2.5, 20_000)
    assert p_value(biased, laplace_cdf(2.5), 0.0, 3.5) < 1e-9


# -- the parts ---------------------------------------------------------------------------------------------


def test_digits_of_the_inverse_of_e():
    with decimal.localcontext(prec=120):
        digits = int(decimal.Decimal(-1).exp() * 2**256)
    whole = 0
    for digit in kernels._INVERSE_OF_E:
        whole = (whole << 64) + int(digit)
    assert whole == digits


@pytest.mark.parametrize("rate", [10.0, 50.0, 1e4, 1e6, 1e10, 1e15])
def test_poisson_probabilities_keep_their_digits(rate):
    """Neighbouring probabilities have the ratio rate / k; at the top the size is 1 / sqrt(2 pi rate)."""
    start = max(0, math.floor(rate - 3 * math.sqrt(rate)))
    stop = start + min(int(6 * math.sqrt(rate)), 2000)
    log = np.array([kernels.log_poisson(float(k), rate) for k in range(start, stop)])
    exact = -np.log1p((np.arange(start + 1, stop) - rate) / rate)
    assert np.abs(np.cumsum(np.diff(log) - exact)).max() < 1e-11
    top = kernels.log_poisson(float(math.floor(rate)), rate)
    assert abs(top + 0.5 * math.log(2 * math.pi * rate)) < 1 / rate**0.5
    if rate >= 1e10:  # negative control: the textbook formula
        naive = np.array([-rate + k * math.log(rate) - math.lgamma(k + 1) for k in range(start, stop)])
        assert np.abs(np.cumsum(np.diff(naive) - exact)).max() > 1e-7


def test_extreme_words():
    def ones(count: int) -> np.ndarray:
        return np.full(count, 2**64 - 1, np.uint64)

    assert samplers.poisson(ones, 0.01, 1)[0] < 12
    assert samplers.poisson(ones, 9.99, 1)[0] < 70


def test_no_width_is_ever_rounded_down(monkeypatch):
    """Whatever the samplers round, they round up: less noise than stated would be a broken promise."""
    widths = (0.3, 1.7, 40.01, 4095.999, 4096.001, 123456.7, 2.0**25 + 0.25)
    asked: list = []
    monkeypatch.setattr(samplers, "_drawn", lambda kernel, source, size, each, given: asked.append(given))
    for width in widths:
        samplers.discrete_gaussian(secure_words, width, 1)
        samplers.discrete_laplace(secure_words, width, 1)
    for width, gaussian, laplace in zip(widths, asked[::2], asked[1::2], strict=True):
        exact = Fraction(width)
        variance = Fraction(gaussian[0]) ** 2 if len(gaussian) == 1 else Fraction(*gaussian[:2])
        assert exact**2 <= variance <= exact**2 * Fraction(1001, 1000)
        assert exact <= Fraction(*laplace) <= exact * Fraction(1001, 1000)


def test_edges():
    assert (samplers.discrete_laplace(secure_words, 1e-12, 50) == 0).all()
    assert (samplers.discrete_gaussian(secure_words, 1e-3, 50) == 0).all()
    assert samplers.poisson(secure_words, 1e-9, 0).shape == (0,)
    assert samplers.discrete_laplace(secure_words, 2.0**40, 5).shape == (5,)
    assert np.abs(samplers.poisson(secure_words, 1e15, 5) - 1e15).max() < 10 * math.sqrt(1e15)
    for sampler, value in ((samplers.discrete_laplace, 2.0**41), (samplers.discrete_gaussian, 2.0**27)):
        with pytest.raises(ValueError, match="lattice"):
            sampler(secure_words, value, 1)
    for sampler in (
        samplers.discrete_laplace,
        samplers.discrete_gaussian,
        samplers.poisson,
        samplers.skellam,
    ):
        for bad in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="must be a finite number above 0"):
                sampler(secure_words, bad, 1)
