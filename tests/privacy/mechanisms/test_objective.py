"""Objective perturbation: the density of the minimiser varies by at most e^epsilon, and comes close."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from veilrec.core import stream
from veilrec.privacy import Noise
from veilrec.privacy.events import Neighbours
from veilrec.privacy.mechanisms import ObjectivePerturbation
from veilrec.privacy.mechanisms.objective import lbfgs, least_regularisation

Floats = NDArray[np.float64]


def _logistic(x: Floats, y: Floats, f: Floats) -> tuple[float, Floats, Floats]:
    """Value, gradient and Hessian of the sum of logistic losses."""
    margin = y * (x @ f)
    weight = expit(-margin)
    hessian = (x * (weight * (1 - weight))[:, None]).T @ x
    return float(np.logaddexp(0, -margin).sum()), x.T @ (-y * weight), hessian


def _log_density(mechanism: ObjectivePerturbation, rate: float, x: Floats, y: Floats, f: Floats) -> float:
    """Of the released f, up to a constant: that of b = -(gradient), times the Jacobian."""
    _, gradient, hessian = _logistic(x, y, f)
    term = gradient + mechanism.regularisation * f
    jacobian = hessian + mechanism.regularisation * np.eye(len(f))
    return -rate * float(np.linalg.norm(term)) + float(np.linalg.slogdet(jacobian)[1])


def _worst(mechanism: ObjectivePerturbation, rate: float) -> float:
    """The largest |log ratio| over random and adversarial data sets, neighbours and outputs."""
    rng, worst = stream(1, "fuzz"), 0.0
    for _ in range(400):
        n = int(rng.integers(0, 4))
        x = rng.normal(size=(n + 2, 2))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
        y = rng.choice([-1.0, 1.0], n + 2)
        f = rng.normal(size=2) * 10 ** rng.uniform(-2, 3)
        if mechanism.neighbours == "add-remove":
            pair = (slice(0, n + 1), slice(0, n))
        else:
            pair = (slice(0, n + 1), [*range(n), n + 1])
        one, two = (_log_density(mechanism, rate, x[part], y[part], f) for part in pair)
        worst = max(worst, abs(one - two))
    return worst


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("epsilon", "regularisation"), [(1.0, 0.2), (3.0, 0.02), (0.5, 5.0)])
def test_the_ratio_of_densities_is_within_epsilon(
    neighbours: Neighbours, epsilon: float, regularisation: float
) -> None:
    mechanism = ObjectivePerturbation(epsilon, regularisation, 1.0, 0.25, neighbours)
    assert _worst(mechanism, mechanism.rate) <= epsilon * (1 + 1e-9)
    assert _worst(mechanism, 2 * epsilon) > epsilon  # half the noise breaks the bound


def test_a_twin_that_forgets_the_jacobian_is_caught() -> None:
    """Others saturated, with a large gradient but no curvature; the new record has both."""
    mechanism = ObjectivePerturbation(3.0, 0.02, 1.0, 0.25)
    angle = math.asin(0.1)
    x = np.array([[math.cos(angle), math.sin(angle)]] * 20 + [[1.0, 0.0]])
    y, f = np.array([-1.0] * 20 + [1.0]), np.array([0.0, 100.0])

    def loss(rate: float) -> float:
        one, two = (_log_density(mechanism, rate, x[:n], y[:n], f) for n in (21, 20))
        return one - two

    assert 2.7 < loss(mechanism.rate) <= 3.0
    assert loss(3.0) > 3.9


def test_the_bound_is_nearly_reached() -> None:
    """Weak regularisation: the Jacobian of a first record costs most of epsilon; strong: the gradient."""
    for epsilon, regularisation, share in ((3.0, 0.0132, 0.95), (1.0, 50.0, 0.95)):
        mechanism = ObjectivePerturbation(epsilon, regularisation, 1.0, 0.25)
        assert share * epsilon < _worst(mechanism, mechanism.rate) <= epsilon


def test_the_regularisation_has_a_minimum() -> None:
    least = least_regularisation(1.0, 0.25)
    assert math.log1p(0.25 / least) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"regularisation must be above 0\.14549"):
        ObjectivePerturbation(1.0, least, 1.0, 0.25)
    assert ObjectivePerturbation(1.0, 1.01 * least, 1.0, 0.25).rate > 0
    assert ObjectivePerturbation(1.0, 1e-9).rate == 1.0  # no Jacobian, no minimum
    assert ObjectivePerturbation(1.0, 1e-9, neighbours="replace").rate == 0.5


def _term_fits(mechanism: ObjectivePerturbation, rate: float, noise: Noise, count: int) -> bool:
    """Norms are Gamma(2, 1 / rate) and angles even, at level 1e-6."""
    drawn = np.array([mechanism.noise_vector(2, noise) for _ in range(count)])
    norms = stats.kstest(np.linalg.norm(drawn, axis=1), stats.gamma(2, scale=1 / rate).cdf)
    angles = stats.kstest(np.arctan2(*drawn.T) / (2 * np.pi) + 0.5, stats.uniform.cdf)
    return bool(min(norms.pvalue, angles.pvalue) > 5e-7)


@pytest.mark.parametrize("noise", [Noise.research(2), Noise.secure()], ids=["research", "secure"])
def test_the_random_term(noise: Noise) -> None:
    mechanism = ObjectivePerturbation(0.7, 1.0, lipschitz=2.0)
    count = 3000 if noise.grade == "research" else 1000
    assert _term_fits(mechanism, 0.35, noise, count)
    assert not _term_fits(
        ObjectivePerturbation(1.4, 1.0, lipschitz=2.0), 0.35, noise, count
    )  # half the noise


def _ridge_releases(epsilon: float, rating: float, count: int) -> Floats:
    """(rating - u f)^2 with u = 0.5, a secret rating from 0 to 1: L = range x |u|, closed form."""
    mechanism = ObjectivePerturbation(epsilon, 1.5, lipschitz=0.5, neighbours="replace")
    u, noise = 0.5, Noise.research(3, int(10 * rating))

    def losses(f: Floats) -> tuple[float, Floats]:
        gap = rating - u * f[0]
        return gap**2, np.array([-2 * u * gap])

    def solver(objective: object, start: Floats) -> Floats:
        gradient = objective(start)[1]  # type: ignore[operator]
        return start - gradient / (2 * u**2 + 1.5)

    return np.array([mechanism.release(losses, 1, noise, solver=solver)[0] for _ in range(count)])


def test_a_secret_rating_shifts_the_output_by_exactly_epsilon() -> None:
    """The output is Laplace around 2 u r / (2 u^2 + lambda) = r / 2 with scale 1 / (2 epsilon): tight."""
    for rating in (0.0, 1.0):
        out = _ridge_releases(1.0, rating, 800)
        assert stats.kstest(out, stats.laplace(rating / 2, 1 / 2).cdf).pvalue > 1e-6
        assert (
            stats.kstest(_ridge_releases(2.0, rating, 800), stats.laplace(rating / 2, 1 / 2).cdf).pvalue
            < 1e-6
        )


def test_release_is_the_minimiser_and_records_its_event() -> None:
    rng = stream(4, "data")
    x = rng.normal(size=(200, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(x @ np.array([1.0, -1.0, 0.5, 0.0, 0.0]))
    mechanism = ObjectivePerturbation(2.0, 1.0, 1.0, 0.25)
    noise = Noise.research(5)
    f = mechanism.release(lambda f: _logistic(x, y, f)[:2], 5, noise, "head")
    term = mechanism.noise_vector(5, Noise.research(5))  # the same draw
    gradient = _logistic(x, y, f)[1] + f + term
    assert np.linalg.norm(gradient) < 1e-2 * np.linalg.norm(term)  # but for the grid
    assert noise.events == [mechanism.event.named("head")]
    assert noise.in_floats  # so no statement calls it secure
    assert f @ [1.0, -1.0, 0.5, 0.0, 0.0] > 0
    step = 2.0 ** math.ceil(math.log2(1e-4 / mechanism.rate))
    assert (f / step == np.rint(f / step)).all()


def test_a_solver_that_stops_early_releases_nothing_and_still_pays() -> None:
    noise = Noise.research(6)
    mechanism = ObjectivePerturbation(1.0, 1.0)
    with pytest.raises(ValueError, match="gradient at the minimum must be at most"):
        mechanism.release(lambda f: (0.0, 0 * f), 3, noise, solver=lambda objective, start: start)
    assert len(noise.events) == 1


def test_lbfgs_reaches_the_limit_on_a_large_problem() -> None:
    x = stream(7, "big").normal(size=(600, 20)) / math.sqrt(20)
    y = np.sign(x[:, 0])
    found = lbfgs(lambda f: (lambda v, g, _: (v + f @ f / 2, g + f))(*_logistic(x, y, f)), np.zeros(20))
    assert np.linalg.norm(_logistic(x, y, found)[1] + found) < 1e-5


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="epsilon must be"):
        ObjectivePerturbation(0.0, 1.0)
    with pytest.raises(ValueError, match="lipschitz must be"):
        ObjectivePerturbation(1.0, 1.0, lipschitz=math.inf)
    with pytest.raises(ValueError, match="smoothness must be"):
        ObjectivePerturbation(1.0, 1.0, smoothness=math.nan)
    with pytest.raises(ValueError, match="neighbours must be one of"):
        ObjectivePerturbation(1.0, 1.0, neighbours="swap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dimension must be"):
        ObjectivePerturbation(1.0, 1.0).noise_vector(0, Noise.research(1))
