from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.core import DataError
from veilrec.privacy import Ledger, default_delta
from veilrec.privacy.mechanisms import packed, unpacked
from veilrec.systems.dp_gram import DPGram, ease_table, eigenvalue_gain, leading
from veilrec.systems.ease import ease_weights
from veilrec.systems.private_items import bounded_rows, drawn_items

EVERYTHING = {"popular_items": None, "exponent": 0.0, "count_share": 0.0}


@pytest.fixture(scope="module")
def world() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=600, items=80, interactions=12000, seed=2), test=0.2, seed=1)


def recall(model, split: vr.Split) -> float:
    return float(vr.evaluate(model, split, k=10, progress=False).mean()["recall@10"])


def fit(split_or_data, **settings):
    data = getattr(split_or_data, "train", split_or_data)
    return DPGram(**settings).fit(data, seed=1, progress=False, secure=False)


# -- sensitivity ------------------------------------------------------------------------------------------

CASES = [
    {},
    EVERYTHING,
    {"popular_items": 10, "exponent": 1.0},
    {"cap": 8},
    {"cap": 4, "cap_by": "sample", "popular_items": None},
    {"filter": "ease", "exponent": 3.0},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_no_user_moves_a_release_by_more_than_stated(furthest, awkward, settings) -> None:
    worst = furthest(lambda: DPGram(**settings), awkward, range(awkward.n_users))
    assert set(worst) >= {"item-item matrix"}
    for label, distance in worst.items():
        assert distance <= 1 + 1e-9, label
        assert distance > 0.95, label


@dataclass(eq=False)
class Unbounded(DPGram):
    """Forgets to scale: rows as they are."""

    def _bounded(self, job):
        return self._histories(job, self.label)[:, self.shared["kept"]].astype(np.float64)


@dataclass(eq=False)
class Entangled(DPGram):
    """Draws the items of all users from one sequence: a user who goes changes what others send."""

    def _histories(self, job, purpose):
        rows = job.guard.take("interactions", purpose).matrix()
        keys = np.random.default_rng(1).random(rows.nnz)
        keep = keys < 0.5
        user = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return sp.csr_matrix((rows.data[keep], (user[keep], rows.indices[keep])), rows.shape)


@pytest.mark.parametrize("broken", [Unbounded, Entangled])
def test_the_search_finds_broken_twins(furthest, awkward, broken) -> None:
    worst = furthest(broken, awkward, range(0, awkward.n_users, 3))
    assert worst["item-item matrix"] > 1.5


def test_rows_are_bounded_for_any_weights() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 30.0):
        histories = sp.csr_matrix((rng.random((50, 30)) < rng.random((50, 1))).astype(np.float32))
        rows = bounded_rows(histories, np.exp(scale * rng.standard_normal(30)), cap=1)
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        assert (length <= 1 + 1e-12).all()
        assert np.allclose(length[np.diff(histories.indptr) > 0], 1)


def test_drawn_items_do_not_depend_on_company() -> None:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 30)) < 0.5)
    data = vr.Dataset.from_arrays(users, items)
    table, drawn = data.matrix().toarray(), drawn_items(data, 5, seed=2).toarray()
    assert (drawn.sum(axis=1) == np.minimum(5, table.sum(axis=1))).all()
    assert (drawn <= table).all()
    rest = data.without(0).without(7)
    others = drawn[np.setdiff1d(np.arange(40), [0, 7])]
    np.testing.assert_array_equal(drawn_items(rest, 5, seed=2).toarray(), others)
    assert (drawn_items(rest, 5, seed=3).toarray() != others).any()


# -- the noise and the statement --------------------------------------------------------------------------


def test_packing_keeps_the_norm_and_comes_back() -> None:
    matrix = np.random.default_rng(1).standard_normal((7, 7))
    matrix += matrix.T
    assert np.linalg.norm(packed(matrix)) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(unpacked(packed(matrix), len(matrix)), matrix)


def test_items_are_chosen_by_the_counts_that_were_released() -> None:
    """With so much noise that the exact counts would choose others; weights follow the same counts."""
    data = vr.synthetic(users=80, items=40, interactions=900, seed=1)
    exact = np.asarray(bounded_rows(data.matrix(), np.ones(40), 1).sum(axis=0)).ravel()
    for seed in range(3):
        model = DPGram(epsilon=0.5, popular_items=10).fit(data, seed=seed, progress=False, secure=False)
        best, true = (set(np.argsort(-counts)[:10].tolist()) for counts in (model.shared["counts"], exact))
        assert set(model.shared["kept"].tolist()) == best != true


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_has_the_stated_size(secure) -> None:
    data = vr.Dataset.from_arrays(["a", "b"], [f"i{n:03d}" for n in range(2)])
    model = DPGram(**EVERYTHING, epsilon=0.5)
    _, mechanism = model.mechanisms(2)
    noise = vr.privacy.Noise.secure() if secure else vr.privacy.Noise.research(1)
    out = unpacked(mechanism.release(packed(np.zeros((120, 120))), noise, "x"), 120)
    off, on = out[np.triu_indices(120, 1)], out.diagonal()
    assert np.std(off) == pytest.approx(mechanism.sigma / 2**0.5, rel=0.05)
    assert np.std(on) == pytest.approx(mechanism.sigma, rel=0.4)
    largest = leading(out, 1)[0][0]
    assert largest == pytest.approx((2 * 120) ** 0.5 * mechanism.sigma, rel=0.15)
    assert model.fit(data, progress=False, secure=secure).guarantee.grade == (
        "secure" if secure else "research"
    )


