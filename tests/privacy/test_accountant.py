"""The accountant against exact curves, the table of multipliers, and the traps it must not fall in."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from veilrec.privacy import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SkellamEvent,
    UnboundedEvent,
    UnsupportedEvent,
    default_delta,
    delta_of,
    epsilon_of,
    gaussian_multiplier,
    smallest_noise,
)
from veilrec.privacy.gaussian_profile import gaussian_delta, gaussian_epsilon, gaussian_mu
from veilrec.privacy.renyi import renyi_epsilon, renyi_of, sampled_renyi

DELTA = 1e-5
# (sampling rate, steps): multipliers for epsilon 1, 2, 4, 8 at delta 1e-5.
TABLE = {
    (0.5, 50): (13.3, 7.19, 3.97, 2.28),
    (0.1, 300): (6.59, 3.61, 2.07, 1.29),
    (0.1, 100): (3.94, 2.25, 1.39, 0.94),
    (0.1, 200): (5.43, 3.01, 1.76, 1.13),
    (256 / 6040, 470): (3.58, 2.03, 1.26, 0.88),
    (1.0, 50): (26.4, 14.1, 7.64, 4.24),
    (1.0, 20): (16.7, 8.92, 4.84, 2.68),
}


def steps(z, q=1.0, count=1, **more):
    return GaussianEvent(noise_multiplier=z, sampling_rate=q, count=count, **more)


@pytest.mark.parametrize(("q", "count"), TABLE)
def test_the_table_of_multipliers(q, count) -> None:
    for target, z in zip((1, 2, 4, 8), TABLE[q, count]):
        # the printed z has three digits: its epsilon may be off by what half of the last one is worth
        low, high = (epsilon_of([steps(z * f, q, count)], DELTA) for f in (1.01, 0.99))
        assert low < target < high, (target, low, high)


@pytest.mark.parametrize(
    ("q", "count", "z", "expected"),
    [(0.5, 50, 2.28, 16.9), (0.1, 300, 1.29, 14.5), (0.1, 100, 0.94, 11.6), (0.1, 200, 1.13, 13.4)],
)
def test_the_same_noise_when_a_user_is_replaced(q, count, z, expected) -> None:
    assert epsilon_of([steps(z, q, count)], DELTA, "replace") == pytest.approx(expected, rel=0.01)


class TestTraps:
    def test_replace_is_not_add_remove(self) -> None:
        """300 releases at z = 20: 3.71 and 8.39; an accountant that gives one number for both is wrong."""
        event = steps(20.0, count=300)
        assert epsilon_of([event], DELTA) == pytest.approx(3.71, abs=0.01)
        assert epsilon_of([event], DELTA, "replace") == pytest.approx(8.39, abs=0.01)
        assert epsilon_of([event], DELTA, "replace") == epsilon_of([steps(10.0, count=300)], DELTA)

    @pytest.mark.parametrize(
        ("added", "replaced"),
        [
            (PureEvent(epsilon=0.3, count=4), {"epsilon": 0.6}),
            (LaplaceEvent(noise_multiplier=3.0, count=4), {"noise_multiplier": 1.5}),
            (steps(6.0, count=4), {"noise_multiplier": 3.0}),
            (SkellamEvent(variance=900.0, l2=3.0, l1=40.0, count=4), {"l2": 6.0, "l1": 80.0}),
        ],
        ids=lambda one: getattr(one, "kind", ""),
    )
    def test_replacing_is_twice_the_distance_of_adding(self, added, replaced) -> None:
        """In every number of an event, and as if it had been stated so."""
        stated = replace(added, neighbours="replace", **replaced)
        found = epsilon_of([added], DELTA, "replace")
        assert found == pytest.approx(epsilon_of([stated], DELTA, "replace"), rel=1e-9)
        assert found > 1.5 * epsilon_of([added], DELTA)
        for name in replaced:  # each of the numbers counts
            part = replace(stated, **{name: getattr(added, name)})
            assert epsilon_of([part], DELTA, "replace") != pytest.approx(found, rel=1e-6), name

    def test_a_distance_proven_for_replacing_is_not_doubled_again(self) -> None:
        proven = steps(5.0, neighbours="replace")
        assert epsilon_of([proven], DELTA, "replace") == epsilon_of([steps(5.0)], DELTA)
        sampled = steps(5.0, 0.1, 50, neighbours="replace")
        assert epsilon_of([sampled], DELTA, "replace") == epsilon_of([steps(10.0, 0.1, 50)], DELTA, "replace")

    @pytest.mark.parametrize(
        "event", [PureEvent(epsilon=1.0, neighbours="replace"), steps(1.0, neighbours="replace")]
    )
    def test_replace_says_nothing_about_adding(self, event) -> None:
        with pytest.raises(UnsupportedEvent, match="says nothing about adding or removing"):
            epsilon_of([event], DELTA, "add-remove")

    def test_laplace_under_replace_is_added_by_hand(self) -> None:
        event = LaplaceEvent(noise_multiplier=4.0, count=3)
        assert epsilon_of([event], 0.0, "replace") == pytest.approx(1.5)
        assert epsilon_of([event, steps(10.0)], DELTA, "replace") == pytest.approx(
            1.5 + epsilon_of([steps(10.0)], DELTA, "replace")
        )

    def test_many_laplace_releases_compose_better_than_a_sum(self) -> None:
        event = LaplaceEvent(noise_multiplier=20.0, count=100)
        assert epsilon_of([event], 0.0) == pytest.approx(5.0)
        assert epsilon_of([event], DELTA) < 3.0

    def test_sampling_helps_and_its_absence_costs(self) -> None:
        assert epsilon_of([steps(1.29, 0.1, 300)], DELTA) < 8
        assert epsilon_of([steps(1.29, 1.0, 300)], DELTA) > 80

    def test_renyi_is_above_the_loss_distribution(self) -> None:
        """The cross-check: a Renyi bound is valid and looser."""
        for z, count in ((1.0, 1), (5.0, 100), (20.0, 300)):
            tight, loose = (
                epsilon_of([steps(z, count=count)], DELTA),
                renyi_epsilon([steps(z, count=count)], DELTA),
            )
            assert tight <= loose <= 1.25 * tight

    def test_the_renyi_accountant_of_the_library_agrees(self) -> None:
        import dp_accounting as dp
        from dp_accounting import rdp

        peer = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        peer.compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.29)), 300)
        assert epsilon_of([steps(1.29, 0.1, 300)], DELTA) <= peer.get_epsilon(DELTA) < 9.5


class TestGaussian:
    def test_exact_composition(self) -> None:
        """100 releases of sigma 5 at delta 1e-6: 10.9972 (dp-accounting's finest loss distribution)."""
        assert epsilon_of([steps(5.0, count=100)], 1e-6) == pytest.approx(10.9972, abs=2e-4)

    @given(st.floats(0.05, 8), st.floats(0.01, 12))
    def test_the_curve_is_the_hockey_stick_of_two_normals(self, mu, epsilon) -> None:
        grid = np.linspace(-12, 12 + mu, 200_001)
        gap = stats.norm.pdf(grid, mu) - math.exp(epsilon) * stats.norm.pdf(grid)
        assert gaussian_delta(mu, epsilon) == pytest.approx(np.trapezoid(np.maximum(gap, 0), grid), abs=2e-7)

    @given(st.floats(0.01, 20), st.floats(1e-12, 0.1))
    def test_there_and_back(self, epsilon, delta) -> None:
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)
        assert gaussian_delta(mu, epsilon) <= delta

    def test_unequal_releases_add_their_squares(self) -> None:
        together = epsilon_of([steps(3.0), steps(4.0)], DELTA)
        assert together == pytest.approx(epsilon_of([steps(2.4)], DELTA), rel=1e-9)

    def test_no_noise_to_speak_of(self) -> None:
        assert 1e5 < epsilon_of([steps(1e-3)], DELTA) < 1e6
        assert gaussian_delta(1000.0, 1.0) == 1.0


