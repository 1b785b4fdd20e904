"""Noise sources: the two grades, the lattice, and the attack on the last bits of a float."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.privacy import Noise
from veilrec.privacy.noise import _APART, GAUSSIAN_STEPS, LAPLACE_STEPS, _enlarged

ALARM = 1e-7  # the chance that a secure test, which has no seed, fails for nothing


def spread_is(values, variance, level=ALARM) -> bool:
    """Whether the sample variance of normal-like noise is compatible with ``variance``."""
    kurtosis = ((values - values.mean()) ** 4).mean() / values.var() ** 2
    error = variance * math.sqrt(max(kurtosis - 1, 1e-9) / len(values))
    return abs(values.var() - variance) < stats.norm.isf(level / 2) * error


SOURCES = [Noise.secure(), Noise.research(1, "test")]


@pytest.mark.parametrize("noise", SOURCES, ids=["secure", "research"])
class TestBothGrades:
    def test_gaussian(self, noise) -> None:
        values = noise.add_gaussian(np.full(100_000, 3.0), 2.0, 1.0) - 3.0
        assert stats.kstest(values, stats.norm(0, 2).cdf).pvalue > ALARM
        assert spread_is(values, 4.0)
        assert not spread_is(values / 2, 4.0)  # half the noise
        assert not spread_is(2 * values, 4.0)  # sigma^2 for sigma

    def test_laplace(self, noise) -> None:
        values = noise.add_laplace(np.full(100_000, -1.0), 0.5, 1.0) + 1.0
        assert stats.kstest(values, stats.laplace(0, 0.5).cdf).pvalue > ALARM
        assert not stats.kstest(values / 2, stats.laplace(0, 0.5).cdf).pvalue > ALARM

    def test_coins(self, noise) -> None:
        hits = int(noise.coins(0.3, (100_000,)).sum())
        assert stats.binomtest(hits, 100_000, 0.3).pvalue > ALARM
        assert stats.binomtest(hits, 100_000, 0.32).pvalue < ALARM
        assert noise.coins(np.array([0.0, 1.0]), (2,)).tolist() == [False, True]

    def test_subsets_are_even(self, noise) -> None:
        drawn = noise.subsets(60_000, 5, 2)
        assert (drawn[:, 0] != drawn[:, 1]).all()
        pairs = np.sort(drawn, axis=1) @ [5, 1]
        counts = np.unique(pairs, return_counts=True)[1]
        assert len(counts) == 10
        assert stats.chisquare(counts).pvalue > ALARM

    def test_exponentials_and_normals(self, noise) -> None:
        assert stats.kstest(noise.exponentials((50_000,)), "expon").pvalue > ALARM
        assert stats.kstest(noise.normals((50_000,)), "norm").pvalue > ALARM

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_values_must_be_finite(self, noise, bad) -> None:
        for add in (noise.add_gaussian, noise.add_laplace):
            with pytest.raises(ValueError, match=f"values must be finite numbers, got {bad}"):
                add([1.0, bad], 1.0, 1.0)

    def test_nothing_to_add_to(self, noise) -> None:
        assert noise.add_gaussian(np.zeros((0, 3)), 1.0, 1.0).shape == (0, 3)


def test_research_repeats_itself_and_secure_does_not() -> None:
    one, other = (Noise.research(7, "a").add_gaussian(np.zeros(5), 1.0, 1.0) for _ in range(2))
    assert (one == other).all()
    assert (Noise.research(8, "a").normals((5,)) != one).all()
    assert (Noise.research(7, "b").normals((5,)) != one).all()
    assert (Noise.secure().normals((5,)) != Noise.secure().normals((5,))).all()


def test_seeds_are_refused_when_secure() -> None:
    with pytest.raises(ValueError, match="seed must be None when noise is secure, got 3"):
        Noise.choose(True, 3)
    with pytest.raises(ValueError, match="seed must be a whole number when noise is not secure"):
        Noise.choose(False, None)
    assert Noise.choose(True, None).grade == "secure"
    assert Noise.choose(False, 3).grade == "research"


class TestLattice:
    def test_outputs_are_whole_steps_whatever_the_input(self) -> None:
        noise = Noise.secure()
        for value in (0.0, 0.1, math.pi, -1e6):
            for add, width, steps, moved in (
                (noise.add_gaussian, 2.0, GAUSSIAN_STEPS, _APART * math.sqrt(1000)),
                (noise.add_laplace, 0.25, LAPLACE_STEPS, _APART * 1000),
            ):
                _, step = _enlarged(width, 1.0, moved, steps)
                out = add(np.full(1000, value), width, 1.0)
                assert (np.rint(out / step) * step == out).all()

    def test_noise_grows_by_what_rounding_costs(self) -> None:
        """width' / (sensitivity + moved steps) is the promised ratio, exactly."""
        for coordinates, sensitivity, width in ((1, 1.0, 2.0), (250_000, 1.0, 1.0), (1_000_000, 0.5, 4.0)):
            moved = _APART * math.sqrt(coordinates)
            wide, step = _enlarged(width, sensitivity, moved, GAUSSIAN_STEPS)
            assert wide / (sensitivity + moved * step) == pytest.approx(width / sensitivity, rel=1e-12)
            assert width <= wide < 1.01 * width

    def test_rounding_moves_neighbours_by_less_than_was_accounted(self) -> None:
        g = np.random.Generator(np.random.PCG64(1))
        _, step = _enlarged(1.0, 1.0, _APART * math.sqrt(1000), GAUSSIAN_STEPS)
        for size in (1.0, 1e3, 1e6, 1e7):
            x = size * g.standard_normal((50, 1000))
            y = x + g.standard_normal((50, 1000)) / math.sqrt(1000)
            apart = np.linalg.norm(np.rint(x / step) - np.rint(y / step), axis=1)
            assert (apart <= np.linalg.norm(x - y, axis=1) / step + _APART * math.sqrt(1000)).all()

    def test_values_far_beyond_the_sensitivity_are_refused(self) -> None:
        with pytest.raises(ValueError, match="Clip the values"):
            Noise.secure().add_gaussian([1e9], 1e-6, 1.0)

    def test_too_many_coordinates_for_the_lattice(self) -> None:
        with pytest.raises(ValueError, match="Release them in parts"):
            _enlarged(1e9, 1.0, 1e6, GAUSSIAN_STEPS)


