"""Every mechanism on trial: two neighbouring inputs, the attacker's best score, and the claim it must keep.

Threat model. The attacker knows the mechanism, its budget and both inputs, sees one release, and wants to
know which of the two it came from. It does not see the randomness. Nobody in practice knows as much, so a
mechanism that holds here holds against anybody who looks at this release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check_choice, check_count
from veilrec.privacy import Event, GaussianEvent, Neighbours, Noise, epsilon_of
from veilrec.privacy import mechanisms as m

Floats = NDArray[np.float64]
Scores = Callable[[int, int, Noise], Floats]
DELTA = 1e-5


@dataclass(frozen=True)
class Trial:
    """A mechanism at a budget: ``scores(world, runs, noise)`` are the attacker's for world 0 or 1.

    ``method`` is how scores become a bound: ``threshold`` (Clopper-Pearson at ``delta``), or ``gaussian``
    for noise that claims to be Gaussian. ``tight``: the attacker is the best there is, so the bound should
    come close to the claim. ``runs``: as many as take about a second in each world.

    >>> trial = TRIALS["laplace"](1.0)
    >>> trial.epsilon, trial.scores(0, 3, Noise.research(1)).shape
    (1.0, (3,))
    """

    name: str
    events: tuple[Event, ...]
    scores: Scores
    neighbours: Neighbours = "add-remove"
    delta: float = 0.0
    method: Literal["threshold", "gaussian"] = "threshold"
    tight: bool = True
    runs: int = 40_000

    @property
    def epsilon(self) -> float:
        """What the mechanism claims, composed from its events."""
        return epsilon_of(self.events, self.delta, self.neighbours)

    @property
    def mu(self) -> float:
        """The same as a distance of two normals, for Gaussian noise."""
        parts = [event for event in self.events if isinstance(event, GaussianEvent)]
        return math.sqrt(sum(event.count / event.noise_multiplier**2 for event in parts))


def trial(name: str, epsilon: float | None = None) -> Trial:
    """The trial of the mechanism ``name`` at a budget, by default one at which its runs show something.

    >>> trial("laplce", 1.0)
    Traceback (most recent call last):
        ...
    ValueError: mechanism must be one of ..., got 'laplce'. Did you mean 'laplace'?
    """
    check_choice("mechanism", name, TRIALS)
    return TRIALS[name](SHOWN_AT.get(name, 1.0) if epsilon is None else epsilon)


# -- one number, one bit, one category ---------------------------------------------------------------------


def _laplace(epsilon: float) -> Trial:
    mechanism = m.Laplace.for_budget(epsilon)
    return Trial(
        "laplace", (mechanism.event,), lambda w, n, noise: mechanism.release(np.full(n, float(w)), noise)
    )


def _gaussian(epsilon: float) -> Trial:
    mechanism = m.Gaussian.for_budget(epsilon, DELTA)
    return _normal(
        "gaussian", mechanism.event, lambda w, n, noise: mechanism.release(np.full(n, float(w)), noise)
    )


def _piecewise(epsilon: float) -> Trial:
    mechanism = m.Piecewise(epsilon)
    return _local("piecewise", mechanism.event, lambda w, n, s: mechanism.perturb(np.full(n, 2.0 * w - 1), s))


def _bit(epsilon: float) -> Trial:
    mechanism = m.BitResponse(epsilon)
    return _local(
        "bit-response", mechanism.event, lambda w, n, s: mechanism.perturb(np.full(n, w), s).astype(float)
    )


def _category(epsilon: float) -> Trial:
    mechanism = m.CategoryResponse(epsilon, 5)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        told = mechanism.perturb(np.full(runs, world), noise)
        return np.asarray((told == 1).astype(float) - (told == 0))

    return _local("category-response", mechanism.event, scores)


def _unary(epsilon: float) -> Trial:
    mechanism = m.UnaryEncoding(epsilon, 3)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        bits = mechanism.perturb(np.full(runs, world), noise).astype(float)
        return np.asarray(bits[:, 1] - bits[:, 0])

    return _local("unary", mechanism.event, scores)


def _mixed(epsilon: float) -> Trial:
    """One category out of two features, one of which is reported: the claim is that of one feature."""
    mechanism = m.MixedPerturber(numeric=1, sizes=(2,), epsilon=epsilon, selected=1)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        told = mechanism.perturb(np.zeros((runs, 1)), np.full((runs, 1), world), noise)
        return np.asarray(told[:, 2] - told[:, 1])

    return _local("mixed", mechanism.event, scores, runs=80_000)


# -- shares and whole numbers ------------------------------------------------------------------------------


def _shares(name: str, make: Callable[[float], Any], seen: str) -> Callable[[float], Trial]:
    def build(epsilon: float) -> Trial:
        mechanism = make(epsilon)

        def scores(world: int, runs: int, noise: Noise) -> Floats:
            given = np.zeros((mechanism.parties, runs))
            given[0] = world
            return np.asarray(mechanism.release(given, noise))

        return Trial(name, (mechanism.event,), scores, runs=20_000)

    build.__doc__ = seen
    return build


def _discrete_laplace(epsilon: float) -> Trial:
    mechanism = m.DiscreteLaplace.for_budget(epsilon)
    return Trial(
        "discrete-laplace",
        (mechanism.event,),
        lambda w, n, noise: mechanism.release(np.full(n, w), noise).astype(float),
    )


def _discrete_gaussian(epsilon: float) -> Trial:
    mechanism = m.DiscreteGaussian.for_budget(epsilon, DELTA, sensitivity=100)
    return _normal(
        "discrete-gaussian",
        mechanism.event,
        lambda w, n, noise: mechanism.release(np.full(n, 100 * w), noise).astype(float),
    )


def _skellam(epsilon: float) -> Trial:
    """A lattice of 1,000 steps: nearly Gaussian, but claimed through a Renyi bound that is not tight."""
    mechanism = m.Skellam.for_budget(epsilon, DELTA, 1000.0, 1000.0)
    return Trial(
        "skellam",
        (mechanism.event,),
        lambda w, n, noise: mechanism.release(np.full(n, 1000 * w), noise).astype(float),
        delta=DELTA,
        tight=False,
    )


# -- objectives and aggregates -----------------------------------------------------------------------------


def _functional(epsilon: float) -> Trial:
    """A user whose one pair is as long as it may be, added to nobody; the score looks along that pair."""
    mechanism = m.FunctionalMechanism.for_budget(epsilon, DELTA)
    pair = np.array([[1.0, 0.0]])
    full = mechanism.coefficients(pair, [0])

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        rows = pair[:world]
        out = np.empty(runs)
        for run in range(runs):
            loss = mechanism.release(rows.reshape(-1, 2), np.zeros(len(rows), int), noise)
            out[run] = loss.linear @ full[:2] + loss.quadratic[0, 0] * full[2]
        return out

    return _normal("functional", mechanism.event, scores, runs=3_000)


def _objective(epsilon: float) -> Trial:
    """One record pulls a one-dimensional minimiser as hard as it may."""
    mechanism = m.ObjectivePerturbation(epsilon, regularisation=1.0, lipschitz=1.0, smoothness=0.0)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        def losses(f: Floats) -> tuple[float, Floats]:
            return float(-world * f[0]), np.array([-float(world)])

        def solver(objective: Any, start: Floats) -> Floats:
            return np.asarray(start - objective(start)[1])  # a quadratic of curvature 1: one step

        return np.array([mechanism.release(losses, 1, noise, solver=solver)[0] for _ in range(runs)])

    return Trial("objective", (mechanism.event,), scores, runs=4_000)


def _aggregation(epsilon: float) -> Trial:
    """Every row of the graph is a run: with its one edge or without."""
    from scipy.sparse import csr_array

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        to_first = (np.full(runs, world), (np.arange(runs), np.zeros(runs, np.int64)))
        graph = csr_array(to_first, shape=(runs, runs))
        return np.asarray(mechanism().release(graph, np.ones((runs, 1)), noise)).ravel()

    def mechanism() -> m.AggregationPerturbation:
        return m.AggregationPerturbation(m.Gaussian.for_budget(epsilon, DELTA).noise_multiplier)

    return _normal("aggregation", mechanism().event, scores)


# -- graphs: every row is another user, with or without an edge to item 0 ------------------------------------


def _rows(world: int, runs: int, items: int = 6, degree: int = 2) -> Any:
    from scipy.sparse import csr_array

    dense = np.zeros((runs, items))
    dense[:, 1 : 1 + degree] = 1
    dense[:, 0] = world
    return csr_array(dense)


def _reported(graph: Any) -> Floats:
    return np.asarray(graph[:, [0]].toarray()).ravel().astype(float)


def _encoder(
    name: str, make: Callable[[float], Any], tight: bool, runs: int = 40_000
) -> Callable[[float], Trial]:
    def build(epsilon: float) -> Trial:
        mechanism = make(epsilon)
        events = getattr(mechanism, "events", None) or (mechanism.event,)

        def scores(world: int, runs: int, noise: Noise) -> Floats:
            return _reported(mechanism.perturb(_rows(world, runs), noise))

        return Trial(name, tuple(events), scores, tight=tight, runs=runs)

    return build


def _lapgraph(epsilon: float) -> Trial:
    """A whole graph for each run, large enough for its noisy number of edges to mean something."""
    mechanism = m.LapGraph(epsilon)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        graph = _rows(world, 1, 400, 100)
        return np.array([_reported(mechanism.perturb(graph, noise))[0] for _ in range(runs)])

    return Trial("lapgraph", mechanism.events, scores, tight=False, runs=2_000)


def _adjacency(epsilon: float) -> Trial:
    mechanism = m.GaussianAdjacency.for_budget(epsilon, DELTA)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        return np.asarray(mechanism.release(_rows(world, runs, 1, 0), noise)).ravel()

    return _normal("gaussian-adjacency", mechanism.event, scores)


def _normal(name: str, event: Event, scores: Scores, runs: int = 100_000) -> Trial:
    return Trial(name, (event,), scores, delta=DELTA, method="gaussian", runs=runs)


def _local(name: str, event: Event, scores: Scores, runs: int = 40_000) -> Trial:
    def as_floats(world: int, count: int, noise: Noise) -> Floats:
        check_count("runs", count)
        return np.asarray(scores(world, count, noise), np.float64)

    return Trial(name, (event,), as_floats, neighbours="replace", runs=runs)


# Few runs show more at a larger budget.
SHOWN_AT = {"functional": 8.0, "lapgraph": 4.0, "objective": 2.0, "skellam": 4.0, "top-degree": 4.0}

TRIALS: dict[str, Callable[[float], Trial]] = {
    "laplace": _laplace,
    "gaussian": _gaussian,
    "piecewise": _piecewise,
    "unary": _unary,
    "bit-response": _bit,
    "category-response": _category,
    "mixed": _mixed,
    "exponential-normal-shares": _shares(
        "exponential-normal-shares",
        lambda e: m.ExponentialNormalShares(1 / e, 3),
        "The sum is all that is seen.",
    ),
    "gamma-shares": _shares(
        "gamma-shares", lambda e: m.GammaShares(1 / e, 3), "The sum is all that is seen."
    ),
    "discrete-laplace": _discrete_laplace,
    "discrete-gaussian": _discrete_gaussian,
    "skellam": _skellam,
    "functional": _functional,
    "objective": _objective,
    "aggregation": _aggregation,
    "edge-response": _encoder("edge-response", m.EdgeResponse, tight=True),
    "edge-rand": _encoder("edge-rand", m.EdgeRand.for_budget, tight=True),
    "top-degree": _encoder("top-degree", m.TopDegreeEncoder, tight=False, runs=4_000),
    "degree-preserving": _encoder("degree-preserving", m.DegreePreserving, tight=False),
    "lapgraph": _lapgraph,
    "gaussian-adjacency": _adjacency,
}
