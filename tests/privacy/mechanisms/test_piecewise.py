"""The piecewise mechanism against the closed forms of its density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.core import DataWarning
from veilrec.privacy import Noise, PureEvent
from veilrec.privacy.mechanisms import Piecewise

N = 200_000


def bins(epsilon: float, x: float, edges: np.ndarray) -> np.ndarray:
    """The exact probability of each interval, from the density of the paper."""
    e = math.exp(epsilon / 2)
    c = (e + 1) / (e - 1)
    left = (c + 1) * x / 2 - (c - 1) / 2
    high = (e**2 - e) / (2 * e + 2)
    inside = np.clip(np.minimum(edges[1:], left + c - 1) - np.maximum(edges[:-1], left), 0, None)
    return high * inside + high * math.exp(-epsilon) * (np.diff(edges) - inside)


def p_value(sample: np.ndarray, epsilon: float, x: float) -> float:
    c = (math.exp(epsilon / 2) + 1) / (math.exp(epsilon / 2) - 1) * (1 + 1e-9)
    edges = np.linspace(-c, c, 51)
    expected = bins(epsilon, x, edges)
    assert abs(expected.sum() - 1) < 1e-6
    counts = np.histogram(sample, edges)[0]
    assert counts.sum() == len(sample)
    return float(stats.chisquare(counts, expected / expected.sum() * len(sample)).pvalue)


def halves(mechanism: Piecewise, x: float, noise: Noise) -> np.ndarray:
    """A broken twin: the two outer pieces with a chance of one half each, whatever their lengths."""
    left = round((x + 1) / 2 * mechanism.outer)
    near = left + noise.below(mechanism.inner, (N,))
    low, high = noise.uniforms((N,)) * left, left + mechanism.inner
    high = high + noise.uniforms((N,)) * (mechanism.outer - left)
    far = np.where(noise.coins(0.5, (N,)), low, high)
    cell = np.where(noise.coins(mechanism.miss, (N,)), far, near)
    return (cell + 0.5 - (mechanism.inner + mechanism.outer) / 2) * mechanism.step


@pytest.mark.parametrize("x", [-1.0, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_density(epsilon, x):
    noise = Noise.research(1, "density", repr(x))
    mechanism = Piecewise(epsilon)
    assert p_value(mechanism.perturb(np.full(N, x), noise), epsilon, x) > 1e-4
    assert p_value(mechanism.perturb(np.full(20_000, x), Noise.secure()), epsilon, x) > 1e-8
    tight = Piecewise(1.2 * epsilon)  # negative control: too little noise
    assert p_value(tight.perturb(np.full(N, x), noise), epsilon, x) < 1e-9


@pytest.mark.parametrize("x", [0.3, 0.9])
def test_outer_pieces_go_by_length(x):
    mechanism = Piecewise(2.5)
    assert p_value(halves(mechanism, x, Noise.research(2)), 2.5, x) < 1e-9


@pytest.mark.parametrize(
    ("epsilon", "x", "variance"),
    [
        (2.5, 0, 0.3488),
        (2.5, 1, 0.7504),
        (0.5, 0, 17.70),
        (0.5, 1, 21.22),
        (20 / 3, 0, 0.0142),
        (20 / 3, -1, 0.0511),
    ],
)
def test_mean_and_variance(epsilon, x, variance):
    mechanism = Piecewise(epsilon)
    assert float(mechanism.variance(x)) == pytest.approx(variance, rel=5e-3)
    drawn = mechanism.perturb(np.full(N, x), Noise.research(3))
    spread = math.sqrt(mechanism.variance(x))
    assert abs(drawn.mean() - x) < 4 * spread / math.sqrt(N)
    fourth = float(((drawn - x) ** 4).mean())
    assert abs(drawn.var() - mechanism.variance(x)) < 4 * math.sqrt(fourth / N)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1, 2.5, 20 / 3, 20, 40, 60, 1000])
def test_the_ratio_never_exceeds_the_budget(epsilon):
    mechanism = Piecewise(epsilon)
    ratio = mechanism.ratio
    # exact: log of a fraction of whole numbers, and e^epsilon rounded down in the comparison
    assert math.log(ratio) <= epsilon
    if 0.01 <= epsilon <= 40:
        assert math.log(ratio) > epsilon - 1e-6
    assert mechanism.inner + mechanism.outer < 2**51


def test_measured_ratio_of_any_two_inputs():
    mechanism, noise = Piecewise(1.0), Noise.research(4)

    def worst(twin):
        edges = np.linspace(-twin.bound, twin.bound, 31)
        shares = [np.histogram(twin.perturb(np.full(N, x), noise), edges)[0] for x in (-1.0, -0.2, 0.3, 1.0)]
        return max((a / b).max() for a in shares for b in shares)

    assert 0.9 * math.e < worst(mechanism) < 1.12 * math.e
    assert worst(Piecewise(1.5)) > 1.12 * math.e  # negative control: half of the budget more


@pytest.mark.parametrize("noise", [Noise.research(5), Noise.secure()], ids=["research", "secure"])
def test_reports_lie_on_one_lattice_whatever_the_input(noise):
    mechanism = Piecewise(2.5)
    values = np.random.default_rng(1).uniform(-1, 1, 5000)
    drawn = mechanism.perturb(values, noise)
    middle = (mechanism.inner + mechanism.outer) / 2
    cells = np.rint(drawn / mechanism.step + middle - 0.5)
    assert np.array_equal((cells + 0.5 - middle) * mechanism.step, drawn)
    moved = drawn + values * 1e-9  # negative control: an input that shines through
    assert not np.array_equal(
        (np.rint(moved / mechanism.step + middle - 0.5) + 0.5 - middle) * mechanism.step, moved
    )


@pytest.mark.parametrize("epsilon", [20.0, 40.0, 1000.0])
def test_large_budgets_do_not_overflow(epsilon):
    mechanism = Piecewise(epsilon)
    assert 1 < mechanism.bound < 1.001
    drawn = mechanism.perturb([-1.0, 0.25, 1.0] * 100, Noise.secure())
    assert np.isfinite(drawn).all()
    assert np.median(np.abs(drawn - np.array([-1.0, 0.25, 1.0] * 100))) < 1e-3


def test_records_one_event():
    noise = Noise.research(6)
    Piecewise(0.7).perturb(np.zeros((2, 3)), noise, "age")
    Piecewise(0.7).draw([0.0], noise)
    assert noise.events == [PureEvent(epsilon=0.7, neighbours="replace", label="age")]


def test_outside_values():
    noise = Noise.research(7)
    with pytest.raises(ValueError, match=r"values must be numbers from -1 to 1, got 1\.5\. .*clamp"):
        Piecewise(1.0).perturb([0.0, 1.5, -9.0], noise)
    with pytest.warns(DataWarning, match="2 of 3 values lay outside"):
        drawn = Piecewise(40.0, "clamp").perturb([0.0, 1.5, -math.inf], noise)
    assert drawn.tolist() == pytest.approx([0, 1, -1], abs=1e-3)
    for mode in ("refuse", "clamp"):
        with pytest.raises(ValueError, match="values must be numbers"):
            Piecewise(1.0, mode).perturb([math.nan], noise)
    assert len(noise.events) == 1
    assert Piecewise(1.0).perturb([], noise).shape == (0,)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 1e-9])
def test_impossible_budgets(bad):
    with pytest.raises(ValueError, match="epsilon must be"):
        Piecewise(bad)
    with pytest.raises(ValueError, match="outside must be one of"):
        Piecewise(1.0, "clip")