class TestLastBits:
    """Mironov's attack: which floats can come out of 'value + Laplace' depends on the value."""

    @staticmethod
    def naive(value, size, seed):
        """The textbook sampler: a sign and the logarithm of a uniform double."""
        g = np.random.Generator(np.random.PCG64(seed))
        u = (g.integers(1, 2**53, size)) * 2.0**-53
        return value + np.where(g.random(size) < 0.5, -1.0, 1.0) * -np.log(u)

    @staticmethod
    def possible(outputs, value):
        """Whether a textbook sampler could have made each output from ``value``."""
        reach = np.zeros(len(outputs), bool)
        for sign in (-1.0, 1.0):
            with np.errstate(all="ignore"):
                guess = np.rint(np.exp(-sign * (outputs - value)) * 2.0**53)
                for near in range(-6, 7):
                    u = np.clip(guess + near, 1, 2.0**53 - 1) * 2.0**-53
                    reach |= value + sign * -np.log(u) == outputs
        return reach

    def beyond(self, ours, theirs) -> float:
        """By how much outputs are impossible for the wrong value more often than epsilon 1 allows.

        The rates may differ: outputs around 1 are of another size than those around 0, and so is the chance
        that a textbook sampler hits them. What may not be is more than e times the rate of the right value.
        """
        wrong = 1 - self.possible(ours, 0.0).mean()
        right = 1 - self.possible(theirs, 0.0).mean()
        return wrong - math.e * right

    def test_it_works_on_the_textbook_sampler(self) -> None:
        ours, theirs = self.naive(1.0, 4000, 1), self.naive(0.0, 4000, 2)
        assert self.possible(theirs, 0.0).mean() > 0.99
        assert self.beyond(ours, theirs) > 0.2

    def test_it_fails_on_ours(self) -> None:
        noise = Noise.secure()
        ours = noise.add_laplace(np.full(4000, 1.0), 1.0, 1.0, coordinates=1)
        theirs = noise.add_laplace(np.zeros(4000), 1.0, 1.0, coordinates=1)
        # the spread of the difference is at most half of sqrt(1 + e^2) / sqrt(4,000); a level of 1e-7
        assert self.beyond(ours, theirs) < 5.4 * 0.5 * math.sqrt((1 + math.e**2) / 4000)

    def test_every_output_is_possible_for_both_values(self) -> None:
        """The lattice holds both, so the support is the same set."""
        noise = Noise.secure()
        _, step = _enlarged(1.0, 1.0, _APART, LAPLACE_STEPS)
        for value in (0.0, 1.0):
            out = noise.add_laplace(np.full(1000, value), 1.0, 1.0, coordinates=1)
            assert (np.rint(out / step) * step == out).all()
