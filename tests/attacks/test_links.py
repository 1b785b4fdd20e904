from __future__ import annotations

import dataclasses
import itertools
import json
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn import metrics as oracle

import veilrec as vr
from veilrec.attacks import LINK_ATTACKERS, LinkOutcome, link_attack, link_metrics
from veilrec.attacks import links_attackers as attackers
from veilrec.attacks.links_cells import draw_people, link_cells, split_edges
from veilrec.attacks.links_knowledge import Knowledge, NotApplicable, standard
from veilrec.attacks.links_metrics import RATES, Curve
from veilrec.attacks.links_network import network_influence
from veilrec.attacks.links_nulls import known_edges, popularity
from veilrec.core import DataError, stream
from veilrec.models import (
    Adjacency,
    DebiasedAdjacency,
    GATBackbone,
    GraphSAGEBackbone,
    LightGCNBackbone,
    NGCFBackbone,
)
from veilrec.systems import SYSTEMS
from veilrec.training import Recommender

FAST = {"cells": 6000, "resamples": 40}


@pytest.fixture(scope="module")
def parts() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=240, items=120, interactions=7200, seed=3), test=0.2, seed=1)


@pytest.fixture(scope="module")
def ease(parts):
    return vr.EASE(regularization=20).fit(parts.train, progress=False)


@dataclasses.dataclass(eq=False)
class Stores(Recommender):
    """Its scores are the training edges, with a share ``noise`` of noise."""

    word: ClassVar[str] = "stores"
    summary: ClassVar[str] = "remembers"
    noise: float = 0.0

    def _fit(self, job) -> None:
        edges = self.history.toarray()
        drawn = stream(job.seed, "stores").random(edges.shape)
        self.private["scores"] = ((1 - self.noise) * edges + self.noise * drawn).astype(np.float32)

    def _score(self, users):
        return self.private["scores"][users]


@dataclasses.dataclass(eq=False)
class Reports(vr.Popularity):
    """Devices report their edges, each kept with probability ``keep``; every other cell with 1 - ``keep``."""

    word: ClassVar[str] = "reports"
    reports: ClassVar[tuple[str, ...]] = ("graph_indptr", "graph_indices")
    keep: float = 0.9

    def _fit(self, job) -> None:
        super()._fit(job)
        kept = stream(job.seed, "keep").random(self.history.shape) < self.keep
        graph = sp.csr_matrix(np.where(kept, self.history.toarray(), 1 - self.history.toarray()))
        self.private |= {"graph_indptr": graph.indptr, "graph_indices": graph.indices}


# -- the score --------------------------------------------------------------------------------------------


def slow_metrics(truth, value, weight):
    """All orders in which ties may be broken, averaged: the definition."""
    found = []
    groups = [np.flatnonzero(value == v) for v in sorted(set(value), reverse=True)]
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        order = np.array(list(itertools.chain(*orders)))
        pairs = won = 0.0
        for i, j in itertools.product(range(len(order)), repeat=2):
            if truth[order[i]] and not truth[order[j]]:
                pairs += weight[order[i]] * weight[order[j]]
                won += weight[order[i]] * weight[order[j]] * (i < j)
        room, caught = weight[truth].sum(), 0.0
        for cell in order:
            named = min(room, weight[cell])
            caught += named * truth[cell]
            room -= named
        found.append((won / pairs, caught / weight[truth].sum()))
    return np.mean(found, axis=0)


def test_metrics_equal_their_definition() -> None:
    g = stream(1, "metrics")
    for _ in range(12):
        truth = g.permutation([True, True, True, False, False, False])
        value = g.integers(0, 4, 6)
        weight = np.where(truth, 1.0, 3.0)
        even = np.ones(6)
        ours = link_metrics(truth, value)
        assert [ours["auc"], ours["precision"]] == pytest.approx(slow_metrics(truth, value, even))
        assert link_metrics(truth, value, weight)["auc"] == pytest.approx(
            slow_metrics(truth, value, weight)[0]
        )


def agrees_with_scikit_learn(metric) -> None:
    g = stream(2, "metrics")
    truth = g.random(4000) < 0.3
    value, weight = (truth + g.normal(0, 1, 4000)).round(1), g.random(4000) + 0.5
    found = metric(truth, value, weight)
    assert found["auc"] == pytest.approx(oracle.roc_auc_score(truth, value, sample_weight=weight))
    false, true, _ = oracle.roc_curve(truth, value, sample_weight=weight, drop_intermediate=False)
    assert found["tpr"] == pytest.approx(np.interp(1e-3, false, true))


