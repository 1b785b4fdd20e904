"""From what an attacker got right to a lower bound on epsilon.

A claim of (epsilon, delta) limits how well anybody can tell two neighbouring worlds apart. Whoever does
better has refuted it. All bounds hold with probability 1 - ``level`` over the runs; the rule for guessing is
chosen on runs that are not counted. A bound that stays below the claim proves nothing: another attacker may
do better.

References: Clopper and Pearson, 1934; Jagielski, Ullman, Oprea, "Auditing differentially private machine
learning", 2020; Nasr et al., "Tight auditing of differentially private machine learning", 2023 (Gaussian);
Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run", 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_fraction

LEVEL = 0.05


def count_bounds(hits: ArrayLike, runs: int, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Clopper-Pearson: the probability lies above the first, and below the second, each but for ``level``.

    >>> low, high = count_bounds(0, 2000, 0.025)
    >>> float(low), round(float(high), 5)
    (0.0, 0.00184)
    """
    from scipy.special import betaincinv

    k = np.asarray(hits, np.float64)
    with np.errstate(all="ignore"):
        low = np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, level), 0.0)
        high = np.where(k < runs, betaincinv(k + 1, np.maximum(runs - k, 1), 1 - level), 1.0)
    return low, high


@dataclass(frozen=True)
class Rule:
    """Guess the first world when the score is at least ``threshold`` (or below it, when turned)."""

    threshold: float
    turned: bool = False

    def hits(self, scores: NDArray[np.float64]) -> int:
        """How many scores make the guess."""
        reached = int((scores >= self.threshold).sum())
        return len(scores) - reached if self.turned else reached


def two_world_epsilon(ours: ArrayLike, theirs: ArrayLike, delta: float = 0.0, level: float = LEVEL) -> float:
    """A lower bound on epsilon from scores of runs in two neighbouring worlds.

    The first half of the runs chooses the event E, the second half counts it: epsilon is at least
    ln((P(E) - delta) / Q(E)), with P(E) bounded from below and Q(E) from above.

    >>> from veilrec.core import stream
    >>> g = stream(1, "doc")
    >>> shift = g.laplace(0, 1, 40_000)
    >>> 0.9 < two_world_epsilon(1 + shift[:20_000], shift[20_000:]) < 1
    True
    """
    (seek_p, count_p), (seek_q, count_q) = _halves(ours, "ours"), _halves(theirs, "theirs")
    best, chosen = -math.inf, None
    for forward, (p, q) in ((True, (seek_p, seek_q)), (False, (seek_q, seek_p))):
        for turned in (False, True):
            found, rule = _best_rule(p, q, turned, delta, level)
            if found > best:
                best, chosen = found, (forward, rule)
    if chosen is None:
        return 0.0
    forward, rule = chosen
    p, q = (count_p, count_q) if forward else (count_q, count_p)
    low = count_bounds(rule.hits(p), len(p), level / 2)[0]
    high = count_bounds(rule.hits(q), len(q), level / 2)[1]
    return max(0.0, _log_ratio(float(low) - delta, float(high)))


