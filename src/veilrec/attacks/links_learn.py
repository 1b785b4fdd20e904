"""Link stealing, the supervised attackers: all suspicions together, weighed by labelled users' edges."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import require, stream

Table = NDArray[np.float64]


def logistic(train: Table, truth: NDArray[np.bool_], asked: Table, seed: int) -> Table:
    """Logistic regression on standardised columns, C = 1; draws nothing.

    >>> column = np.array([[0.0], [1.0]] * 20)
    >>> logistic(column, column[:, 0] > 0, column[:2], seed=1).round(1).tolist()
    [-2.6, 2.6]
    """
    made = _sklearn("linear_model").LogisticRegression(C=1.0, max_iter=200)
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread = np.where(spread > 1e-12, spread, 1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=_sklearn("exceptions").ConvergenceWarning)
        made.fit((train - mean) / spread, truth)
    return np.asarray(made.decision_function((asked - mean) / spread), np.float64)


def boosting(train: Table, truth: NDArray[np.bool_], asked: Table, seed: int) -> Table:
    """Histogram gradient boosting: 100 trees of 16 leaves.

    >>> column = np.array([[0.0], [1.0]] * 40)
    >>> low, high = boosting(column, column[:, 0] > 0, column[:2], seed=1)
    >>> bool(low < -2 and high > 2)
    True
    """
    number = int(stream(seed, "links", "boosting").integers(2**31))
    made = _sklearn("ensemble").HistGradientBoostingClassifier(
        max_iter=100, max_leaf_nodes=16, early_stopping=False, random_state=number
    )
    made.fit(train, truth)
    return np.asarray(made.decision_function(asked), np.float64)


LEARNERS: dict[str, Callable[[Table, NDArray[np.bool_], Table, int], Table]] = {
    "logistic": logistic,
    "boosting": boosting,
}


def _sklearn(module: str) -> Any:
    return require(f"sklearn.{module}", extra="attacks", purpose="this attacker")