def test_metrics_equal_scikit_learn_and_a_wrong_one_does_not() -> None:
    agrees_with_scikit_learn(link_metrics)

    def ties_won(truth, value, weight):
        return link_metrics(truth, value + 1e-6 * truth, weight)

    with pytest.raises(AssertionError):
        agrees_with_scikit_learn(ties_won)


def test_worked_values() -> None:
    assert link_metrics([1, 0, 1, 0], [4, 3, 2, 1]) == {"auc": 0.75, "precision": 0.5, "tpr": 0.5}
    assert link_metrics([0, 0, 1, 1], [4, 3, 2, 1]) == {"auc": 0.0, "precision": 0.0, "tpr": 0.0}
    flat = link_metrics([1] + [0] * 9, np.zeros(10))
    assert flat == pytest.approx({"auc": 0.5, "precision": 0.1, "tpr": 0.001})
    assert Curve([1, 0], [1, 0]).roc().tolist() == [1.0] * len(RATES)
    for truth, value, sentence in (
        ([1, 1], [1, 2], "with edges and other cells"),
        ([1, 0], [1, np.nan], "free of NaN"),
        ([1, 0, 0], [1, 2], "a flag per suspicion"),
    ):
        with pytest.raises(ValueError, match=sentence):
            link_metrics(truth, value)


def test_resamples_are_those_of_repeated_users() -> None:
    g = stream(3, "resamples")
    user = np.repeat(np.arange(40), 100)
    truth = g.random(4000) < 0.2
    value, weight = truth + g.normal(0, 1, 4000), np.where(truth, 1.0, 7.0)
    times = g.multinomial(40, np.full(40, 1 / 40), 5)
    found = Curve(truth, value, weight).resampled(user, times)
    for often, ours in zip(times, found):
        rows = np.repeat(np.arange(4000), often[user])
        slow = [*link_metrics(truth[rows], value[rows], weight[rows]).values()]
        assert ours == pytest.approx(slow, abs=1e-3)


# -- the cells --------------------------------------------------------------------------------------------


def cells_are_right(cells, history, held, secret, users) -> None:
    keys = {*zip(cells.user.tolist(), cells.item.tolist())}
    assert len(keys) == len(cells.user)
    edges = {*zip(cells.user[cells.truth].tolist(), cells.item[cells.truth].tolist())}
    assert edges == {*zip(*(part.tolist() for part in secret.nonzero()))}
    taken = history.toarray() + held.toarray() > 0
    assert not taken[cells.user[~cells.truth], cells.item[~cells.truth]].any()
    free = (~taken[users]).sum()
    assert cells.weight[~cells.truth].sum() == pytest.approx(free)
    assert (np.diff(cells.user) >= 0).all()


def test_cells_are_training_edges_and_free_cells(parts) -> None:
    history, held = parts.train.matrix(), parts.test.matrix()
    users = draw_people(history, 0.5, 50, seed=1).attacked
    _, secret = split_edges(history, users, 0.5, stream(1, "hints"))
    cells = link_cells(secret, history, held, users, 5000, stream(1, "cells"))
    cells_are_right(cells, history, held, secret, users)
    assert 4000 <= len(cells.user) <= 5000
    careless = link_cells(secret, history, sp.csr_matrix(held.shape), users, 5000, stream(1, "cells"))
    with pytest.raises(AssertionError):  # held-out edges among the free cells are found out
        cells_are_right(careless, history, held, secret, users)


def test_thinned_edges_keep_their_mass() -> None:
    history = sp.csr_matrix(np.tile([1.0, 1, 1, 1, 0, 0, 0, 0], (50, 1)))
    users = np.arange(50)
    cells = link_cells(history, history, sp.csr_matrix(history.shape), users, 200, stream(1, "cells"))
    assert int(cells.truth.sum()) == 100
    assert cells.weight[cells.truth].sum() == pytest.approx(200)
    assert cells.density == pytest.approx(0.5)


