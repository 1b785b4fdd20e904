from __future__ import annotations

import os
import threading
from typing import Any

import numba
import numpy as np
import pytest

import veilrec as vr
from veilrec.core import CannotFoldIn
from veilrec.models import bpr_kernels
from veilrec.systems.bpr import BPR

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def data() -> vr.Dataset:
    return vr.synthetic(users=120, items=80, interactions=2500, seed=1)


def test_strata_of_one_turn_share_nothing_and_an_epoch_visits_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, lock = bpr_kernels.bpr_stratum, threading.Lock()
    visits: list[tuple[set[int], set[int], set[tuple[int, int]]]] = []

    def spy(users: Any, items: Any, candidates: Any, *rest: Any) -> float:
        with lock:
            visits.append((set(users), set(candidates), set(zip(users, items, strict=True))))
        return float(kernel(users, items, candidates, *rest))

    monkeypatch.setattr(bpr_kernels, "bpr_stratum", spy)
    BPR(embedding_size=4, epochs=1).fit(data(), progress=False)
    assert len(visits) == 16
    for turn in range(4):
        users, items = (set(), set())
        for seen_users, candidates, pairs in visits[4 * turn : 4 * turn + 4]:
            assert not users & seen_users
            assert not items & candidates
            assert {item for _, item in pairs} <= candidates
            users |= seen_users
            items |= candidates
        assert items == set(range(80))
    everything = set().union(*(pairs for _, _, pairs in visits))
    assert everything == set(zip(data().user, data().item, strict=True))
    assert sum(len(pairs) for _, _, pairs in visits) == data().matrix().nnz


def test_the_number_of_threads_does_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in (1, 2, 4):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        model = BPR(embedding_size=8, epochs=3).fit(data(), seed=3, progress=False)
        results.append(model.private["user_vectors"])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_learns_to_put_what_was_had_first() -> None:
    model = BPR(embedding_size=16, epochs=40).fit(data(), seed=1, progress=False)
    losses = [entry["loss"] for entry in model.facts["log"]]
    assert losses[0] < 0.70
    assert losses[-1] < 0.7 * losses[0]
    had, scores = model.history.toarray() > 0, model.scores()
    better = [(row[h][:, None] > row[~h]).mean() for row, h in zip(scores, had, strict=True) if h.any()]
    assert np.mean(better) > 0.9


def test_scores_have_the_item_bias_and_similarity_has_not() -> None:
    model = BPR(embedding_size=4, epochs=3).fit(data(), progress=False)
    p, q, bias = model.private["user_vectors"], model.shared["item_vectors"], model.shared["item_bias"]
    np.testing.assert_allclose(model.scores(), p @ q.T + bias, atol=1e-5)
    assert np.ptp(bias) > 0.1
    unit = q / np.linalg.norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(model._item_similarity(np.array([3])), unit[[3]] @ unit.T, atol=1e-5)


def test_the_best_validation_epoch_is_kept() -> None:
    parts = vr.split.holdout(data(), test=0.1, valid=0.2, seed=1)
    model = BPR(
        embedding_size=32, learning_rate=0.5, regularization=0, epochs=30, validate_every=2, patience=2
    )
    model.fit(parts.train, parts.valid, progress=False)
    curve = {int(e["epoch"]): e["valid"] for e in model.facts["log"] if "valid" in e}
    assert set(curve) <= set(range(2, 31, 2))
    assert model.facts["epochs"] == max(curve, key=lambda epoch: curve[epoch])
    again = vr.evaluate(model, parts, k=20, part="valid", progress=False).mean()["recall@20"]
    assert again == pytest.approx(max(curve.values()))


def test_a_user_who_has_everything_is_left_out() -> None:
    """Nobody has a negative: nothing to learn, and no endless search for one."""
    full = vr.Dataset.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "y"])
    model = BPR(embedding_size=2, epochs=2).fit(full, progress=False)
    assert [entry["loss"] for entry in model.facts["log"]] == [0.0, 0.0]


def test_cannot_fold_in() -> None:
    with pytest.raises(CannotFoldIn, match="bpr learns one vector per user"):
        BPR(embedding_size=2, epochs=1).fit(data(), progress=False).recommend(history={"new": ["i1"]})


def test_bad_settings_and_divergence() -> None:
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0"):
        BPR(learning_rate=float("nan"))
    with pytest.raises(ValueError, match="regularization must be a finite number, 0 or above"):
        BPR(regularization=-1)
    with pytest.raises(ValueError, match=r"loss must be finite, got .* Lower the learning rate"):
        BPR(learning_rate=1000.0, regularization=1e20, epochs=3).fit(data(), progress=False)
    with pytest.raises(ValueError, match="learning_rate must be at most 1000, got 1e"):
        BPR(learning_rate=1e30).fit(data(), progress=False)


@needs_data
@pytest.mark.long
def test_movielens_1m() -> None:
    parts = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1)
    model = BPR().fit(parts.train, seed=1, progress=False)
    assert vr.evaluate(model, parts, k=20, progress=False).mean()["recall@20"] >= 0.25
