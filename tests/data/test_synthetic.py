from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg as sla
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.data import Categorical, Dataset, describe, synthetic
from veilrec.data.split import holdout

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = "c5e386cecd52d372cd6579646a5a1d2a27e2e82637eed1eea2b09fbe5781b3b4"
ML_100K = (943, 1682, 100_000)


@pytest.fixture(scope="module")
def small() -> Dataset:
    return synthetic()


@pytest.fixture(scope="module")
def large() -> Dataset:
    return synthetic(*ML_100K)


def codes(data: Dataset, name: str) -> np.ndarray:
    attribute = data.attributes[name]
    assert isinstance(attribute, Categorical)
    return attribute.codes


def guesses(data: Dataset, target: np.ndarray, folds: int = 5, ridge: float = 100.0) -> np.ndarray:
    """Ridge regression on the history, each user predicted from the others' folds."""
    history = data.matrix().toarray().astype(np.float64)
    history /= np.sqrt(history.sum(axis=1, keepdims=True))
    fold = np.random.default_rng(0).permutation(len(history)) % folds
    out = np.empty(len(history))
    for k in range(folds):
        seen, unseen = history[fold != k], history[fold == k]
        mean = target[fold != k].mean()
        kernel = seen @ seen.T + ridge / 100 * np.eye(len(seen))
        out[fold == k] = mean + unseen @ seen.T @ np.linalg.solve(kernel, target[fold != k] - mean)
    return out


def auc(score: np.ndarray, truth: np.ndarray) -> float:
    good, bad = score[truth == 1], score[truth == 0]
    return float((good[:, None] > bad[None, :]).mean())


def item_vectors(data: Dataset, size: int = 24) -> np.ndarray:
    scaled = data.matrix().astype(np.float64)
    scaled = scaled.multiply(1 / np.sqrt(data.user_counts)[:, None])
    scaled = scaled.multiply(1 / np.sqrt(data.item_counts)[None, :]).tocsr()
    _, values, right = sla.svds(scaled, k=size, v0=np.ones(min(scaled.shape)))
    vectors = right[np.argsort(-values)][1:].T
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def order_gap(data: Dataset, item: np.ndarray | None = None) -> float:
    """How much nearer the next item is than a random own item; ``item`` may be another order."""
    item = data.item if item is None else item
    vectors = item_vectors(data)
    here = np.flatnonzero(data.user[1:] == data.user[:-1])
    owner = data.user[here]
    drawn = np.random.default_rng(0).random(len(here)) * data.user_counts[owner]
    other = data.offsets[owner] + drawn.astype(np.int64)
    keep = other != here
    following = (vectors[item[here]] * vectors[item[here + 1]]).sum(axis=1)
    anything = (vectors[item[here]] * vectors[item[other]]).sum(axis=1)
    return float(following[keep].mean() - anything[keep].mean())


# -- shape ---------------------------------------------------------------------------------------------


def test_default_is_what_it_always_was(small: Dataset) -> None:
    """Guards against silent change. On purpose? Run `python -m benchmarks.synthetic_stats` as well."""
    assert small.fingerprint == DEFAULT


def test_same_seed_same_bits_other_seed_other_world(small: Dataset) -> None:
    assert synthetic(name="other").fingerprint == small.fingerprint
    assert synthetic(seed=1).fingerprint != small.fingerprint
    few = synthetic(30, 20, 200)
    for changed in ({"attribute_strength": 0.5}, {"drift": 0.5}, {"friends": 3.0}):
        assert synthetic(30, 20, 200, **changed).fingerprint != few.fingerprint


