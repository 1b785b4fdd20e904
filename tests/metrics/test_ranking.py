"""Ranking metrics: worked values, a plain oracle, trec_eval and scikit-learn, properties, bad lists."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilrec import metrics as vm

NAMES = ("recall", "precision", "hit", "ndcg", "map", "mrr")
FUNCTIONS = (vm.recall, vm.precision, vm.hit, vm.ndcg, vm.average_precision, vm.reciprocal_rank)
Case = tuple[NDArray[np.int32], sp.csr_matrix]


def oracle(name: str, items: list[int], relevant: set[int], k: int) -> float:
    """The formula, read off the docstring."""
    rel = [1 if item in relevant else 0 for item in items[:k]]
    ranks = range(1, len(rel) + 1)
    if name == "recall":
        return sum(rel) / len(relevant)
    if name == "precision":
        return sum(rel) / k
    if name == "hit":
        return float(sum(rel) > 0)
    if name == "ndcg":
        gained = sum(rel[r - 1] / math.log2(r + 1) for r in ranks)
        return gained / sum(1 / math.log2(r + 1) for r in range(1, min(k, len(relevant)) + 1))
    if name == "map":
        return sum(rel[r - 1] * sum(rel[:r]) / r for r in ranks) / min(k, len(relevant))
    return next((1 / r for r in ranks if rel[r - 1]), 0.0)


def made(seed: int, n_users: int, n_items: int, length: int, density: float) -> Case:
    """Random lists, some cut short, and random relevant items, at least one a user."""
    rng = np.random.default_rng(seed)
    order = rng.random((n_users, n_items)).argsort(axis=1)
    ranked = np.full((n_users, length), -1, np.int32)
    ranked[:, : min(length, n_items)] = order[:, :length]
    ends = rng.integers(0, length + 1, n_users)
    ranked[(np.arange(length) >= ends[:, None]) & (rng.random(n_users) < 0.3)[:, None]] = -1
    flags = rng.random((n_users, n_items)) < density
    flags[np.arange(n_users), rng.integers(0, n_items, n_users)] = True
    return ranked, sp.csr_matrix(flags.astype(np.float32))


cases = st.builds(
    made,
    seed=st.integers(0, 2**32 - 1),
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 40),
    length=st.integers(1, 25),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


def test_worked_values() -> None:
    # user 0: relevant {1, 4, 5}, list 4 0 1 2: hits at ranks 1 and 3; user 1: relevant {0}, list 3 2 1 0
    ranked = np.array([[4, 0, 1, 2], [3, 2, 1, 0]])
    relevant = sp.csr_matrix([[0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0]])
    found = vm.ranking_metrics(ranked, relevant, ks=(2, 4))
    expected = {
        "recall@2": [1 / 3, 0],
        "recall@4": [2 / 3, 1],
        "precision@2": [1 / 2, 0],
        "precision@4": [2 / 4, 1 / 4],
        "hit@2": [1, 0],
        "hit@4": [1, 1],
        "ndcg@2": [1 / (1 + 1 / math.log2(3)), 0],
        "ndcg@4": [1.5 / (1 + 1 / math.log2(3) + 0.5), 1 / math.log2(5)],
        "map@2": [1 / 2, 0],
        "map@4": [(1 + 2 / 3) / 3, 1 / 4],
        "mrr@2": [1, 0],
        "mrr@4": [1, 1 / 4],
    }
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-15, err_msg=name)
        assert found[name].dtype == np.float64


@settings(max_examples=150, deadline=None)
@given(cases)
def test_equals_the_oracle_and_the_single_functions(case: Case) -> None:
    ranked, relevant = case
    ks = sorted({1, (ranked.shape[1] + 1) // 2, ranked.shape[1]})
    found = vm.ranking_metrics(ranked, relevant, ks)
    assert set(found) == {f"{name}@{k}" for name in NAMES for k in ks}
    sets = [set(row.indices.tolist()) for row in relevant]
    for name, function in zip(NAMES, FUNCTIONS, strict=True):
        for k in ks:
            expected = [oracle(name, items, r, k) for items, r in zip(ranked.tolist(), sets, strict=True)]
            np.testing.assert_allclose(found[f"{name}@{k}"], expected, rtol=1e-13, atol=0)
            np.testing.assert_array_equal(function(ranked, relevant, k), found[f"{name}@{k}"])


@settings(max_examples=100, deadline=None)
@given(cases)
def test_properties(case: Case) -> None:
    ranked, relevant = case
    length = ranked.shape[1]
    found = vm.ranking_metrics(ranked, relevant, range(1, length + 1))
    for values in found.values():
        assert ((values >= 0) & (values <= 1)).all()
    for name in ("recall", "hit", "mrr"):  # they never fall as the list grows
        curve = np.stack([found[f"{name}@{k}"] for k in range(1, length + 1)])
        assert (np.diff(curve, axis=0) >= 0).all()
    order = np.random.default_rng(0).permutation(len(ranked))
    shuffled = vm.ranking_metrics(ranked[order], relevant[order], range(1, length + 1))
    for name, values in found.items():
        np.testing.assert_array_equal(shuffled[name], values[order])


@settings(max_examples=50, deadline=None)
@given(cases)
def test_a_perfect_list_scores_exactly_one_and_a_hopeless_one_zero(case: Case) -> None:
    ranked, relevant = case
    k, n_items = ranked.shape[1], relevant.shape[1]
    flags = relevant.toarray() > 0
    best = np.full(ranked.shape, -1)
    best[:, : min(k, n_items)] = np.argsort(~flags, axis=1, kind="stable")[:, :k]
    found = vm.ranking_metrics(best, relevant, [k])
    for name in ("hit", "ndcg", "map", "mrr"):
        np.testing.assert_array_equal(found[f"{name}@{k}"], 1.0)
    np.testing.assert_array_equal(found[f"recall@{k}"], np.minimum(k, flags.sum(1)) / flags.sum(1))
    worst = np.where(np.take_along_axis(flags, np.maximum(best, 0), 1) | (best < 0), n_items, best)
    worst.sort(axis=1)
    worst[worst == n_items] = -1
    for values in vm.ranking_metrics(worst, relevant, [k]).values():
        np.testing.assert_array_equal(values, 0.0)


def test_moving_a_hit_up_raises_what_looks_at_order() -> None:
    relevant = sp.csr_matrix([[1, 0, 0, 0]])
    late, early = np.array([[1, 2, 0]]), np.array([[1, 0, 2]])
    for name, function in zip(NAMES, FUNCTIONS, strict=True):
        before, after = function(late, relevant, 3)[0], function(early, relevant, 3)[0]
        assert (after > before) if name in ("ndcg", "map", "mrr") else (after == before)


def test_equals_trec_eval() -> None:
    """pytrec_eval divides AP by the number of relevant items; ours by min(k, that): the factor is exact."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    k = 20
    ranked, relevant = made(5, 300, 60, k, 0.3)
    ranked[0] = -1
    ranked[0, 0] = 3  # trec_eval knows no empty list
    keep = ranked[:, 0] >= 0
    ranked, relevant = ranked[keep], relevant[keep]
    judged = {str(u): {f"i{item}": 1 for item in row.indices} for u, row in enumerate(relevant)}
    run = {
        str(u): {f"i{item}": float(k - place) for place, item in enumerate(items) if item >= 0}
        for u, items in enumerate(ranked.tolist())
    }
    names = {"recall": "recall.20", "precision": "P.20", "hit": "success.20", "ndcg": "ndcg_cut.20"}
    names |= {"map": "map_cut.20", "mrr": "recip_rank"}
    trec = pytrec_eval.RelevanceEvaluator(judged, set(names.values())).evaluate(run)
    found = vm.ranking_metrics(ranked, relevant, [k])
    size = np.diff(relevant.indptr)
    assert (size > k).any()
    assert (ranked[:, -1] < 0).any()
    for name, theirs in names.items():
        expected = np.array([trec[str(u)][theirs.replace(".", "_")] for u in range(len(ranked))])
        if name == "map":
            expected = expected * size / np.minimum(size, k)
        np.testing.assert_allclose(found[f"{name}@{k}"], expected, rtol=1e-12, err_msg=name)


