from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import veilrec as vr
from veilrec.models import Adjacency, LightGCNBackbone
from veilrec.systems.vectors import unit_rows
from veilrec.training import torch_stream


@cache
def world() -> vr.Split:
    return vr.split.holdout(
        vr.synthetic(users=120, items=80, interactions=3000, seed=2), test=0.2, valid=0.1, seed=1
    )


def test_a_score_is_the_cosine_times_a_power_of_the_length() -> None:
    models = {
        power: vr.LightGCN(epochs=4, embedding_size=8, norm_power=power).fit(world().train, progress=False)
        for power in (0.0, 0.5, 1.0)
    }
    lengths = {power: np.linalg.norm(model.shared["item_vectors"], axis=1) for power, model in models.items()}
    np.testing.assert_allclose(lengths[0.0], 1, rtol=1e-5)
    np.testing.assert_allclose(lengths[0.5] ** 2, lengths[1.0], rtol=1e-4)
    for model in models.values():
        np.testing.assert_allclose(np.linalg.norm(model.private["user_vectors"], axis=1), 1, rtol=1e-5)


def test_fold_in_is_the_mean_over_layers_of_a_user_without_an_embedding() -> None:
    """The dense graph with one more user, whose own row starts at zero and who sends nothing back."""
    # a learning rate of nothing leaves the embeddings at their start, which the streams give again
    model = vr.LightGCN(epochs=1, embedding_size=8, layers=2, learning_rate=1e-30, norm_power=0.0)
    model.fit(world().train, progress=False)
    start = LightGCNBackbone(Adjacency(model.history), 8, 2, torch_stream(0, "lightgcn", "init")).embedding
    r = model.history.toarray()
    degree_u, degree_i = np.maximum(r.sum(1), 1), np.maximum(r.sum(0), 1)
    normal = r / np.sqrt(degree_u)[:, None] / np.sqrt(degree_i)[None, :]
    n_users, n_items = r.shape
    big = np.block([[np.zeros((n_users, n_users)), normal], [normal.T, np.zeros((n_items, n_items))]])
    seen = [3, 5, 11]
    e0 = start.detach().numpy()
    items0, items1 = e0[n_users:], (big @ e0)[n_users:]
    layer1 = (items0[seen] / np.sqrt(degree_i[seen])[:, None]).sum(0) / np.sqrt(len(seen))
    layer2 = (items1[seen] / np.sqrt(degree_i[seen])[:, None]).sum(0) / np.sqrt(len(seen))
    user = unit_rows(((layer1 + layer2) / 3)[None, :])
    expected = user @ model.shared["item_vectors"].T
    history = model.history_matrix({"new": model.items.take(seen).to_list()})
    np.testing.assert_allclose(model._score_histories(history), expected, rtol=1e-4, atol=1e-6)


def test_stops_on_validation_and_keeps_the_best_epoch() -> None:
    parts = world()
    model = vr.LightGCN(epochs=30, embedding_size=16, validate_every=2, patience=2)
    model.fit(parts.train, parts.valid, progress=False)
    curve = {entry["epoch"]: entry["valid"] for entry in model.facts["log"] if "valid" in entry}
    assert model.facts["epochs"] == max(curve, key=lambda epoch: (curve[epoch], -epoch))
    kept = vr.evaluate(model, parts, k=20, part="valid", progress=False).mean()["recall@20"]
    assert kept == pytest.approx(max(curve.values()))


def test_beats_popularity_clearly() -> None:
    parts = vr.split.holdout(vr.synthetic(), test=0.2, seed=1)
    model = vr.LightGCN(epochs=10, embedding_size=32).fit(parts.train, progress=False)
    null = vr.Popularity().fit(parts.train)
    ours, base = (vr.evaluate(m, parts, k=20, progress=False).mean()["recall@20"] for m in (model, null))
    assert ours > 1.3 * base


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("layers", 0),
        ("learning_rate", float("nan")),
        ("norm_power", -1),
        ("batches", 1.5),
    ],
)
def test_bad_settings(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        vr.LightGCN(**{name: value})