def test_people_are_apart_and_hints_are_half(parts) -> None:
    history = parts.train.matrix()
    people = draw_people(history, 0.5, 1000, seed=2)
    groups = [people.attacked, people.labelled, people.reference]
    assert sum(map(len, groups)) == len(np.unique(np.concatenate(groups))) == 240
    hints, secret = split_edges(history, people.attacked, 0.5, stream(1, "hints"))
    both = (hints + secret)[people.attacked]
    assert abs(both - history[people.attacked]).nnz == 0
    counts = np.diff(history.indptr)[people.attacked]
    assert np.array_equal(np.diff(hints.indptr)[people.attacked], counts // 2)


# -- the attackers ----------------------------------------------------------------------------------------


def knowledge(data, seen, k=5):
    history = data.matrix()
    people = draw_people(history, 0.5, 1000, seed=1)
    asked = np.sort(np.concatenate([people.attacked, people.labelled]))
    hints, _ = split_edges(history, asked, 0.5, stream(1, "hints"))
    return Knowledge(seen, data, people.reference, history[people.reference], hints, asked, k, 1)


@pytest.fixture(scope="module")
def small():
    return vr.synthetic(users=40, items=25, interactions=400, seed=2)


def test_score_similarity_is_the_slow_one(small) -> None:
    table = stream(1, "scores").normal(size=(40, 25)).astype(np.float32)
    know = knowledge(small, {"scores": lambda users: table[users]})
    fast = attackers.score_similarity(know)(know.asked)
    rows = standard(table) / np.sqrt(25)
    middle = rows[know.reference].mean(axis=0)
    have = know.known.toarray() > 0
    for at, user in enumerate(know.asked[:5]):
        for item in range(25):
            holders = know.reference[have[:, item]]
            likeness = sum(float(rows[user] @ (rows[v] - middle)) for v in holders) / (len(holders) + 1)
            assert fast[at, item] == pytest.approx(likeness, abs=1e-5)


def test_equal_rows_tell_nothing_not_even_by_rounding(parts) -> None:
    flat = vr.Popularity().fit(parts.train)
    found = link_attack(flat, parts, adversaries="X", attackers="score similarity", **FAST)
    values = found.outcome("X", "score similarity").values
    assert values == pytest.approx([0.5, found.counts["density"], 0.001])


def test_masked_list_is_the_slow_one(small) -> None:
    model = vr.EASE(regularization=5).fit(small, progress=False)
    know = knowledge(small, model.view("X"))
    fast = attackers.masked_list(know)(know.asked)
    lists = know.lists(np.arange(40)).toarray() > 0
    assert not (lists & (small.matrix().toarray() > 0)).any()
    have = know.known.toarray() > 0
    for at, user in enumerate(know.asked[:6]):
        alike = [float((lists[user] & lists[v]).sum()) ** 2 for v in know.reference]
        for item in range(25):
            if lists[user, item]:
                assert fast[at, item] == -1
                continue
            shown = sum(w for w, v in zip(alike, know.reference) if lists[v, item])
            might = sum(w for w, n in zip(alike, range(len(alike))) if not have[n, item])
            assert fast[at, item] == pytest.approx(shown / might if might else 0, abs=1e-4)


def test_influence_solves_the_ridge_regression(small) -> None:
    weights = (stream(1, "weights").normal(size=(25, 25)) + 8 * np.eye(25)).astype(np.float32)
    table = (small.matrix() @ weights + 3).astype(np.float32)
    seen = {"scores": lambda users: table[users], "probe": lambda rows: rows @ weights + 3}
    know = knowledge(small, seen)
    found = attackers.influence(know)(know.asked)
    ridge = attackers.RIDGE * (weights**2).sum() / 25
    slow = (table[know.asked] - 3) @ np.linalg.inv(weights.T @ weights + ridge * np.eye(25)) @ weights.T
    assert found == pytest.approx(standard(slow), abs=1e-2)
    have = small.matrix()[know.asked].toarray() > 0
    assert (np.where(have, found, np.inf).min(axis=1) > np.where(have, -np.inf, found).max(axis=1)).all()


def test_nulls_and_fold_in_by_hand() -> None:
    data = vr.Dataset.from_arrays(["a", "b", "b", "c", "c", "c"], ["x", "x", "y", "x", "y", "z"])
    rows = data.matrix()
    know = Knowledge({}, data, np.array([1, 2]), rows[[1, 2]], rows, np.array([0]), 1, 0)
    assert popularity(know)(np.array([0, 2])).tolist() == [[2, 2, 1], [6, 6, 3]]
    assert known_edges(know)(np.array([0]))[0] == pytest.approx([1, 1, 1 / np.sqrt(2)])
    vectors = np.array([[1.0, 0], [0, 2], [3, 3]])
    seen = {"shared": {"item_vectors": vectors}, "probe": lambda rows: rows @ np.eye(3)}
    know = dataclasses.replace(know, seen=seen)
    assert attackers.item_similarity(know)(np.array([0]))[0] == pytest.approx([1, 0, np.sqrt(0.5)])
    assert attackers.fold_in(know)(np.array([0]))[0] == pytest.approx([np.sqrt(2), *[-np.sqrt(0.5)] * 2])


def test_vectors_are_found_by_name_and_width(small) -> None:
    users, items = np.eye(40, 3, dtype=np.float32), np.full((25, 3), 2.0, np.float32)
    server = {"user_bias": np.zeros(40), "user_side": users}
    seen = {"shared": {"item_base": items - 1, "item_side": items}, "reports": {}, "server": server}
    know = knowledge(small, seen)
    assert attackers.inner_product(know)(np.array([1])).tolist() == [[2.0] * 25]
    assert attackers.cosine(know)(np.array([1]))[0] == pytest.approx([3**-0.5] * 25)
    for shared, value in (({"item_vectors": items}, 2.0), ({"item_side": items[:, :2]}, None)):
        know = knowledge(small, {**seen, "shared": shared})
        if value is not None:
            assert attackers.inner_product(know)(np.array([0]))[0, 0] == value
            continue
        with pytest.raises(NotApplicable, match="no pair of user and item vectors"):
            attackers.inner_product(know)


# -- influence through a network ---------------------------------------------------------------------------


def networks(graph: Adjacency, layers: int) -> dict[str, torch.nn.Module]:
    def randoms() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    return {
        "lightgcn": LightGCNBackbone(graph, 4, layers, randoms()),
        "ngcf": NGCFBackbone(graph, 4, layers, 0.0, randoms()),
        "gat": GATBackbone(graph, 4, layers, 2, randoms()),
        "graphsage": GraphSAGEBackbone(graph, 4, layers, randoms()),
    }


def moved(network: torch.nn.Module, user: int, item: int, along: np.ndarray, step: float = 1e-3) -> float:
    """LinkTeller as printed, a coordinate at a time: nudge the item, watch the user, divide by the nudge."""
    found, node = [], network.graph.shape[0] + item
    for place in range(4):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                network.embedding[node, place] += sign * step
                ends.append(network()[0][user].double().numpy() @ along)
                network.embedding[node, place] -= sign * step
        found.append((ends[0] - ends[1]) / (2 * step))
    return float(np.linalg.norm(found))


@pytest.mark.parametrize("word", ["lightgcn", "ngcf", "gat", "graphsage"])
def test_network_influence_is_what_a_nudge_does(small, word: str) -> None:
    network = networks(Adjacency(small.matrix()), 3)[word]
    know = knowledge(small, {"network": lambda: network})
    fast = network_influence(know)(np.arange(40))
    root = network.graph.degree.sqrt().numpy()
    width = network()[0].shape[1]
    along = stream(know.seed, "links", "watched direction").standard_normal(width)
    scale = np.linalg.norm(along) if word == "lightgcn" else 1.0  # the identity sends back all of it
    for user, item in itertools.product((0, 7), (1, 4, 11, 20)):
        slow = moved(network, user, item, along) * root[user] * root[40 + item]
        assert fast[user, item] * scale == pytest.approx(slow, rel=0.03, abs=3e-3), (user, item)


@pytest.mark.parametrize("word", ["lightgcn", "ngcf", "gat", "graphsage"])
def test_two_layers_carry_nothing_but_edges(small, word: str) -> None:
    network = networks(Adjacency(small.matrix()), 2)[word]
    found = network_influence(knowledge(small, {"network": lambda: network}))(np.arange(40))
    assert not found[small.matrix().toarray() == 0].any()


TINY = {"epochs": 2, "embedding_size": 16}


def influence_of_the_server(model, parts, word: str = "network influence") -> LinkOutcome:
    found = link_attack(model, parts, adversaries="S", attackers=word, **FAST)
    return found.outcome("S", word)


@pytest.mark.parametrize("word", ["lightgcn", "ngcf", "gat", "graphsage"])
def test_who_may_perturb_a_plain_network_reads_its_graph(parts, word: str, tmp_path) -> None:
    model = SYSTEMS[word](**TINY).fit(parts.train, progress=False)
    row = influence_of_the_server(model, parts)
    assert row.value("auc") > 0.99
    assert not [name for name in model.shared if name.startswith("network")]
    again = vr.load_model(model.save(tmp_path / word))
    assert np.array_equal(influence_of_the_server(again, parts).draws, row.draws)


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("lapgraph", {}),
        ("dprr", {}),
        ("pf-gnr-paper", {}),
        ("pf-gnr-paper", {"ablation": "LDP"}),
        ("pf-gnr-paper", {"backbone": "ngcf"}),
        ("pf-gnr-paper", {"backbone": "gat"}),
        ("pf-gnr-paper", {"backbone": "graphsage"}),
    ],
)
def test_the_server_perturbs_over_the_report_alone(parts, word: str, settings) -> None:
    """It tells more than chance and less than all; and with other histories in the model, the same."""
    model = SYSTEMS[word](epsilon=3.0, **TINY, **settings)
    model.fit(parts.train, seed=1, progress=False, secure=False)
    row = influence_of_the_server(model, parts)
    assert 0.6 < row.value("auc") < 0.99
    model._history = sp.csr_matrix(model.history[::-1])
    assert np.array_equal(influence_of_the_server(model, parts).draws, row.draws)
    graph = model.view("S")["network"]().graph.matrix
    assert np.array_equal(graph.indices, model.private["graph_indices"])