class TestSkellam:
    """Renyi divergence by summing the probabilities of one dimension."""

    @staticmethod
    def exact(mu, shift, order):
        x = np.arange(-int(40 * math.sqrt(mu)) - 40, int(40 * math.sqrt(mu)) + 41)
        p, q = (stats.skellam.logpmf(x - s, mu / 2, mu / 2) for s in (shift, 0))
        good = np.isfinite(p) & np.isfinite(q)
        terms = order * p[good] + (1 - order) * q[good]
        top = terms.max()
        return (top + math.log(np.exp(terms - top).sum())) / (order - 1)

    @pytest.mark.parametrize(("mu", "shift", "order"), list(itertools.product((50, 400), (1, 5), (2, 4, 8))))
    def test_the_bound_holds_and_is_close(self, mu, shift, order) -> None:
        bound = renyi_of(SkellamEvent(variance=mu, l2=shift, l1=shift), order)
        exact = self.exact(mu, shift, order)
        assert exact <= bound <= 1.25 * exact

    def test_much_noise_is_like_gaussian(self) -> None:
        skellam = SkellamEvent(variance=1e10, l2=2e4, l1=1e6, count=10)
        assert renyi_epsilon([skellam], DELTA) == pytest.approx(
            renyi_epsilon([steps(5.0, count=10)], DELTA), rel=0.01
        )

    @staticmethod
    def both_ways(log_p, log_q, rate, order, width=1.0):
        """The divergences between P and a mixture of P and Q, by summing probabilities."""
        mixed = np.logaddexp(math.log1p(-rate) + log_p, math.log(rate) + log_q)
        ways = ((mixed, log_p), (log_p, mixed))
        return [float(logsumexp(order * one + (1 - order) * other + math.log(width))) for one, other in ways]

    @pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
    @pytest.mark.parametrize(("mu", "shift"), [(20, 1), (50, 9), (200, 5)])
    def test_sampling_is_exact_one_way_and_no_worse_the_other(self, mu, shift, rate) -> None:
        x = np.arange(-int(30 * math.sqrt(mu)), int(30 * math.sqrt(mu)) + 1)
        log_p, log_q = (stats.skellam.logpmf(x - s, mu / 2, mu / 2) for s in (0, shift))
        good = np.isfinite(log_p) & np.isfinite(log_q)
        log_p, log_q = log_p[good], log_q[good]
        curve = [self.exact(mu, shift, j) for j in range(2, 13)]
        for order in (2, 3, 4, 8, 12):
            bound = sampled_renyi(curve[: order - 1], rate) * (order - 1)
            one, other = self.both_ways(log_p, log_q, rate, order)
            assert one == pytest.approx(bound, rel=1e-6, abs=1e-9)
            assert other <= bound + 1e-9
            assert bound <= curve[order - 2] * (order - 1)  # sampling never harms
            thin = sampled_renyi([0.9 * part for part in curve[: order - 1]], rate) * (order - 1)
            assert one > thin + 1e-9  # a curve that is too low is found out

    def test_sampling_needs_noise_that_is_symmetric(self) -> None:
        """Of other noise the other way can be the worse one: why the bound is not for any mechanism."""
        log_p, log_q = np.log([1e-6, 1 - 1e-6]), np.log([1e-9, 1 - 1e-9])
        one, other = self.both_ways(log_p, log_q, 0.9, 8)
        assert other > 2 * one > 0

    @given(st.floats(0.001, 0.999), st.floats(1.0, 1e6), st.integers(2, 64))
    def test_each_pair_of_reflected_outcomes_favours_one_way(self, rate, ratio, order) -> None:
        """The inequality of the proof, in whole fractions."""

        def h(t):
            return Fraction(t) ** order - Fraction(t) ** (1 - order)

        q, r = Fraction(rate), Fraction(ratio)
        assert h(1 - q + q * r) + r * h(1 - q + q / r) >= 0

    def test_sampling_bound_against_the_sampled_gaussian(self) -> None:
        """Neither divergence of a sampled Gaussian may be above the bound."""
        q, z = 0.05, 2.0
        grid = np.linspace(-60, 60, 400_001)
        log_p, log_q = (stats.norm.logpdf(grid, centre, z) for centre in (0, 1))
        for order in (2, 4, 8, 16):
            bound = sampled_renyi([j / (2 * z * z) for j in range(2, order + 1)], q)
            for found in self.both_ways(log_p, log_q, q, order, grid[1] - grid[0]):
                assert found / (order - 1) <= bound * (1 + 1e-7)
            assert bound < order / (2 * z * z) / 4  # and it does amplify

    def test_sampled_skellam_costs_less_and_refuses_replace(self) -> None:
        whole = SkellamEvent(variance=1e8, l2=1e4, l1=1e6, count=50)
        sampled = SkellamEvent(variance=1e8, l2=1e4, l1=1e6, count=50, sampling_rate=0.01)
        assert epsilon_of([sampled], DELTA) < epsilon_of([whole], DELTA) / 4
        with pytest.raises(UnsupportedEvent, match="no proven bound"):
            epsilon_of([sampled], DELTA, "replace")
        assert epsilon_of([whole], DELTA, "replace") > 1.7 * epsilon_of([whole], DELTA)

    def test_beside_gaussian_noise(self) -> None:
        skellam = SkellamEvent(variance=1e10, l2=2e4, l1=1e6, count=10)
        alone = epsilon_of([skellam], DELTA)
        both = epsilon_of([skellam, steps(5.0, count=10)], DELTA)
        assert alone < both < 2 * alone
        assert alone < epsilon_of([skellam, steps(5.0, 0.1, 10)], DELTA) < both

    def test_delta_is_shared_out_beside_gaussian_noise(self) -> None:
        """What has no common curve is added, each part at a share of delta: never both at the whole of it."""
        skellam = SkellamEvent(variance=1e10, l2=2e4, l1=1e6, count=10)
        for gaussian in (steps(5.0, 0.1, 100), steps(1.5, 0.02, 300)):
            together = epsilon_of([skellam, gaussian], DELTA)
            halves = [epsilon_of([event], DELTA / 2) for event in (skellam, gaussian)]
            assert together == pytest.approx(sum(halves), rel=1e-9)
            assert together > 1.01 * sum(epsilon_of([event], DELTA) for event in (skellam, gaussian))


