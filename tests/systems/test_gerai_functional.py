"""GERAI-C/FM: what a user can move, what is spent, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.privacy.mechanisms import FunctionalMechanism
from veilrec.training import evaluate


def model(**settings) -> vr.GERAIFunctional:
    return vr.GERAIFunctional(**{"embedding_size": 8, "popular_items": 40, **settings})


@pytest.fixture(scope="module")
def parts() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=400, items=80, interactions=12_000, seed=4), test=0.2, seed=1)


@pytest.fixture(scope="module")
def fitted(parts) -> vr.GERAIFunctional:
    return model(epsilon=8.0).fit(parts.train, seed=1, progress=False, secure=False)


def test_three_releases_make_the_epsilon(fitted) -> None:
    (claim,) = fitted.guarantee.claims
    labels = ["item counts", "item-item matrix", "coefficients of the pairwise loss"]
    assert [(event.label, event.count) for event in claim.events] == [(label, 1) for label in labels]
    assert claim.epsilon == pytest.approx(8.0, abs=1e-3)
    assert (claim.unit, claim.adversaries) == ("user", "OF")


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "broken: sum"])
def test_one_user_moves_the_coefficients_by_no_more_than_the_bound(fitted, parts, mean) -> None:
    """Users taken out in turn, all else frozen. Who gives the sum of the own triples breaks the bound."""
    history = parts.train.matrix()[:, fitted.shared["kept"]].tocsr()
    mechanism = FunctionalMechanism(1.0)

    def coefficients(rows: sp.csr_matrix) -> np.ndarray:
        differences, owner = fitted._triples(rows, parts.train.users, seed=1)
        return mechanism.coefficients(differences, owner if mean else np.arange(len(owner)))

    whole, moved = coefficients(history), []
    for user in range(25):
        rest = history.tolil()
        rest[user] = 0
        moved.append(np.linalg.norm(whole - coefficients(rest.tocsr())))
    assert max(moved) > 0.05
    assert (max(moved) <= mechanism.sensitivity + 1e-9) == mean


def test_triples_of_others_do_not_change_with_a_user(fitted, parts) -> None:
    history = parts.train.matrix()[:, fitted.shared["kept"]].tocsr()
    whole, owner = fitted._triples(history, parts.train.users, seed=1)
    rest = parts.train.without(parts.train.users.take([3])[0])
    fewer, left = fitted._triples(rest.matrix()[:, fitted.shared["kept"]].tocsr(), rest.users, seed=1)
    for user in (0, 4, 77):
        np.testing.assert_array_equal(whole[owner == user], fewer[left == user - (user > 3)])


def test_triples_leave_the_own_item_out_and_avoid_own_items(parts) -> None:
    """A user of one item has nothing to be known by: z is zero, and only popularity speaks."""
    plain = model().fit(parts.train, seed=1, progress=False, secure=False)
    history = sp.csr_matrix((1, 40), dtype=np.float32).tolil()
    history[0, 5] = 1
    one = vr.data.Ids(["ann"])
    differences, owner = plain._triples(history.tocsr(), one, seed=1)
    assert np.all(differences[:, :-1] == 0)
    assert set(owner) == {0}
    full = sp.csr_matrix(np.ones((1, 40), np.float32))
    assert len(plain._triples(full, one, seed=1)[0]) == 0


def test_it_beats_popularity(fitted, parts) -> None:
    null = vr.Popularity().fit(parts.train, progress=False)
    ours, theirs = (evaluate(m, parts, 10, progress=False).mean()["ndcg@10"] for m in (fitted, null))
    assert ours > 1.15 * theirs


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"epsilon": 0}, "epsilon"), ({"scale": 0}, "scale"), ({"negatives": 0}, "negatives")],
)
def test_bad_settings(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        model(**settings)