def test_ndcg_equals_scikit_learn() -> None:
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(2)
    scores = rng.standard_normal((50, 30)).astype(np.float32)
    truth = rng.random((50, 30)) < 0.2
    truth[:, 0] = True
    ranked, _ = vm.top_k(scores, 10)
    found = vm.ndcg(ranked, sp.csr_matrix(truth), 10)
    expected = [ndcg_score(truth[u : u + 1].astype(int), scores[u : u + 1], k=10) for u in range(50)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_users_without_relevant_items_are_refused_and_can_be_left_out() -> None:
    ranked = np.array([[0, 1], [1, 0]])
    relevant = sp.csr_matrix([[0, 0], [0, 1]])
    with pytest.raises(
        ValueError, match=r"relevant must be non-empty in every row, got '1 rows .*first: row 0"
    ):
        vm.recall(ranked, relevant, 1)
    kept = vm.evaluated_users(relevant)
    assert vm.recall(ranked[kept], relevant[kept], 1).tolist() == [1.0]


def test_empty_lists_score_zero_and_no_users_give_empty_arrays() -> None:
    relevant = sp.csr_matrix([[1, 0]])
    for values in vm.ranking_metrics(np.array([[-1, -1]]), relevant, [1, 2]).values():
        assert values.tolist() == [0.0]
    for values in vm.ranking_metrics(np.empty((0, 2), np.int32), sp.csr_matrix((0, 5)), [1, 2]).values():
        assert values.shape == (0,)


def test_the_last_relevant_item_and_large_codes_are_found() -> None:
    n_items = 3_000_000
    relevant = sp.csr_matrix(([1, 1], ([0, 2999], [n_items - 1, n_items - 1])), shape=(3000, n_items))
    kept = vm.evaluated_users(relevant)
    ranked = np.array([[n_items - 1, 0], [0, n_items - 1]], np.int32)
    assert vm.reciprocal_rank(ranked, relevant[kept], 2).tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("ranked", "k", "words"),
    [
        ([[0, 0]], 2, r"ranked must be free of repeated items, got \{'row': 0, 'items': \[0, 0\]\}"),
        ([[1, 0], [2, 2]], 1, "free of repeated items, got {'row': 1"),
        ([[-1, 0]], 1, "ranked must be padded with -1 at the end only"),
        ([[0, 4]], 1, r"ranked must be codes from 0 to 3, or -1, got \[4\]"),
        ([[0, -2]], 1, r"ranked must be codes from 0 to 3, or -1, got \[-2\]"),
        ([[0, 1]], 3, "k must be at most the length of the lists, 2, got 3"),
        ([[0, 1]], 0, "k must be a whole number of at least 1, got 0"),
        ([0, 1], 1, "ranked must be a matrix of item codes"),
        ([[0.0, np.nan]], 1, "ranked must be a matrix of item codes, one row per user, got 'float64"),
    ],
)
def test_bad_lists_are_refused(ranked: list[list[float]], k: int, words: str) -> None:
    relevant = sp.csr_matrix(np.ones((len(ranked), 4)))
    for function in FUNCTIONS:
        with pytest.raises(ValueError, match=words):
            function(np.array(ranked), relevant, k)
    with pytest.raises(ValueError, match=words):
        vm.ranking_metrics(np.array(ranked), relevant, [k])


def test_other_bad_arguments_are_refused() -> None:
    ranked = np.array([[0, 1]])
    with pytest.raises(ValueError, match="relevant must be 1 users x 4 items"):
        vm.recall(ranked, sp.csr_matrix(np.ones((2, 4))), 1)
    with pytest.raises(ValueError, match="ks must be one cut-off or more"):
        vm.ranking_metrics(ranked, sp.csr_matrix(np.ones((1, 4))), [])
    with pytest.raises(ValueError, match=r"k must be a whole number of at least 1, got 1\.5"):
        vm.ranking_metrics(ranked, sp.csr_matrix(np.ones((1, 4))), [1.5])  # type: ignore[list-item]
