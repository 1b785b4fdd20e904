"""Broken mechanisms that claim what the whole ones claim: an audit that does not catch them is worth nothing.

Each mutant is a mistake that has been made in published code or is easily made. ``mutant(name, epsilon)``
gives the trial of the broken mechanism with the claim of the right one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from veilrec.attacks.trials import DELTA, Floats, Trial, trial
from veilrec.core import check_choice
from veilrec.privacy import Noise
from veilrec.privacy import mechanisms as m
from veilrec.privacy.clipping import clip_rows


@dataclass(frozen=True)
class Mutant:
    """A mistake in words, and the trials of the right and of the broken mechanism at a budget.

    >>> mutant("half-noise").mistake
    'the noise is half as wide as it was calibrated'
    """

    mistake: str
    right: Callable[[float], Trial]
    broken: Callable[[float], Trial]


def mutant(name: str) -> Mutant:
    """The mutant called ``name``.

    >>> mutant("half noise")
    Traceback (most recent call last):
        ...
    ValueError: mutant must be one of ..., got 'half noise'. Did you mean 'half-noise'?
    """
    check_choice("mutant", name, MUTANTS)
    return MUTANTS[name]


def _with(base: Trial, name: str, scores: Callable[[int, int, Noise], Floats]) -> Trial:
    return replace(base, name=name, scores=scores)


def _half(epsilon: float) -> Trial:
    base, thin = trial("gaussian", epsilon), m.Gaussian.for_budget(epsilon, DELTA).noise_multiplier / 2
    return _with(base, "half-noise", lambda w, n, s: m.Gaussian(thin).release(np.full(n, float(w)), s))


def _small_steps(epsilon: float, squared: bool) -> Trial:
    """A sum with sensitivity 1/100, so that sigma is below 1 and its square far below it."""
    right = m.Gaussian.for_budget(epsilon, DELTA, sensitivity=0.01)
    sigma = right.sigma**2 if squared else right.sigma

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        return m.Gaussian(sigma / 0.01, 0.01).release(np.full(runs, 0.01 * world), noise)

    return _with(trial("gaussian", epsilon), "variance-for-sigma" if squared else "gaussian", scores)


def _clipped(epsilon: float, skip: bool) -> Trial:
    """A user whose vector is five times as long as the clip."""
    right = m.Gaussian.for_budget(epsilon, DELTA)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        given = np.full((runs, 1), 5.0 * world)
        return right.release((given if skip else clip_rows(given, 1.0)).ravel(), noise)

    return _with(trial("gaussian", epsilon), "skipped-clip" if skip else "gaussian", scores)


def _cached(epsilon: float, fresh: bool, epochs: int = 16) -> Trial:
    """A noisy aggregate read in every epoch; the attacker takes the mean of what was read."""
    right = m.Gaussian.for_budget(epsilon, DELTA)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        drawn = [right.release(np.full(runs, float(world)), noise) for _ in range(epochs if fresh else 1)]
        return np.asarray(np.mean(drawn, axis=0))

    return _with(trial("gaussian", epsilon), "resampled-cache" if fresh else "gaussian", scores)


def _batch(epsilon: float, realised: bool, others: int = 9) -> Trial:
    """Nine users pull one way, the target the other; divided by a fixed number or by how many there are."""
    right = m.Gaussian.for_budget(epsilon, DELTA)
    fixed = others + 1

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        total = np.full(runs, float(others - world))
        mean = total / (others + world if realised else fixed)
        return -m.Gaussian(right.noise_multiplier, 1 / fixed).release(mean, noise)

    return _with(trial("gaussian", epsilon), "realised-batch" if realised else "gaussian", scores)


def _floats(epsilon: float, textbook: bool) -> Trial:
    """Whether the output is a float that the textbook formula reaches from 0: the attack on the last bits."""
    right = m.Laplace.for_budget(epsilon)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        if textbook:
            u = np.maximum(noise.uniforms((runs,)), 2.0**-53)
            out = world + np.where(noise.coins(0.5, (runs,)), 1.0, -1.0) * (right.scale * np.log(u))
        else:
            # each run is a release of its own
            out = noise.add_laplace(np.full(runs, float(world)), right.scale, 1.0, coordinates=1)
        return 1.0 - _reachable(out, right.scale)

    return _with(trial("laplace", epsilon), "float-noise" if textbook else "laplace", scores)


def _reachable(outputs: Floats, scale: float) -> Floats:
    found = np.zeros(len(outputs), bool)
    for sign in (-1.0, 1.0):
        with np.errstate(all="ignore"):
            guess = np.rint(np.exp(sign * outputs / scale) * 2.0**53)
            for near in range(-6, 7):
                u = np.clip(guess + near, 1, 2.0**53 - 1) * 2.0**-53
                found |= sign * (scale * np.log(u)) == outputs
    return found.astype(float)


def _path(epsilon: float, bare: bool) -> Trial:
    """A second thing computed from the same data leaves without noise: a weight moved by 1/1,000."""
    right = m.Gaussian.for_budget(epsilon, DELTA)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        noisy = right.release(np.full(runs, float(world)), noise)
        return np.full(runs, 1e-3 * world) if bare else noisy

    return _with(trial("gaussian", epsilon), "un-noised-path" if bare else "gaussian", scores)


def _raw_rest(epsilon: float) -> Trial:
    """Features that were not drawn for reporting stay as they are instead of becoming 0."""
    base = trial("mixed", epsilon)
    mechanism = m.MixedPerturber(numeric=1, sizes=(2,), epsilon=epsilon, selected=1)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        told = mechanism.perturb(np.zeros((runs, 1)), np.full((runs, 1), world), noise)
        silent = ~told[:, 1:].any(axis=1)  # not drawn, or both bits fell on 0
        told[silent, 1 + world] = 1
        return np.asarray(told[:, 2] - told[:, 1])

    return _with(base, "raw-rest", scores)


def _even_outside(epsilon: float) -> Trial:
    """The piecewise mechanism with both sides outside of the window equally likely, however long they are."""
    right = m.Piecewise(epsilon)
    e = math.exp(epsilon / 2)
    bound = (e + 1) / (e - 1)

    def scores(world: int, runs: int, noise: Noise) -> Floats:
        x = 0.9 * (2 * world - 1)
        left = (bound + 1) * x / 2 - (bound - 1) / 2
        right_edge = left + bound - 1
        u = noise.uniforms((runs,))
        window = left + u * (bound - 1)
        below, above = -bound + u * (left + bound), right_edge + u * (bound - right_edge)
        outside = np.where(noise.coins(0.5, (runs,)), below, above)
        return np.where(noise.coins(e / (e + 1), (runs,)), window, outside)

    return _with(replace(trial("piecewise", epsilon), events=(right.event,)), "even-outside", scores)


MUTANTS: dict[str, Mutant] = {
    "half-noise": Mutant(
        "the noise is half as wide as it was calibrated", lambda e: trial("gaussian", e), _half
    ),
    "variance-for-sigma": Mutant(
        "sigma squared is used where sigma belongs",
        lambda e: _small_steps(e, False),
        lambda e: _small_steps(e, True),
    ),
    "skipped-clip": Mutant(
        "contributions are summed without clipping", lambda e: _clipped(e, False), lambda e: _clipped(e, True)
    ),
    "resampled-cache": Mutant(
        "noise that should be drawn once is drawn at every use",
        lambda e: _cached(e, False),
        lambda e: _cached(e, True),
    ),
    "realised-batch": Mutant(
        "the sum is divided by how many took part instead of a fixed number",
        lambda e: _batch(e, False),
        lambda e: _batch(e, True),
    ),
    "float-noise": Mutant(
        "Laplace noise is a floating-point formula", lambda e: _floats(e, False), lambda e: _floats(e, True)
    ),
    "un-noised-path": Mutant(
        "something else computed from the data leaves without noise",
        lambda e: _path(e, False),
        lambda e: _path(e, True),
    ),
    "raw-rest": Mutant(
        "features that were not chosen for a report stay as they are", lambda e: trial("mixed", e), _raw_rest
    ),
    "even-outside": Mutant(
        "the piecewise mechanism ignores how long its two outer pieces are",
        lambda e: trial("piecewise", e),
        _even_outside,
    ),
}
