"""The perturber of profiles: which features are reported, how, and what each costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from veilrec.core import DataWarning
from veilrec.privacy import Noise, PureEvent
from veilrec.privacy.mechanisms import MixedPerturber

N = 40_000
GERAI = MixedPerturber(numeric=18, sizes=(2, 21, 3), epsilon=20.0)


def table(x: float = 0.3, code: int = 1, users: int = N, perturber: MixedPerturber = GERAI):
    return np.full((users, perturber.numeric), x), np.full((users, len(perturber.sizes)), code)


def reported(out: np.ndarray, perturber: MixedPerturber = GERAI) -> np.ndarray:
    """Which numbers were reported (a report is 0 with a chance of 1e-9)."""
    return out[:, : perturber.numeric] != 0


@pytest.mark.parametrize(
    ("numeric", "sizes", "epsilon", "chosen", "single"),
    [
        (18, (2, 21, 3), 20.0, 8, 2.5),  # GERAI
        (18, (2, 21, 3), 0.5, 1, 0.5),
        (18, (2, 21, 3), 5.0, 2, 2.5),
        (18, (2, 21, 3), 100.0, 21, 100 / 21),
        (0, (2, 7, 21), 20.0, 3, 20 / 3),  # DIPSGNN on ML-1M, Tmall, Yelp
        (0, (2, 7), 20.0, 2, 10.0),
        (4, (2, 3), 20.0, 6, 20 / 6),
    ],
)
def test_the_rule_and_its_cost(numeric, sizes, epsilon, chosen, single):
    perturber = MixedPerturber(numeric, sizes, epsilon)
    assert perturber.chosen == chosen
    assert perturber.epsilon_of(1) == pytest.approx(single)
    assert perturber.epsilon_of(perturber.features) == pytest.approx(epsilon)
    for count in range(1, perturber.features + 1):
        assert perturber.epsilon_of(count) == pytest.approx(min(count, chosen) * epsilon / chosen)


def test_each_user_has_an_own_even_subset():
    out = GERAI.perturb(*table(), Noise.research(1))
    seen = reported(out)
    share = 8 / 21
    assert np.abs(seen.mean(axis=0) - share).max() < 5 * math.sqrt(share * (1 - share) / N)
    # a subset of all 21 leaves a hypergeometric number of the 18 numbers
    counts = np.bincount(seen.sum(axis=1), minlength=9)[5:9]
    expected = stats.hypergeom(21, 18, 8).pmf(np.arange(5, 9)) * N
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    # all three attributes were dropped where all eight are numbers
    assert (seen.sum(axis=1) == 8).mean() == pytest.approx(0.215, abs=4 * math.sqrt(0.215 * 0.785 / N))
    # negative control, a known defect: one subset for everybody
    broken = np.broadcast_to(seen[0], seen.shape)
    assert np.abs(broken.mean(axis=0) - share).max() > 5 * math.sqrt(share * (1 - share) / N)


def test_numbers_have_the_closed_mean_and_variance():
    out = GERAI.perturb(*table(0.3), Noise.research(2))[:, :18]
    variance = float(GERAI.variance(0.3))
    assert variance == pytest.approx(1.157, abs=5e-4)
    assert abs(out.mean() - 0.3) < 4 * math.sqrt(variance / out.size)
    assert out.var() == pytest.approx(variance, rel=0.01)
    assert (out / 2.625).var() != pytest.approx(variance, rel=0.01)  # negative control: not rescaled


def test_bits_are_left_as_they_are_or_made_unbiased():
    noise = Noise.research(3)
    bits = GERAI.perturb(*table(), noise)[:, 18:]
    assert set(np.unique(bits)) == {0.0, 1.0}
    q = 1 / (math.exp(2.5) + 1)
    for column, chance in ((0, q), (1, 0.5), (2 + 1, 0.5), (2 + 5, q)):
        share = 8 / 21 * chance
        assert abs(bits[:, column].mean() - share) < 4 * math.sqrt(share * (1 - share) / N)
    unbiased = MixedPerturber(18, (2, 21, 3), 20.0, rescale=True).perturb(*table(), noise)[:, 18:]
    truth = np.concatenate([np.arange(size) == 1 for size in (2, 21, 3)])
    assert np.abs(unbiased.mean(axis=0) - truth).max() < 5 * unbiased.std(axis=0).max() / math.sqrt(N)
    assert np.abs(bits.mean(axis=0) - truth).max() > 0.5  # negative control


def test_balanced_guess_of_a_dropped_gender():
    """A guess from the report alone is right with probability 0.581."""
    right = 0.0
    for code in (0, 1):
        bits = GERAI.perturb(*table(code=code), Noise.research(4, code))[:, 18:20]
        truth, other = bits[:, code], bits[:, 1 - code]
        right += ((truth > other) + 0.5 * (truth == other)).mean() / 2
    assert right == pytest.approx(0.581, abs=0.006)


def test_left_out_features_are_plain_zeros():
    for rescale in (False, True):
        perturber = MixedPerturber(3, (2, 2), 2.0, rescale=rescale)
        out = perturber.perturb(*table(-1.0, 0, 500, perturber), Noise.secure())
        assert not np.signbit(out[out == 0]).any()  # a negative zero would tell the sign of what was left out
        assert ((out[:, :3] != 0).sum(axis=1) <= 1).all()


@pytest.mark.parametrize("selected", [1, 2])
def test_measured_ratio_of_one_attribute_and_of_all(selected):
    perturber = MixedPerturber(0, (2, 2), 2.0, selected=selected)
    noise = Noise.research(5, selected)

    def shares(codes, twin=perturber):
        out = twin.perturb(np.empty((N * 5, 0)), np.tile(codes, (N * 5, 1)), noise)
        return np.bincount((out @ [8, 4, 2, 1]).astype(int), minlength=16)

    def loss(a, b):
        return np.log(np.maximum(a, 1) / np.maximum(b, 1))[np.minimum(a, b) > 200].max()

    base, one, both = shares([0, 0]), shares([1, 0]), shares([1, 1])
    single, joint = perturber.epsilon_of(1), perturber.epsilon_of(2)
    assert (single, joint) == (2.0 / selected, 2.0)
    assert 0.9 * single < loss(base, one) < 1.1 * single
    assert 0.85 * joint < loss(base, both) < 1.1 * joint
    # negative control: the whole budget for each reported feature
    greedy = MixedPerturber(0, (2, 2), 1.3 * 2.0, selected=selected)
    assert loss(shares([0, 0], greedy), shares([1, 0], greedy)) > 1.1 * single


def test_events():
    noise = Noise.research(6)
    perturber = MixedPerturber(1, (2, 7), 5.0, names=("mean", "gender", "age"))
    perturber.perturb(*table(users=4, perturber=perturber), noise, "profile")
    assert noise.events == [PureEvent(epsilon=5.0, neighbours="replace", label="profile")]
    assert [event.epsilon for event in noise.slices] == [2.5, 2.5, 2.5]
    assert perturber.event_of("age") == PureEvent(epsilon=2.5, neighbours="replace", label="age")
    assert perturber.event_of("gender", "age").epsilon == 5.0
    assert perturber.event_of("mean", "gender", "age").epsilon == 5.0
    assert perturber.event_of("age", "age").epsilon == 2.5
    for bad in (("height",), ()):
        with pytest.raises(ValueError, match="names must be some of mean, gender, age"):
            perturber.event_of(*bad)


def test_bad_input():
    noise = Noise.research(7)
    x, c = table(users=3)
    for numbers, codes in ((x[:2], c), (x[:, :3], c), (x, c[:, :2]), (x[0], c[0])):
        with pytest.raises(ValueError, match="tables of 18 numbers and 3 codes for the same users"):
            GERAI.perturb(numbers, codes, noise)
    with pytest.raises(ValueError, match="numbers from -1 to 1, got 2"):
        GERAI.perturb(x + 1.7, c, noise)
    with pytest.raises(ValueError, match="codes must be"):
        GERAI.perturb(x, c + 1, noise)
    assert noise.events == noise.slices == []
    with pytest.warns(DataWarning, match="54 of 54"):
        MixedPerturber(18, (2, 21, 3), 20.0, outside="clamp").perturb(x + 1.7, c, noise)
    assert GERAI.perturb(*table(users=0), noise).shape == (0, 44)
    numbers_only = MixedPerturber(2, (), 1.0)
    assert numbers_only.perturb(np.zeros((5, 2)), np.zeros((5, 0), int), noise).shape == (5, 2)
    for arguments, words in (
        ({"numeric": -1}, "numeric must be"),
        ({"sizes": (1,)}, "sizes must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"numeric": 0, "sizes": ()}, "features must be"),
        ({"selected": 3}, "selected must be at most 2"),
        ({"selected": 0}, "selected must be"),
        ({"names": ("a", "a")}, "names must be 2 different names"),
        ({"outside": "clip"}, "outside must be"),
    ):
        with pytest.raises(ValueError, match=words):
            MixedPerturber(**{"numeric": 1, "sizes": (2,), "epsilon": 1.0, **arguments})
