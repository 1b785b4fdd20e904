"""Attribute inference, the score: F1 in three ways, balanced accuracy, AUC, and intervals over repeats."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.metrics import Interval

METRICS = ("micro_f1", "macro_f1", "weighted_f1", "balanced_accuracy", "auc")


def class_metrics(truth: ArrayLike, guessed: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """How well classes were guessed; ``scores`` [rows, classes] are higher for likelier classes.

    Micro F1 is accuracy, since each row has one class and one guess. Macro F1 and balanced accuracy weigh
    classes alike, weighted F1 by their size; a class never guessed has F1 0. The AUC is the mean over the
    classes of "this class against the rest", each the chance that a member is ranked above a non-member: a
    class of three people counts as much as one of three hundred, so with rare classes it is noisy.

    >>> found = class_metrics([0, 0, 0, 1], [0, 0, 0, 0], np.ones((4, 2)))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'micro_f1': 0.75, 'macro_f1': 0.429, 'weighted_f1': 0.643, 'balanced_accuracy': 0.5, 'auc': 0.5}
    """
    from scipy.stats import rankdata

    y, guess, value = np.asarray(truth), np.asarray(guessed), np.asarray(scores, np.float64)
    classes = value.shape[1]
    table = np.bincount(y * classes + guess, minlength=classes**2).reshape(classes, classes)
    right, size, called = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    f1 = 2 * right / np.maximum(size + called, 1)
    there = size > 0
    judged = there | (called > 0)
    rank = rankdata(value, axis=0)
    members = (y[:, None] == np.arange(classes)).astype(np.float64)
    above = (rank * members).sum(axis=0) - size * (size + 1) / 2
    both = there & (size < len(y))
    auc = above[both] / (size * (len(y) - size))[both]
    return {
        "micro_f1": float(right.sum() / len(y)),
        "macro_f1": float(f1[judged].mean()),
        "weighted_f1": float((f1 * size).sum() / len(y)),
        "balanced_accuracy": float((right[there] / size[there]).mean()),
        "auc": float(auc.mean()) if both.any() else 0.5,
    }


def repeats_interval(values: ArrayLike, test_over_train: float, level: float = 0.95) -> Interval | None:
    """The t interval of a mean over repeated random splits, None for a single one.

    Repeats share most of their users, so the plain interval is too short. The variance of the mean is taken
    as s² (1 / repeats + test / train): Nadeau and Bengio, "Inference for the generalization error", 2003.

    >>> print(repeats_interval([1, 2, 3], 0.25))
    2.0000 [-1.2862, 5.2862]
    """
    from scipy.special import stdtrit

    numbers: NDArray[np.float64] = np.asarray(values, np.float64)
    if len(numbers) < 2:
        return None
    spread = 0.0 if np.ptp(numbers) == 0 else numbers.std(ddof=1)
    half = stdtrit(len(numbers) - 1, (1 + level) / 2) * spread
    half *= np.sqrt(1 / len(numbers) + test_over_train)
    mean = float(numbers.mean())
    return Interval(mean, float(mean - half), float(mean + half), level)