def test_ablations_without_a_report_run_on_the_graph_itself(parts) -> None:
    model = SYSTEMS["pf-gnr-paper"](ablation="HE", **TINY).fit(parts.train, progress=False, secure=False)
    assert influence_of_the_server(model, parts).value("auc") > 0.99


def test_the_server_of_the_certified_twin_has_its_network_over_the_report(parts) -> None:
    twin = SYSTEMS["pf-gnr"](**TINY).fit(parts.train, seed=1, progress=False, secure=False)
    network = twin.view("S")["network"]()
    assert np.array_equal(network.graph.matrix.indices, twin.private["graph_indices"])
    with torch.no_grad():
        ones = torch.ones(sum(network.graph.shape), 2)
        spread = network.graph.product(ones)
    encoder = twin.encoder(parts.train.n_users, parts.train.n_items)
    again = DebiasedAdjacency(network.graph.matrix, encoder.p1, encoder.p0).product(ones)
    assert torch.equal(spread, again)  # put right as in training, not taken as told
    assert influence_of_the_server(twin, parts).value("auc") > 0.6


def test_nobody_else_has_the_network_and_the_other_twin_has_none(parts) -> None:
    ngcf = SYSTEMS["ngcf"](**TINY).fit(parts.train, progress=False)
    assert "network" in ngcf.view("S")
    assert not {"network"} & ({*ngcf.view("O")} | {*ngcf.view("X")})
    twin = SYSTEMS["pf-gnr"](**TINY).fit(parts.train, progress=False, secure=False)
    assert not {"network"} & ({*twin.view("O")} | {*twin.view("X")})
    other = SYSTEMS["pf-gnr-sums"](epochs=1, embedding_size=4).fit(parts.train, progress=False, secure=False)
    assert "network" not in other.view("S")
    ngcf.private = {name: a for name, a in ngcf.private.items() if not name.startswith("network")}
    found = link_attack(ngcf, parts, adversaries="S", attackers=["network influence", "cosine"], **FAST)
    why = found.not_applicable["S", "network influence"]
    assert why == "this ngcf was saved without its network. Fit it again"


