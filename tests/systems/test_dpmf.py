"""DPMF against a slow oracle, its noise on trial, and the two statements."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import veilrec as vr
from veilrec.data import Ids
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import ObjectivePerturbation
from veilrec.systems import DPMF, Popularity, dpmf
from veilrec.systems.dpmf import mean_square, perturbed_ridge, public_vectors


def parts() -> vr.Split:
    return vr.split.holdout(vr.synthetic(300, 120, 9000, seed=2), test=0.2, seed=1)


def recall(model, split) -> float:
    fitted = model.fit(split.train, seed=1, progress=False, secure=False)
    return vr.evaluate(fitted, split, k=10, progress=False).mean()["recall@10"]


def test_the_minimum_is_that_of_the_mechanism() -> None:
    """The same noise through the general solver, column by column, ends in the same vectors."""
    rows = sp.csr_matrix(np.random.default_rng(1).random((30, 4)) < 0.3, dtype=float)
    u = public_vectors(Ids(range(30)), 3, seed=1)
    mechanism = ObjectivePerturbation(2.0, 5.0, lipschitz=2.0)
    found = perturbed_ridge(rows, u, mechanism, Noise.research(7))
    noise = Noise.research(7)
    direction = noise.normals((4, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    terms = direction * (noise.exponentials((4, 3)).sum(axis=1, keepdims=True) / mechanism.rate)
    for j in range(4):
        column = rows[:, [j]].toarray().ravel()

        def losses(v, column=column):
            rest = column - u @ v
            return float(rest @ rest), -2 * u.T @ rest

        class Fixed(ObjectivePerturbation):
            def noise_vector(self, dimension, noise, term=terms[j]):
                return term

        slow = Fixed(2.0, 5.0, lipschitz=2.0).release(losses, 3, Noise.research(1))
        np.testing.assert_allclose(found[j], slow, atol=2e-4)


def noise_terms(scale: float = 1.0) -> np.ndarray:
    """The random terms of many columns without data; a broken twin scales them."""
    u = public_vectors(Ids([1]), 4, seed=1)
    mechanism = ObjectivePerturbation(1.5, 3.0, lipschitz=2.0)
    v = perturbed_ridge(sp.csr_matrix((1, 4000)), u, mechanism, Noise.research(3))
    return -scale * v @ (2 * u.T @ u + 3.0 * np.eye(4))


def noise_is_right(terms: np.ndarray) -> bool:
    """Lengths are Gamma(4, 2 / epsilon) and the mean direction is nothing."""
    length = np.linalg.norm(terms, axis=1)
    shape = stats.kstest(length, stats.gamma(4, scale=2 / 1.5).cdf).pvalue > 1e-6
    return bool(shape and np.linalg.norm((terms / length[:, None]).mean(axis=0)) < 0.1)


def test_the_noise_has_the_density_that_the_proof_needs() -> None:
    assert noise_is_right(noise_terms())
    assert not noise_is_right(noise_terms(0.8)), "less noise must be noticed"


def test_one_interaction_moves_one_gradient_by_at_most_two() -> None:
    u = public_vectors(Ids(range(50)), 8, seed=2)
    before = sp.csr_matrix(np.random.default_rng(1).random((50, 6)) < 0.2, dtype=float).tolil()
    after = before.copy()
    after[3, 2] = 1 - before[3, 2]
    moved = 2 * (after.tocsr().T @ u - before.tocsr().T @ u)
    assert np.count_nonzero(np.linalg.norm(moved, axis=1)) == 1
    assert np.linalg.norm(moved) == pytest.approx(2.0)
    for model in (DPMF(), DPMF(user_vectors="public")):
        assert model._mechanism().lipschitz >= np.linalg.norm(moved) * (1 - 1e-9)
        assert model._mechanism().neighbours == "add-remove"


def test_a_user_who_is_gone_moves_the_own_gradients_and_no_hessian(monkeypatch) -> None:
    data, seen = vr.synthetic(200, 40, 3000, seed=1), []
    honest = dpmf.perturbed_ridge

    def noted(rows, design, mechanism, noise, gram):
        seen.append((2 * (rows.T @ design), gram))
        return honest(rows, design, mechanism, noise, gram)

    monkeypatch.setattr(dpmf, "perturbed_ridge", noted)
    for user in (0, 100):  # the first by id shifts all codes
        gone, had = data.without(data.users.take([user])[0]), int(data.user_counts[user])
        seen.clear()
        for one in (data, gone):
            DPMF(user_vectors="public", embedding_size=8).fit(one, seed=1, progress=False, secure=False)
        (before, gram), (after, same) = seen
        assert np.linalg.norm(before - after, axis=1).max() == pytest.approx(2.0)
        assert np.count_nonzero(np.linalg.norm(before - after, axis=1) > 1e-9) == had
        np.testing.assert_array_equal(gram, same)


def test_the_mean_gram_matrix_is_that_of_many_users() -> None:
    u = public_vectors(Ids(range(40_000)), 6, seed=3)
    np.testing.assert_allclose(u.T @ u / 40_000, mean_square(6), atol=0.006)
    assert not np.allclose(u.T @ u / 40_000, mean_square(6) * 0.95, atol=0.006)


def test_statements() -> None:
    data = parts().train
    paper = DPMF().fit(data, progress=False).guarantee
    assert math.isinf(paper.epsilon)
    assert "fitted to the same interactions without noise" in str(paper)
    assert "item profiles satisfy" in str(paper)
    public = DPMF(epsilon=0.7, user_vectors="public").fit(data, progress=False).guarantee
    assert public.epsilon == 0.7
    assert public.grade == "research", "a solver in floating point is never called secure"
    assert public.claims[0].user_epsilon == pytest.approx(0.7 * data.n_items)
    assert public.claims[0].adversaries == "OF"


def test_public_vectors_know_nothing_of_the_data() -> None:
    """The taint test of the finite form: with an enormous noise nothing of the interactions is left."""
    data = parts().train
    other = data.take(np.arange(len(data)) % 2 == 0)
    one, two = (
        DPMF(user_vectors="public", epsilon=1e-6).fit(d, seed=1, progress=False, secure=False)
        for d in (data, other)
    )
    np.testing.assert_allclose(one.shared["item_vectors"], two.shared["item_vectors"], rtol=1e-3)
    one, two = (
        DPMF(epsilon=1e-6).fit(d, seed=1, progress=False, secure=False) for d in (data, other)
    )  # the fitted form still tells them apart: through the Hessian
    assert not np.allclose(one.shared["item_vectors"], two.shared["item_vectors"], rtol=1e-2)


def test_ranking() -> None:
    split = parts()
    popular = recall(Popularity(), split)
    assert recall(DPMF(epsilon=100.0), split) > 1.1 * popular
    assert (
        recall(DPMF(epsilon=100.0, user_vectors="public", embedding_size=32, shrinkage=2.0), split)
        > 1.05 * popular
    )
    assert recall(DPMF(epsilon=0.001, user_vectors="public"), split) < popular


def test_a_fit_that_goes_on_does_not_draw_again(tmp_path) -> None:
    """Secure noise, so a second draw would give other vectors; the control without a folder does."""
    data = vr.synthetic(60, 40, 900)
    one, two = (DPMF(user_vectors="public").fit(data, progress=False, checkpoint=tmp_path) for _ in range(2))
    np.testing.assert_array_equal(one.shared["item_vectors"], two.shared["item_vectors"])
    np.testing.assert_array_equal(one.private["user_vectors"], two.private["user_vectors"])
    assert one.guarantee == two.guarantee
    assert two.guarantee.grade == "research"
    other = DPMF(user_vectors="public").fit(data, progress=False)
    assert (one.shared["item_vectors"] != other.shared["item_vectors"]).any()
    with pytest.raises(ValueError, match="checkpoint must be of the same model, settings"):
        DPMF(user_vectors="public", embedding_size=3).fit(data, progress=False, checkpoint=tmp_path)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="user_vectors must be"):
        DPMF(user_vectors="none")
    with pytest.raises(ValueError, match="epsilon must be"):
        DPMF(epsilon=0.0)
