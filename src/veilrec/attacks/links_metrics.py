"""Link stealing, the score: AUC, precision at the true density, true positives at 0.1 % false ones.

Cells have weights (how many cells of the whole table a sampled one stands for), and equal suspicions are
broken at random: every number is the expectation over that, by interpolation between the ends of ties.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check

METRICS = ("auc", "precision", "tpr")
FALSE_RATE = 1e-3
RATES = np.logspace(-4, 0, 41)
"""False positive rates at which a curve is kept."""
STEPS = 10_000
"""Of a resampled curve."""

Numbers = NDArray[np.float64]


def link_metrics(
    truth: ArrayLike, suspicion: ArrayLike, weights: ArrayLike | None = None
) -> dict[str, float]:
    """How well ``suspicion`` tells edges (``truth``) from other cells.

    ``auc`` is the chance that an edge is suspected more than another cell, ``precision`` the share of edges
    among the most suspected cells if as many are named as there are edges, ``tpr`` the share of edges found
    before 0.1 % of the other cells are wrongly named.

    >>> link_metrics([True, False, True, False], [4, 3, 2, 1])
    {'auc': 0.75, 'precision': 0.5, 'tpr': 0.5}
    >>> link_metrics([True, False], [0, 0], weights=[1, 3])
    {'auc': 0.5, 'precision': 0.25, 'tpr': 0.001}
    """
    curve = Curve(truth, suspicion, weights)
    return dict(zip(METRICS, curve.values().tolist()))


class Curve:
    """Cells in the order of their suspicion, for metrics under many weights.

    >>> Curve([True, False, True, False], [4, 3, 2, 1]).values().tolist()
    [0.75, 0.5, 0.5]
    """

    def __init__(self, truth: ArrayLike, suspicion: ArrayLike, weights: ArrayLike | None = None) -> None:
        edge, value = np.asarray(truth, np.bool_), np.asarray(suspicion, np.float64)
        good = edge.ndim == 1 and edge.shape == value.shape and bool(edge.any()) and not bool(edge.all())
        check(good, "truth", "a flag per suspicion, with edges and other cells", edge.shape)
        check(not np.isnan(value).any(), "suspicion", "free of NaN", "NaN", "Look for a model that diverged.")
        self._order = np.argsort(-value, kind="stable")
        ordered = value[self._order]
        self._ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # the last cell of each tie
        weight = np.ones(len(value)) if weights is None else np.asarray(weights, np.float64)
        self._edge = np.where(edge, weight, 0.0)[self._order]
        self._other = np.where(edge, 0.0, weight)[self._order]

    def values(self) -> Numbers:
        """The metrics in the order of ``METRICS``."""
        return _values(*self._counts())

    def roc(self) -> Numbers:
        """The true positive rate at each of ``RATES``."""
        hits, misses = self._counts()
        return np.asarray(np.interp(RATES, misses / misses[-1], hits / hits[-1]), np.float64)

    def resampled(self, user: NDArray[np.int64], times: NDArray[np.int64]) -> Numbers:
        """The metrics [resamples, metrics] when user u counts ``times[resample, u]`` times with all cells.

        Cells are put into ``STEPS`` steps of the root of the false positive rate, finest at its low end; in a
        step other cells come before edges. That is a small error in the draws, and none in the metrics.

        >>> curve = Curve([True, False, True, False], [4, 3, 2, 1])
        >>> curve.resampled(np.array([0, 0, 1, 1]), np.array([[1, 1], [2, 0], [0, 1]]))[:, 0].tolist()
        [0.75, 1.0, 1.0]
        """
        _, misses = self._counts()
        tie = np.repeat(np.arange(len(self._ends)), np.diff(self._ends, prepend=-1))
        place = 2 * np.floor(STEPS * np.sqrt(misses[1:] / misses[-1])) + (np.diff(misses) == 0)
        step = place[tie].astype(np.int64)
        shape = (times.shape[1], 2 * STEPS + 2)
        totals = []
        for mass in (self._edge, self._other):
            table = sp.csr_matrix((mass, (user[self._order], step)), shape=shape)
            summed = np.cumsum((table.T @ times.T.astype(np.float64)).T, axis=1)
            totals.append(np.concatenate([np.zeros((len(times), 1)), summed], axis=1))
        return np.stack([_values(hits, misses) for hits, misses in zip(*totals)])

    def _counts(self) -> tuple[Numbers, Numbers]:
        """Edges and other cells among the most suspected, at the end of each tie; from 0."""
        hits, misses = (np.cumsum(mass)[self._ends] for mass in (self._edge, self._other))
        return np.append(0.0, hits), np.append(0.0, misses)


def _values(hits: Numbers, misses: Numbers) -> Numbers:
    """The metrics from counts along the order; NaN without edges, or without other cells."""
    edges, others = hits[-1], misses[-1]
    if edges <= 0 or others <= 0:
        return np.full(len(METRICS), np.nan)
    area = np.trapezoid(hits, misses) / (edges * others)
    precision = np.interp(edges, hits + misses, hits) / edges
    found = np.array([area, precision, np.interp(FALSE_RATE, misses / others, hits / edges)])
    return np.asarray(np.clip(found, 0.0, 1.0))  # sums of weights round
