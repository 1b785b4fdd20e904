"""PF-GNR: what each form promises, who reads what, and the attacks and audits that hold it to it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

import veilrec as vr
from veilrec.attacks import Round, recover_edges, two_world_epsilon, undo_spreading
from veilrec.data import Dataset
from veilrec.models import (
    Adjacency,
    GATBackbone,
    GraphSAGEBackbone,
    LightGCNBackbone,
    NGCFBackbone,
)
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import EdgeResponse, TopDegreeEncoder
from veilrec.systems import DPRR, GAP, PFGNR, LapGraphGCN, LightGCN, PFGNRPaper
from veilrec.systems.pf_gnr import PRINTED
from veilrec.systems.pf_gnr_clients import client_gradients, pull_back, sent_vectors
from veilrec.systems.reported_graph import report_graph
from veilrec.training import DataGuard, Job, bpr_loss, softmax_loss

SMALL = {"embedding_size": 8, "epochs": 3, "layers": 2}


@cache
def world() -> vr.Split:
    data = vr.synthetic(users=120, items=60, interactions=3000, seed=2)
    return vr.split.holdout(data, test=0.2, valid=0.1, seed=1)


def fit(model, data=None, valid=None, **more):
    about = {"seed": 3, "progress": False, "secure": False}
    return model.fit(data or world().train, valid, **{**about, **more})


def same_bits(one, other, names=None) -> bool:
    ours, theirs = ({**m.shared, **m.private} for m in (one, other))
    assert set(ours) == set(theirs)
    return all(np.array_equal(ours[name], theirs[name]) for name in names or ours)


# -- statements --------------------------------------------------------------------------------------------


def test_the_paper_form_says_what_holds_and_what_does_not() -> None:
    guarantee = fit(PFGNRPaper(**SMALL)).guarantee
    report, training = guarantee.claims
    assert report.epsilon == pytest.approx(5.0)
    assert report.user_epsilon == pytest.approx(5.0 * 60)  # k edges cost k epsilon
    assert report.released == ("the report of the graph",)
    assert math.isinf(training.epsilon)
    assert set(training.adversaries) == set("OXSF")
    text = str(guarantee)
    assert "the paper claims: epsilon-edge-LDP" in text
    assert "true edges enter the loss without noise" in text
    assert "read without noise: true edges as labels" in text


@pytest.mark.parametrize("ablation", ["GNR", "HE"])
def test_without_reports_nothing_holds(ablation: str) -> None:
    guarantee = fit(PFGNRPaper(ablation=ablation, **SMALL)).guarantee
    assert [math.isinf(claim.epsilon) for claim in guarantee.claims] == [True]


@pytest.mark.parametrize(
    ("model", "who"),
    [
        (PFGNR(**SMALL), "OSF"),
        (PFGNRPaper(ablation="LDP", **SMALL), "OSF"),
        (DPRR(**SMALL), "OSF"),
        (LapGraphGCN(**SMALL), "OF"),
    ],
)
def test_what_is_learnt_from_the_report_alone_keeps_its_epsilon(model, who: str) -> None:
    (claim,) = fit(model).guarantee.claims
    assert claim.epsilon == pytest.approx(5.0)
    assert (claim.unit, claim.neighbours, claim.delta) == ("interaction", "add-remove", 0.0)
    assert claim.adversaries == who
    assert model.guarantee.not_covered


def test_gap_is_approximate_and_has_a_curator() -> None:
    (claim,) = fit(GAP(embedding_size=8, epochs=2)).guarantee.claims
    assert 4.99 < claim.epsilon <= 5.0
    assert claim.delta == pytest.approx(1e-5)
    assert claim.adversaries == "OF"
    assert claim.events[0].count == 2


def test_the_server_of_the_twin_has_no_vector_of_a_device() -> None:
    model = fit(PFGNR(**SMALL))
    seen = model.view("S")
    assert set(seen["server"]) == {"graph_indptr", "graph_indices", "reported_user_vectors"}
    assert set(fit(PFGNRPaper(**SMALL)).view("S")["server"]) >= {"user_vectors", "graph_indices"}


# -- who reads what ----------------------------------------------------------------------------------------


def shuffled(data: Dataset) -> Dataset:
    """Other true edges: every user's items moved by seven places."""
    moved = (data.item + 7) % data.n_items
    return Dataset.from_codes(data.user, moved, data.users, data.items, name=data.name)


