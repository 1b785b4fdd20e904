"""DPNE: the matrix and the two solves against slow ones, and the flaw that its statement names."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.privacy import UnboundedEvent
from veilrec.systems import DPNE, Popularity
from veilrec.systems.dpne import line_matrix


def graph() -> np.ndarray:
    return (np.random.default_rng(3).random((12, 9)) < 0.4).astype(float)


def test_the_matrix_is_that_of_line() -> None:
    a = graph()
    volume = 2 * a.sum()
    slow = np.zeros_like(a)
    for u, i in np.argwhere(a):
        shifted = math.log(volume * a[u, i] / (a[u].sum() * a[:, i].sum())) - math.log(0.5)
        slow[u, i] = min(max(shifted, 0.0), 2.0) / 2.0
    np.testing.assert_allclose(line_matrix(sp.csr_matrix(a), 0.5, 2.0).toarray(), slow)
    assert slow.max() <= 1


def test_one_edge_moves_more_than_one_entry() -> None:
    """Why no finite epsilon holds: the proof is of a single entry. The negative control moves one only."""
    a = graph()
    u, i = np.argwhere(a == 0)[0]
    b = a.copy()
    b[u, i] = 1
    moved = line_matrix(sp.csr_matrix(a), 0.1, 5.0) != line_matrix(sp.csr_matrix(b), 0.1, 5.0)
    assert moved.nnz > a[u].sum() + a[:, i].sum()
    assert (sp.csr_matrix(a) != sp.csr_matrix(b)).nnz == 1


def test_without_noise_both_sides_are_ridge_regressions() -> None:
    data = vr.synthetic(60, 40, 900, seed=1)
    model = DPNE(embedding_size=4, epsilon=700.0, regularization=3.0)
    model.fit(data, seed=1, progress=False, secure=False)
    m = line_matrix(data.matrix(), 1.0, 5.0).toarray()
    y = model.shared["item_vectors"].astype(float)
    assert np.linalg.norm(y, axis=1).max() == pytest.approx(1.0)
    slow = np.stack([np.linalg.solve(2 * y.T @ y + 3 * np.eye(4), 2 * y.T @ row) for row in m])
    np.testing.assert_allclose(model.private["user_vectors"], slow, atol=0.03)
    c = model._contexts(sp.csr_matrix(m), 1)
    items = np.linalg.solve(2 * c.T @ c + 3 * np.eye(4), 2 * c.T @ m).T
    np.testing.assert_allclose(y, items / np.linalg.norm(items, axis=1).max(), atol=0.05)


def test_the_statement_has_the_claim_and_what_holds() -> None:
    guarantee = DPNE(epsilon=3.0).fit(vr.synthetic(60, 40, 900), progress=False).guarantee
    (claim,) = guarantee.claims
    assert math.isinf(guarantee.epsilon)
    assert [event.epsilon for event in claim.events[:2]] == [1.5, 1.5]
    assert isinstance(claim.events[2], UnboundedEvent)
    assert "learned representations satisfy" in str(guarantee)
    assert "whole rows and columns" in str(guarantee)


def test_ranking() -> None:
    split = vr.split.holdout(vr.synthetic(300, 120, 9000, seed=2), test=0.2, seed=1)

    def recall(model) -> float:
        fitted = model.fit(split.train, seed=1, progress=False, secure=False)
        return vr.evaluate(fitted, split, k=10, progress=False).mean()["recall@10"]

    popular = recall(Popularity())
    assert recall(DPNE(epsilon=300.0)) > 1.1 * popular
    assert recall(DPNE(epsilon=0.01)) < popular


def test_a_fit_that_goes_on_does_not_draw_again(tmp_path) -> None:
    """Secure noise, so a second draw would give other vectors; the control without a folder does."""
    data = vr.synthetic(60, 40, 900)
    one, two = (DPNE().fit(data, progress=False, checkpoint=tmp_path) for _ in range(2))
    np.testing.assert_array_equal(one.shared["item_vectors"], two.shared["item_vectors"])
    np.testing.assert_array_equal(one.private["user_vectors"], two.private["user_vectors"])
    assert one.guarantee == two.guarantee
    assert two.guarantee.grade == "research"
    other = DPNE().fit(data, progress=False)
    assert (one.shared["item_vectors"] != other.shared["item_vectors"]).any()
    with pytest.raises(ValueError, match="checkpoint must be of the same model, settings"):
        DPNE(embedding_size=3).fit(data, progress=False, checkpoint=tmp_path)


def test_bad_settings() -> None:
    for name in ("epsilon", "clip", "negatives", "regularization"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            DPNE(**{name: 0.0})
