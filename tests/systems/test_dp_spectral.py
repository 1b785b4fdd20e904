from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

import veilrec as vr
from veilrec.data import predefined_split
from veilrec.systems import dp_spectral
from veilrec.systems.dp_spectral import DPSpectral, power_step
from veilrec.systems.private_items import bounded_rows

EVERYTHING = {"popular_items": None, "exponent": 0.0, "count_share": 0.0}
needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


@pytest.fixture(scope="module")
def world() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=600, items=80, interactions=12000, seed=2), test=0.2, seed=1)


def recall(model, split: vr.Split) -> float:
    return float(vr.evaluate(model, split, k=10, progress=False).mean()["recall@10"])


def fit(split, **settings):
    return DPSpectral(**settings).fit(split.train, seed=1, progress=False, secure=False)


# -- sensitivity ------------------------------------------------------------------------------------------

CASES = [
    {"rank": 6},
    {"rank": 6, **EVERYTHING},
    {"rank": 25, "clip": 1.0, "popular_items": None},
    {"rank": 6, "popular_items": 10, "exponent": 2.0, "iterations": 5},
    {"rank": 6, "cap": 4, "cap_by": "sample", "clip": 0.3},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_no_user_moves_a_release_by_more_than_stated(furthest, awkward, settings) -> None:
    worst = furthest(lambda: DPSpectral(**settings), awkward, range(awkward.n_users))
    assert set(worst) >= {"power steps"}
    for label, distance in worst.items():
        assert distance <= 1 + 1e-9, label
        assert distance > 0.95, label


@dataclass(eq=False)
class Unbounded(DPSpectral):
    """Cuts y but forgets to scale x."""

    def _bounded(self, job):
        return self._histories(job, self.label)[:, self.shared["kept"]].astype(np.float64)


def test_the_search_finds_broken_twins(furthest, awkward, monkeypatch) -> None:
    users = range(0, awkward.n_users, 3)
    assert furthest(lambda: Unbounded(rank=6), awkward, users)["power steps"] > 1.5
    monkeypatch.setattr(dp_spectral, "clip_rows", lambda y, clip: y)
    assert furthest(lambda: DPSpectral(rank=6), awkward, users)["power steps"] > 1.5


def test_the_step_is_the_gram_matrix_where_nothing_is_cut() -> None:
    rng = np.random.default_rng(1)
    rows = bounded_rows(vr.synthetic(users=70, items=30, interactions=600).matrix(), np.ones(30), 1)
    basis = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    np.testing.assert_allclose(power_step(rows, basis, 1.0), (rows.T @ rows) @ basis, atol=1e-12)


# -- the statement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"iterations": 6, "epsilon": 1.0}], ids=str)
def test_the_statement(world, settings, secure) -> None:
    model = DPSpectral(**settings).fit(world.train, progress=False, secure=secure)
    (claim,) = model.guarantee.claims
    assert claim.epsilon == pytest.approx(settings.get("epsilon", 8.0), rel=1e-6)
    assert (claim.unit, claim.neighbours, claim.adversaries) == ("user", "add-remove", "OF")
    assert claim.events[-1].count == settings.get("iterations", 3)
    assert model.guarantee.grade == ("secure" if secure else "research")
    assert "own list" in str(model.guarantee)
    assert model.private == {}


# -- utility ----------------------------------------------------------------------------------------------


def test_little_noise_is_the_singular_value_decomposition(world) -> None:
    """The filter of the leading singular vectors, found by numpy."""
    model = fit(world, **EVERYTHING, epsilon=1e12, rank=4, iterations=60, clip=1.0)
    rows = bounded_rows(world.train.matrix(), np.ones(80), 1).toarray()
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:4]
    np.testing.assert_allclose(model.shared["left"] @ model.shared["right"], vectors.T @ vectors, atol=2e-3)


def test_utility_follows_epsilon(world) -> None:
    rows = bounded_rows(world.train.matrix(), np.ones(80), 1).toarray()
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:5]
    plain = fit(world, **EVERYTHING, epsilon=1e12, rank=5)
    plain.shared |= {"left": vectors.T.astype(np.float32), "right": vectors.astype(np.float32)}
    chance = 10 / (80 - world.train.user_counts.mean())
    much, some, none = (recall(fit(world, epsilon=e, rank=5), world) for e in (1000, 8, 0.01))
    assert much > 0.9 * recall(plain, world)
    assert none < 1.35 * chance < some
    assert none < some


def test_more_directions_than_items(world) -> None:
    scores = fit(world, rank=200).scores(["u1"])
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, "rank must be a whole number"),
        ({"iterations": 0}, "iterations must be a whole number"),
        ({"clip": 0.0}, "clip must be above 0 and at most 1"),
        ({"clip": 1.5}, "clip must be above 0 and at most 1"),
        ({"shrinkage": -1.0}, "shrinkage must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
    ],
)
def test_bad_settings(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        DPSpectral(**settings)


@needs_data
@pytest.mark.long
def test_gowalla_without_noise() -> None:
    """All 40,981 items, no noise to speak of: the filter of the plain singular vectors of the same rows."""
    parts = predefined_split("gowalla")
    assert parts is not None
    plain = {"popular_items": None, "exponent": 0.5, "clip": 1.0, "epsilon": 1e9, "shrinkage": 0.0}
    model = DPSpectral(rank=64, iterations=10, **plain).fit(parts.train, progress=False, secure=False)
    assert vr.evaluate(model, parts, k=20, progress=False).mean()["recall@20"] >= 0.13
