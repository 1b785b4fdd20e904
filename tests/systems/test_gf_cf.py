from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import CannotFoldIn
from veilrec.data import predefined_split
from veilrec.systems.gf_cf import GFCF

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def data() -> vr.Dataset:
    return vr.synthetic(users=90, items=50, interactions=900, seed=1)


def slow_filter(history: np.ndarray, rank: int, alpha: float, tilt: float) -> np.ndarray:
    """The items x items filter of the paper from a dense SVD."""
    user_degree, item_degree = history.sum(1), history.sum(0)
    user_scale = np.divide(1, np.sqrt(user_degree), out=np.zeros_like(user_degree), where=user_degree > 0)
    item_scale = np.divide(1, np.sqrt(item_degree), out=np.zeros_like(item_degree), where=item_degree > 0)
    normal = user_scale[:, None] * history * item_scale
    right = np.linalg.svd(normal)[2][:rank]
    low = item_scale[:, None] * (right.T @ right) * np.sqrt(item_degree)
    tilted = item_scale[:, None] ** tilt * (normal.T @ normal) * item_degree ** (tilt / 2)
    return tilted + alpha * low


@pytest.mark.parametrize(("rank", "alpha", "tilt"), [(8, 0.3, 0.0), (20, 2.0, 0.5), (8, 0.0, 1.0)])
def test_scores_are_those_of_the_dense_filter(rank: int, alpha: float, tilt: float) -> None:
    model = GFCF(rank, alpha, tilt).fit(data(), progress=False)
    history = model.history.toarray().astype(np.float64)
    table = slow_filter(history, rank, alpha, tilt)
    np.testing.assert_allclose(model.scores(), history @ table, atol=3e-3)
    np.testing.assert_allclose(model._item_similarity(np.arange(50)), table, atol=3e-3)


def test_a_rank_above_that_of_the_data_is_the_whole_space() -> None:
    small = vr.Dataset.from_arrays(["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "x"])
    model = GFCF(rank=100, alpha=1.0, tilt=0.0).fit(small, progress=False)
    history = model.history.toarray().astype(np.float64)
    np.testing.assert_allclose(model.scores(), history @ slow_filter(history, 3, 1.0, 0.0), atol=1e-4)


def test_users_and_items_without_interactions() -> None:
    whole = data()
    part = whole.take((whole.user != 4) & (whole.item != 7))
    scores = GFCF(rank=5).fit(part, progress=False).score_codes(np.arange(90))
    assert np.isfinite(scores).all()
    assert not scores[4].any()
    assert not scores[:, 7].any()


def test_the_shareable_part_says_what_it_lacks(tmp_path: Path) -> None:
    model = GFCF(rank=5).fit(data(), progress=False)
    seen = {"new": model.items.take([3, 4]).to_list()}
    assert len(model.recommend(history=seen, k=3)) == 3
    loaded = vr.load_model(model.save(tmp_path / "public", part="shareable"))
    with pytest.raises(CannotFoldIn, match="shareable part of a gf-cf model"):
        loaded.recommend(history=seen)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="rank must be a whole number of at least 1, got 0"):
        GFCF(rank=0)
    with pytest.raises(ValueError, match="alpha must be a finite number, 0 or above"):
        GFCF(alpha=-0.1)
    with pytest.raises(ValueError, match="tilt must be from 0 to 1, got nan"):
        GFCF(tilt=float("nan"))


@needs_data
@pytest.mark.long
def test_gowalla() -> None:
    parts = predefined_split("gowalla")
    assert parts is not None
    model = GFCF(alpha=0.15, tilt=0.5).fit(parts.train, seed=1, progress=False)
    assert vr.evaluate(model, parts, k=20, progress=False).mean()["recall@20"] >= 0.185
