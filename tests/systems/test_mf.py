from __future__ import annotations

import os

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import CannotFoldIn, DataError
from veilrec.systems.mf import MF

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def data() -> vr.Dataset:
    return vr.synthetic(users=90, items=50, interactions=1500, seed=1)


def test_each_side_is_the_ridge_regression_of_the_other() -> None:
    """The items are solved last: each is the ridge regression of its ratings on (p_u, 1)."""
    model = MF(embedding_size=5, regularization=0.3, epochs=3, steps=30).fit(data(), seed=2, progress=False)
    ratings = data().matrix("rating").tocsc()
    mean = float(model.shared["mean"][0])
    assert mean == pytest.approx(ratings.data.mean(), rel=1e-6)
    for item in range(ratings.shape[1]):
        column = ratings[:, item]
        raters, n = column.indices, column.nnz
        design = np.column_stack([model.private["user_vectors"][raters], np.ones(n)]).astype(np.float64)
        target = column.data - mean - model.private["user_bias"][raters]
        expected = np.linalg.solve(design.T @ design + 0.3 * n * np.eye(6), design.T @ target)
        found = [*model.shared["item_vectors"][item], model.shared["item_bias"][item]]
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_scores_are_ratings() -> None:
    model = MF(embedding_size=4, epochs=3).fit(data(), progress=False)
    p, q = model.private["user_vectors"], model.shared["item_vectors"]
    bias = model.private["user_bias"][:, None] + model.shared["item_bias"]
    expected = np.clip(p @ q.T + bias + model.shared["mean"], 1, 5)
    np.testing.assert_allclose(model.scores(), expected, atol=1e-5)
    users, items = np.array([3, 3, 8]), np.array([0, 9, 9])
    np.testing.assert_allclose(model.predict(users, items), expected[users, items], atol=1e-5)


def test_clipping_follows_the_declared_range() -> None:
    shape = {"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"], "rating": [1, 9, 1, 9]}
    wide = vr.Dataset.from_arrays(**shape, rating_range=(1.0, 9.0))
    model = MF(embedding_size=2, regularization=1e-3).fit(wide, progress=False)
    assert model.shared["range"].tolist() == [1, 9]
    model.shared["range"] = np.array([2, 8], np.float32)
    np.testing.assert_allclose(model.scores(), [[2, 8], [2, 8]])
    free = MF(embedding_size=2, regularization=1e-3).fit(vr.Dataset.from_arrays(**shape), progress=False)
    np.testing.assert_allclose(free.scores(), [[1, 9], [1, 9]], atol=0.05)


def test_beats_the_mean_and_the_biases_on_held_out_ratings() -> None:
    parts = vr.split.holdout(
        vr.synthetic(users=400, items=120, interactions=16_000, seed=2), test=0.2, seed=1
    )
    model = MF().fit(parts.train, progress=False)
    error = vr.evaluate(model, parts, k=5, progress=False).mean()["rmse"]
    assert parts.test.rating is not None
    assert parts.train.rating is not None
    mean_error = float(np.sqrt(np.mean((parts.test.rating - parts.train.rating.mean()) ** 2)))
    assert error < 0.97 * mean_error


def test_the_best_validation_epoch_is_kept() -> None:
    parts = vr.split.holdout(data(), test=0.1, valid=0.2, seed=1)
    model = MF(embedding_size=32, regularization=0.01, epochs=15, patience=2)
    model.fit(parts.train, parts.valid, progress=False)
    curve = [entry["valid"] for entry in model.facts["log"]]
    assert model.facts["epochs"] == int(np.argmax(curve)) + 1 < 15
    error = vr.evaluate(model, parts, k=5, part="valid", progress=False).mean()["rmse"]
    assert error == pytest.approx(-max(curve), rel=1e-5)


def test_needs_ratings() -> None:
    bare = vr.Dataset.from_arrays(["a", "b"], ["x", "y"], name="clicks")
    with pytest.raises(DataError, match="clicks has no ratings, and mf predicts ratings"):
        MF().fit(bare, progress=False)


def test_cannot_fold_in() -> None:
    """A history says what somebody had, not how they liked it: there is nothing to regress on."""
    model = MF(embedding_size=2, epochs=1).fit(data(), progress=False)
    with pytest.raises(CannotFoldIn, match="mf learns one vector per user"):
        model.recommend(history={"new": model.items.take([1]).to_list()})


def test_an_item_or_user_without_ratings_gets_the_mean() -> None:
    whole = vr.Dataset.from_arrays(["a", "a", "b", "c"], ["x", "y", "x", "z"], rating=[4, 2, 3, 5])
    part = whole.take(whole.user < 2)  # c and z have no ratings left
    model = MF(embedding_size=2).fit(part, progress=False)
    assert model.scores(["c"], ["z"])[0, 0] == pytest.approx(3.0)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="regularization must be a finite number above 0, got 0"):
        MF(regularization=0)
    with pytest.raises(ValueError, match="embedding_size must be a whole number"):
        MF(embedding_size=0)


@needs_data
def test_movielens_100k() -> None:
    parts = vr.split.holdout(vr.load("ml-100k"), test=0.2, seed=1)
    model = MF().fit(parts.train, seed=1, progress=False)
    assert 0.88 < vr.evaluate(model, parts, k=5, progress=False).mean()["rmse"] < 0.93