@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"count_share": 0.5, "epsilon": 1.0}], ids=str)
def test_the_statement(world, settings) -> None:
    model = fit(world, **settings)
    (claim,) = model.guarantee.claims
    assert claim.epsilon == pytest.approx(settings.get("epsilon", 8.0), rel=1e-6)
    assert (claim.unit, claim.neighbours, claim.adversaries) == ("user", "add-remove", "OF")
    assert claim.delta == default_delta(600) == 1e-5
    assert "own list" in str(model.guarantee)
    assert model.private == {}


def test_the_budget_is_reserved(world, tmp_path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    ledger.set_limit("shop", epsilon=9.0, delta=1e-3)
    DPGram().fit(world.train, progress=False, ledger=ledger, population="shop")
    (account,) = ledger.accounts("shop")
    assert account.epsilon == pytest.approx(8.0, rel=1e-3)


# -- utility ----------------------------------------------------------------------------------------------


def test_little_noise_is_the_plain_model(world) -> None:
    """EASE on rows of length 1, solved by inversion, is what the table must be when noise vanishes."""
    exact = fit(world, **EVERYTHING, epsilon=1e9, filter="ease", rank=80, shrinkage=0.0, regularization=20.0)
    rows = bounded_rows(world.train.matrix(), np.ones(80), 1).toarray()
    inverse = np.linalg.inv(rows.T @ rows + 20.0 * np.eye(80))
    expected = -inverse / inverse.diagonal()
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(exact.shared["table"], expected, atol=1e-3)
    pca = fit(world, **EVERYTHING, epsilon=1e9, rank=5)
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:5]
    np.testing.assert_allclose(pca.shared["table"], vectors.T @ vectors, atol=1e-3)


@pytest.mark.parametrize("kind", ["pca", "ease"])
def test_utility_follows_epsilon(world, kind) -> None:
    rank = 5 if kind == "pca" else 40
    if kind == "ease":
        plain = recall(vr.EASE(50.0).fit(world.train, progress=False), world)
    else:  # exact, as the test above shows
        plain = recall(fit(world, **EVERYTHING, epsilon=1e9, rank=rank), world)
    chance = 10 / (80 - world.train.user_counts.mean())
    much, some, none = (recall(fit(world, filter=kind, epsilon=e, rank=rank), world) for e in (1000, 8, 0.01))
    assert much > 0.85 * plain
    assert none < 1.35 * chance < some
    assert none < some <= 1.02 * much


def test_sampled_and_capped_histories_work_too(world) -> None:
    chance = 10 / (80 - world.train.user_counts.mean())
    for settings in ({"cap": 10}, {"cap": 10, "cap_by": "sample"}):
        assert recall(fit(world, **settings), world) > 1.5 * chance


def test_what_was_not_kept_comes_last(world) -> None:
    model = fit(world, popular_items=20)
    kept = set(model.items.take(model.shared["kept"]).to_list())
    listed = model.recommend(["u1"], k=60, exclude_seen=False)["item"].to_list()
    assert set(listed[:20]) == kept
    empty = model.recommend(history={"new": []}, k=1)["item"].to_list()
    assert empty == [model.items.take([int(np.argmax(model.shared["counts"]))])[0]]


# -- arithmetic and bad input -----------------------------------------------------------------------------


def test_ease_table_is_ease() -> None:
    history = sp.csr_matrix((np.random.default_rng(3).random((40, 12)) < 0.3).astype(np.float32))
    gram = np.asarray((history.T @ history).toarray(), np.float64)
    values, vectors = leading(gram, 12)
    np.testing.assert_allclose(ease_table(values, vectors, 3.0), ease_weights(history, 3.0), atol=1e-5)


def test_eigenvalue_gain() -> None:
    np.testing.assert_allclose(eigenvalue_gain(np.array([5.0, 3.0, 1.0]), 0.0), 1)
    assert eigenvalue_gain(np.array([1.0, 0.5, -4.0]), 9.0).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number above 0"),
        ({"delta": 0.0}, "delta must be None or strictly between 0 and 1"),
        ({"count_share": 0.0}, "count_share must be above 0.*popular_items=None"),
        ({"count_share": 1.0}, "count_share must be from 0 to 0.99"),
        ({"popular_items": 0}, "popular_items must be a whole number"),
        ({"cap": 0}, "cap must be a whole number"),
        ({"cap_by": "samples"}, "Did you mean 'sample'"),
        ({"filter": "eas"}, "Did you mean 'ease'"),
        ({"rank": 0}, "rank must be a whole number"),
        ({"shrinkage": -1.0}, "shrinkage must be"),
        ({"exponent": float("nan")}, "exponent must be"),
        ({"regularization": 0.0}, "regularization must be"),
    ],
)
def test_bad_settings(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        DPGram(**settings)


def test_too_many_items_are_refused_before_data_are_touched(world) -> None:
    with pytest.raises(DataError, match=r"at most 79 items for dp-gram, got 80: .* use dp-spectral"):
        fit(world, max_items=79)
    fit(world, max_items=40, popular_items=40)


def test_items_that_were_not_kept_follow_by_their_counts() -> None:
    data = vr.synthetic(users=80, items=40, interactions=1500, seed=1)
    model = DPGram(epsilon=50.0, popular_items=10).fit(data, progress=False, secure=False)
    kept, counts = model.shared["kept"], model.shared["counts"]
    scores = model.score_codes(np.arange(5))
    rest = np.setdiff1d(np.arange(40), kept)
    assert scores[:, rest].max() < scores[:, kept].min()
    assert (np.diff(scores[:, rest[np.argsort(counts[rest])]], axis=1) > 0).all()
