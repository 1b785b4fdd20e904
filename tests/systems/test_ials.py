from __future__ import annotations

import os

import numba
import numpy as np
import pytest

import veilrec as vr
from veilrec.systems.ials import IALS

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def data() -> vr.Dataset:
    return vr.synthetic(users=90, items=50, interactions=1500, seed=1)


def objective(model: IALS) -> float:
    """The loss of the docstring over every pair, spelled out."""
    history = model.history.toarray().astype(np.float64)
    p, q = model.private["user_vectors"].astype(np.float64), model.shared["item_vectors"].astype(np.float64)
    confidence = 1 + model.alpha * history
    loss = (confidence * (history - p @ q.T) ** 2).sum()
    penalty = (history.sum(1) * (p**2).sum(1)).sum() + (history.sum(0) * (q**2).sum(1)).sum()
    return float(loss + model.regularization * penalty)


def test_many_steps_are_the_textbook_solves() -> None:
    """One epoch with enough steps equals two rounds of exact normal equations from the same start."""
    start = IALS(embedding_size=6, epochs=1, steps=1).fit(data(), seed=4, progress=False)
    fine = IALS(embedding_size=6, alpha=3.0, regularization=0.2, epochs=30, steps=20)
    fine.fit(data(), seed=4, progress=False)
    history = fine.history.toarray().astype(np.float64)
    users = fine.private["user_vectors"].astype(np.float64)
    for item in range(history.shape[1]):  # the items were solved last, against these users
        weight = 1 + 3.0 * history[:, item]
        system = (users * weight[:, None]).T @ users + 0.2 * history[:, item].sum() * np.eye(6)
        if history[:, item].any():
            expected = np.linalg.solve(system, users.T @ (weight * history[:, item]))
            np.testing.assert_allclose(fine.shared["item_vectors"][item], expected, atol=2e-4)
    assert start.facts["epochs"] == 1


def test_the_loss_it_logs_is_the_objective() -> None:
    model = IALS(embedding_size=6, epochs=4).fit(data(), seed=1, progress=False)
    logged = [entry["loss"] for entry in model.facts["log"]]
    assert logged == sorted(logged, reverse=True)
    p = model.private["user_vectors"].astype(np.float64)
    users_only = model.regularization * (model.history.toarray().sum(1) * (p**2).sum(1)).sum()
    expected = (objective(model) - users_only) / model.history.nnz  # the side held fixed has no part in it
    assert logged[-1] == pytest.approx(expected, rel=1e-3)


def test_more_epochs_lower_the_objective() -> None:
    values = [objective(IALS(embedding_size=8, epochs=n).fit(data(), progress=False)) for n in (1, 3, 9)]
    assert values == sorted(values, reverse=True)


def test_fold_in_is_one_exact_solve() -> None:
    model = IALS(embedding_size=6, alpha=5.0).fit(data(), progress=False)
    items = model.shared["item_vectors"].astype(np.float64)
    seen = [2, 3, 11]
    weight = np.ones(len(items))
    weight[seen] += 5.0
    system = (items * weight[:, None]).T @ items + model.regularization * 3 * np.eye(6)
    vector = np.linalg.solve(system, items[seen].sum(0) * 6.0)
    found = model.recommend(history={"new": model.items.take(seen).to_list()}, k=50, exclude_seen=False)
    order = model.items.codes(found["item"])
    np.testing.assert_allclose(found["score"], (items @ vector)[order], atol=1e-4)


def test_the_number_of_threads_does_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        model = IALS(embedding_size=8, epochs=2).fit(data(), seed=3, progress=False)
        results.append(model.private["user_vectors"])
    np.testing.assert_array_equal(*results)


def test_validation_keeps_the_best_epoch() -> None:
    parts = vr.split.holdout(data(), test=0.1, valid=0.2, seed=1)
    model = IALS(embedding_size=32, regularization=1e-4, epochs=12, validate_every=1, patience=2)
    model.fit(parts.train, parts.valid, progress=False)
    curve = [entry["valid"] for entry in model.facts["log"]]
    assert model.facts["epochs"] == int(np.argmax(curve)) + 1
    again = vr.evaluate(model, parts, k=20, part="valid", progress=False).mean()["recall@20"]
    assert again == pytest.approx(max(curve))


def test_bad_settings() -> None:
    for name in ("alpha", "regularization"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number above 0"):
            IALS(**{name: 0.0})
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        IALS(steps=0)


@needs_data
@pytest.mark.long
def test_movielens_1m() -> None:
    parts = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1)
    model = IALS().fit(parts.train, seed=1, progress=False)
    assert vr.evaluate(model, parts, k=20, progress=False).mean()["recall@20"] >= 0.295