def test_gap_is_probed_by_its_fold_in(parts) -> None:
    """Sums over neighbours were drawn once, so there is no network to perturb; its scores are linear in the
    history, but for the noise."""
    noisy, clear = (
        SYSTEMS["gap"](epochs=20, embedding_size=16, epsilon=epsilon).fit(
            parts.train, seed=1, progress=False, secure=False
        )
        for epsilon in (1.0, 1e4)
    )
    found = [influence_of_the_server(model, parts, "influence").value("auc") for model in (noisy, clear)]
    assert found[0] + 0.05 < found[1]
    assert found[1] > 0.8


# -- planted leaks, and none ------------------------------------------------------------------------------

QUIET = ["score", "score similarity"]


def tells_nothing(model, parts, names=QUIET) -> None:
    """No attacker of X is better than chance, by its interval."""
    found = link_attack(model, parts, adversaries="X", attackers=names, **FAST)
    for name in names:
        interval = found.outcome("X", name).interval("auc")
        assert interval.low <= 0.5 <= interval.high, (name, str(interval))


def test_a_model_that_stores_its_edges_is_read_and_noise_is_not(parts) -> None:
    open_book = Stores().fit(parts.train)
    found = link_attack(open_book, parts, adversaries="X", **FAST)
    for name in ("score", "logistic", "boosting"):
        row = found.outcome("X", name)
        assert min(row.value(metric) for metric in ("auc", "precision", "tpr")) > 0.99, name
        assert found.leak("X", name).low > 0.05
    assert found.best("X").value() > 0.999
    assert found.null(found.outcome("X", "score")).attacker == "popularity"
    tells_nothing(Stores(noise=1.0).fit(parts.train), parts)
    with pytest.raises(AssertionError):  # a hundredth of the secret in the noise is found out
        tells_nothing(Stores(noise=0.9).fit(parts.train), parts)


