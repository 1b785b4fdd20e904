from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.systems import dp_als
from veilrec.systems.dp_als import DPALS, separated, statistics

EVERYTHING = {"popular_items": None, "exponent": 0.0, "count_share": 0.0}


@pytest.fixture(scope="module")
def world() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=600, items=80, interactions=12000, seed=2), test=0.2, seed=1)


def recall(model, split: vr.Split) -> float:
    return float(vr.evaluate(model, split, k=10, progress=False).mean()["recall@10"])


def fit(split, **settings):
    return DPALS(**settings).fit(split.train, seed=1, progress=False, secure=False)


# -- sensitivity ------------------------------------------------------------------------------------------

CASES = [
    {},
    EVERYTHING,
    {"matrix_share": 0.9},
    {"popular_items": 10, "exponent": 2.0, "rounds": 4},
    {"cap": 4, "cap_by": "sample"},
    {"cap": 6, "popular_items": None},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_no_user_moves_a_release_by_more_than_stated(furthest, awkward, settings) -> None:
    make = lambda: DPALS(embedding_size=4, regularization=1e-4, **settings)  # noqa: E731
    worst = furthest(make, awkward, range(awkward.n_users))
    assert set(worst) >= {"item statistics"}
    for label, distance in worst.items():
        assert distance <= 1 + 1e-9, label
        assert distance > 0.95, label


def test_no_row_whatsoever_goes_beyond_the_bound() -> None:
    """The worst case is a user of one item that weighs 1 and a vector of length 1: all three parts are 1."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(300):
        items, size = int(rng.integers(1, 9)), int(rng.integers(1, 6))
        row = sp.csr_matrix((rng.random((1, items)) < rng.random()).astype(np.float64))
        weights = 1 + rng.exponential(size=items) * (rng.random(items) < 0.5)
        weights /= weights.min()
        user = rng.standard_normal((1, size))
        user *= min(1.0, 2 * rng.random()) / np.linalg.norm(user)
        worst = max(worst, float(np.linalg.norm(statistics(row, weights, user, 1, rng.uniform(0.01, 0.97)))))
    assert 0.95 < worst <= 1 + 1e-12


def test_the_search_finds_broken_twins(furthest, awkward, monkeypatch) -> None:
    users = range(0, awkward.n_users, 3)
    make = lambda: DPALS(embedding_size=4, regularization=1e-4)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(dp_als, "clip_rows", lambda u, norm: np.asarray(u, np.float64))
        assert furthest(make, awkward, users)["item statistics"] > 1.5
    monkeypatch.setattr(dp_als, "bounded_rows", lambda rows, weights, cap: rows.astype(np.float64))
    assert furthest(make, awkward, users)["item statistics"] > 1.5


def test_what_was_put_together_comes_apart() -> None:
    rng = np.random.default_rng(2)
    rows = sp.csr_matrix((rng.random((20, 7)) < 0.4).astype(np.float64))
    users, weights = rng.standard_normal((20, 3)) / 4, 1 + rng.random(7)
    weights /= weights.min()
    sums, own, common = separated(statistics(rows, weights, users, 1, 0.3), weights, 3, 0.3)
    table = rows.toarray()
    scale = 1 / np.sqrt(np.maximum((table * weights**2).sum(axis=1), 1e-12)) * (table.sum(axis=1) > 0)
    np.testing.assert_allclose(sums, (table * scale[:, None]).T @ users, atol=1e-12)
    np.testing.assert_allclose(own, np.einsum("ui,u,ua,ub->iab", table, scale, users, users), atol=1e-12)
    np.testing.assert_allclose(common, np.einsum("u,ua,ub->ab", scale, users, users), atol=1e-12)


# -- the statement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"rounds": 6, "epsilon": 1.0}], ids=str)
def test_the_statement(world, settings, secure) -> None:
    model = DPALS(embedding_size=8, **settings).fit(world.train, progress=False, secure=secure)
    (claim,) = model.guarantee.claims
    assert claim.epsilon == pytest.approx(settings.get("epsilon", 8.0), rel=1e-6)
    assert (claim.unit, claim.neighbours, claim.adversaries) == ("user", "add-remove", "OF")
    assert claim.events[-1].count == settings.get("rounds", 3)
    assert model.guarantee.grade == ("secure" if secure else "research")
    assert "own list" in str(model.guarantee)
    assert model.private == {}, "user vectors are never kept"


# -- utility ----------------------------------------------------------------------------------------------


def test_an_item_is_its_own_ridge_regression(world) -> None:
    """Without noise step 6 is the weighted least squares that a dense solve finds."""
    model = DPALS(**EVERYTHING, embedding_size=3, alpha=1.5)
    rng = np.random.default_rng(4)
    rows = world.train.matrix().astype(np.float64)
    users = rng.standard_normal((600, 3)) / 3
    users /= np.maximum(1, np.linalg.norm(users, axis=1, keepdims=True))
    found = model._solve(statistics(rows, np.ones(80), users, 1, 0.2), np.ones(80), sigma=0.0)
    table = rows.toarray()
    weight = np.sqrt(1 / np.maximum(table.sum(axis=1), 1)) * (table.sum(axis=1) > 0)
    for item in (0, 7, 40):
        confidence = weight * (1 + 1.5 * table[:, item])
        matrix = (users * confidence[:, None]).T @ users + 1e-6 * np.eye(3)
        np.testing.assert_allclose(
            found[item], np.linalg.solve(matrix, (users * confidence[:, None]).T @ table[:, item]), rtol=1e-4
        )


def test_utility_follows_epsilon(world) -> None:
    plain = recall(vr.IALS(embedding_size=8).fit(world.train, progress=False), world)
    chance = 10 / (80 - world.train.user_counts.mean())
    settings = {"embedding_size": 8, "rounds": 4}
    much, some, none = (recall(fit(world, epsilon=e, **settings), world) for e in (1000, 8, 0.01))
    assert much > 0.9 * plain
    assert none < 1.35 * chance < some
    assert none < some


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"embedding_size": 0}, "embedding_size must be a whole number"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"regularization": 0.0}, "regularization must be"),
        ({"item_ridge": -1.0}, "item_ridge must be"),
        ({"matrix_share": 0.0}, "matrix_share must be above 0 and below 0.98"),
        ({"matrix_share": 0.99}, "matrix_share must be above 0 and below 0.98"),
    ],
)
def test_bad_settings(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        DPALS(**settings)
