from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import BitResponse, CategoryResponse

ALARM = 1e-7


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 40.0, 300.0])
def test_the_ratio_is_e_to_the_epsilon_and_never_more(epsilon) -> None:
    bit = BitResponse(epsilon)
    assert math.log(bit.keep / bit.flip) <= epsilon
    assert bit.flip > 0
    category = CategoryResponse(epsilon, 7)
    assert math.log(category.keep / category.lie) <= epsilon
    assert category.keep + 6 * category.lie == pytest.approx(1.0)
    if epsilon <= 40:
        assert math.log(bit.keep / bit.flip) == pytest.approx(epsilon)
        assert math.log(category.keep / category.lie) == pytest.approx(epsilon)


@pytest.mark.parametrize("noise", [Noise.secure(), Noise.research(1)], ids=["secure", "research"])
def test_bits_are_flipped_as_often_as_said(noise) -> None:
    mechanism = BitResponse(1.5)
    for bit in (0, 1):
        wrong = int((mechanism.perturb(np.full(50_000, bit), noise) != bit).sum())
        assert stats.binomtest(wrong, 50_000, mechanism.flip).pvalue > ALARM
        assert stats.binomtest(wrong, 50_000, BitResponse(1.7).flip).pvalue < ALARM  # another epsilon


def test_estimates_are_unbiased_with_the_stated_variance() -> None:
    mechanism, noise = BitResponse(0.8), Noise.research(2)
    for bit in (0, 1):
        found = mechanism.estimate(mechanism.perturb(np.full(100_000, bit), noise))
        variance = mechanism.keep * mechanism.flip / (mechanism.keep - mechanism.flip) ** 2
        assert found.mean() == pytest.approx(bit, abs=5 * math.sqrt(variance / 100_000))
        assert found.var() == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize("noise", [Noise.secure(), Noise.research(3)], ids=["secure", "research"])
def test_categories_lie_evenly(noise) -> None:
    mechanism = CategoryResponse(1.0, 4)
    counts = np.bincount(mechanism.perturb(np.full(60_000, 2), noise), minlength=4)
    expected = 60_000 * np.where(np.arange(4) == 2, mechanism.keep, mechanism.lie)
    assert stats.chisquare(counts, expected).pvalue > ALARM
    other = CategoryResponse(1.2, 4)
    wrong = 60_000 * np.where(np.arange(4) == 2, other.keep, other.lie)
    assert stats.chisquare(counts, wrong).pvalue < ALARM


def test_category_counts_are_unbiased() -> None:
    mechanism, truth = CategoryResponse(1.0, 3), np.repeat([0, 1, 2], [30_000, 20_000, 10_000])
    found = mechanism.estimate(mechanism.perturb(truth, Noise.research(4)))
    assert found == pytest.approx([30_000, 20_000, 10_000], abs=1500)
    assert found.sum() == pytest.approx(60_000)


def test_events_are_recorded() -> None:
    noise = Noise.research(1)
    BitResponse(0.5).perturb([1, 0], noise, "smoker")
    CategoryResponse(2.0, 3).perturb([1], noise)
    assert [(e.epsilon, e.label) for e in noise.events] == [(0.5, "smoker"), (2.0, "")]
    assert {e.neighbours for e in noise.events} == {"replace"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda n: BitResponse(0.0), "epsilon must be"),
        (lambda n: BitResponse(math.nan), "epsilon must be"),
        (lambda n: BitResponse(1.0).perturb([0, 2], n), "bits must be 0 or 1"),
        (lambda n: CategoryResponse(1.0, 1), "categories must be"),
        (lambda n: CategoryResponse(1.0, 3).perturb([3], n), "codes must be whole numbers from 0 to 2"),
        (lambda n: CategoryResponse(1.0, 3).perturb([0.5], n), "codes must be whole numbers from 0 to 2"),
    ],
)
def test_bad_input_draws_nothing(call, words) -> None:
    noise = Noise.research(1)
    with pytest.raises(ValueError, match=words):
        call(noise)
    assert noise.events == []


def test_nobody_to_ask() -> None:
    assert BitResponse(1.0).perturb(np.zeros(0, bool), Noise.secure()).shape == (0,)
