"""PF-GNR over secure sums: the same bits encrypted or not, as accurate as in one place; bad devices."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import veilrec as vr
from veilrec.crypto import FixedPoint, LengthProof, PlainSum, SecretKey
from veilrec.crypto.four_squares import four_squares
from veilrec.crypto.length_proof import squares
from veilrec.data import Dataset
from veilrec.federated import SERVER, Aggregator, Client, KeyServer, Wire, run_round
from veilrec.models import Adjacency
from veilrec.systems import PFGNRPaper, pf_gnr_rounds
from veilrec.systems.device_sums import summing
from veilrec.systems.pf_gnr_clients import ClientGradients, client_gradients, sent_vectors
from veilrec.systems.pf_gnr_rounds import (
    Shares,
    add_up,
    encrypted_loss,
    fit_rounds,
    grid,
    largest_batch,
    round_count,
    take_apart,
)
from veilrec.training import Job, torch_stream

SMALL = {"embedding_size": 8, "epochs": 3, "layers": 2, "batches": 4}
TINY = {"embedding_size": 2, "epochs": 2, "layers": 1, "batches": 2}


@cache
def world() -> vr.Split:
    data = vr.synthetic(users=120, items=60, interactions=3000, seed=2)
    return vr.split.holdout(data, test=0.2, valid=0.1, seed=1, joint=True)


@cache
def toy() -> Dataset:
    return vr.synthetic(users=10, items=12, interactions=50, seed=3)


def fit(model: PFGNRPaper, data: Dataset | None = None, **more) -> PFGNRPaper:
    about = {"seed": 3, "progress": False, "secure": False}
    return model.fit(data or world().train, **{**about, **more})


def vectors(model: PFGNRPaper) -> list[np.ndarray]:
    return [model.private["user_vectors"], model.shared["item_vectors"]]


# -- the same run --------------------------------------------------------------------------------------------


def trained(make, loss: str = "softmax", data: Dataset | None = None) -> dict[str, np.ndarray]:
    """The parameters after all rounds over the true graph, with sums made by ``make``."""
    data, model = data or toy(), PFGNRPaper(loss=loss, **TINY)
    net = model._backbone(Adjacency(data.matrix()), torch_stream(1, "init"))
    job = Job(data, None, seed=1, device="cpu", checkpoint=None, progress=False)
    fit_rounds(job, model, net, lambda: net(), data.matrix(), data, make)
    return {name: one.detach().numpy().copy() for name, one in net.named_parameters()}


@pytest.mark.parametrize("loss", ["softmax", "bpr"])
def test_encryption_changes_no_bit(loss: str) -> None:
    plain = trained(summing("plain"), loss)
    for make in (summing("masked"), summing("paillier"), summing("shared")):
        found = trained(make, loss)
        assert all(np.array_equal(plain[name], found[name]) for name in plain)


def test_the_bits_would_show_a_difference(monkeypatch) -> None:
    """A device that rounds down instead of to the nearest: the comparison above must see it."""
    plain = trained(summing("plain"))
    honest = Shares.message

    def sloppy(self, device):
        whole = honest(self, device)
        table = np.floor(np.outer(self.left[:, device], self.right[device])).astype(np.int64)
        whole[: table.size] = table.ravel()
        return whole

    monkeypatch.setattr(Shares, "message", sloppy)
    found = trained(summing("masked"))
    assert not all(np.array_equal(plain[name], found[name]) for name in plain)


@pytest.mark.parametrize("loss", ["softmax", "bpr"])
def test_devices_some_at_a_time_are_the_same_devices(loss: str, monkeypatch) -> None:
    whole = trained(summing("plain"), loss)
    monkeypatch.setattr(pf_gnr_rounds, "_CELLS", 24)  # two devices of twelve items
    parts = trained(summing("plain"), loss)
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-3, atol=1e-5)


def test_a_fit_with_masks_is_the_plain_fit_and_says_the_same() -> None:
    plain, masked = (fit(PFGNRPaper(sums=word, **TINY), toy()) for word in ("plain", "masked"))
    for one, other in zip(vectors(plain), vectors(masked), strict=True):
        np.testing.assert_array_equal(one, other)
    central = fit(PFGNRPaper(**TINY), toy())
    assert plain.guarantee.claims == masked.guarantee.claims == central.guarantee.claims


@pytest.mark.parametrize("ablation", ["", "HE"])
@pytest.mark.parametrize("loss", ["softmax", "bpr"])
def test_rounds_are_the_central_training_to_rounding(ablation: str, loss: str) -> None:
    about = {"ablation": ablation, "loss": loss, **SMALL}
    central, rounds = (fit(PFGNRPaper(sums=word, **about)) for word in ("", "plain"))
    for one, other in zip(vectors(central), vectors(rounds), strict=True):
        assert np.abs(one - other).max() < 0.05 * np.abs(one).max()
    losses = [[entry["loss"] for entry in model.facts["log"]] for model in (central, rounds)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def recall(sums: str) -> float:
    model = PFGNRPaper(sums=sums, **{**SMALL, "epochs": 30})
    return vr.evaluate(fit(model), world(), k=10, progress=False).mean()["recall@10"]


def test_as_accurate_as_the_central_training(monkeypatch) -> None:
    central = recall("")
    assert recall("plain") == pytest.approx(central, rel=0.03)
    monkeypatch.setattr(pf_gnr_rounds, "LEVELS", 8)  # the control: a grid too coarse to learn from
    assert recall("plain") < 0.97 * central


@pytest.mark.parametrize("word", ["ngcf", "gat", "graphsage"])
def test_any_graph_network(word: str) -> None:
    central, rounds = (fit(PFGNRPaper(backbone=word, sums=sums, **SMALL)) for sums in ("", "plain"))
    for one, other in zip(vectors(central), vectors(rounds), strict=True):
        assert np.abs(one - other).max() < 0.05 * np.abs(one).max()


def test_stopped_and_taken_up_again(tmp_path, monkeypatch) -> None:
    from veilrec.training import loop

    whole = fit(PFGNRPaper(sums="plain", **SMALL))
    honest = pf_gnr_rounds.pull_back
    left = iter(range(6))  # batches until the power fails, in the second epoch

    def failing(*about):
        if next(left, None) is None:
            raise KeyboardInterrupt
        honest(*about)

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(pf_gnr_rounds, "pull_back", failing)
    with pytest.raises(KeyboardInterrupt):
        fit(PFGNRPaper(sums="plain", **SMALL), checkpoint=tmp_path)
    monkeypatch.setattr(pf_gnr_rounds, "pull_back", honest)
    again = fit(PFGNRPaper(sums="plain", **SMALL), checkpoint=tmp_path)
    for one, other in zip(vectors(whole), vectors(again), strict=True):
        np.testing.assert_array_equal(one, other)


# -- one round over the wire ---------------------------------------------------------------------------------

DEVICES, SIZE = 5, 2


@cache
def one_round() -> tuple[Shares, FixedPoint, int]:
    """What five devices of the toy send."""
    labels = toy().matrix()[:DEVICES]
    net = PFGNRPaper(**TINY)._backbone(Adjacency(labels), torch_stream(1, "init"))
    found = client_gradients(*sent_vectors(net), labels, np.arange(12), temperature=0.2)
    code = grid(12, DEVICES, user_power=1.0, scale=5.0)
    return Shares.of(found, code), code, (12 + DEVICES) * SIZE + 2


def without(gone: int | None) -> np.ndarray:
    shares, code, _ = one_round()
    stay = [device for device in range(DEVICES) if device != gone]
    return np.sum([shares.message(device) for device in stay], axis=0) * code.step


def server(word: str) -> KeyServer:
    _, code, length = one_round()
    return KeyServer(summing(word)(code, length))


def values() -> dict[str, np.ndarray]:
    shares, code, _ = one_round()
    return {f"device {n}": shares.message(n) * code.step for n in range(DEVICES)}


def test_messages_add_up_to_the_sum_without_messages() -> None:
    shares, code, length = one_round()
    np.testing.assert_array_equal(add_up(iter([shares]), PlainSum(code, length), 0), without(None))


def test_a_message_has_zeros_in_the_rows_of_others() -> None:
    shares, _, _ = one_round()
    rows = shares.message(3)[12 * SIZE : -2].reshape(DEVICES, SIZE)
    assert rows[3].any()
    assert not np.delete(rows, 3, axis=0).any()


@pytest.mark.parametrize("word", ["plain", "masked", "paillier", "shared"])
def test_the_server_never_receives_the_bytes_of_a_device(word: str) -> None:
    shares, _, _ = one_round()
    wire, clients = Wire(), [Client(name) for name in values()]
    total = run_round(server(word), Aggregator(), clients, wire, values())
    np.testing.assert_array_equal(total.values, without(None))
    sent = [one.data for one in wire.transfers if one.sender.startswith("device")]
    assert len(sent) >= DEVICES
    read = b"".join(wire.seen_by(SERVER))
    assert not any(message[-64:] in read for message in sent)
    raw = [shares.message(n).astype("<i8").tobytes()[-64:] for n in range(DEVICES)]
    told = any(one in b"".join(wire.seen_by("aggregator")) for one in raw)
    assert told == (word == "plain")  # the control: only a plain sum shows messages to the aggregator


@pytest.mark.parametrize("word", ["plain", "masked", "paillier", "shared"])
def test_a_device_that_drops_out_takes_its_weight_along(word: str) -> None:
    phases = {"plain": 0, "masked": 3, "paillier": 0, "shared": 0}
    clients = [Client(name) for name in values()]
    wire = Wire(cut={"device 2": phases[word]})
    total = run_round(server(word), Aggregator(), clients, wire, values())
    assert "device 2" not in total.included
    np.testing.assert_array_equal(total.values, without(2))
    shares, code, _ = one_round()
    rows, _, weight, loss = take_apart(total.values, DEVICES, SIZE)
    assert not rows[2].any()
    assert rows[[0, 1, 3, 4]].any(dim=1).all()
    lost = shares.scalars[2] * code.step
    assert (weight + lost[0], loss + lost[1]) == pytest.approx(tuple(without(None)[-2:]))
    assert lost[0] > 0


@pytest.mark.parametrize("word", ["plain", "masked", "paillier", "shared"])
def test_a_malformed_message_is_refused_and_the_round_goes_on(word: str) -> None:
    shares, code, length = one_round()
    backend = summing(word, SecretKey.for_tests())(code, length)
    clients = {f"device {n}": backend.client(f"device {n}", shares.message(n)) for n in range(DEVICES)}
    aggregator = backend.aggregator(0, clients)
    inbox = aggregator.begin()
    for _, kind in backend.phases:
        replies = {name: clients[name].reply(data) for name, data in inbox.items()}
        if kind in ("share", "masked"):
            replies["device 1"] = replies["device 1"][:-8]
        inbox = aggregator.gather(replies.items())
    while (question := aggregator.question()) is not None:
        aggregator.heed(backend.judge(question, 0))
    assert [one.client for one in aggregator.refused] == ["device 1"]
    np.testing.assert_array_equal(backend.open(aggregator.aggregate(), 0), without(1))


class _Greedy(Client):
    """A device that sends ``times`` its gradient, whatever its code says, and proves what it can."""

    times = 1

    def offer(self, wire: Wire, integers: np.ndarray) -> None:
        super().offer(wire, integers)
        self._round._integers = self.times * integers


def _unchecked(proof: LengthProof, numbers: np.ndarray, key: bytes) -> np.ndarray:
    rows = np.zeros((-(-(proof.length + 4) // 64), 64), np.int64)
    rows.reshape(-1)[: proof.length] = numbers
    total = squares(numbers)
    if total <= proof.most**2:
        rows.reshape(-1)[proof.length : proof.length + 4] = four_squares(proof.most**2 - total)
    return proof.half_of(rows, key)


@pytest.mark.parametrize(
    ("word", "refused"), [("plain", True), ("paillier", True), ("shared", True), ("masked", False)]
)
def test_an_unclipped_message_is_refused_where_it_can_be_seen_or_must_be_proven(
    word, refused, monkeypatch
) -> None:
    """In a masked sum it goes through, up to what all devices together may send: that is why it is named."""
    shares, code, length = one_round()
    monkeypatch.setattr(LengthProof, "half", _unchecked)
    greedy = _Greedy("device 1")
    own = np.linalg.norm(shares.message(1))
    greedy.times = int(code.levels // own) + 1  # the least that is too long
    devices = [greedy if n == 1 else Client(f"device {n}") for n in range(DEVICES)]
    values = {f"device {n}": shares.message(n) * code.step for n in range(DEVICES)}
    backend = summing(word)(code, length)
    total = run_round(KeyServer(backend), Aggregator(), devices, Wire(), values)
    assert [one.client for one in total.refused] == (["device 1"] if refused else [])
    if refused:
        np.testing.assert_array_equal(total.values, without(1))
    else:
        moved = total.values - without(1)
        np.testing.assert_allclose(moved, greedy.times * shares.message(1) * code.step)
    greedy.times = int(code.levels // own)  # the control: one time less is within the length
    again = run_round(KeyServer(backend), Aggregator(), devices, Wire(), values, 1)
    assert again.refused == ()


# -- the grid ------------------------------------------------------------------------------------------------


def gradients(scale: float) -> ClientGradients:
    c = torch.tensor([[-scale, scale, 0.0], [-0.5, 0.25, 0.25]])
    return ClientGradients(torch.ones(2), torch.ones(2), c, torch.ones(2, 1), torch.ones(3, 1))


def test_a_message_too_large_is_shrunk_as_a_whole() -> None:
    code = FixedPoint(4.0, 2.0**-10, clients=2)
    small, large = (Shares.of(gradients(scale), code) for scale in (1.0, 100.0))
    np.testing.assert_array_equal(large.message(1), small.message(1))
    found = large.message(0) * code.step
    assert 3.99 < np.linalg.norm(found) <= 4.0
    np.testing.assert_allclose(found[:3], [-(8**0.5), 8**0.5, 0.0], atol=0.01)
    assert found[-2] == pytest.approx(8**0.5 / 100, abs=code.step)  # its weight, shrunk like the rest
    PlainSum(code, 7, norm=4.0).checked(large.message(0))
    with pytest.raises(ValueError, match=r"length of a share must be at most 3\.99"):
        PlainSum(code, 7, norm=3.9912109375).checked(large.message(0))


def test_the_softmax_fits_the_bound_uncut() -> None:
    """Unit vectors at their worst: all liked items opposite to the user, who has half of all."""
    items, power, temperature = 8, 1.0, 0.1
    users = torch.tensor([[1.0, 0.0]])
    table = torch.tensor([[-1.0, 0.0]] * 4 + [[1.0, 0.0]] * 4)
    labels = vr.Dataset.from_arrays(["a"] * 4 + ["b"] * 8, [*"0123", *"01234567"]).matrix()[:1]
    found = client_gradients(users, table, labels, np.arange(items), temperature=temperature)
    code = grid(items, 1, power, 1 / temperature)
    weight = Shares.of(found, code).scalars[0, 0] * code.step
    assert weight == 4.0
    tight = FixedPoint(code.bound / 8, code.step, 1)  # the control: a bound too small cuts the weight
    assert Shares.of(found, tight).scalars[0, 0] * code.step < 4.0


@pytest.mark.parametrize("temperature", [0.05, 0.2, 1.0])
def test_no_message_of_the_softmax_is_longer_than_the_bound(temperature: float) -> None:
    """Whatever the unit vectors and the labels: the head of the module says why."""
    random, items = np.random.default_rng(4), 12
    for _ in range(60):
        users, table = (
            torch.nn.functional.normalize(torch.from_numpy(random.normal(size=(n, 2))), dim=1)
            for n in (5, items)
        )
        liked = (random.random((5, items)) < random.random()).astype(np.float32)
        shared = np.sort(random.choice(items, random.integers(1, items + 1), replace=False))
        found = client_gradients(
            users.float(), table.float(), sp.csr_matrix(liked), shared, temperature=temperature
        )
        shares = Shares.of(found, grid(items, 5, 1.0, 1 / temperature))
        weights, lengths = found.weights.numpy(), [np.linalg.norm(shares.message(n)) for n in range(5)]
        code = grid(items, 5, 1.0, 1 / temperature)
        np.testing.assert_allclose(shares.scalars[:, 0] * code.step, weights)  # nothing was shrunk
        assert (np.array(lengths) * code.step <= 4 * weights / temperature + 1e-3).all()


# -- the paper's scalar --------------------------------------------------------------------------------------


def test_the_scalar_loss_is_the_mean_of_the_devices() -> None:
    losses, weights = np.array([1.5, 0.25, 4.0]), np.array([2.0, 1.0, 1.0])
    for word in ("plain", "masked", "paillier", "shared"):
        assert encrypted_loss(losses, weights, summing(word)) == 5.75 / 4


def test_bad_scalars() -> None:
    with pytest.raises(ValueError, match="weights must be one for each of 2 losses, got 1"):
        encrypted_loss(np.ones(2), np.ones(1), summing("plain"))
    with pytest.raises(ValueError, match="sum of weights must be above 0"):
        encrypted_loss(np.ones(2), np.zeros(2), summing("plain"))
    with pytest.raises(ValueError, match=r"values must be from -1024.0 to 1024.0, got 2000.0"):
        encrypted_loss(np.array([1.0, 2000.0]), np.ones(2), summing("plain"))


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ablation", ["GNR", "LDP"])
def test_nothing_to_encrypt(ablation: str) -> None:
    with pytest.raises(ValueError, match=f"sums must be '' with ablation '{ablation}', got 'plain'"):
        PFGNRPaper(ablation=ablation, sums="plain")


def test_unknown_sums() -> None:
    with pytest.raises(ValueError, match="sums must be"):
        PFGNRPaper(sums="ckks")
    with pytest.raises(ValueError, match="sums must be"):
        summing("")


def test_gradients_that_are_no_numbers() -> None:
    with pytest.raises(ValueError, match=r"gradients must be finite, got nan\. Lower the learning rate\."):
        Shares.of(gradients(float("nan")), FixedPoint(4.0, 0.5, clients=2))


def test_a_user_without_items_takes_part_with_zeros() -> None:
    data = world().train
    lonely = data.take(data.user != 7)
    rows = lonely.matrix()[6:8]
    found = client_gradients(torch.ones(2, 1), torch.ones(60, 1), rows, np.arange(60))
    shares = Shares.of(found, grid(60, 2, user_power=1.0))
    assert shares.message(0).any()
    assert not shares.message(1).any()
    assert np.isfinite(fit(PFGNRPaper(sums="plain", **SMALL), lonely).scores()).all()


def test_a_sum_of_one_is_refused() -> None:
    alone = Dataset.from_arrays(["ann", "ann"], ["tea", "mate"])
    with pytest.raises(ValueError, match="users must be two or more where sums are made, got 1"):
        fit(PFGNRPaper(sums="plain", **TINY), alone)


def test_no_round_of_an_epoch_has_one_device() -> None:
    """However many batches are asked for: the sum of one device is that device's message."""
    for devices in range(2, 40):
        for batches in (1, 2, 3, 8, 100):
            parts = np.array_split(np.arange(devices), round_count(batches, devices))
            assert min(len(part) for part in parts) >= 2
            assert max(len(part) for part in parts) == largest_batch(batches, devices)
            assert len(parts) <= batches
