"""Row recovery: it reads PF-GNR as published, over real messages, and finds nothing to read in twin B."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import veilrec as vr
from veilrec.attacks import Round, recover_edges, undo_spreading
from veilrec.attacks.rows import label_weights
from veilrec.crypto import FixedPoint, MaskedSum
from veilrec.federated import Aggregator, Client, KeyServer, Wire, run_round
from veilrec.privacy import Noise
from veilrec.systems import PFGNRPaper, PFGNRSums, pf_gnr_rounds

USERS, ITEMS, SIZE = 30, 60, 16
TEMPERATURE = 0.2


@cache
def data() -> vr.Dataset:
    return vr.synthetic(users=USERS, items=ITEMS, interactions=300, seed=3)


def overheard(monkeypatch, sums: str, rounds: int, power: float = 0.5) -> list[Round]:
    """A fit over secure sums: what the server sent, and what it decrypted, in every round."""
    log: list[Round] = []
    honest = pf_gnr_rounds.pull_back

    def listening(sent, devices, rows, table, weight) -> None:
        order = np.argsort(devices)  # devices come in a new order in every round
        users, items = (part.detach().numpy() for part in sent)
        log.append(Round(users[devices[order]], items, rows.numpy()[order]))
        honest(sent, devices, rows, table, weight)

    monkeypatch.setattr(pf_gnr_rounds, "pull_back", listening)
    model = PFGNRPaper(sums=sums, epochs=rounds, batches=1, embedding_size=SIZE, layers=2, user_power=power)
    model.fit(data(), seed=1, progress=False, secure=False)
    return log


@pytest.mark.parametrize("sums", ["plain", "masked"])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_four_rounds_of_the_paper_form_tell_every_edge(monkeypatch, sums: str, power: float) -> None:
    """64 equations, and a number that is not below 0 for each of 60 items, in whole steps and in masks."""
    found = recover_edges(overheard(monkeypatch, sums, rounds=4, power=power), TEMPERATURE)
    np.testing.assert_array_equal(found.toarray() > 0, data().matrix().toarray() > 0)


def test_one_round_has_too_few_equations(monkeypatch) -> None:
    found = recover_edges(overheard(monkeypatch, "plain", rounds=1), TEMPERATURE)
    assert (found.toarray() != data().matrix().toarray()).any()


def test_noise_in_the_rows_hides_the_edges(monkeypatch) -> None:
    """The control: it reads the rows and nothing else."""
    random = np.random.default_rng(1)
    noisy = [
        Round(one.users, one.items, random.normal(0, np.abs(one.rows).max(), one.rows.shape))
        for one in overheard(monkeypatch, "plain", rounds=4)
    ]
    truth = data().matrix().toarray() > 0
    found = recover_edges(noisy, TEMPERATURE).toarray() > 0
    assert found[truth].mean() < 0.5


def test_the_items_of_the_softmax_are_taken_into_account() -> None:
    random = np.random.default_rng(2)
    truth, others = (random.random((4, 20)) < 0.3).astype(float), np.arange(0, 20, 3)
    log = []
    for _ in range(6):
        users, items = random.normal(size=(4, 6)), random.normal(size=(20, 6))
        sent = Round(users, items, 0 * users, others)
        rows = (truth.sum(axis=1, keepdims=True) * sent.means(0.5) - truth @ items) / 0.5
        log.append(Round(users, items, rows, others))
    assert np.array_equal(recover_edges(log, 0.5).toarray(), truth)
    astray = [Round(one.users, one.items, one.rows) for one in log]
    assert not np.array_equal(recover_edges(astray, 0.5).toarray(), truth)


def test_a_device_without_items_has_no_edges() -> None:
    random = np.random.default_rng(3)
    nobody = Round(random.normal(size=(2, 4)), random.normal(size=(9, 4)), np.zeros((2, 4)))
    assert recover_edges([nobody]).nnz == 0
    assert not label_weights([nobody]).any()


def labelled(
    rounds: int, devices: int = 20, items: int = 60, size: int = 12
) -> tuple[list[Round], np.ndarray]:
    """Rounds with random vectors, and the weights that are in them: 0.1 to 2 for a tenth of the items."""
    random = np.random.default_rng(5)
    truth = np.where(random.random((devices, items)) < 0.1, random.uniform(0.1, 2, (devices, items)), 0)
    log = []
    for _ in range(rounds):
        sent = Round(
            random.normal(size=(devices, size)), random.normal(size=(items, size)), np.zeros((devices, size))
        )
        rows = (truth.sum(axis=1, keepdims=True) * sent.means(0.7) - truth @ sent.items) / 0.7
        log.append(Round(sent.users, sent.items, rows))
    return log, truth


@pytest.mark.parametrize("rounds", [3, 5, 8], ids=["fewer equations than items", "as many", "more"])
def test_weights_of_all_devices_at_once_are_those_of_the_exact_solver(rounds: int) -> None:
    log, truth = labelled(rounds)
    np.testing.assert_allclose(label_weights(log, 0.7, steps=400), truth, atol=5e-3)
    edges = recover_edges(log, 0.7).toarray() > 0
    np.testing.assert_array_equal(edges, truth > truth.max(axis=1, keepdims=True) / 2)
    quick = label_weights(log, 0.7)
    assert quick.min() >= 0
    assert np.abs(quick - truth).max() < 0.1
    wrong = label_weights(log, 1.4)
    assert np.abs(wrong - truth).max() > 0.3


def test_weights_are_spread_where_equations_are_too_few() -> None:
    log, truth = labelled(1)
    found = label_weights(log, 0.7, steps=400)
    mean = log[0].means(0.7)
    left = found.sum(axis=1, keepdims=True) * mean - found @ log[0].items - 0.7 * log[0].rows
    assert np.abs(left).max() < 1e-2  # it solves what there is
    assert np.abs(found - truth).max() > 0.2


def lightgcn(graph: np.ndarray) -> np.ndarray:
    """(1 + A + A^2 + A^3) / 4, written out."""
    users, items = graph.shape
    whole = np.block([[np.zeros((users, users)), graph], [graph.T, np.zeros((items, items))]])
    a = whole / np.sqrt(np.outer(whole.sum(1), whole.sum(1)))
    return (np.eye(len(a)) + a + a @ a + a @ a @ a) / 4


def test_the_network_is_undone_with_the_direction_that_it_loses() -> None:
    random = np.random.default_rng(4)
    spread = lightgcn(np.where(random.random((7, 9)) < 0.5, 1.0, 0.0) + np.eye(7, 9, 2))
    start, slopes = random.normal(size=(16, 5)), random.normal(size=(7, 9))  # E, dL / dr
    final = spread @ start
    gradient = spread @ np.concatenate([slopes @ final[7:], slopes.T @ final[:7]])
    assert np.linalg.matrix_rank(spread) == 15
    np.testing.assert_allclose(undo_spreading(gradient, start, spread, 7), slopes @ final[7:], atol=1e-6)
    inverse_alone = (np.linalg.pinv(spread, rcond=1e-9) @ gradient)[:7]
    assert np.abs(inverse_alone - slopes @ final[7:]).max() > 0.01


# -- twin B ------------------------------------------------------------------------------------------------


def decrypted(model: PFGNRSums, devices: int) -> np.ndarray:
    """What the server of twin B decrypts in a round of so many devices."""
    vectors, history = model.shared["item_vectors"], data().matrix()
    _, one = model.mechanisms(USERS, ITEMS)
    codec = FixedPoint(float(int(2 / model.step + 12 * one.variance**0.5)), 1.0, clients=devices)
    values = {}
    for n in range(devices):
        items = history.indices[history.indptr[n] : history.indptr[n + 1]]
        share = one.share(devices - 1, vectors.shape, Noise.research(7, n))
        values[f"device {n}"] = (model.device(items, vectors, np.random.default_rng(n)) + share).ravel()
    clients = [Client(name) for name in values]
    total = run_round(KeyServer(MaskedSum(codec, vectors.size)), Aggregator(), clients, Wire(), values)
    assert len(total.included) == devices
    return total.values


def rows_per_user(seen: dict) -> list[str]:
    """Names of the arrays of a view that are as long as there are users, in any direction."""
    arrays = {name: a for part in ("shared", "reports", "server") for name, a in seen[part].items()}
    return [name for name, array in arrays.items() if USERS in array.shape]


def test_twin_b_sends_and_keeps_no_row_of_a_user() -> None:
    """The sum is an item table, however many devices there are; the server has nothing per user."""
    model = PFGNRSums(embedding_size=4, epochs=2, sampling_rate=0.5)
    model.fit(data(), seed=1, progress=False, secure=False)
    assert {decrypted(model, devices).size for devices in (3, 8)} == {ITEMS * 4}
    seen = model.view("S")
    assert rows_per_user(seen) == []
    assert "network" not in seen


def test_the_paper_form_does_both(monkeypatch) -> None:
    """The control."""
    log = overheard(monkeypatch, "plain", rounds=1)
    assert log[0].rows.shape == (USERS, SIZE)
    paper = PFGNRPaper(embedding_size=4, epochs=1).fit(data(), progress=False, secure=False)
    assert rows_per_user(paper.view("S")) == ["user_vectors"]


# -- bad input ---------------------------------------------------------------------------------------------


def test_bad_input() -> None:
    parts = np.zeros((4, 4))
    parts[:2, :2] = parts[2:, 2:] = 1
    with pytest.raises(ValueError, match="spread must be of a connected graph, got '2 lost directions'"):
        undo_spreading(np.zeros((8, 2)), np.zeros((8, 2)), lightgcn(parts), 4)
    good = Round(np.zeros((2, 3)), np.eye(4, 3), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="rounds must be one or more"):
        recover_edges([])
    with pytest.raises(ValueError, match="rounds must be all of the same devices and items"):
        recover_edges([good, Round(np.zeros((3, 3)), np.eye(4, 3), np.zeros((3, 3)))])
    with pytest.raises(ValueError, match="temperature must be"):
        recover_edges([good], temperature=0.0)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        label_weights([good], steps=0)
    for rows, items in ((np.zeros((1, 3)), np.eye(4, 3)), (np.zeros((2, 3)), np.eye(4, 2))):
        with pytest.raises(ValueError, match="rows must be one for each sent vector"):
            Round(np.zeros((2, 3)), items, rows)