class TestComposition:
    def test_pure_parts_are_added(self) -> None:
        parts = [PureEvent(epsilon=0.5, count=2), PureEvent(epsilon=0.25)]
        assert epsilon_of(parts, 0.0) == 1.25
        assert epsilon_of([*parts, steps(2.0)], DELTA) == pytest.approx(
            1.25 + epsilon_of([steps(2.0)], DELTA)
        )
        assert epsilon_of(parts, 0.0, "replace") == 2.5

    def test_gaussian_noise_alone_has_no_pure_epsilon(self) -> None:
        assert math.isinf(epsilon_of([steps(2.0)], 0.0))

    def test_sampled_and_whole_together(self) -> None:
        """The certified twin of a sequence model: graph z = 4 and 464 steps: 6.24, 3.26, 2.31."""
        for z, expected in ((1.0, 6.24), (1.5, 3.26), (2.0, 2.31)):
            found = epsilon_of([steps(4.0), steps(z, 256 / 5949, 464)], DELTA)
            assert found == pytest.approx(expected, rel=0.01)

    def test_an_open_end_spoils_everything(self) -> None:
        assert math.isinf(epsilon_of([steps(50.0), UnboundedEvent(reason="raw labels")], DELTA))
        assert delta_of([UnboundedEvent(reason="raw labels")], 5.0) == 1.0

    def test_unknown_events_are_refused_by_name(self) -> None:
        class Homemade(Event):
            pass

        with pytest.raises(UnsupportedEvent, match="Homemade"):
            epsilon_of([Homemade()], DELTA)
        with pytest.raises(UnsupportedEvent, match="got 'homemade'"):
            Event.from_dict({"event": "homemade"})
        with pytest.raises(ValueError, match="surplus"):
            Event.from_dict({**PureEvent(epsilon=1.0).to_dict(), "surplus": 1})

    @pytest.mark.parametrize(
        "event",
        [
            PureEvent(epsilon=0.1, count=4, neighbours="replace", label="a"),
            steps(2.0, 0.3, 7, label="b"),
            LaplaceEvent(noise_multiplier=3.0),
            SkellamEvent(variance=9.0, l2=1.0, l1=2.0, sampling_rate=0.5),
            UnboundedEvent(reason="raw"),
        ],
    )
    def test_events_as_json(self, event) -> None:
        import json

        assert Event.from_dict(json.loads(json.dumps(event.to_dict()))) == event

    def test_delta_is_the_inverse_of_epsilon(self) -> None:
        for parts in (
            [steps(2.0)],
            [steps(1.5, 0.1, 100), PureEvent(epsilon=0.5)],
            [SkellamEvent(variance=1e8, l2=1e4, l1=1e6)],
        ):
            epsilon = epsilon_of(parts, DELTA)
            assert delta_of(parts, epsilon) == pytest.approx(DELTA, rel=0.02)
        assert delta_of([PureEvent(epsilon=1.0)], 1.0) == 0
        # randomised response at epsilon 1, seen at epsilon 0: its total variation
        assert delta_of([PureEvent(epsilon=1.0)], 0.0) == pytest.approx(math.tanh(0.5))