def gaussian_mu_bound(ours: ArrayLike, theirs: ArrayLike, level: float = LEVEL) -> float:
    """A lower bound on mu for a mechanism that claims to be Gaussian (mu-GDP).

    mu is at least the gap of the normal quantiles, z(1 - FPR) - z(FNR), with both rates bounded from above.

    >>> from veilrec.core import stream
    >>> g = stream(1, "doc")
    >>> 0.8 < gaussian_mu_bound(g.normal(1, 1, 20_000), g.normal(0, 1, 20_000)) < 1
    True
    """
    from scipy.special import ndtri

    (seek_p, count_p), (seek_q, count_q) = _halves(ours, "ours"), _halves(theirs, "theirs")
    cuts = _candidates(seek_p, seek_q)

    def bound(p: NDArray[np.float64], q: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
        wrong_q = count_bounds(_reaching(q, at), len(q), level / 2)[1]
        wrong_p = count_bounds(len(p) - _reaching(p, at), len(p), level / 2)[1]
        return np.asarray(ndtri(1 - wrong_q) - ndtri(wrong_p))

    with np.errstate(all="ignore"):
        sought = np.nan_to_num(bound(seek_p, seek_q, cuts), nan=-np.inf, posinf=-np.inf)
        cut = cuts[int(np.argmax(sought))]
        found = float(bound(count_p, count_q, np.array([cut]))[0])
    return max(0.0, found) if math.isfinite(found) else 0.0


def one_run_epsilon(guesses: int, right: int, level: float = LEVEL) -> float:
    """A lower bound on pure epsilon from one run with many independent canaries whose secret is a fair coin.

    The largest epsilon for which as many right guesses out of ``guesses`` would be no more likely than
    ``level``: under epsilon-DP a guess is right with probability at most e^epsilon / (1 + e^epsilon).

    >>> round(one_run_epsilon(200, 200), 2), round(one_run_epsilon(1000, 500), 2)
    (4.19, 0.0)
    """
    check_count("guesses", guesses)
    check(0 <= right <= guesses, "right", f"from 0 to {guesses}", right)
    check_fraction("level", level)
    accuracy = float(count_bounds(right, guesses, level)[0])
    return max(0.0, math.log(accuracy / (1 - accuracy))) if accuracy > 0 else 0.0


def delta_points(
    ours: ArrayLike, theirs: ArrayLike, epsilons: ArrayLike, level: float = LEVEL
) -> NDArray[np.float64]:
    """Lower bounds on delta at each epsilon: the hockey-stick divergence that the runs show.

    For each epsilon the event {ratio of the two densities > e^epsilon} is sought on one half of the runs,
    among all thresholds of the score and their complements; both directions are tried and the level is
    shared among epsilons and directions. A point above the claimed curve refutes the claim.

    >>> from veilrec.core import stream
    >>> g = stream(1, "doc")
    >>> points = delta_points(g.normal(1, 1, 40_000), g.normal(0, 1, 40_000), [0.0, 1.0])
    >>> bool(0.33 < points[0] < 0.383), bool(0.1 < points[1] < 0.127)
    (True, True)
    """
    wanted = np.atleast_1d(np.asarray(epsilons, np.float64))
    level = level / (2 * len(wanted))
    (seek_p, count_p), (seek_q, count_q) = _halves(ours, "ours"), _halves(theirs, "theirs")
    cuts = _candidates(seek_p, seek_q)
    out = np.zeros(len(wanted))
    for row, epsilon in enumerate(wanted):
        for (p, q), (counted_p, counted_q) in (
            ((seek_p, seek_q), (count_p, count_q)),
            ((seek_q, seek_p), (count_q, count_p)),
        ):
            reach_p, reach_q = _reaching(p, cuts) / len(p), _reaching(q, cuts) / len(q)
            gains = np.stack(
                [reach_p - math.exp(epsilon) * reach_q, (1 - reach_p) - math.exp(epsilon) * (1 - reach_q)]
            )
            turned, place = np.unravel_index(int(np.argmax(gains)), gains.shape)
            rule = Rule(float(cuts[place]), bool(turned))
            low = count_bounds(rule.hits(counted_p), len(counted_p), level / 2)[0]
            high = count_bounds(rule.hits(counted_q), len(counted_q), level / 2)[1]
            out[row] = max(out[row], float(low) - math.exp(epsilon) * float(high))
    return out


def histogram_epsilon(ours: ArrayLike, theirs: ArrayLike, delta: float = 0.0, level: float = LEVEL) -> float:
    """A lower bound on epsilon for outputs that are categories: any set of them may be the event.

    The first half of the runs orders the categories by their ratio and chooses how many to take.

    >>> from veilrec.core import stream
    >>> g = stream(1, "doc")
    >>> told = [g.choice(3, 20_000, p=p) for p in ([0.6, 0.2, 0.2], [0.2, 0.6, 0.2])]
    >>> 1.0 < histogram_epsilon(*told) < 1.0986
    True
    """
    p, q = np.asarray(ours), np.asarray(theirs)
    known, codes = np.unique(np.concatenate([p, q]), return_inverse=True)
    halves = (codes[: len(p)][::2], codes[len(p) :][::2])
    counts = [np.bincount(half, minlength=len(known)) + 0.5 for half in halves]
    rank = np.argsort(np.argsort(counts[0] / counts[1], kind="stable"), kind="stable")
    scores = rank[codes].astype(np.float64)
    return two_world_epsilon(scores[: len(p)], scores[len(p) :], delta, level)


def _halves(scores: ArrayLike, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.asarray(scores, np.float64).ravel()
    check(len(x) >= 20, name, "scores of 20 runs or more", len(x), "Run more often.")
    check(bool(np.isfinite(x).all()), name, "finite scores", x[~np.isfinite(x)][:1])
    return x[::2], x[1::2]


def _candidates(p: NDArray[np.float64], q: NDArray[np.float64], most: int = 64) -> NDArray[np.float64]:
    cuts = np.unique(np.concatenate([p, q]))
    return cuts if len(cuts) <= most else cuts[np.linspace(0, len(cuts) - 1, most).astype(int)]


def _reaching(scores: NDArray[np.float64], cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    return len(scores) - np.searchsorted(np.sort(scores), cuts, side="left")


def _best_rule(
    p: NDArray[np.float64], q: NDArray[np.float64], turned: bool, delta: float, level: float
) -> tuple[float, Rule]:
    cuts = _candidates(p, q)
    hits_p, hits_q = _reaching(p, cuts), _reaching(q, cuts)
    if turned:
        hits_p, hits_q = len(p) - hits_p, len(q) - hits_q
    # A stricter level while seeking: a rule that was lucky on few runs is not worth choosing.
    low = count_bounds(hits_p, len(p), level / 200)[0] - delta
    high = count_bounds(hits_q, len(q), level / 200)[1]
    with np.errstate(all="ignore"):
        gains = np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -np.inf)
    place = int(np.argmax(gains))
    return float(gains[place]), Rule(float(cuts[place]), turned)


def _log_ratio(top: float, low: float) -> float:
    return math.log(top / low) if top > 0 and low > 0 else 0.0