def no_better_than_popularity(model, parts) -> None:
    found = link_attack(model, parts, adversaries="X", attackers="score", **FAST)
    assert found.leak("X", "score").low <= 0


def test_popularity_is_no_better_than_its_null(parts, ease) -> None:
    no_better_than_popularity(vr.Popularity().fit(parts.train), parts)
    with pytest.raises(AssertionError):
        no_better_than_popularity(ease, parts)


def test_influence_reads_histories_off_a_linear_model(parts, ease) -> None:
    found = link_attack(ease, parts, attackers=["influence", "masked list"], **FAST)
    assert found.outcome("X", "influence").value("precision") > 0.99
    assert found.outcome("X", "masked list").value() > 0.6
    assert found.not_applicable == {
        ("S", "influence"): "this adversary sees no pair of user and item vectors"
    }
    assert all(row.adversary in ("", "X") for row in found.outcomes)


def test_what_cannot_be_probed_says_so(parts) -> None:
    bpr = vr.BPR(epochs=2, embedding_size=4).fit(parts.train, progress=False)
    found = link_attack(bpr, parts, attackers=["influence", "fold-in", "score"], **FAST)
    for key in (("X", "influence"), ("S", "influence"), ("O", "fold-in")):
        assert "bpr learns one vector per user" in found.not_applicable[key]
        assert key[1] in str(found)
    with pytest.raises(ValueError, match=r"one that was measured, got \('O', 'fold-in'\). bpr learns"):
        found.outcome("O", "fold-in")
    flat = vr.Popularity().fit(parts.train)
    found = link_attack(flat, parts, adversaries="X", attackers=["influence", "score"], **FAST)
    assert found.not_applicable["X", "influence"] == "its scores do not depend on a history"


@pytest.mark.parametrize("keep", [1.0, 0.9, 0.5])
def test_the_reported_graph_tells_as_much_as_its_coins(parts, keep) -> None:
    found = link_attack(Reports(keep=keep).fit(parts.train), parts, attackers="reported graph", **FAST)
    for side in ("O", "S"):
        row = found.outcome(side, "reported graph")
        assert row.value("auc") == pytest.approx(keep, abs=0.02)  # (TPR + 1 - FPR) / 2 = (keep + keep) / 2


def test_the_server_sees_what_its_class_says(parts) -> None:
    bpr = vr.BPR(epochs=2, embedding_size=4).fit(parts.train, progress=False)
    assert sorted(bpr.view("S")["server"]) == ["user_vectors"]
    found = link_attack(bpr, parts, adversaries="S", attackers=["inner product", "cosine"], **FAST)
    assert found.outcome("S", "cosine").value() > 0.5

    class OnDevice(vr.BPR):
        server_sees = ()

    model = OnDevice(epochs=2, embedding_size=4).fit(parts.train, progress=False)
    assert model.view("S")["server"] == {}
    with pytest.raises(
        DataError, match=r"bpr must show S something to work on, got nothing. inner product: this"
    ):
        link_attack(model, parts, adversaries="S", attackers=["inner product"], **FAST)