class TestGroups:
    def test_pure_and_gaussian_grow_with_the_group(self) -> None:
        assert epsilon_of([PureEvent(epsilon=0.1)], 0.0, group=30) == pytest.approx(3.0)
        assert epsilon_of([steps(30.0)], DELTA, group=10) == epsilon_of([steps(3.0)], DELTA)

    def test_sampled_groups_cost_more_than_k_times(self) -> None:
        event = steps(4.0, 0.01, 100)
        one, ten = epsilon_of([event], DELTA), epsilon_of([event], DELTA, group=10)
        assert 10 * one < ten < math.inf
        # Each has an own coin. Ten behind the same coin would cost far more: the coin must be the unit's.
        assert ten < epsilon_of([steps(0.4, 0.01, 100)], DELTA)

    def test_sampled_groups_follow_the_general_rule(self) -> None:
        """(e, d) for one is (k e, d (e^(k e) - 1) / (e^e - 1)) for k: tried at many d, coarsely."""
        event, k = steps(50.0, 0.1, 300), 2
        found = epsilon_of([event], DELTA, group=k)
        tried = []
        for d in 10.0 ** np.arange(-12, -5, 0.25):
            e = epsilon_of([event], d)
            if d * math.expm1(k * e) / math.expm1(e) <= DELTA:
                tried.append(k * e)
        assert 0.95 * min(tried) < found <= min(tried)

    def test_there_is_no_group_of_none(self) -> None:
        with pytest.raises(ValueError, match="group must be"):
            epsilon_of([steps(1.0)], DELTA, group=0)