def with_pinned_reports(make, module, monkeypatch):
    """The same model fitted twice: the second time the true edges differ after the upload."""
    kept = {}

    def pinned(job, label, draw):
        drawn = draw()
        return kept.setdefault(label, drawn)

    monkeypatch.setattr(module, "release_once", pinned)
    return fit(make()), fit(make(), shuffled(world().train))


SERVER = ["item_vectors", "reported_user_vectors", "graph_indptr", "graph_indices"]


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: PFGNR(**SMALL), SERVER),
        (lambda: PFGNRPaper(ablation="LDP", **SMALL), None),
        (lambda: DPRR(**SMALL), None),
        (lambda: LapGraphGCN(**SMALL), None),
    ],
)
def test_taint_after_the_upload_no_label_is_read(make, names, monkeypatch) -> None:
    from veilrec.systems import reported_graph

    clean, tainted = with_pinned_reports(make, reported_graph, monkeypatch)
    assert same_bits(clean, tainted, names)


def test_taint_of_gap(monkeypatch) -> None:
    from veilrec.systems import gap

    assert same_bits(*with_pinned_reports(lambda: GAP(embedding_size=8, epochs=3), gap, monkeypatch))


def test_the_taint_test_can_fail(monkeypatch) -> None:
    """The paper form under the same test: the labels show."""
    from veilrec.systems import reported_graph

    clean, tainted = with_pinned_reports(lambda: PFGNRPaper(**SMALL), reported_graph, monkeypatch)
    assert same_bits(clean, tainted, ["graph_indptr", "graph_indices"])
    assert not same_bits(clean, tainted, ["item_vectors"])


def test_reports_are_drawn_once(tmp_path) -> None:
    """Stopped and taken up again with secure noise: the same report."""
    again = {"seed": 3, "progress": False, "checkpoint": tmp_path}
    first = PFGNR(**SMALL).fit(world().train, **again)
    assert (tmp_path / "released-graph-report.safetensors").exists()
    second = PFGNR(**SMALL).fit(world().train, **again)
    assert same_bits(first, second)
    assert first.guarantee == second.guarantee
    assert first.guarantee.grade == "secure"


# -- ablations and backbones -------------------------------------------------------------------------------


class _Named(PFGNRPaper):
    word = "lightgcn"


def test_gnr_is_the_backbone_itself() -> None:
    """The same streams, the same bits: what PF-GNR adds is the report and nothing else."""
    plain = fit(LightGCN(**SMALL), valid=world().valid)
    gnr = fit(_Named(ablation="GNR", **SMALL), valid=world().valid)
    for name in ("user_vectors", "item_vectors"):
        np.testing.assert_array_equal(
            {**plain.shared, **plain.private}[name], {**gnr.shared, **gnr.private}[name]
        )


@pytest.mark.parametrize("temperature", [0.2, 5.0])
def test_encryption_changes_numbers_by_rounding_alone_and_the_report_more(temperature: float) -> None:
    """At 5 the bound of the grid is that of a weight: messages that were cut moved the training by .16."""
    about = {**SMALL, "temperature": temperature}
    gnr = fit(PFGNRPaper(ablation="GNR", **about)).shared["item_vectors"]
    over_sums = fit(PFGNRPaper(ablation="HE", sums="plain", **about)).shared["item_vectors"]
    whole = fit(PFGNRPaper(**about)).shared["item_vectors"]
    apart = np.linalg.norm(over_sums - gnr) / np.linalg.norm(gnr)
    assert 0 < apart < 1e-3
    assert np.linalg.norm(whole - gnr) / np.linalg.norm(gnr) > 30 * apart
    assert same_bits(*(fit(PFGNRPaper(ablation=word, **about)) for word in ("GNR", "HE")))  # in one place


@pytest.mark.parametrize(
    ("word", "module", "width"),
    [
        ("lightgcn", LightGCNBackbone, 8),
        ("ngcf", NGCFBackbone, 24),
        ("gat", GATBackbone, 24),
        ("graphsage", GraphSAGEBackbone, 24),
    ],
)
def test_any_graph_network_is_wrapped(word: str, module: type, width: int) -> None:
    model = PFGNRPaper(backbone=word, **SMALL)
    graph = Adjacency(world().train.matrix())
    assert type(model._backbone(graph, torch.Generator())) is module
    assert fit(model).shared["item_vectors"].shape == (60, width)


