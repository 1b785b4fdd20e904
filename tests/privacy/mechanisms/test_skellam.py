"""Skellam noise in shares, and whole numbers out of real ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from veilrec.privacy import Noise, SkellamEvent, epsilon_of
from veilrec.privacy.mechanisms import Skellam, modulus, quantise, whole_bounds
from veilrec.privacy.renyi import renyi_of


def mass(variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers and their exact probabilities."""
    reach = math.ceil(variance + 14 * math.sqrt(variance)) + 30
    poisson = stats.poisson.pmf(np.arange(reach), variance / 2)
    return np.arange(1 - reach, reach), np.convolve(poisson, poisson[::-1])


@pytest.mark.parametrize("variance", [50.0, 400.0])
@pytest.mark.parametrize("shift", [1, 5])
def test_exact_divergence_lies_below_the_bound(variance, shift):
    # P(k) = e^-variance I_k(variance); far enough that the tilted sums are whole, near enough for a double
    k = np.arange(-200, 201) if variance < 100 else np.arange(-500, 501)
    log_p, log_q = (np.log(special.ive(np.abs(k - s), variance)) for s in (0, shift))
    event = Skellam(variance, shift, shift).event
    for order in range(2, 17):
        exact = special.logsumexp(order * log_p - (order - 1) * log_q) / (order - 1)
        bound = renyi_of(event, order)
        assert 0.75 * order * shift**2 / (2 * variance) < exact <= bound
        thin = renyi_of(SkellamEvent(variance=1.5 * variance, l2=shift, l1=shift), order)
        assert exact > thin  # negative control: a third of the noise missing


def p_value(sample: np.ndarray, variance: float) -> float:
    k, p = mass(variance)
    edges = np.arange(-int(2 * math.sqrt(variance)), int(2 * math.sqrt(variance)) + 1)
    total = np.cumsum(p)[np.searchsorted(k, edges)]
    expected = np.diff(np.concatenate([[0.0], total, [1.0]])) * len(sample)
    counts = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    return float(stats.chisquare(counts, expected / expected.sum() * len(sample)).pvalue)


@pytest.mark.parametrize("parties", [1, 10, 400])
def test_shares_add_up_to_the_variance(parties):
    mechanism, noise = Skellam(60.0, 5.0, 10.0), Noise.research(1, parties)
    count = 40_000 if parties < 100 else 6_000
    total = mechanism.share(parties, (parties, count), noise).sum(axis=0)
    assert p_value(total, 60.0) > 1e-4
    short = mechanism.share(parties, (max(1, parties // 2), count), noise).sum(axis=0)
    if parties > 1:
        assert p_value(short, 60.0) < 1e-9  # negative control: half of the parties are missing
    assert p_value(mechanism.share(parties, (parties, 2_000), Noise.secure()).sum(axis=0), 60.0) > 1e-8
    assert noise.events == []


def test_release_and_event():
    noise = Noise.research(2)
    mechanism = Skellam(1e6, 50.0, 300.0, "replace")
    out = mechanism.release(np.full(40_000, 7), noise, "sum")
    assert out.dtype == np.int64
    assert (out - 7).var() == pytest.approx(1e6, rel=4 * math.sqrt(2 / 40_000))
    assert noise.events == [SkellamEvent(variance=1e6, l2=50.0, l1=300.0, neighbours="replace", label="sum")]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("count", [1, 30])
def test_budget_round_trip(neighbours, count):
    l2, l1 = whole_bounds(1.0, 2.0**14, 1000)
    mechanism = Skellam.for_budget(2.0, 1e-5, l2, l1, count=count, neighbours=neighbours)
    found = epsilon_of([mechanism.event.times(count)], 1e-5, neighbours)
    assert 2.0 * (1 - 1e-3) < found <= 2.0


@pytest.mark.parametrize("dimension", [1, 3, 50, 4000])
@pytest.mark.parametrize("scale", [0.8, 3.0, 500.0])
def test_bounds_hold_for_every_vector(dimension, scale):
    l2, l1 = whole_bounds(1.0, scale, dimension)
    assert l2 == scale + math.sqrt(dimension) / 2
    assert l1 == min(math.sqrt(dimension) * l2, l2**2)
    random = np.random.default_rng(dimension)
    vectors = random.standard_normal((200, dimension)) * random.choice([0.01, 1, 50], (200, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    whole = quantise(vectors, scale)
    assert np.linalg.norm(whole, axis=1).max() <= l2
    assert np.abs(whole).sum(axis=1).max() <= l1
    # just above one half in every coordinate: rounding up is nearly the whole bound
    size = 4 * (math.floor(scale) + 1) ** 2
    worst = quantise(np.full(size, (0.5 + 1e-9) / scale), scale)
    clip = (0.5 + 1e-9) / scale * math.sqrt(size)
    assert np.linalg.norm(worst) == pytest.approx(whole_bounds(clip, scale, size)[0], rel=1e-6)
    assert np.linalg.norm(worst) > 1.5 * scale * clip  # negative control: the bound without rounding


def test_large_models_pay_little_for_rounding():
    l2, _ = whole_bounds(1.0, 2.0**14, 237_000)
    assert l2 / 2**14 == pytest.approx(1.015, abs=5e-4)


def test_the_modulus_holds_the_sum():
    parties, clip, scale = 50, 1.0, 200.0
    l2, l1 = whole_bounds(clip, scale, 8)
    mechanism = Skellam.for_budget(1.0, 1e-5, l2, l1)
    ring = modulus(parties, clip, scale, mechanism.variance)
    assert ring > 2 * parties * (scale * clip + 12 * math.sqrt(mechanism.variance)) >= ring - 1
    x = quantise(np.full((parties, 8), -clip / math.sqrt(8)), scale)
    sent = (x + mechanism.share(parties, x.shape, Noise.research(3))) % ring
    total = sent.sum(axis=0) % ring
    total = np.where(total > ring // 2, total - ring, total)
    assert np.abs(total - x.sum(axis=0)).max() < 8 * math.sqrt(mechanism.variance)
    small = 2 * int(np.abs(x.sum(axis=0)).max()) // 3  # negative control: a ring that wraps
    wrapped = sent.sum(axis=0) % small
    wrapped = np.where(wrapped > small // 2, wrapped - small, wrapped)
    assert np.abs(wrapped - x.sum(axis=0)).min() > 0.1 * small


def test_bad_input():
    for arguments in ((0.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 1.0, -1.0), (1.0, 1.0, 1.0, "swap")):
        with pytest.raises(ValueError, match="must be"):
            Skellam(*arguments)
    for arguments in ((0.0, 1e-5, 1.0, 1.0), (1.0, 0.0, 1.0, 1.0), (1.0, 1e-5, 0.0, 1.0)):
        with pytest.raises(ValueError, match="must be"):
            Skellam.for_budget(*arguments)
    noise = Noise.research(4)
    with pytest.raises(ValueError, match="values must be whole numbers"):
        Skellam(9.0, 1.0, 1.0).release([0.5], noise)
    with pytest.raises(ValueError, match="parties must be"):
        Skellam(9.0, 1.0, 1.0).share(0, (2,), noise)
    for bad in ([math.nan], [math.inf], [1e30]):
        with pytest.raises(ValueError, match="values must be finite"):
            quantise(bad, 10.0)
    for call in (
        lambda: quantise([1.0], 0.0),
        lambda: whole_bounds(0.0, 1.0, 1),
        lambda: whole_bounds(1.0, 1.0, 0),
        lambda: modulus(0, 1.0, 1.0, 1.0),
        lambda: modulus(1, 1.0, 1.0, math.inf),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    assert noise.events == []
