"""PF-GNR-C/B: what a device can move, what noise is drawn, and that encryption changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

import veilrec as vr
from veilrec.attacks import two_world_epsilon
from veilrec.crypto import FixedPoint, MaskedSum, PlainSum, SecureSum
from veilrec.data import Dataset
from veilrec.federated import Aggregator, Client, KeyServer, Wire, run_round
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import whole_bounds
from veilrec.systems import PFGNRSums
from veilrec.training import evaluate

SMALL = {"embedding_size": 4, "epochs": 2, "sampling_rate": 0.5}


def fit(model: PFGNRSums, data: Dataset, seed: int = 1) -> PFGNRSums:
    return model.fit(data, seed=seed, progress=False, secure=False)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


@pytest.fixture(scope="module")
def fitted(data) -> PFGNRSums:
    return fit(PFGNRSums(**SMALL), data)


# -- the statement -------------------------------------------------------------------------------------------


def test_the_server_is_counted_without_sampling(fitted) -> None:
    outside, server = fitted.guarantee.claims
    assert outside.epsilon == pytest.approx(8.0, abs=0.01)
    assert (outside.adversaries, server.adversaries) == ("OF", "S")
    assert server.epsilon > outside.epsilon
    assert [event.sampling_rate for event in server.events] == [1.0, 1.0]


def test_every_sum_gets_the_noise_of_the_statement(data, monkeypatch) -> None:
    """As much as the event says, and what the shares that were not counted on add."""
    drawn = []
    original = Noise.skellam
    monkeypatch.setattr(
        Noise,
        "skellam",
        lambda self, variance, shape: drawn.append((variance, shape)) or original(self, variance, shape),
    )
    model = fit(PFGNRSums(**SMALL), data)
    counts, one = model.mechanisms(60, 40)
    extra = 60 / model.arriving(60)
    assert drawn[0] == (pytest.approx(counts.variance * extra), (40,))
    assert len(drawn) == 1 + 2 * 2
    assert all(found == (pytest.approx(one.variance * extra), (40, 4)) for found in drawn[1:])
    assert sum(event.count for event in model.guarantee.claims[0].events) == 1 + 2 * 2


def test_shares_that_are_counted_on_arrive() -> None:
    for users in (3, 60, 6040):
        for drop_out in (0.0, 0.1, 0.5):
            sure = PFGNRSums(drop_out=drop_out).arriving(users)
            assert 1 <= sure <= max(1, users * (1 - drop_out) - 1)


# -- a device ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [True, False], ids=["cut", "broken: not cut"])
def test_a_device_moves_a_round_by_no_more_than_the_bound(fitted, good) -> None:
    """A device that cuts at ten times the length it promised breaks the bound."""
    model = PFGNRSums(**SMALL)
    model.shared = fitted.shared
    l2, l1 = whole_bounds(model.clip_norm, 1 / (model.step * model.clip_norm), 40 * 4)
    if not good:
        model.clip_norm *= 10
        model.step /= 10  # the same grid
    random, vectors = np.random.default_rng(3), 3 * np.random.default_rng(1).standard_normal((40, 4))
    found = [
        model.device(random.choice(40, size, replace=False), vectors, random) for size in (1, 2, 3, 9, 40)
    ]
    lengths = [np.linalg.norm(one.astype(float)) for one in found]
    assert max(lengths) > 0.9 * l2
    assert (max(lengths) <= l2) == good
    assert (max(np.abs(one).sum() for one in found) <= l1) or not good


def test_the_sum_is_that_of_the_devices(fitted, data) -> None:
    history, vectors = data.matrix(), fitted.shared["item_vectors"]
    together = fitted._sum(history[:20], vectors, np.random.default_rng(5))
    random = np.random.default_rng(5)
    apart = sum(
        fitted.device(history.indices[history.indptr[u] : history.indptr[u + 1]], vectors, random)
        for u in range(20)
    )
    assert np.abs(together - apart).max() <= 1  # a product on the edge between two whole numbers


def test_a_device_without_items_says_nothing(fitted) -> None:
    nobody = fitted.device(np.empty(0, np.int64), fitted.shared["item_vectors"], np.random.default_rng(1))
    assert not nobody.any()


# -- over the wire -------------------------------------------------------------------------------------------


def over_the_wire(backend: str, model: PFGNRSums, data: Dataset, rounds: int = 2) -> np.ndarray:
    """Rounds in which six devices send whole numbers and shares of the noise; the server steps down."""
    devices, history = 6, data.matrix()
    _, one = model.mechanisms(60, 40)
    vectors = np.random.default_rng(1).standard_normal((40, 4)) * 0.1
    room = int(2 * 1 / model.step + 12 * one.variance**0.5)
    codec = FixedPoint(float(room), 1.0, clients=devices)
    if backend == "paillier":
        server = KeyServer.with_paillier(codec, vectors.size)
    else:
        way: type[SecureSum] = {"plain": PlainSum, "masked": MaskedSum}[backend]
        server = KeyServer(way(codec, vectors.size))
    aggregator, clients, wire = Aggregator(), [Client(f"device {n}") for n in range(devices)], Wire()
    for turn in range(rounds):
        values = {}
        for n, client in enumerate(clients):
            noise = Noise.research(7, turn, n)
            items = history.indices[history.indptr[n] : history.indptr[n + 1]]
            share = one.share(devices - 1, vectors.shape, noise)
            values[client.name] = (model.device(items, vectors, np.random.default_rng(n)) + share).ravel()
        total = run_round(server, aggregator, clients, wire, values, turn)
        assert len(total.included) == devices
        vectors = vectors - 1e-6 * total.values.reshape(vectors.shape)
    return vectors


def test_encryption_changes_no_bit(fitted, data) -> None:
    plain = over_the_wire("plain", fitted, data)
    np.testing.assert_array_equal(over_the_wire("masked", fitted, data), plain)
    np.testing.assert_array_equal(over_the_wire("paillier", fitted, data), plain)


# -- audit and use -------------------------------------------------------------------------------------------


def toy(with_canary: bool) -> Dataset:
    """Thirty users; the last of them, and nobody else, has item 0 or has not."""
    whole = vr.synthetic(users=30, items=20, interactions=300, seed=6)
    user, item = whole.user[whole.item != 0], whole.item[whole.item != 0]
    if with_canary:
        user, item = np.append(user, 29), np.append(item, 0)
    return Dataset.from_codes(user, item, whole.users, whole.items)


def canary_scores(runs: int = 24) -> tuple[list[float], list[float]]:
    """The count of item 0, of everything that is released the clearest trace of its only owner."""
    worlds = []
    for there in (True, False):
        data, settings = toy(there), {"epsilon": 0.5, "embedding_size": 2, "epochs": 1, "sampling_rate": 0.5}
        found = [fit(PFGNRSums(**settings), data, run).shared["counts"][0] for run in range(runs)]
        worlds.append([float(count) for count in found])
    return worlds[0], worlds[1]


def test_a_canary_does_not_break_it() -> None:
    assert two_world_epsilon(*canary_scores(), level=1e-3) <= 0.5


def test_a_canary_would_without_noise(monkeypatch) -> None:
    monkeypatch.setattr(Noise, "skellam", lambda self, variance, shape: np.zeros(shape, np.int64))
    assert two_world_epsilon(*canary_scores()) > 0.5


def test_it_learns() -> None:
    parts = vr.split.holdout(vr.synthetic(users=600, items=80, interactions=18_000, seed=4), test=0.2, seed=1)
    model = fit(PFGNRSums(epsilon=30.0, embedding_size=8, epochs=15), parts.train)
    null = vr.Popularity().fit(parts.train, progress=False)
    ours, theirs = (evaluate(m, parts, 10, progress=False).mean()["ndcg@10"] for m in (model, null))
    assert ours > 1.1 * theirs


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 0.0}, {"drop_out": 1.0}, {"sampling_rate": 0.0}, {"clip_norm": -1.0}, {"count_share": 1.5}],
)
def test_bad_settings(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        PFGNRSums(**settings)
