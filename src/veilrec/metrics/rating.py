"""Errors of predicted ratings, over all ratings and per user.

Predictions are taken as they are: clip them to the rating range first, if that is part of the model.
No ratings at all is an error, for the mean of nothing is not a number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check


def mae(predicted: ArrayLike, actual: ArrayLike) -> float:
    """MAE = mean of |predicted - actual| over all ratings.

    >>> mae([3, 5], [4, 2])
    2.0
    """
    return float(np.abs(_errors(predicted, actual)).mean())


def rmse(predicted: ArrayLike, actual: ArrayLike) -> float:
    """RMSE = square root of the mean of (predicted - actual)² over all ratings.

    >>> rmse([3, 3], [0, 7])
    3.5355339059327378
    """
    return float(np.sqrt(np.square(_errors(predicted, actual)).mean()))


def user_mae(
    predicted: ArrayLike, actual: ArrayLike, user: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The MAE of each user who has a rating: user codes, ascending, and their values.

    >>> [part.tolist() for part in user_mae([3, 5, 1], [4, 2, 1], user=[7, 7, 2])]
    [[2, 7], [0.0, 2.0]]
    """
    return per_user(np.abs(_errors(predicted, actual)), user)


def user_rmse(
    predicted: ArrayLike, actual: ArrayLike, user: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The RMSE of each user who has a rating: user codes, ascending, and their values.

    >>> [part.tolist() for part in user_rmse([3, 5, 1], [4, 2, 1], user=[7, 7, 2])]
    [[2, 7], [0.0, 2.23606797749979]]
    """
    users, values = per_user(np.square(_errors(predicted, actual)), user)
    return users, np.sqrt(values)


def per_user(values: ArrayLike, user: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The mean of each user's values: user codes, ascending, and the means.

    For intervals and tests over users where there are several values a user (ratings, one list per positive).

    >>> [part.tolist() for part in per_user([1, 2, 6], user=[4, 0, 4])]
    [[0, 4], [2.0, 3.5]]
    """
    numbers, owners = np.asarray(values, dtype=np.float64), np.asarray(user)
    check(owners.shape == numbers.shape, "user", f"one code per value, {numbers.shape}", owners.shape)
    check(np.issubdtype(owners.dtype, np.integer), "user", "whole-number codes", str(owners.dtype))
    users, place, counts = np.unique(owners, return_inverse=True, return_counts=True)
    return users.astype(np.int64), np.bincount(place, weights=numbers, minlength=len(users)) / counts


def _errors(predicted: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    guess, truth = np.asarray(predicted, dtype=np.float64), np.asarray(actual, dtype=np.float64)
    check(truth.ndim == 1 and truth.size > 0, "actual", "a list of one rating or more", actual)
    check(guess.shape == truth.shape, "predicted", f"one per rating, {truth.shape}", guess.shape)
    for name, numbers in (("predicted", guess), ("actual", truth)):
        bad = np.flatnonzero(~np.isfinite(numbers))
        check(
            bad.size == 0,
            name,
            "finite numbers",
            f"{numbers[bad[0]] if bad.size else ''} at {bad[:1].tolist()}",
        )
    return guess - truth