def test_the_settings_as_printed_train() -> None:
    model = fit(PFGNRPaper(**{**PRINTED, "epochs": 20, "learning_rate": 0.01, "embedding_size": 8}))
    losses = [entry["loss"] for entry in model.facts["log"]]
    assert losses[-1] < losses[0]
    assert losses[0] == pytest.approx(math.log(2), rel=0.01)


# -- the twin on the device --------------------------------------------------------------------------------


def test_a_known_user_is_served_like_a_new_one_with_the_same_items() -> None:
    model = fit(PFGNR(**SMALL))
    np.testing.assert_allclose(model.scores(), model._score_histories(model.history), rtol=1e-4, atol=1e-6)


def test_own_vectors_are_the_ridge() -> None:
    model = fit(PFGNR(**SMALL, shrinkage=0.5))
    v = model.shared["item_vectors"].astype(np.float64)
    r = model.history[5].toarray().ravel()
    penalty = 0.5 * np.linalg.eigvalsh(v.T @ v).mean()
    wanted = np.linalg.solve(v.T @ v + penalty * np.eye(8), v.T @ r)
    np.testing.assert_allclose(model.private["user_vectors"][5], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("epsilon", "users", "items"), [(5.0, 6040, 3706), (1.0, 29858, 40981)])
def test_thinning_follows_from_the_size_alone(epsilon: float, users: int, items: int) -> None:
    encoder = PFGNR(epsilon=epsilon).encoder(users, items)
    assert encoder.p0 * users * items <= 1e7 * (1 + 1e-9)
    assert encoder.thinning == 1.0 or encoder.p0 * users * items > 0.99e7
    assert encoder.p1 / encoder.p0 == pytest.approx(math.exp(epsilon))


def test_the_twin_is_above_training_on_the_report_as_it_is() -> None:
    """Four tastes of 40 items; at epsilon 2 a report has more lies than truths."""
    random = np.random.default_rng(1)
    likes = random.random((240, 160)) < np.where(np.arange(240)[:, None] % 4 == np.arange(160) % 4, 0.3, 0.01)
    user, item = np.nonzero(likes)
    parts = vr.split.holdout(Dataset.from_arrays(user, item), test=0.3, seed=1)
    settings = {"epsilon": 2.0, "embedding_size": 8, "epochs": 15, "layers": 2}
    twin, ldp = (
        vr.evaluate(fit(model, parts.train), parts, k=10, progress=False).mean()["recall@10"]
        for model in (PFGNR(**settings), PFGNRPaper(ablation="LDP", **settings))
    )
    assert twin > 1.3 * ldp


# -- devices and server ------------------------------------------------------------------------------------


def backbones(graph: Adjacency) -> dict[str, torch.nn.Module]:
    def randoms() -> torch.Generator:
        return torch.Generator().manual_seed(1)

    return {
        "lightgcn": LightGCNBackbone(graph, 6, 2, randoms()),
        "ngcf": NGCFBackbone(graph, 6, 2, 0.0, randoms()),
        "gat": GATBackbone(graph, 6, 2, 2, randoms()),
        "graphsage": GraphSAGEBackbone(graph, 6, 2, randoms()),
    }


def both_ways(word: str, loss: str, forget: int | None = None):
    """Gradients of the parameters: by the central loss, and by summing what devices send."""
    labels = world().train.matrix()
    labels.data = np.random.default_rng(2).random(labels.nnz).astype(np.float32)
    graph = Adjacency(TopDegreeEncoder(5.0).perturb(world().train.matrix(), Noise.research(1)))
    net = backbones(graph)[word]
    if loss == "bpr":
        negatives = np.random.default_rng(3).integers(0, 60, labels.nnz)
        central = bpr_loss(*net(), labels, negatives)
    else:
        negatives = np.arange(0, 60, 2)
        users, items = (F.normalize(part, dim=1) for part in net())
        central = softmax_loss(users, items, labels, torch.from_numpy(negatives), 0.2)
    central.backward()
    wanted = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    sent = sent_vectors(net, loss)
    found = client_gradients(*sent, labels, negatives, loss=loss, temperature=0.2)
    everybody = np.array([d for d in range(labels.shape[0]) if d != forget])
    item_sum = sum(found.items(int(device)) for device in everybody)
    pull_back(sent, everybody, found.users[everybody], item_sum, float(found.weights.sum()))
    if forget is None:
        torch.testing.assert_close(item_sum, found.item_sum(), rtol=1e-3, atol=1e-4)
        assert float(found.losses.sum() / found.weights.sum()) == pytest.approx(central.item(), rel=1e-4)
    return wanted, [parameter.grad for parameter in net.parameters()]


