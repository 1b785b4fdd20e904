"""GAP: an edge moves every release by at most its sensitivity, and the loss reads released sums only."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import veilrec as vr
from veilrec.privacy.mechanisms import AggregationPerturbation
from veilrec.privacy.noise import Noise
from veilrec.systems import GAP
from veilrec.systems.gap import attraction, beside, neighbours, repulsion, spread


def data() -> vr.Dataset:
    return vr.synthetic(users=40, items=25, interactions=300, seed=2)


def transcript(monkeypatch, found: vr.Dataset, replay=None) -> list:
    """(exact sums, sensitivity, what came out) of every hop; ``replay`` gives both worlds the same past."""
    seen: list = []
    honest = Noise.add_gaussian

    def add(self, values, sigma, sensitivity, coordinates=None):
        out = honest(self, values, sigma, sensitivity, coordinates)
        out = out if replay is None else replay[len(seen)]
        seen.append((np.array(values), sensitivity, out))
        return out

    with monkeypatch.context() as patch:
        patch.setattr(Noise, "add_gaussian", add)
        GAP(embedding_size=8, epochs=1).fit(found, seed=1, progress=False, secure=False)
    return seen


def furthest(monkeypatch) -> list[float]:
    whole = transcript(monkeypatch, data())
    worst = [0.0] * len(whole)
    for edge in (0, 150, 299):
        keep = np.arange(300) != edge
        part = transcript(monkeypatch, data().take(keep), [out for *_, out in whole])
        for hop, ((exact, sensitivity, _), (without, _, _)) in enumerate(zip(whole, part, strict=True)):
            worst[hop] = max(worst[hop], float(np.linalg.norm(exact - without)) / sensitivity)
    return worst


def test_an_edge_moves_each_release_by_the_sensitivity(monkeypatch) -> None:
    """Two rows of length 1: sqrt(2), in every hop, and no less."""
    assert furthest(monkeypatch) == pytest.approx([1.0, 1.0])


def test_public_vectors_stay_when_somebody_leaves(monkeypatch) -> None:
    """The first by id shifts all codes: item rows move by that user's edges, rows of others not at all."""
    whole, first = data(), data().users.take([0])[0]
    (before, sensitivity, _), *_ = transcript(monkeypatch, whole)
    (after, same, _), *_ = transcript(monkeypatch, whole.without(first))
    assert sensitivity == same  # of the declared number of users
    rows = np.delete(before, 0, axis=-2) - after
    users, degree = whole.n_users - 1, int(whole.user_counts[0])
    assert not rows[..., :users, :].any()
    assert np.linalg.norm(rows) == pytest.approx(np.sqrt(degree))
    assert degree > 0


def test_the_measure_can_fail(monkeypatch) -> None:
    honest = AggregationPerturbation._normalised
    monkeypatch.setattr(AggregationPerturbation, "_normalised", lambda self, x: 2 * honest(self, x))
    assert min(furthest(monkeypatch)) > 1.5


def test_released_sums_are_the_sums_of_item_features(monkeypatch) -> None:
    """What makes the loss free of edges: s_u is the sum of f_i over the user's items, but for the noise."""
    monkeypatch.setattr(
        GAP, "mechanism", lambda self, users: AggregationPerturbation(1e-7, unit="user", most_edges=2)
    )
    monkeypatch.setattr(GAP, "_claims", lambda self, public: ())
    kept = {}
    honest = GAP._release

    def release(self, job):
        kept["released"] = honest(self, job)
        raise KeyboardInterrupt

    monkeypatch.setattr(GAP, "_release", release)
    from veilrec.training import DataGuard, Job

    guard = DataGuard(data())
    job = Job(guard.public, None, 1, "cpu", None, False, noise=Noise.research(1), guard=guard)
    model = GAP(embedding_size=8)
    with pytest.raises(KeyboardInterrupt):
        model._fit(job)
    history = data().matrix()
    first, x, sums = kept["released"]
    np.testing.assert_allclose(sums[:40], history @ x[40:], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-5)
    counts = neighbours(first, floor=0.0)
    np.testing.assert_allclose(counts[:40], np.maximum(np.diff(history.indptr), 1), rtol=1e-4)


