"""Objective perturbation: the exact minimiser of a convex objective with a random linear term.

Released is the f that minimises sum of losses(f) + (lambda / 2) |f|^2 + b.f, with b of density proportional
to exp(-gamma |b|).

Guarantee. Pure epsilon = r gamma L + log(1 + beta / lambda), r = 1 for a record added or removed, r = 2 for
one replaced. L bounds the gradient norm of one record's loss at every f, beta the one non-zero eigenvalue
of its Hessian (losses of f.x, as in logistic or ridge regression, have rank one); losses are convex and
twice differentiable. Proof: f and b determine each other, b = -(gradient at f). For the same f the two b
differ by at most r L, a density factor exp(r gamma L); the Jacobians are det(H + E) and det(H), or det(H +
E) and det(H + E'), with H >= lambda I: a factor of at most 1 + beta / lambda. For one record replaced only
the *difference* of two gradients, at most 2 L, matters, and where the Hessian does not depend on the secret
beta is 0: the loss (rating - u.f)^2 of which the rating alone is secret has L = range x |u|, which is the
step of Hua, Xia and Zhong, "Differentially private matrix factorization", IJCAI 2015. Reference: Chaudhuri,
Monteleoni and Sarwate, "Differentially private empirical risk minimization", JMLR 2011, algorithm 2, whose
bound for one record replaced has 2 log(1 + beta / lambda).

There is no Gaussian form. Kifer, Smith and Thakurta (COLT 2012) prove it for one pair (epsilon, delta),
which an event would have to state as typed; the gradient depends on b, so it is no Gaussian event either.

The proof is of the *exact* minimiser in exact arithmetic. The solver must reach a gradient norm of 1e-5 /
gamma, worth 1e-5 of epsilon if it were a shift of b, or nothing is released; the result is rounded to a
grid ten times as wide as the error that leaves. A solver's last digits are simulation grade even with
secure noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_choice, check_count, check_non_negative, check_positive
from veilrec.privacy.events import RELATIONS, Neighbours, PureEvent
from veilrec.privacy.noise import Noise

Floats = NDArray[np.float64]
Objective = Callable[[Floats], tuple[float, Floats]]
Solver = Callable[[Objective, Floats], Floats]


@dataclass(frozen=True)
class ObjectivePerturbation:
    """One minimiser for ``epsilon``; ``lipschitz`` is L, ``smoothness`` beta, ``regularisation`` lambda.

    >>> mechanism = ObjectivePerturbation(1.0, regularisation=5.0, lipschitz=1.0, smoothness=0.25)
    >>> x, y = np.array([[0.6, 0.8], [-1.0, 0.0]]), np.array([1.0, -1.0])
    >>> def losses(f):   # logistic, with |x| <= 1: L = 1, beta = 1/4
    ...     margin = y * (x @ f)
    ...     return np.logaddexp(0, -margin).sum(), x.T @ (-y / (1 + np.exp(margin)))
    >>> noise = Noise.research(1)
    >>> mechanism.release(losses, 2, noise).shape, noise.events[0].epsilon
    ((2,), 1.0)
    """

    epsilon: float
    regularisation: float
    lipschitz: float = 1.0
    smoothness: float = 0.0
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_positive("regularisation", self.regularisation)
        check_positive("lipschitz", self.lipschitz)
        check_non_negative("smoothness", self.smoothness)
        check_choice("neighbours", self.neighbours, RELATIONS)
        least = least_regularisation(self.epsilon, self.smoothness)
        remedy = "The more, the more of epsilon is left for the noise."
        enough = self.regularisation > least
        check(enough, "regularisation", f"above {least:.6g}", self.regularisation, remedy)

    @property
    def rate(self) -> float:
        """gamma: the norm of the random term has mean dimension / gamma."""
        distance = self.lipschitz * (2 if self.neighbours == "replace" else 1)
        return (self.epsilon - math.log1p(self.smoothness / self.regularisation)) / distance

    @property
    def event(self) -> PureEvent:
        """One minimiser."""
        return PureEvent(epsilon=self.epsilon, neighbours=self.neighbours)

    def noise_vector(self, dimension: int, noise: Noise) -> Floats:
        """The random linear term: an even direction, and a norm that is Gamma(dimension, 1 / gamma)."""
        check_count("dimension", dimension)
        direction = noise.normals((dimension,))
        length = noise.exponentials((dimension,)).sum() / self.rate
        return np.asarray(direction * (length / np.linalg.norm(direction)))

    def release(
        self,
        losses: Objective,
        dimension: int,
        noise: Noise,
        label: str = "",
        solver: Solver | None = None,
    ) -> Floats:
        """The minimiser. ``losses(f)`` is the sum over records and its gradient, without the regulariser.

        ``solver(objective, start)`` is L-BFGS unless given. Too large a gradient at its end is an error.
        """
        term = self.noise_vector(dimension, noise)

        def objective(f: Floats) -> tuple[float, Floats]:
            value, gradient = losses(f)
            ridge = self.regularisation * f
            return float(value + f @ ridge / 2 + term @ f), np.asarray(gradient + ridge + term)

        # Even a solver that fails has looked at the data.
        noise.record(self.event.named(label), in_floats=True)
        found = (solver or lbfgs)(objective, np.zeros(dimension))
        left = float(np.linalg.norm(objective(found)[1]))
        limit = 1e-5 / self.rate
        check(left <= limit, "gradient at the minimum", f"at most {limit:.3g}", left, "Scale the losses.")
        step = 2.0 ** math.ceil(math.log2(10 * limit / self.regularisation))
        return np.asarray(np.rint(found / step) * step)


def least_regularisation(epsilon: float, smoothness: float) -> float:
    """beta / (e^epsilon - 1): with no more than this the Jacobian alone costs epsilon.

    >>> round(least_regularisation(1.0, 0.25), 4)
    0.1455
    """
    return smoothness / math.expm1(min(epsilon, 700.0))


def lbfgs(objective: Objective, start: Floats) -> Floats:
    """The minimum by scipy's L-BFGS-B, run to the limit of double precision.

    >>> lbfgs(lambda f: (float(f @ f), 2 * f), np.ones(2)).round(6).tolist()
    [0.0, 0.0]
    """
    from scipy.optimize import minimize

    options = {"maxiter": 5000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-12}
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)