@pytest.mark.parametrize("word", ["ease", "lightgcn", "pf-gnr"])
def test_the_server_can_do_what_an_outsider_can(parts, word: str) -> None:
    known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
    model = SYSTEMS[word](**{name: value for name, value in TINY.items() if name in known})
    model.fit(parts.train, seed=1, progress=False, secure=False)
    outside = [name for name, one in LINK_ATTACKERS.items() if "O" in one.adversaries]
    assert all("S" in LINK_ATTACKERS[name].adversaries for name in outside)
    found = link_attack(model, parts, adversaries=["O", "S"], attackers=[*outside, "logistic"], **FAST)
    theirs = [row for row in found.outcomes if row.adversary == "O" and row.attacker != "logistic"]
    for row in theirs:
        assert np.array_equal(found.outcome("S", row.attacker).draws, row.draws)
    assert theirs
    alone = link_attack(model, parts, adversaries="S", attackers=["fold-in", "logistic"], **FAST)
    assert np.array_equal(alone.outcome("S", "fold-in").draws, found.outcome("S", "fold-in").draws)


def test_the_server_of_twin_b_gets_no_further_with_its_sums(parts) -> None:
    model = SYSTEMS["pf-gnr-sums"](**TINY).fit(parts.train, seed=1, progress=False, secure=False)
    found = link_attack(model, parts, adversaries=["O", "S"], **FAST)
    rows = {side: {row.attacker: row for row in found.outcomes if row.adversary == side} for side in "OS"}
    assert {*rows["O"]} == {"fold-in", "item similarity", "logistic", "boosting"}
    assert {*rows["S"]} == {*rows["O"], "sums"}
    assert found.best("S").value() < found.best("O").value() + 0.02
    assert found.leak("S", "sums").high < 0


def test_the_published_part_alone_cannot_look_up_histories(parts) -> None:
    model = vr.GFCF(rank=8).fit(parts.train, progress=False)
    known, probe = model.history[:2], model.view("X")["probe"]
    assert np.asarray(probe(known)).shape == (2, 120)
    with pytest.raises(TypeError, match="shareable part of a gf-cf model"):
        model.view("O")["probe"](known)
    assert "user_scale" in model.private
    for letter in ("A", "", "o"):
        with pytest.raises(ValueError, match="adversary must be one of O, X, S"):
            model.view(letter)


def test_a_shareable_model_is_attacked_from_outside_only(parts, ease, tmp_path) -> None:
    theirs = vr.load_model(ease.save(tmp_path / "ease.veil", part="shareable"))
    found = link_attack(theirs, parts, attackers=["fold-in", "score"], **FAST)
    whole = link_attack(ease, parts, attackers=["fold-in", "score"], **FAST)
    assert found.outcome("O", "fold-in").values == pytest.approx(whole.outcome("O", "fold-in").values)
    assert "shareable part of a model" in found.not_applicable["X", "score"]


# -- any recommender --------------------------------------------------------------------------------------

SMALL = {"epochs": 2, "embedding_size": 4, "rank": 4, "iterations": 2, "batch_size": 64, "epsilon": 100.0}


KINDS = ["bpr", "dp-gram", "gf-cf", "ials", "lightgcn", "pf-gnr"]
"""One for each kind of view; the others are attacked in the long tier."""


@pytest.mark.parametrize(
    "word", [pytest.param(word, marks=[] if word in KINDS else pytest.mark.long) for word in sorted(SYSTEMS)]
)
def test_every_system_can_be_attacked(word) -> None:
    parts = vr.split.holdout(vr.synthetic(users=80, items=60, interactions=1600, seed=3), test=0.2, seed=1)
    known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
    model = SYSTEMS[word](**{name: value for name, value in SMALL.items() if name in known})
    model.fit(parts.train, seed=5, progress=False, secure=False)
    found = link_attack(model, parts, attackers=list(LINK_ATTACKERS), cells=2000, resamples=20)
    assert {row.adversary for row in found.outcomes} >= {"", "X"}
    assert {(row.adversary, row.attacker) for row in found.outcomes} & {*found.not_applicable} == set()
    assert all(0 <= row.value(name) <= 1 for row in found.outcomes for name in ("auc", "precision", "tpr"))
    assert all(found.not_applicable.values())


# -- the result -------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers_and_company_changes_none(parts, ease) -> None:
    first = link_attack(ease, parts, adversaries=["O", "X"], **FAST)
    alone = link_attack(ease, parts, adversaries="X", attackers=["score", "boosting"], **FAST)
    for name in ("score", "boosting"):
        assert np.array_equal(alone.outcome("X", name).draws, first.outcome("X", name).draws)
    other = link_attack(ease, parts, adversaries="X", attackers="score", seed=1, **FAST)
    assert other.outcome("X", "score").value() != first.outcome("X", "score").value()