def test_what_is_kept_is_what_was_released(monkeypatch) -> None:
    """The sums that the network learns from are those with noise, bit by bit; not the exact ones beside."""
    kept = []
    honest = GAP._release

    def release(self, job):
        kept.append(honest(self, job))
        return kept[-1]

    monkeypatch.setattr(GAP, "_release", release)
    drawn = [out for *_, out in transcript(monkeypatch, data())]
    first, _, sums = kept[0]
    np.testing.assert_array_equal(first, np.asarray(drawn[0], np.float32)[0])
    np.testing.assert_array_equal(sums, np.asarray(drawn[-1], np.float32)[0])


def test_the_noise_in_both_factors_is_taken_off() -> None:
    """Over many draws of the noise the attraction is that of the sums without noise."""
    random = np.random.default_rng(2)
    clean = random.normal(size=(6, 5))
    b, w = (torch.tensor(random.normal(size=(5, 3))) for _ in range(2))
    weight, noise = torch.tensor(random.random(6)), random.random(6) + 0.5
    exact = attraction(torch.tensor(clean), b, w, weight, 0 * noise).item()
    noisy = [torch.tensor(clean + noise[:, None] * random.normal(size=clean.shape)) for _ in range(3000)]

    def off(taken) -> float:
        found = np.array([attraction(liked, b, w, weight, taken).item() for liked in noisy])
        return abs(float(found.mean()) - exact) / (float(found.std()) / math.sqrt(len(found)))

    assert off(noise) < 4
    assert off(0 * noise) > 8  # the control


def test_rows_have_length_one() -> None:
    random = np.random.default_rng(1)
    for rows in (
        beside(random.normal(size=(5, 3)), random.random(5)),
        spread(random.normal(size=(5, 4)) * 9, random.normal(size=(5, 4)) * 9, users=2),
    ):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)


def test_noise_is_sqrt_two_times_the_multiplier_of_all_hops() -> None:
    one, two = (GAP(hops=hops).mechanism(6040) for hops in (1, 2))
    assert one.sigma == pytest.approx(one.noise_multiplier * math.sqrt(2))
    assert two.noise_multiplier == pytest.approx(one.noise_multiplier * math.sqrt(2), rel=1e-3)


def test_beats_popularity_without_much_noise() -> None:
    random = np.random.default_rng(1)
    likes = random.random((240, 120)) < np.where(np.arange(240)[:, None] % 3 == np.arange(120) % 3, 0.3, 0.01)
    parts = vr.split.holdout(vr.Dataset.from_arrays(*np.nonzero(likes)), test=0.3, seed=1)
    model = GAP(epsilon=20.0, embedding_size=32, epochs=40).fit(
        parts.train, seed=1, progress=False, secure=False
    )
    null = vr.Popularity().fit(parts.train)
    ours, base = (vr.evaluate(m, parts, k=10, progress=False).mean()["recall@10"] for m in (model, null))
    assert ours > 1.5 * base


def test_scores_are_held_in_parts_and_give_the_same_gradients() -> None:
    generator = torch.Generator().manual_seed(1)
    p, q = (torch.randn(n, 5, generator=generator, requires_grad=True) for n in (23, 7))
    weight, held = torch.rand(23, generator=generator), []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held.append(tensor.numel())
        return tensor

    found = {}
    for cells in (1, 30, 1 << 24):
        held.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = repulsion(p, q, weight, cells=cells)
        found[cells] = (loss, *torch.autograd.grad(loss, (p, q))), max(held, default=0)
    (whole, at_once), *rest = found.pop(1 << 24), *found.values()
    assert at_once == 23 * 7  # negative control: all scores are kept for the gradient
    for parts, most in rest:
        assert most < 23 * 7
        for one, other in zip(parts, whole):
            torch.testing.assert_close(one, other)
