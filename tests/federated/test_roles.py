"""Roles: a whole round over the wire, and a watcher who knows what nobody may see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilrec.core import stream
from veilrec.crypto import (
    AGGREGATOR,
    Encryptor,
    FixedPoint,
    LengthProof,
    MaskedSum,
    Packing,
    PaillierSum,
    PlainSum,
    SecretKey,
    SecureSum,
    SharedSum,
    ShareKey,
    masked_sum,
)
from veilrec.crypto.messages import Envelope, split_entries
from veilrec.federated import SERVER, Aggregator, Client, KeyServer, Wire, run_round

CODE = FixedPoint(bound=1.0, step=2**-12, clients=5)
LENGTH = 200
NAMES = ("ann", "bob", "cat", "dan", "eve")
VALUES = {name: stream(3, name).uniform(-1, 1, LENGTH) / 16 for name in NAMES}  # none as long as 1


@pytest.fixture(scope="module")
def secret() -> SecretKey:
    return SecretKey.generate(2048)


@pytest.fixture(scope="module")
def paillier(secret: SecretKey) -> PaillierSum:
    return PaillierSum(CODE, LENGTH, key=secret.public, secret=secret)


def expected(*names: str) -> bytes:
    return CODE.decode(sum(CODE.encode(VALUES[name]) for name in names)).tobytes()


def parties() -> tuple[Aggregator, list[Client]]:
    return Aggregator(), [Client(name) for name in NAMES]


def proven(paillier: PaillierSum) -> list[SecureSum]:
    key = ShareKey()
    shared = SharedSum(CODE, LENGTH, norm=1.0, key=key.public, secret=key)
    return [PlainSum(CODE, LENGTH, norm=1.0), replace(paillier, norm=1.0), shared]


def sums(paillier: PaillierSum) -> list[SecureSum]:
    return [PlainSum(CODE, LENGTH), MaskedSum(CODE, LENGTH), paillier, *proven(paillier)]


def test_rounds_over_the_wire_give_the_same_bits_with_every_backend(paillier: PaillierSum) -> None:
    for one in sums(paillier):
        server, wire, (aggregator, clients) = KeyServer(one), Wire(), parties()
        for number in range(2):
            total = run_round(server, aggregator, clients, wire, VALUES, number)
            assert total.values.tobytes() == expected(*NAMES)
            assert (total.included, total.refused) == (NAMES, ())
        settings = [found for found in wire.transfers if found.sender == SERVER and b"step" in found.data]
        assert len(settings) == 6  # announced once to each


def trained(one: SecureSum, step: float = 4.8, rounds: int = 3) -> np.ndarray:
    """A tiny model: every round depends on the sum of the round before, so one wrong bit grows."""
    server, wire, (aggregator, clients) = KeyServer(one), Wire(), parties()
    model = np.zeros(LENGTH)
    for number in range(rounds):
        gradients = {name: np.tanh(3 * model - 16 * VALUES[name]) / 16 for name in NAMES}
        model = model - step * run_round(server, aggregator, clients, wire, gradients, number).values
    return model


def test_an_encrypted_training_is_the_plain_training(paillier: PaillierSum) -> None:
    plain, *others = (trained(one) for one in sums(paillier))
    assert len(others) == 5
    assert all(plain.tobytes() == one.tobytes() for one in others)
    other = trained(PlainSum(FixedPoint(bound=1.0, step=2**-13, clients=5), LENGTH))
    assert other.tobytes() != plain.tobytes()  # the comparison can fail: half the step, other bits


def test_integers_on_the_grid_can_be_offered_as_they_are() -> None:
    """As noise that was drawn on the grid must be: it is not rounded a second time."""
    server, wire, (aggregator, clients) = KeyServer(MaskedSum(CODE, 2)), Wire(), parties()
    run_round(server, aggregator, clients, wire, {name: [0.0, 0.0] for name in NAMES})
    for client in clients:
        client.offer(wire, np.array([4096, -1]))
    aggregator.begin(wire, 1, NAMES)
    for _ in aggregator.sum.phases:
        for client in clients:
            client.answer(wire)
        aggregator.gather(wire)
    aggregator.forward(wire)
    assert server.read(wire, 1).tolist() == [5.0, -5 * 2**-12]


def test_a_client_that_was_cut_off_is_left_out_and_may_come_back(paillier: PaillierSum) -> None:
    for one in sums(paillier):
        for messages in range(len(one.phases)):
            server, (aggregator, clients) = KeyServer(one), parties()
            total = run_round(server, aggregator, clients, Wire(cut={"cat": messages}), VALUES)
            kept = NAMES if messages == 4 else ("ann", "bob", "dan", "eve")
            assert total.included == kept
            assert total.values.tobytes() == expected(*kept)
            again = run_round(server, aggregator, clients, Wire(), VALUES, round=1)
            assert again.values.tobytes() == expected(*NAMES)


def test_what_waited_from_an_earlier_round_is_thrown_away_or_refused() -> None:
    server, wire, (aggregator, clients) = KeyServer(PlainSum(CODE, LENGTH)), Wire(), parties()
    run_round(server, aggregator, clients, wire, VALUES)
    old = {one.receiver: one for one in wire.transfers if one.sender == AGGREGATOR}["cat"]
    share = next(one for one in wire.transfers if one.sender == "dan")
    for late in (old, share):
        wire.send(*late)
    total = run_round(server, aggregator, clients, wire, VALUES, round=1)
    assert total.values.tobytes() == expected(*NAMES)
    assert [(one.client, one.reason[:22]) for one in total.refused] == [("dan", "round must be 1, got 0")]


def test_only_those_with_values_are_invited(paillier: PaillierSum) -> None:
    some = {name: VALUES[name] for name in ("bob", "eve")}
    total = run_round(KeyServer(paillier), *parties(), Wire(), some)
    assert total.included == ("bob", "eve")
    assert total.values.tobytes() == expected("bob", "eve")


# ---- the watcher -------------------------------------------------------------------------------------------


def reachable(thing: Any, seen: set[int] | None = None) -> Iterable[Any]:
    """Everything that hangs on an object."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    inner: list[Any] = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    if isinstance(thing, dict):
        inner += [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        inner += list(thing)
    for one in inner:
        yield from reachable(one, seen)


def breaches(wire: Wire, secret: SecretKey, aggregator: Aggregator, clients: list[Client]) -> set[str]:
    """What went to someone who must not have it. A ciphertext is found by 64 bytes from its middle."""
    found = set()
    shares = [one.data for one in wire.transfers if one.sender in NAMES]
    pieces = {share[at : at + 64] for share in shares for at in range(300, len(share) - 64, 512)}
    at_server = b"".join(wire.seen_by(SERVER))
    if any(one.sender != AGGREGATOR for one in wire.transfers if one.receiver == SERVER):
        found.add("server heard someone else")
    if any(piece in at_server for piece in pieces):
        found.add("server saw a share")
    keys = [number.to_bytes(128, order) for number in (secret.p, secret.q) for order in ("big", "little")]
    keys += [key.hex().encode() for key in keys]
    for name in (AGGREGATOR, *NAMES):
        if any(key in b"".join(wire.seen_by(name)) for key in keys):
            found.add("key on the wire")
    for party in (aggregator, *clients):
        things = list(reachable(party))
        if any(
            isinstance(one, SecretKey) or one in (secret.p, secret.q) for one in things if not _array(one)
        ):
            found.add("key in a party")
    for client in clients:
        others = [piece for share in shares if share for piece in [share[300:364]] if piece]
        if any(piece in b"".join(wire.seen_by(client.name)) for piece in others):
            found.add("client saw a share")
    return found


def _array(thing: Any) -> bool:
    return isinstance(thing, np.ndarray)


def test_nobody_sees_what_he_must_not(paillier: PaillierSum, secret: SecretKey) -> None:
    wire, (aggregator, clients) = Wire(), parties()
    run_round(KeyServer(paillier), aggregator, clients, wire, VALUES)
    assert breaches(wire, secret, aggregator, clients) == set()
    assert all(type(one.data) is bytes for one in wire.transfers)
    assert [one.sender for one in wire.transfers if one.receiver == SERVER] == [AGGREGATOR]


class _ForwardsAll(Aggregator):
    """The mistake: the shares go to the server beside the sum."""

    def gather(self, wire: Wire) -> None:
        messages = wire.receive(self.name)
        for _, data in messages:
            wire.send(self.name, SERVER, data)
        for name, data in messages:
            wire.send(name, self.name, data)
        super().gather(wire)


class _ForwardsOne(Aggregator):
    """The mistake: the "sum" is one client's share."""

    def forward(self, wire: Wire) -> None:
        share = next(one.data for one in wire.transfers if one.sender == "ann")
        wire.send(self.name, SERVER, share)


class _TellsKey(KeyServer):
    """The mistake: the whole key is announced."""

    def announce(self, wire: Wire, receivers) -> None:
        for receiver in receivers:
            wire.send(SERVER, receiver, self._backend.secret.to_bytes())


@pytest.mark.parametrize("broken", [_ForwardsAll, _ForwardsOne])
def test_the_watcher_sees_an_aggregator_that_forwards_shares(broken, paillier, secret) -> None:
    wire, (_, clients), aggregator = Wire(), parties(), broken()
    with pytest.raises(ValueError, match=r"(messages to the server|kind of message) must be"):
        run_round(KeyServer(paillier), aggregator, clients, wire, VALUES)
    assert breaches(wire, secret, aggregator, clients) == {"server saw a share"}


def test_the_watcher_sees_keys_and_clients_who_talk_to_the_server(paillier, secret) -> None:
    wire, (aggregator, clients) = Wire(), parties()
    with pytest.raises(ValueError):
        run_round(_TellsKey(paillier), aggregator, clients, wire, VALUES)
    aggregator._kept = [{"key": secret}]
    wire.send("ann", SERVER, b"hello")
    found = breaches(wire, secret, aggregator, clients)
    assert found == {"key on the wire", "key in a party", "server heard someone else"}


def test_the_watcher_sees_a_share_that_reaches_another_client(paillier, secret) -> None:
    wire, (aggregator, clients) = Wire(), parties()
    run_round(KeyServer(paillier), aggregator, clients, wire, VALUES)
    share = next(one.data for one in wire.transfers if one.sender == "ann")
    wire.send(AGGREGATOR, "bob", share)
    assert breaches(wire, secret, aggregator, clients) == {"client saw a share"}


def test_questions_about_proofs_show_the_server_nothing_of_a_client(paillier, secret) -> None:
    """It sees what hides the secrets, and blinded evidence; no ciphertext of a vector, and no half."""
    for one in proven(paillier)[1:]:
        wire, (aggregator, clients) = Wire(), parties()
        run_round(KeyServer(one), aggregator, clients, wire, VALUES)
        assert breaches(wire, secret, aggregator, clients) == set()
        heard = b"".join(wire.seen_by(SERVER))
        assert {found.sender for found in wire.transfers if found.receiver == SERVER} == {AGGREGATOR}
        for name in NAMES:
            share = next(found.data for found in wire.transfers if found.sender == name)
            parts = split_entries(Envelope(one.fingerprint, 0).open(share, "share", name))
            assert parts.pop("hidden") in heard  # the search can find something
            for part in parts.values():
                assert not any(part[at : at + 16] in heard for at in range(64, len(part) - 16, 16))


# ---- refusals ----------------------------------------------------------------------------------------------


def test_too_few_clients_are_not_forwarded(paillier: PaillierSum) -> None:
    wire = Wire(cut=dict.fromkeys(NAMES[1:], 0))
    with pytest.raises(ValueError, match=r"clients in the sum must be at least 2, got \('ann',\)"):
        run_round(KeyServer(paillier), *parties(), wire, VALUES)
    assert wire.seen_by(SERVER) == []


BAD_VECTORS = {
    "values must be from -1.0 to 1.0, got 1.5 at 0": np.full(LENGTH, 1.5),
    "values must be from -1.0 to 1.0, got nan at 3": np.where(np.arange(LENGTH) == 3, np.nan, 0.5),
    f"shape of a share must be ({LENGTH},), got ({LENGTH - 1},)": np.zeros(LENGTH - 1),
    f"shape of a share must be ({LENGTH},), got ({LENGTH}, 1)": np.zeros((LENGTH, 1)),
    "could not convert string to float": ["x"] * LENGTH,
    "float() argument must be": {"cat": 1.0},
}


@pytest.mark.parametrize("reason", BAD_VECTORS)
def test_a_bad_vector_is_refused_by_name_and_the_round_goes_on(paillier: PaillierSum, reason: str) -> None:
    for one in sums(paillier):
        server, wire, (aggregator, clients) = KeyServer(one), Wire(), parties()
        total = run_round(server, aggregator, clients, wire, {**VALUES, "cat": BAD_VECTORS[reason]})
        assert total.included == ("ann", "bob", "dan", "eve")
        assert total.values.tobytes() == expected("ann", "bob", "dan", "eve")
        assert [(found.client, found.kind) for found in total.refused] == [("cat", "vector")]
        assert reason in total.refused[0].reason.replace("'", "")
        heard = [transfer for transfer in wire.transfers if "cat" in transfer[:2]]
        assert [transfer.sender for transfer in heard] == [SERVER]  # the settings, and no invitation
        again = run_round(server, aggregator, clients, wire, VALUES, round=1)
        assert (again.values.tobytes(), again.refused) == (expected(*NAMES), ())


def test_a_bad_vector_that_leaves_too_few_is_told(paillier: PaillierSum) -> None:
    words = r"number of clients must be from 2 to 5, got 1\. bob was refused: values must be .* got 2\.0 at 0"
    for one in sums(paillier):
        two = {"ann": VALUES["ann"], "bob": np.full(LENGTH, 2.0)}
        with pytest.raises(ValueError, match=words):
            run_round(KeyServer(one), *parties(), Wire(), two)


def test_a_client_whose_vector_was_refused_has_nothing_to_answer_with() -> None:
    server, wire, (aggregator, clients) = KeyServer(PlainSum(CODE, LENGTH)), Wire(), parties()
    run_round(server, aggregator, clients, wire, VALUES)
    with pytest.raises(ValueError, match="encoded values must be from -4096 to 4096"):
        clients[0].offer(wire, np.full(LENGTH, 4097))
    aggregator.begin(wire, 1, NAMES)
    with pytest.raises(ValueError, match="vector must be offered"):
        clients[0].answer(wire)


class _Wild(Client):
    """A dishonest client: its vector is ``times`` the bound, whatever its code says."""

    times = 1

    def offer(self, wire: Wire, integers: np.ndarray) -> None:
        super().offer(wire, integers)
        self._round._integers = np.full(LENGTH, int(self.times * CODE.levels))


@pytest.mark.parametrize(("times", "noticed"), [(4, False), (6, True)])
def test_an_unclipped_share_of_a_liar_is_seen_in_the_sum_or_nowhere(paillier, times: int, noticed) -> None:
    """What cannot be seen without a norm, and whom the error names when it is."""
    quiet = dict.fromkeys(NAMES, np.zeros(LENGTH))
    for one in (MaskedSum(CODE, LENGTH), paillier):
        wild = _Wild("eve")
        wild.times = times
        everyone = KeyServer(one), Aggregator(), [*map(Client, NAMES[:4]), wild], Wire(), quiet
        if noticed:
            words = (
                r"encoded values must be from -20480 to 20480, got 24576 at 0\. A share is out of range\. "
            )
            with pytest.raises(ValueError, match=words + r"In the sum: ann, bob, cat, dan, eve\.$"):
                run_round(*everyone)
        else:
            total = run_round(*everyone)
            assert (total.included, total.refused) == (NAMES, ())
            assert (total.values == 4.0).all()


def _packed(packing: Packing, numbers: np.ndarray) -> list[int]:
    """As ``Packing.pack``, for numbers of any size."""
    groups = [numbers[at : at + packing.slots] for at in range(0, len(numbers), packing.slots)]
    return [sum(int(one) << packing.slot_bits * slot for slot, one in enumerate(group)) for group in groups]


@pytest.mark.parametrize("times", [0.08, 1, 4, 6, 2**40])
def test_an_unclipped_share_of_a_liar_is_refused_where_there_is_a_norm(
    paillier, times: float, monkeypatch
) -> None:
    """Every coordinate at ``times`` the bound: 0.08 x 14 is longer than 1, though no coordinate is."""
    honest = LengthProof.half

    def half(self: LengthProof, numbers: np.ndarray, key: bytes) -> Any:
        try:
            return honest(self, numbers, key)
        except ValueError:  # the liar's code: the squares it has, and nothing to fill them up with
            x = np.zeros((4, 64), np.int64)
            x.reshape(-1)[:LENGTH] = numbers
            return self.half_of(x, key)

    monkeypatch.setattr(LengthProof, "half", half)
    monkeypatch.setattr(Packing, "pack", _packed)
    for one in proven(paillier):
        wild = _Wild("eve")
        wild.times = times
        total = run_round(KeyServer(one), Aggregator(), [*map(Client, NAMES[:4]), wild], Wire(), VALUES)
        assert total.included == NAMES[:4]
        assert total.values.tobytes() == expected(*NAMES[:4])
        assert [(found.client, found.kind) for found in total.refused] == [("eve", "share")]


def test_randomisers_are_made_beforehand(paillier: PaillierSum, monkeypatch) -> None:
    server, wire, (aggregator, clients) = KeyServer(paillier), Wire(), parties()
    two = {name: VALUES[name] for name in NAMES[:2]}
    run_round(server, aggregator, clients, wire, two)
    for client in clients[:2]:
        client.prepare(rounds=2)
    monkeypatch.setattr(Encryptor, "_randomiser", lambda self: pytest.fail("a randomiser was made online"))
    for number in (1, 2):
        total = run_round(server, aggregator, clients, wire, two, number)
        assert total.values.tobytes() == expected("ann", "bob")


def test_parties_out_of_order_are_told_so(paillier: PaillierSum) -> None:
    with pytest.raises(ValueError, match="settings must be announced"):
        Client("ann").prepare()
    with pytest.raises(ValueError, match="round must be begun"):
        Aggregator().gather(Wire())
    for taken in (SERVER, AGGREGATOR):
        with pytest.raises(ValueError, match="name must be a client's"):
            Client(taken)
    wire = Wire()
    wire.send("mallory", "ann", paillier.to_bytes())
    with pytest.raises(ValueError, match="settings must be one message from the server"):
        Client("ann").join(wire)
    client = Client("ann")
    KeyServer(paillier).announce(wire, ["ann"])
    client.join(wire)
    wire.send("mallory", "ann", b"hello")
    client.answer(wire)
    assert [(one.client, one.kind) for one in client.strays] == [("mallory", "stray")]
    with pytest.raises(ValueError, match="messages to the server must be"):
        KeyServer(paillier).read(Wire(), 0)


def test_a_short_key_is_refused_by_the_roles() -> None:
    toy = SecretKey.for_tests()
    weak = PaillierSum(CODE, LENGTH, key=toy.public, secret=toy)
    with pytest.raises(ValueError, match="key size must be 2048 or 3072 bits, got 512"):
        run_round(KeyServer(weak), *parties(), Wire(), VALUES)


def test_a_server_makes_its_own_key() -> None:
    server = KeyServer.with_paillier(CODE, LENGTH, least=3)
    wire = Wire()
    server.announce(wire, ["ann"])
    assert b'"least": 3' in wire.seen_by("ann")[0]
    with pytest.raises(ValueError, match="bits must be 2048 or 3072, got 1024"):
        KeyServer.with_paillier(CODE, LENGTH, bits=1024)


# ---- clients that misbehave, and a round that goes on ------------------------------------------------------


class _Stray(Client):
    """Also writes to people whom its messages are not for."""

    def answer(self, wire: Wire) -> None:
        for other in (SERVER, "bob", AGGREGATOR):
            wire.send(self.name, other, b"hello")
        super().answer(wire)


def test_messages_to_the_wrong_people_are_thrown_away_and_named(paillier: PaillierSum) -> None:
    for one in sums(paillier):
        wire, clients = Wire(), [_Stray("ann"), *map(Client, NAMES[1:])]
        wire.send("ann", "bob", b"before the settings")
        total = run_round(KeyServer(one), Aggregator(), clients, wire, VALUES)
        assert total.values.tobytes() == expected(*total.included)
        assert set(total.included) >= set(NAMES[1:])
        assert {found.client for found in total.refused} == {"ann"}
        reasons = [found.reason for found in total.refused if found.kind == "stray"]
        assert "message to server must come from 'aggregator', got one of 'ann'." in reasons
        assert "message to bob must come from 'server', got one of 'ann'." in reasons
        again = run_round(KeyServer(one), Aggregator(), list(map(Client, NAMES)), Wire(), VALUES, 1)
        assert again.refused == ()


class _Crashing(Client):
    """Its program ends with an error when it is to answer the message of a phase."""

    phase = 0

    def answer(self, wire: Wire) -> None:
        self.phase -= 1
        if self.phase < 0:
            raise KeyError("device app crashed")
        super().answer(wire)


@pytest.mark.parametrize("phase", range(5))
def test_a_client_that_fails_is_one_whose_line_broke(phase: int) -> None:
    crashing = _Crashing("cat")
    crashing.phase = phase
    clients = [crashing if name == "cat" else Client(name) for name in NAMES]
    total = run_round(KeyServer(MaskedSum(CODE, LENGTH)), Aggregator(), clients, Wire(), VALUES)
    inside = NAMES if phase == 4 else tuple(name for name in NAMES if name != "cat")
    assert total.included == inside
    assert total.values.tobytes() == expected(*inside)
    assert total.refused == (("cat", "answer", "KeyError: 'device app crashed'"),)


def _false_promise(self: Any, payload: bytes, honest: Any) -> bytes:
    self._entry = honest(self, payload)[:64] + bytes(32)
    return self._entry


def test_a_masked_round_that_cannot_be_opened_is_lost_and_not_played_again(monkeypatch) -> None:
    """A second sum without the client whose mask stays would differ from the first by its vector."""
    honest = masked_sum._MaskedClient._keys
    monkeypatch.setattr(
        masked_sum._MaskedClient,
        "_keys",
        lambda self, payload: (
            _false_promise(self, payload, honest) if self.name == "cat" else honest(self, payload)
        ),
    )
    wire, (aggregator, clients) = Wire(), parties()
    with pytest.raises(ValueError, match="mask of cat stays: the round is lost, and its vectors must not be"):
        run_round(KeyServer(MaskedSum(CODE, LENGTH)), aggregator, clients, wire, VALUES)
    assert not [one for one in wire.transfers if one.receiver == SERVER]
    sent = [one.sender for one in wire.transfers if one.receiver == AGGREGATOR]
    assert all(sent.count(name) == 5 for name in NAMES)  # one masked vector each, and no second try


def test_a_round_that_nobody_reveals_is_lost_with_the_reasons() -> None:
    values = {name: VALUES[name] for name in NAMES}
    cut = Wire(cut=dict.fromkeys(NAMES[:3], 3))
    with pytest.raises(
        ValueError, match=r"shares must be at least 3.*dan failed: ValueError: survivors must be"
    ):
        run_round(KeyServer(MaskedSum(CODE, LENGTH)), *parties(), cut, values)
