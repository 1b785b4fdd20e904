from __future__ import annotations

import os

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.systems.ease import EASE

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def data() -> vr.Dataset:
    return vr.synthetic(users=90, items=40, interactions=1200, seed=1)


def slow_weights(history: np.ndarray, regularization: float) -> np.ndarray:
    """Each column is a ridge regression of one item on all others, which is what the closed form solves."""
    n_items = history.shape[1]
    weights = np.zeros((n_items, n_items))
    for item in range(n_items):
        others = np.delete(np.arange(n_items), item)
        x, y = history[:, others], history[:, item]
        system = x.T @ x + regularization * np.eye(n_items - 1)
        weights[others, item] = np.linalg.solve(system, x.T @ y)
    return weights


@pytest.mark.parametrize("regularization", [0.01, 5.0, 500.0])
def test_weights_are_the_ridge_regressions(regularization: float) -> None:
    model = EASE(regularization).fit(data(), progress=False)
    history = model.history.toarray().astype(np.float64)
    expected = slow_weights(history, regularization)
    np.testing.assert_allclose(model.shared["weights"], expected, atol=1e-5)
    np.testing.assert_allclose(model.scores(), history @ expected, atol=1e-4)
    assert (model.shared["weights"].diagonal() == 0).all()


def test_fold_in_and_similar_items() -> None:
    model = EASE(20.0).fit(data(), progress=False)
    seen = [1, 7, 30]
    listed = model.recommend(history={"new": model.items.take(seen).to_list()}, k=3)
    scores = model.shared["weights"][seen].sum(axis=0)
    scores[seen] = -np.inf
    best = np.argsort(-scores, kind="stable")[:3]
    assert listed["item"].to_list() == model.items.take(best).to_list()
    like = model.similar_items([model.items.take([7])[0]], k=1)
    assert like["score"][0] == model.shared["weights"][7, :].max()


def test_too_many_items_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(
        DataError, match=r"at most 39 items for ease, got 40: a weight .* GB. Raise max_items"
    ):
        EASE(max_items=39).fit(data(), progress=False)
    EASE(max_items=40).fit(data(), progress=False)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="regularization must be a finite number above 0, got 0"):
        EASE(regularization=0)
    with pytest.raises(ValueError, match="max_items must be a whole number"):
        EASE(max_items=1.5)  # type: ignore[arg-type]


@needs_data
@pytest.mark.long
def test_movielens_1m() -> None:
    parts = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1)
    model = EASE().fit(parts.train, progress=False)
    assert vr.evaluate(model, parts, k=20, progress=False).mean()["recall@20"] >= 0.295