@pytest.mark.parametrize("loss", ["softmax", "bpr"])
@pytest.mark.parametrize("word", ["lightgcn", "ngcf", "gat", "graphsage"])
def test_sums_over_devices_pulled_back_are_the_gradient_of_the_central_loss(word: str, loss: str) -> None:
    for one, other in zip(*both_ways(word, loss), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_a_device_that_is_left_out_is_missed() -> None:
    wanted, got = both_ways("lightgcn", "softmax", forget=4)
    assert (wanted[0] - got[0]).abs().max() > 1e-4


def recover(rounds: list, reported: np.ndarray) -> np.ndarray:
    """Edges of all users from what the server logs: dL/dE, its own embeddings E, and the reported graph."""
    p, n_users, log = spreading(reported).numpy(), len(reported), []
    for gradient, e in rounds:
        rows = undo_spreading(gradient.numpy(), e.numpy(), p, n_users)
        z = p @ e.numpy()
        log.append(Round(z[:n_users], z[n_users:], rows))
    return recover_edges(log).toarray() > 0


def spreading(r: np.ndarray) -> torch.Tensor:
    """P, written out."""
    a = torch.from_numpy(dense_graph(r)).double()
    return (torch.eye(len(a)) + a + a @ a + a @ a @ a) / 4


def dense_graph(r: np.ndarray) -> np.ndarray:
    big = np.block([[np.zeros((len(r),) * 2), r], [r.T, np.zeros((r.shape[1],) * 2)]])
    scale = 1 / np.sqrt(np.maximum(big.sum(1), 1))
    return scale[:, None] * big * scale


def logged_rounds(labels: sp.csr_matrix, reported: sp.csr_matrix, rounds: int) -> list:
    """Training on ``labels`` over the reported graph, as the server sees it: dL/dE and E of every round."""
    p, n_users = spreading(reported.toarray()), labels.shape[0]
    e = torch.randn(sum(labels.shape), 64, generator=torch.Generator().manual_seed(1)).double()
    log = []
    for _ in range(rounds):
        z = (p @ e).requires_grad_()
        sent = (z[:n_users], z[n_users:])
        found = client_gradients(*sent, labels.astype(np.float64), np.arange(labels.shape[1]))
        pull_back(sent, np.arange(n_users), found.users, found.item_sum(), 1.0)
        gradient = p @ z.grad
        log.append((gradient, e.clone()))
        e = e - 0.3 * gradient
    return log


def toy() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    random = np.random.default_rng(6)
    truth = np.zeros((8, 200), np.float32)
    for row in truth:
        row[random.choice(200, 12, replace=False)] = 1
    report = EdgeResponse(3.0).perturb(sp.csr_matrix(truth), Noise.research(2))
    return sp.csr_matrix(truth), sp.csr_matrix(report)


def test_row_recovery_reads_every_edge_of_the_paper_form() -> None:
    """200 items, d = 64, four rounds: each of the 12 items of each user, exactly, whatever the report hid."""
    truth, report = toy()
    found = recover(logged_rounds(truth, report, 4), report.toarray())
    np.testing.assert_array_equal(found, truth.toarray() > 0)


def test_row_recovery_finds_only_the_report_in_the_twin() -> None:
    """Trained on the report, the gradients hold the report: what the server was given anyway."""
    truth, report = toy()
    found = recover(logged_rounds(report, report, 4), report.toarray())
    np.testing.assert_array_equal(found, report.toarray() > 0)
    assert (found != (truth.toarray() > 0)).any()


# -- the edge canary ---------------------------------------------------------------------------------------


def canary(encoder, worlds=(1, 0), runs: int = 20_000) -> float:
    """The epsilon that 20,000 encodings of two graphs refute, which differ in one edge.

    Every row is a graph of its own: items 1 and 2, and item 0 in one world only.
    """
    seen = []
    for number, edge in enumerate(worlds):
        own = [0, 1, 2] if edge else [1, 2]
        data = Dataset.from_codes(
            np.repeat(np.arange(runs), len(own)),
            np.tile(own, runs),
            vr.data.Ids([f"u{u}" for u in range(runs)]),
            vr.data.Ids([f"i{i}" for i in range(6)]),
        )
        guard = DataGuard(data)
        noise = Noise.research(number, "canary")
        job = Job(guard.public, None, 0, "cpu", None, False, noise=noise, guard=guard)
        seen.append(np.asarray(report_graph(job, encoder)[:, [0]].todense()).ravel())
    return two_world_epsilon(*seen)


def test_one_edge_is_within_epsilon_and_tight() -> None:
    assert 4.5 < canary(PFGNR(epsilon=5.0).encoder(20_000, 6)) <= 5.0
    assert canary(PFGNRPaper(epsilon=5.0)._encoder()) <= 5.0


def test_the_canary_catches_half_the_noise() -> None:
    assert canary(EdgeResponse(10.0)) > 5.0


def test_the_report_of_the_paper_form_has_the_precision_of_the_closed_form() -> None:
    """Users with 30 of 500 items each; two per cent, as the specification asks."""
    random = np.random.default_rng(3)
    rows = np.zeros((2000, 500), np.float32)
    rows[np.arange(2000)[:, None], np.argsort(random.random((2000, 500)), axis=1)[:, :30]] = 1
    truth = sp.csr_matrix(rows)

    def precision(encoder) -> float:
        told = sp.csr_matrix(encoder.perturb(truth, Noise.research(4)))
        return float(told.multiply(truth).sum() / told.nnz)

    wanted = PFGNRPaper()._encoder().expected_precision(30, 500)
    assert precision(PFGNRPaper()._encoder()) == pytest.approx(wanted, rel=0.02)
    assert precision(TopDegreeEncoder(4.0)) != pytest.approx(wanted, rel=0.02)  # the control


def test_the_bound_of_the_average_user_does_not_bind_a_graph() -> None:
    """Odds of a reported edge are at most e^epsilon times those of *its user's* row, whose length the paper's
    encoder buys with a part of epsilon. Where few users have most edges, its reports are truer than
    randomised response, and truer than the bound that the average row would give."""
    random = np.random.default_rng(3)
    rows = random.random((1000, 1000)) < np.where(np.arange(1000) < 50, 0.2, 0.002)[:, None]
    truth, epsilon = sp.csr_matrix(rows.astype(np.float32)), 3.0
    prior = truth.nnz / rows.size
    odds = math.exp(epsilon) * prior / (1 - prior)
    found = {}
    for name, encoder in {"top": TopDegreeEncoder(epsilon), "response": EdgeResponse(epsilon)}.items():
        told = sp.csr_matrix(encoder.perturb(truth, Noise.research(4)))
        found[name] = float(told.multiply(truth).sum() / told.nnz)
    assert found["response"] == pytest.approx(odds / (1 + odds), rel=0.03)
    assert found["top"] > 1.5 * odds / (1 + odds)


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [PFGNR, PFGNRPaper, DPRR, LapGraphGCN, GAP])
@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan")])
def test_epsilon_must_be_positive(model, epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number above 0"):
        model(epsilon=epsilon)


@pytest.mark.parametrize("split", [-0.1, 1.0, 1.5, float("nan")])
def test_split_must_leave_something_for_the_degree(split: float) -> None:
    with pytest.raises(ValueError, match="split must be from 0 up to but not including 1"):
        PFGNRPaper(split=split)


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (PFGNRPaper, "backbone", "lightgnc"),
        (PFGNRPaper, "ablation", "PF"),
        (PFGNR, "thinning", 0.0),
        (PFGNR, "thinning", 1.1),
        (PFGNR, "shrinkage", 0.0),
        (GAP, "hops", 0),
        (GAP, "delta", 0.0),
        (LapGraphGCN, "count_share", 1.0),
    ],
)
def test_bad_settings(model, name: str, value) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        model(**{name: value})


@pytest.mark.parametrize("epsilon", [0.02, 5.0])
@pytest.mark.parametrize("model", [PFGNR, PFGNRPaper, DPRR, LapGraphGCN])
def test_users_without_edges_and_degrees_out_of_range(model, epsilon: float) -> None:
    """At epsilon 0.02 nearly every noisy degree is below 0 or above the number of items."""
    data = world().train
    lonely = data.take(data.user != 7)
    found = fit(model(epsilon=epsilon, **SMALL), lonely)
    told = np.diff(found.private["graph_indptr"])
    assert told.min() >= 0
    assert told.max() <= data.n_items
    assert len(told) == data.n_users
    assert len(found.recommend([found.users.take([7])[0]], k=5)) == 5
    assert np.isfinite(found.scores()).all()
