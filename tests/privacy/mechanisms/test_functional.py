"""The functional mechanism: published numbers, true sensitivity, noise, and a usable minimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from veilrec.core import stream
from veilrec.privacy import Noise, PureEvent, UnboundedEvent, epsilon_of
from veilrec.privacy.mechanisms import FunctionalMechanism, PaperFunctional
from veilrec.privacy.mechanisms.functional import PairLoss, packed, unpacked

GERAI = PaperFunctional(epsilon=0.4, dimension=60, records=80_000, batch=64)

# -- the sound form ---------------------------------------------------------------------------------------


def test_the_numbers_of_the_specification() -> None:
    assert FunctionalMechanism.sensitivity == pytest.approx(0.5154, abs=5e-5)
    for epsilon, sigma in ((0.4, 4.45), (1.0, 1.92), (2.0, 1.03)):
        mechanism = FunctionalMechanism.for_budget(epsilon, 1e-5)
        assert mechanism.sigma == pytest.approx(sigma, abs=0.006)
        assert epsilon_of([mechanism.event], 1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_the_coefficients_are_those_of_the_loss() -> None:
    """log 2 - h.q / 2 + (h.q)^2 / 8 is the Taylor form of log(1 + exp(-h.q)), averaged by user."""
    rng = stream(1, "coefficients")
    q, user = rng.uniform(-0.4, 0.4, (9, 4)), np.array([0, 0, 0, 0, 1, 1, 7, 7, 7])
    h = 0.1 * rng.normal(size=4)
    flat = FunctionalMechanism(1.0).coefficients(q, user)
    value = 3 * math.log(2) - flat[:4] @ h + h @ unpacked(flat[4:], 4) @ h
    exact = sum(np.log1p(np.exp(-(q[user == one] @ h))).mean() for one in (0, 1, 7))
    assert value == pytest.approx(exact, abs=1e-5)


def test_packing_keeps_the_norm() -> None:
    matrix = stream(1, "matrix").normal(size=(5, 5))
    matrix = matrix + matrix.T
    assert np.linalg.norm(packed(matrix)) == pytest.approx(np.linalg.norm(matrix))
    assert np.allclose(unpacked(packed(matrix), 5), matrix)


def _distance(user_pairs: NDArray[np.float64], others: NDArray[np.float64], clip: bool = True) -> float:
    """How far one user more moves the coefficients."""
    mechanism, n = FunctionalMechanism(1.0), len(others)
    owner = np.arange(n) // 3
    more = np.concatenate([others, user_pairs])
    if not clip:  # the broken twin
        q = user_pairs
        return float(np.linalg.norm(np.concatenate([q.mean(0) / 2, packed(q.T @ q / len(q) / 8)])))
    with_user = mechanism.coefficients(more, np.concatenate([owner, np.full(len(user_pairs), 10**6)]))
    return float(np.linalg.norm(with_user - mechanism.coefficients(others, owner)))


def test_no_user_exceeds_the_sensitivity_and_one_reaches_it() -> None:
    rng, bound = stream(2, "fuzz"), FunctionalMechanism.sensitivity
    found, unclipped = [], []
    for trial in range(150):
        others = rng.normal(size=(rng.integers(0, 9), 5))
        mine = rng.normal(size=(rng.integers(1, 6), 5)) * rng.choice([0.01, 1.0, 1e6])
        if trial % 3 == 0:
            mine = np.repeat(mine[:1], 4, axis=0) * 100  # all pairs the same, far outside
        found.append(_distance(mine, others))
        unclipped.append(_distance(mine, others, clip=False))
    assert max(found) <= bound * (1 + 1e-9)
    assert max(found) > 0.99 * bound
    assert max(unclipped) > bound  # the negative control


def _variance_fits(x: NDArray[np.float64], sigma: float) -> bool:
    tail = stats.chi2.cdf(float((x**2).sum()) / sigma**2, x.size)
    return bool(5e-7 < tail < 1 - 5e-7)


@pytest.mark.parametrize("noise", [Noise.research(4), Noise.secure()], ids=["research", "secure"])
def test_noise_has_sigma_on_every_stored_coefficient(noise: Noise) -> None:
    mechanism = FunctionalMechanism.for_budget(1.0, 1e-5)
    loss = mechanism.release(np.zeros((3, 60)), [0, 0, 1], noise)
    stored = np.concatenate([loss.linear, packed(loss.quadratic)])
    assert len(stored) == 60 + 60 * 61 // 2
    assert _variance_fits(stored, mechanism.sigma)
    assert _variance_fits(np.triu(loss.quadratic, 1)[np.triu_indices(60, 1)], mechanism.sigma / math.sqrt(2))
    assert not _variance_fits(stored / 2, mechanism.sigma)
    assert [event.label for event in noise.events] == ["functional: covers h only"]
    noise.events.clear()


def test_the_ridge_makes_the_noise_harmless() -> None:
    noise = Noise.research(5)
    for _ in range(10):
        loss = FunctionalMechanism(1.0).release(np.zeros((1, 40)), [0], noise)
        lowest = np.linalg.eigvalsh(loss.quadratic)[0]
        assert -loss.least_ridge < lowest < -0.5 * loss.least_ridge  # about - sigma sqrt(2 d)


def test_solve_minimises_the_noisy_loss() -> None:
    loss = FunctionalMechanism(0.1).release(stream(3, "q").normal(size=(50, 3)), range(50), Noise.research(1))
    ridge = 2 * loss.least_ridge

    def objective(h: NDArray[np.float64]) -> float:
        return float(-loss.linear @ h + h @ loss.quadratic @ h + ridge * h @ h)

    best = optimize.minimize(objective, np.zeros(3), tol=1e-10).x
    assert np.allclose(loss.solve(ridge), best, atol=1e-5)
    with pytest.raises(ValueError, match="ridge must be at least"):
        loss.solve(0.9 * loss.least_ridge)
    hopeless = PairLoss(np.ones(2), np.diag([-100.0, 1.0]), sigma=1.0)
    assert np.isfinite(hopeless.solve()).all()


def test_the_signal_survives_at_a_user_level_epsilon_of_2() -> None:
    """943 users with 20 pairs each, preferences along a planted direction: it is found."""
    rng = stream(6, "planted")
    planted = rng.normal(size=16) / 4
    q = rng.normal(size=(943 * 20, 16)) / 8
    q *= np.sign(q @ planted)[:, None]
    user = np.repeat(np.arange(943), 20)
    loss = FunctionalMechanism.for_budget(2.0, 1e-5).release(q, user, Noise.research(7))

    def likeness(ridge: float) -> float:
        h = loss.solve(ridge)
        return float(h @ planted / np.linalg.norm(h) / np.linalg.norm(planted))

    assert likeness(loss.least_ridge) > 0.8
    assert likeness(5 * loss.least_ridge) > 0.95


# -- the form of the paper --------------------------------------------------------------------------------


def test_the_scales_that_the_paper_prints() -> None:
    printed = {20: 0.00375, 40: 0.01375, 60: 0.03, 80: 0.05, 100: 0.08}
    for dimension, scale in printed.items():
        found = PaperFunctional(0.4, dimension, 80_000, 64).scale
        # the last two are rounded in the paper
        assert found == pytest.approx(scale, abs=0.0026 if dimension >= 80 else 1e-9)


def test_what_it_really_proves() -> None:
    assert GERAI.sensitivity == 960
    assert GERAI.event == PureEvent(epsilon=500.0, neighbours="replace")
    assert GERAI.event.epsilon == pytest.approx(GERAI.sensitivity / GERAI.batch / GERAI.scale)
    whole = PaperFunctional(0.4, 60, 80_000, 80_000)
    assert whole.event.epsilon == pytest.approx(0.4)
    reused = PaperFunctional(0.4, 60, 80_000, 64, drawn="once")
    assert isinstance(reused.event, UnboundedEvent)
    assert epsilon_of([reused.event], 1e-5, "replace") == math.inf


def test_a_pass_is_recorded_once() -> None:
    noise = Noise.research(1)
    zeros = np.zeros(60), np.zeros((60, 60))
    with pytest.raises(ValueError, match="same_pass must be False"):
        GERAI.perturb(*zeros, noise, same_pass=True)
    for _ in range(3):  # passes
        GERAI.perturb(*zeros, noise)
        for _ in range(4):
            GERAI.perturb(*zeros, noise, same_pass=True)
    assert epsilon_of(noise.events, 0.0, "replace") == 1500
    assert "h only" in noise.events[0].label


def test_no_replaced_pair_exceeds_the_published_sensitivity() -> None:
    mechanism = PaperFunctional(1.0, 6, 100, 1)
    rng, worst = stream(8, "pairs"), 0.0
    for trial in range(300):
        a, b = rng.uniform(-1.5, 1.5, (2, 1, 6))
        if trial == 0:
            a, b = np.ones((1, 6)), -np.ones((1, 6))
        (a1, a2), (b1, b2) = mechanism.coefficients(a), mechanism.coefficients(b)
        # unordered monomials: the matrix holds each off-diagonal coefficient in two halves
        worst = max(worst, float(np.abs(a1 - b1).sum() + np.abs(a2 - b2).sum()))
    assert worst <= mechanism.sensitivity
    single = np.abs(np.concatenate([part.ravel() for part in mechanism.coefficients(np.ones((1, 6)))])).sum()
    assert single == pytest.approx(mechanism.sensitivity / 2)  # of one pair it is reached exactly


def _laplace_fits(x: NDArray[np.float64], scale: float) -> bool:
    return bool(stats.kstest(x, stats.laplace(scale=scale).cdf).pvalue > 1e-6)


@pytest.mark.parametrize("noise", [Noise.research(9), Noise.secure()], ids=["research", "secure"])
def test_off_diagonal_noise_is_halved_in_the_matrix(noise: Noise) -> None:
    linear, quadratic = GERAI.perturb(np.zeros(60), np.zeros((60, 60)), noise)
    off = quadratic[np.triu_indices(60, 1)]
    assert _laplace_fits(np.concatenate([linear, np.diag(quadratic)]), 0.03)
    assert _laplace_fits(off, 0.015)
    assert not _laplace_fits(off, 0.03)
    assert np.array_equal(quadratic, quadratic.T)


def test_noise_drawn_once_leaves_the_objective_unbounded() -> None:
    noise = Noise.research(10)
    drawn = [GERAI.perturb(np.zeros(60), np.zeros((60, 60)), noise)[1] for _ in range(20)]
    lowest = np.mean([np.linalg.eigvalsh(matrix)[0] for matrix in drawn])
    assert lowest == pytest.approx(-0.33, abs=0.015)
    assert lowest < -0.01  # the regulariser of the paper


def test_bad_input() -> None:
    noise = Noise.research(1)
    with pytest.raises(ValueError, match="noise_multiplier must be"):
        FunctionalMechanism(0.0)
    with pytest.raises(ValueError, match="finite numbers"):
        FunctionalMechanism(1.0).release([[math.nan]], [0], noise)
    with pytest.raises(ValueError, match="user must be 2 whole numbers"):
        FunctionalMechanism(1.0).release([[1.0], [2.0]], [0], noise)
    with pytest.raises(ValueError, match="differences must be rows of vectors"):
        FunctionalMechanism(1.0).release([1.0], [0], noise)
    with pytest.raises(ValueError, match="batch must be at most 10"):
        PaperFunctional(0.4, 2, 10, 11)
    with pytest.raises(ValueError, match="drawn must be one of step, once"):
        PaperFunctional(0.4, 2, 10, 5, drawn="never")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="quadratic must be a symmetric matrix"):
        PaperFunctional(0.4, 2, 10, 5).perturb([0, 0], [[0, 1], [0, 0]], noise)
    with pytest.raises(ValueError, match="differences must be at most 5 rows"):
        PaperFunctional(0.4, 2, 10, 5).coefficients(np.zeros((6, 2)))
    assert noise.events == []
    assert FunctionalMechanism(1.0).coefficients(np.zeros((0, 3)), []).tolist() == [0.0] * 9