def check_shape(data: Dataset, users: int, items: int, interactions: int) -> None:
    assert (data.n_users, data.n_items, len(data)) == (users, items, interactions)
    pairs = np.sort(data.user.astype(np.int64) * items + data.item)
    assert (np.diff(pairs) > 0).all()
    assert data.user_counts.min() >= min(5, max(1, interactions // users // 2))
    assert data.item_counts.min() >= 1
    assert data.rating is not None
    assert data.rating_range == (1, 5)
    assert set(np.unique(data.rating)) <= {1, 2, 3, 4, 5}
    assert data.time is not None
    assert ((np.diff(data.time) > 0) | (np.diff(data.user) > 0)).all()


@pytest.mark.parametrize("size", [(20, 15, 50), (200, 100, 5_000), ML_100K])
def test_sizes(size: tuple[int, int, int]) -> None:
    check_shape(synthetic(*size), *size)


@settings(max_examples=60, deadline=None)
@given(users=st.integers(2, 40), items=st.integers(2, 40), fill=st.floats(0, 1), seed=st.integers(0, 9))
def test_any_size_that_is_allowed(users: int, items: int, fill: float, seed: int) -> None:
    least, most = max(users, items), users * items // 2
    if least <= most:
        interactions = round(least + fill * (most - least))
        check_shape(synthetic(users, items, interactions, seed=seed), users, items, interactions)


def test_ids_attributes_and_columns(small: Dataset) -> None:
    assert {"u1", "u17", "u600"} <= set(small.users.values)
    assert {"i1", "i42", "i400"} <= set(small.items.values)
    assert small.user.dtype == small.item.dtype == np.int32
    assert list(small.attributes) == ["gender", "age", "occupation"]
    for name, kinds in (("gender", 2), ("age", 7), ("occupation", 21)):
        attribute = small.attributes[name]
        assert isinstance(attribute, Categorical)
        assert len(attribute.categories) == kinds
        assert not attribute.missing.any()
    assert small.frame().columns == ["user", "item", "rating", "time"]


def test_occupations_fit_ages(large: Dataset) -> None:
    frame = large.user_frame()
    retired = frame.filter(frame["occupation"] == "retired")["age"]
    student = frame.filter(frame["occupation"] == "student")["age"]
    assert retired.is_in(["50-55", "56+"]).mean() > 0.8  # type: ignore[operator]
    assert student.is_in(["under 18", "18-24", "25-34"]).mean() > 0.9  # type: ignore[operator]
    counts = np.bincount(codes(large, "occupation"), minlength=21)
    assert (counts > 0).all()
    assert 0.14 < counts.max() / large.n_users < 0.26  # students, as in ML-100K


def test_times_lie_in_one_year_and_come_in_sessions(small: Dataset) -> None:
    assert small.time is not None
    start, end = np.datetime64("2024-01-01", "s").astype(int), np.datetime64("2025-01-03", "s").astype(int)
    assert start < small.time.min() < start + 30 * 86_400
    assert end - 30 * 86_400 < small.time.max() < end
    gaps = np.diff(small.time)[np.diff(small.user) == 0]
    assert np.median(gaps) < 120
    assert 0.05 < (gaps > 3_600).mean() < 0.2


# -- statistics, in bands around those of ML-100K --------------------------------------------------------


def test_popularity_and_activity_have_tails(large: Dataset) -> None:
    info = describe(large)
    assert 0.58 < info.gini < 0.68  # ML-100K: 0.629
    assert 0.37 < info.top_share["10%"] < 0.48  # 0.427
    assert 0.12 < (large.item_counts < 5).mean() < 0.28  # 0.198
    assert large.user_counts.min() == 20
    assert 55 < np.median(large.user_counts) < 75  # 65
    assert 600 < large.user_counts.max() < 850  # 737


def test_ratings(large: Dataset) -> None:
    assert large.rating is not None
    shares = np.bincount(large.rating.astype(int), minlength=6)[1:] / len(large)
    np.testing.assert_allclose(shares, [0.0611, 0.1137, 0.2715, 0.3417, 0.2120], atol=0.002)
    user_mean = np.bincount(large.user, large.rating) / large.user_counts
    often = large.item_counts >= 20
    item_mean = (np.bincount(large.item, large.rating) / large.item_counts)[often]
    assert 0.38 < user_mean.std() < 0.53  # 0.445
    assert 0.38 < item_mean.std() < 0.60  # 0.533
    assert 0.2 < np.corrcoef(item_mean, np.log(large.item_counts[often]))[0, 1] < 0.65  # 0.469


def test_attributes_can_be_inferred_only_when_tastes_follow_them(large: Dataset) -> None:
    men, age = codes(large, "gender"), codes(large, "age").astype(np.float64)
    assert 0.66 < auc(guesses(large, men.astype(np.float64)), men) < 0.85
    assert np.corrcoef(guesses(large, age), age)[0, 1] > 0.4
    blank = synthetic(*ML_100K, attribute_strength=0)
    men, age = codes(blank, "gender"), codes(blank, "age").astype(np.float64)
    assert abs(auc(guesses(blank, men.astype(np.float64)), men) - 0.5) < 0.07
    assert abs(np.corrcoef(guesses(blank, age), age)[0, 1]) < 0.12


def test_attributes_can_be_inferred_at_the_default_size(small: Dataset) -> None:
    men, age = codes(small, "gender"), codes(small, "age").astype(np.float64)
    assert auc(guesses(small, men.astype(np.float64)), men) > 0.62
    assert np.corrcoef(guesses(small, age), age)[0, 1] > 0.25
    students = (
        codes(small, "occupation") == list(small.attributes["occupation"].categories).index("student")
    ) * 1
    assert auc(guesses(small, students.astype(np.float64)), students) > 0.62


def test_order_matters_only_with_drift(small: Dataset) -> None:
    assert order_gap(small) > 0.05
    assert abs(order_gap(synthetic(drift=0))) < 0.012
    shuffled = small.item[np.lexsort((np.random.default_rng(0).random(len(small)), small.user))]
    assert abs(order_gap(small, shuffled)) < 0.012


def test_without_drift_popular_items_do_not_come_first() -> None:
    still = synthetic(*ML_100K, drift=0)
    place = (np.arange(len(still)) - still.offsets[still.user]) / still.user_counts[still.user]
    fame = np.log(still.item_counts[still.item])
    fame -= (np.bincount(still.user, fame) / still.user_counts)[still.user]
    assert abs(np.corrcoef(place, fame)[0, 1]) < 0.012  # the earliest of equal draws winning gives -0.12


def test_personal_beats_popular_but_is_not_perfect(small: Dataset) -> None:
    split = holdout(small, test=0.2, seed=0)
    train, test = split.train.matrix().toarray(), split.test.matrix().toarray()
    inverse = np.linalg.inv(train.T @ train + 100 * np.eye(small.n_items))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)

    def recall(scores: np.ndarray) -> float:
        top = np.argsort(-np.where(train > 0, -np.inf, scores), axis=1)[:, :20]
        hits, held = np.take_along_axis(test, top, axis=1).sum(axis=1), test.sum(axis=1)
        return float((hits[held > 0] / held[held > 0]).mean())

    popular, personal = recall(np.tile(train.sum(axis=0), (len(train), 1))), recall(train @ weights)
    assert 0.2 < popular < 0.45
    assert 1.3 * popular < personal < 0.75


def test_friends_are_alike(small: Dataset) -> None:
    links = small.links
    assert links is not None
    assert 6 < len(links) / small.n_users < 9
    pairs = links.source.astype(np.int64) * small.n_users + links.target
    assert len(np.unique(pairs)) == len(pairs)
    assert (links.source != links.target).all()
    returned = np.isin(links.target.astype(np.int64) * small.n_users + links.source, pairs).mean()
    assert 0.3 < returned < 0.8  # directed: some are not returned
    assert np.bincount(links.source).max() > 20  # some have many
    users = small.matrix() @ item_vectors(small)
    users /= np.linalg.norm(users, axis=1, keepdims=True)
    stranger = np.random.default_rng(0).permutation(links.target)
    linked = (users[links.source] * users[links.target]).sum(axis=1).mean()
    assert linked > (users[links.source] * users[stranger]).sum(axis=1).mean() + 0.15


def test_no_friends() -> None:
    assert synthetic(20, 15, 60, friends=0).links is None
    few, many = synthetic(200, 50, 900, friends=2).links, synthetic(200, 50, 900, friends=12).links
    assert few is not None
    assert many is not None
    assert 300 < len(few) < 500 < 1_200 < len(many) < 2_600


# -- bad input, documents, size ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"users": 1}, "users must be a whole number of at least 2, got 1"),
        ({"items": 2.5}, "items must be a whole number of at least 2, got 2.5"),
        ({"interactions": True}, "interactions must be a whole number"),
        ({"interactions": 599}, "from 600 .* got 599. Give fewer users and items."),
        ({"interactions": 120_001}, "to 120,000 .* got 120001. Give more users or items."),
        ({"attribute_strength": -0.1}, "attribute_strength must be from 0 to 10, got -0.1"),
        ({"attribute_strength": "much"}, "attribute_strength must be from 0 to 10, got 'much'"),
        ({"drift": float("nan")}, "drift must be from 0 to 10, got nan"),
        ({"friends": 1001}, "friends must be from 0 to 1000, got 1001"),
        ({"seed": -1}, "seed must be a whole number, 0 or above, got -1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        synthetic(**arguments)


def test_the_documented_figures_are_of_this_world(small: Dataset, large: Dataset) -> None:
    record = json.loads((ROOT / "docs/results/synthetic-vs-ml-100k.json").read_text(encoding="utf-8"))
    columns = record["columns"]
    assert columns["synthetic, default"]["fingerprints"][0] == small.fingerprint
    assert columns["synthetic, same size"]["fingerprints"][0] == large.fingerprint
    page = (ROOT / "docs/synthetic.md").read_text(encoding="utf-8")
    for key in ("Recall@20, EASE", "gender, AUC", "Gini of item popularity"):
        cells = " | ".join(f"{column['mean'][key]:.3f}" for column in columns.values())
        assert f"| {key} | {cells} |" in page


@pytest.mark.long
def test_ten_million() -> None:
    start = time.process_time()
    data = synthetic(70_000, 20_000, 10_000_000)
    assert time.process_time() - start < 60
    check_shape(data, 70_000, 20_000, 10_000_000)