def test_table_json_and_plot(parts, ease, tmp_path) -> None:
    found = link_attack(ease, parts, **FAST)
    text = str(found)
    for words in ("Link stealing from ease on synthetic", "true density", "popularity", "masked list", "±"):
        assert words in text
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["attack"] == "links"
    assert plain["settings"]["attackers"][-1] == "boosting"
    rows = {(row["adversary"], row["attacker"]): row for row in plain["rows"]}
    assert rows["X", "fold-in" if ("X", "fold-in") in rows else "score"]["null"] == "popularity"
    assert "leak" not in rows["", "random"]
    low, high = rows["X", "score"]["metrics"]["auc"]["users"]
    assert low < rows["X", "score"]["metrics"]["auc"]["value"] < high
    assert found.plot(tmp_path / "curves.svg").stat().st_size > 1000
    with pytest.raises(ValueError, match=r"ending in one of .png, .svg, .pdf, got 'curves.gif'"):
        found.plot(tmp_path / "curves.gif")


def test_intervals_cover_the_truth() -> None:
    draws = stream(1, "draws").normal(0.7, 0.01, (4000, 3))
    row = LinkOutcome("X", "score", "scores", "nothing", np.full(3, 0.7), draws, np.ones(41))
    assert row.interval("auc").low == pytest.approx(0.7 - 0.0196, abs=1e-3)
    same = row.interval("auc", less=row)
    assert (same.mean, same.low, same.high) == (0, 0, 0)


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"attackers": "scor"}, "attackers must be one of .* got 'scor'. Did you mean 'score'"),
        ({"attackers": []}, "attackers must be one or more"),
        ({"adversaries": "F"}, "adversaries must be one of O, X, S, got 'F'"),
        ({"known": 1.0}, "known must be strictly between 0 and 1"),
        ({"own": 0}, "own must be strictly between 0 and 1"),
        ({"cells": 5}, "cells must be a whole number of at least 100"),
        ({"users": 0}, "users must be a whole number of at least 1"),
        ({"resamples": 3}, "resamples must be a whole number of at least 20"),
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_settings_are_checked(parts, ease, settings, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        link_attack(ease, parts, **settings)


def test_data_are_checked(parts, ease) -> None:
    other = vr.synthetic(users=20, items=15, interactions=90)
    with pytest.raises(ValueError, match="data must be with the items of the model"):
        link_attack(ease, other)
    empty = parts.train.take(np.empty(0, np.int64))
    with pytest.raises(DataError, match="must have training edges to steal, got 0"):
        link_attack(ease, empty)
    two = vr.Dataset.from_arrays(["a", "b"], ["x", "y"])
    with pytest.raises(DataError, match="at least 3 users must have training interactions, got 2"):
        link_attack(vr.Popularity().fit(two), two)
    full = vr.Dataset.from_arrays(np.repeat(range(12), 3), np.tile(range(3), 12))
    with pytest.raises(DataError, match="with secret edges and with free cells"):
        link_attack(vr.Popularity().fit(full), full)


def test_what_is_left_out_reaches_no_learner() -> None:
    """The server reads a plain network's graph through it exactly; a learner who may not must not know it."""
    parts = vr.split.holdout(vr.synthetic(users=60, items=40, interactions=900, seed=1))
    model = vr.LightGCN(epochs=3, embedding_size=8).fit(parts.train, progress=False)
    few = {"adversaries": "S", "cells": 3000, "resamples": 20}
    whole = vr.attacks.link_attack(model, parts, attackers=["network influence", "boosting"], **few)
    less = vr.attacks.link_attack(
        model, parts, attackers=["network influence", "boosting"], leave_out="network influence", **few
    )
    assert whole.outcome("S", "network influence").value("auc") > 0.999
    assert whole.outcome("S", "boosting").value("auc") > 0.99
    assert less.outcome("S", "boosting").value("auc") < 0.97
    assert {row.attacker for row in less.outcomes if row.adversary} == {"boosting"}
    with pytest.raises(ValueError, match="attackers must be more than those of leave_out"):
        vr.attacks.link_attack(model, parts, attackers="score", leave_out="score", **few)
