"""Rating errors: worked values, oracle, scikit-learn, users apart, bad input."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.metrics import mae, per_user, rmse, user_mae, user_rmse

numbers = st.floats(-100, 100)
rows = st.lists(st.tuples(numbers, numbers, st.integers(0, 5)), min_size=1, max_size=60)


def test_worked_values() -> None:
    predicted, actual, user = [1, 2, 3, 4.5], [1, 4, 0, 4], [8, 8, 8, 2]
    assert mae(predicted, actual) == (0 + 2 + 3 + 0.5) / 4
    assert rmse(predicted, actual) == math.sqrt((0 + 4 + 9 + 0.25) / 4)
    assert [part.tolist() for part in user_mae(predicted, actual, user)] == [[2, 8], [0.5, 5 / 3]]
    assert [part.tolist() for part in user_rmse(predicted, actual, user)] == [
        [2, 8],
        [0.5, math.sqrt(13 / 3)],
    ]


@given(rows)
def test_equals_the_oracle_and_scikit_learn(table: list[tuple[float, float, int]]) -> None:
    from sklearn.metrics import mean_absolute_error, root_mean_squared_error

    predicted, actual, user = (list(column) for column in zip(*table, strict=True))
    assert mae(predicted, actual) == pytest.approx(mean_absolute_error(actual, predicted))
    assert rmse(predicted, actual) == pytest.approx(root_mean_squared_error(actual, predicted))
    assert rmse(predicted, actual) >= mae(predicted, actual) - 1e-9
    errors = defaultdict(list)
    for guess, truth, code in table:
        errors[code].append(guess - truth)
    users, absolute = user_mae(predicted, actual, user)
    assert users.tolist() == sorted(errors)
    np.testing.assert_allclose(absolute, [np.mean(np.abs(errors[u])) for u in sorted(errors)])
    squared = [math.sqrt(np.mean(np.square(errors[u]))) for u in sorted(errors)]
    np.testing.assert_allclose(user_rmse(predicted, actual, user)[1], squared)


def test_single_precision_is_summed_in_double() -> None:
    wide = np.full(3_000_000, 0.1, np.float32)
    assert mae(wide, np.zeros_like(wide)) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_per_user_of_nothing_is_nothing() -> None:
    users, means = per_user([], np.array([], np.int64))
    assert users.shape == means.shape == (0,)


def test_bad_input_is_refused() -> None:
    for function in (mae, rmse):
        with pytest.raises(ValueError, match="actual must be a list of one rating or more"):
            function([], [])
        with pytest.raises(ValueError, match="predicted must be one per rating"):
            function([1.0], [1.0, 2.0])
        with pytest.raises(ValueError, match=r"predicted must be finite numbers, got 'nan at \[1\]'"):
            function([1.0, math.nan], [1.0, 2.0])
        with pytest.raises(ValueError, match=r"actual must be finite numbers, got 'inf at \[0\]'"):
            function([1.0], [math.inf])
    with pytest.raises(ValueError, match="user must be one code per value"):
        user_mae([1.0], [1.0], [1, 2])
    with pytest.raises(ValueError, match="user must be whole-number codes, got 'float64'"):
        user_rmse([1.0], [1.0], [1.5])
