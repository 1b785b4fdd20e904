"""DPAE: its gradients against a slow oracle, its budget, and that nothing without noise leaves a fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import veilrec as vr
from veilrec.privacy import Noise
from veilrec.systems import DPAE, Popularity
from veilrec.systems.dpae import ProfileAutoencoder
from veilrec.training import PrivateTraining

QUICK = {"embedding_size": 8, "epochs": 2}


def data(users: int = 100) -> vr.Dataset:
    return vr.synthetic(users, 50, 16 * users, seed=2)


def clipped_sum(network: ProfileAutoencoder, profiles: torch.Tensor, norm: float) -> torch.Tensor:
    """User by user, in a plain loop."""
    total = torch.zeros(sum(p.numel() for p in network.parameters()))
    for row in profiles:
        slopes = torch.autograd.grad(network(row[None]).sum(), list(network.parameters()))
        flat = torch.cat([slope.reshape(-1) for slope in slopes])
        total += flat * min(1.0, norm * (1 - 1e-5) / float(flat.norm()))
    return total


@pytest.mark.parametrize("norm", [0.05, 10.0])
def test_a_step_is_the_clipped_sum_over_users(norm) -> None:
    profiles = torch.from_numpy(data(30).matrix().toarray())
    network = ProfileAutoencoder(50, 4, torch.Generator().manual_seed(1))
    expected = clipped_sum(network, profiles, norm) / 30
    settings = {"users": 30, "sampling_rate": 1.0, "noise_multiplier": 1e-9, "clip_norm": norm, "steps": 1}
    PrivateTraining(network, Noise.research(1), **settings).step(lambda users: profiles[users])
    found = torch.cat([p.grad.reshape(-1) for p in network.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_the_budget_is_met_and_belongs_to_the_user() -> None:
    guarantee = DPAE(epsilon=2.0, **QUICK).fit(data(), progress=False).guarantee
    (claim,) = guarantee.claims
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-3)
    assert guarantee.epsilon <= 2.0
    assert (claim.unit, claim.neighbours, claim.adversaries) == ("user", "add-remove", "OF")
    assert claim.delta == 1e-5
    (event,) = claim.events
    assert (event.count, event.sampling_rate) == (20, 0.1)
    assert guarantee.grade == "secure"


def test_validation_never_stops_the_run() -> None:
    parts = vr.split.holdout(data(), test=0.1, valid=0.1, seed=1)
    model = DPAE(**QUICK | {"epochs": 3}, validate_every=1)
    model.fit(parts.train, parts.valid, seed=1, progress=False, secure=False)
    assert len(model.facts["log"]) == 3
    assert model.guarantee.claims[0].events[0].count == 30
    assert any("chosen on private data" in words for words in model.guarantee.warnings)


def weights(d: vr.Dataset, **settings) -> np.ndarray:
    model = DPAE(**QUICK | settings).fit(d, seed=1, progress=False, secure=False)
    return np.concatenate([value.ravel() for value in model.shared.values()]), model.facts["log"]


def test_under_endless_noise_nothing_of_the_data_is_left_in_weights_or_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same coins and noise over two data sets; at a real epsilon they must differ (the control)."""
    monkeypatch.setattr("veilrec.systems.dpae.check_lattice", lambda *_: None)  # floats hold what it cannot
    whole = data()
    half = whole.take(np.arange(len(whole)) % 2 == 0)
    (one, log), (two, other) = (weights(d, epsilon=1e-6) for d in (whole, half))
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose([e["loss"] for e in log], [e["loss"] for e in other], rtol=1e-4)
    assert not np.allclose(weights(whole, epsilon=50.0)[0], weights(half, epsilon=50.0)[0], atol=1e-2)


def test_ranking() -> None:
    split = vr.split.holdout(vr.synthetic(400, 120, 12_000, seed=2), test=0.2, seed=1)
    lists = {}
    for model in (Popularity(), DPAE(epsilon=100.0)):
        fitted = model.fit(split.train, seed=1, progress=False, secure=False)
        lists[model.word] = vr.evaluate(fitted, split, k=10, progress=False).mean()["recall@10"]
    assert lists["dpae"] > 1.1 * lists["popularity"]


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="delta must be above 0 and below 1"):
        DPAE(delta=0.0)
    with pytest.raises(ValueError, match="sampling_rate must be above 0"):
        DPAE(sampling_rate=1.5)