class TestCalibration:
    @pytest.mark.parametrize(("q", "count"), [(1.0, 1), (1.0, 50), (0.1, 300), (0.02, 1000)])
    @pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
    def test_never_overspends_and_round_trips(self, q, count, neighbours) -> None:
        for epsilon in (0.5, 3.0):
            z = gaussian_multiplier(epsilon, DELTA, count=count, sampling_rate=q, neighbours=neighbours)
            found = epsilon_of([steps(z, q, count)], DELTA, neighbours)
            assert epsilon * (1 - 1e-3) <= found <= epsilon

    def test_more_budget_less_noise(self) -> None:
        found = [gaussian_multiplier(e, DELTA, count=100, sampling_rate=0.1) for e in (0.5, 1, 2, 4, 8)]
        assert found == sorted(found, reverse=True)
        assert gaussian_multiplier(1.0, 1e-8) > gaussian_multiplier(1.0, 1e-4)

    @settings(max_examples=20)
    @given(st.floats(0.05, 20))
    def test_a_pure_search(self, epsilon) -> None:
        scale = smallest_noise(lambda b: [LaplaceEvent(noise_multiplier=b, count=7)], epsilon, 0.0)
        assert epsilon * (1 - 1e-4) <= 7 / scale <= epsilon

    def test_mixed_budgets(self) -> None:
        fixed = PureEvent(epsilon=1.0)
        z = smallest_noise(lambda x: [fixed, steps(x, count=20)], 3.0, DELTA)
        assert 3.0 * (1 - 1e-3) <= epsilon_of([fixed, steps(z, count=20)], DELTA) <= 3.0
        with pytest.raises(ValueError, match="Another part already costs more"):
            smallest_noise(lambda x: [fixed, steps(x)], 0.9, DELTA)

    def test_delta_falls_with_the_number_of_users(self) -> None:
        """Near 1 / N a mechanism may publish one of N people whole, and keep its budget."""
        found = [default_delta(users) for users in (10, 30_000, 50_000, 10**6, 10**9)]
        assert found[:2] == [1e-5, 1e-5]
        assert found == sorted(found, reverse=True)
        for users, delta in zip((50_000, 10**6, 10**9), found[2:]):
            assert delta == pytest.approx(users**-1.1)
        with pytest.raises(ValueError, match="delta must be below 1 / 1000"):
            default_delta(1000, 1e-3)

    def test_skellam_search(self) -> None:
        def events(variance):
            return [SkellamEvent(variance=variance, l2=1e3, l1=1e5, count=10)]

        variance = smallest_noise(events, 2.0, DELTA)
        assert 2.0 * (1 - 1e-3) <= epsilon_of(events(variance), DELTA) <= 2.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1"])
def test_bad_epsilon(epsilon) -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
        gaussian_multiplier(epsilon, DELTA)


@pytest.mark.parametrize("delta", [1.0, -1e-9, math.nan, math.inf])
def test_bad_delta(delta) -> None:
    with pytest.raises(ValueError, match="delta must be from 0"):
        epsilon_of([steps(1.0)], delta)


def test_gaussian_noise_needs_a_delta() -> None:
    with pytest.raises(ValueError, match="Use Laplace noise for delta 0"):
        gaussian_multiplier(1.0, 0.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: steps(0.0), "noise_multiplier"),
        (lambda: steps(math.nan), "noise_multiplier"),
        (lambda: steps(1.0, 0.0), "sampling_rate must be above 0"),
        (lambda: steps(1.0, 1.1), "sampling_rate must be above 0"),
        (lambda: steps(1.0, count=0), "count"),
        (lambda: PureEvent(epsilon=0.0), "epsilon"),
        (lambda: PureEvent(epsilon=1.0, neighbours="none"), "neighbours"),
        (lambda: LaplaceEvent(noise_multiplier=-1.0), "noise_multiplier"),
        (lambda: SkellamEvent(variance=0.0, l2=1.0, l1=1.0), "variance"),
        (lambda: UnboundedEvent(reason=""), "reason"),
    ],
)
def test_bad_events(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()
