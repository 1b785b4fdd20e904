"""Who does what in a round of a secure sum: a server that reads sums, an aggregator that adds, clients.

    server      --settings (with the public keys)--> aggregator, clients
    aggregator  <--one message per phase-->          clients
    aggregator  <--questions and verdicts-->         server     where clients prove something
    aggregator  --the aggregate-->                   server

Trust. The server has the secret key and sees aggregates, and of single clients what their proofs show:
nothing else about an honest one (``crypto/proven_sum.py``). The aggregator sees every client's message and
has no key. With Paillier and shared sums the two must not collude: together they read every share. With
masked sums there is no key, and the aggregator and the server may be the same party. Clients may be
dishonest where there is a norm. Names are taken from the wire as given: the wire below must authenticate
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check
from veilrec.crypto import (
    AGGREGATOR,
    Encryptor,
    FixedPoint,
    PaillierSum,
    Refusal,
    SecretKey,
    SecureSum,
    SumAggregator,
    SumClient,
    Total,
    sum_from_bytes,
)
from veilrec.federated.wire import Wire

SERVER = "server"


class KeyServer:
    """Says how sums are made, holds the secret key if there is one, and reads sums of several clients.

    >>> from veilrec.crypto import PlainSum
    >>> server = KeyServer(PlainSum(FixedPoint(1.0, 2**-8, clients=3), length=2))
    >>> parties = Aggregator(), [Client("ann"), Client("bob")]
    >>> run_round(server, *parties, Wire(), {"ann": [0.5, 1.0], "bob": [0.25, -1.0]}).values
    array([0.75, 0.  ])
    """

    name = SERVER

    def __init__(self, backend: SecureSum) -> None:
        self._backend = backend
        self.strays: list[Refusal] = []
        """Messages of the last round that were not for here."""

    @classmethod
    def with_paillier(
        cls, codec: FixedPoint, length: int, *, least: int = 2, norm: float | None = None, bits: int = 2048
    ) -> KeyServer:
        """A server with a fresh Paillier key that never leaves it."""
        secret = SecretKey.generate(bits)
        return cls(PaillierSum(codec, length, least, norm=norm, key=secret.public, secret=secret))

    def announce(self, wire: Wire, receivers: Sequence[str]) -> None:
        """Send the public settings."""
        for receiver in receivers:
            wire.send(self.name, receiver, self._backend.to_bytes())

    def judge(self, wire: Wire, round: int) -> None:
        """Answer the aggregator's question about clients' proofs; what others sent here is thrown away."""
        wire.send(self.name, AGGREGATOR, self._backend.judge(self._one(wire), round))

    def read(self, wire: Wire, round: int) -> NDArray[np.float64]:
        """The sum that the aggregator forwarded; what others sent here is thrown away unread."""
        return self._backend.open(self._one(wire), round)

    def _one(self, wire: Wire) -> bytes:
        messages, strays = _sorted_out(wire, self.name, AGGREGATOR)
        self.strays += strays
        remedy = "The server reads one message at a time, and none of a client."
        good = len(messages) == 1
        check(good, "messages to the server", "one from the aggregator", len(messages), remedy)
        return messages[0]


class _Member:
    """A party that learns the settings from the server's message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.strays: list[Refusal] = []
        self._sum: SecureSum | None = None

    @property
    def joined(self) -> bool:
        """Whether the settings have arrived."""
        return self._sum is not None

    @property
    def sum(self) -> SecureSum:
        """The secure sum that was announced; it has no secret key."""
        check(self.joined, "settings", "announced", None, "Let the server announce them first.")
        assert self._sum is not None
        return self._sum

    def join(self, wire: Wire) -> None:
        """Read the settings; what others sent here is thrown away."""
        messages, self.strays = _sorted_out(wire, self.name, SERVER)
        check(len(messages) == 1, "settings", "one message from the server", len(messages))
        self._sum = sum_from_bytes(messages[0])


class Aggregator(_Member):
    """Adds what it cannot read, and forwards a sum only if enough clients are in it.

    See :class:`KeyServer` for a whole round.

    >>> Aggregator().joined
    False
    """

    def __init__(self) -> None:
        super().__init__(AGGREGATOR)
        self._round: SumAggregator | None = None

    @property
    def current(self) -> SumAggregator:
        """The round under way."""
        check(self._round is not None, "round", "begun", None, "Call begin first.")
        assert self._round is not None
        return self._round

    def begin(self, wire: Wire, round: int, names: Sequence[str]) -> None:
        """Invite clients to a round."""
        self._round = self.sum.aggregator(round, names)
        self._send(wire, self._round.begin())

    def gather(self, wire: Wire) -> None:
        """Take the replies that arrived, and send the messages of the next phase."""
        self._send(wire, self.current.gather(wire.receive(self.name)))

    def ask(self, wire: Wire) -> bool:
        """Send the next question about clients' proofs to the server; whether there was one."""
        question = self.current.question()
        if question is not None:
            wire.send(self.name, SERVER, question)
        return question is not None

    def heed(self, wire: Wire) -> None:
        """Take the server's verdicts; what others sent here is thrown away."""
        messages, strays = _sorted_out(wire, self.name, SERVER)
        self.strays += strays
        check(len(messages) == 1, "verdicts", "one message from the server", len(messages))
        self.current.heed(messages[0])

    def forward(self, wire: Wire) -> None:
        """Send the aggregate to the server; refused for fewer clients than agreed."""
        wire.send(self.name, SERVER, self.current.aggregate())

    @property
    def included(self) -> tuple[str, ...]:
        """The clients in the sum."""
        return self.current.included

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """The messages that were refused."""
        return tuple(self.current.refused)

    def _send(self, wire: Wire, messages: Mapping[str, bytes]) -> None:
        for name, data in messages.items():
            wire.send(self.name, name, data)


class Client(_Member):
    """Holds one vector per round and answers the aggregator.

    See :class:`KeyServer` for a whole round.

    >>> Client("ann").name
    'ann'
    """

    def __init__(self, name: str) -> None:
        check(name not in (SERVER, AGGREGATOR), "name", "a client's", name)
        super().__init__(name)
        self._encryptor: Encryptor | None = None
        self._round: SumClient | None = None

    def prepare(self, rounds: int = 1) -> None:
        """Do beforehand what does not depend on the values: Paillier's randomisers."""
        if isinstance(self.sum, PaillierSum):
            encryptor = self._own_encryptor(self.sum)
            for _ in range(rounds):
                (encryptor.prepare if self.sum.norm is None else encryptor.prepare_lot)(self.sum.ciphertexts)

    def offer(self, wire: Wire, integers: NDArray[np.int64]) -> None:
        """Enter a round with an encoded vector (``sum.codec.encode``); older messages are thrown away.

        A vector that is refused raises, and the client stays out of the round.
        """
        wire.receive(self.name)
        self._round = None
        if isinstance(self.sum, PaillierSum):
            self._round = self.sum.client(self.name, integers, self._own_encryptor(self.sum))
        else:
            self._round = self.sum.client(self.name, integers)

    def answer(self, wire: Wire) -> None:
        """Answer the aggregator's message, if one arrived; what others sent here is thrown away."""
        messages, strays = _sorted_out(wire, self.name, AGGREGATOR)
        self.strays += strays
        for data in messages:
            check(self._round is not None, "vector", "offered", None, "Call offer first.")
            assert self._round is not None
            wire.send(self.name, AGGREGATOR, self._round.reply(data))

    def _own_encryptor(self, backend: PaillierSum) -> Encryptor:
        if self._encryptor is None or self._encryptor.key != backend.key:
            self._encryptor = Encryptor(backend.key)
        return self._encryptor


def run_round(
    server: KeyServer,
    aggregator: Aggregator,
    clients: Sequence[Client],
    wire: Wire,
    values: Mapping[str, ArrayLike],
    round: int = 0,
) -> Total:
    """One round over the wire: every client of ``values`` is invited; those whose line breaks are left out.

    A client whose vector cannot be offered (unclipped, NaN, of another size) is not invited and listed in
    ``refused``, with the kind "vector". The reason is the client's own error and may quote one of its values:
    it goes to the caller, who has them all, and not over the wire. One that offers it all the same is refused
    with the kind "share", where the sum is plain or has a ``norm``. A client that fails in the middle counts
    as one whose line broke (kind "answer"), and a message to somebody whom it is not for is thrown away (kind
    "stray"). A masked round that cannot be opened is lost, and is not played again with the same vectors: see
    the head of ``masked_sum.py``.

    See :class:`KeyServer` for an example.

    >>> from veilrec.crypto import MaskedSum
    >>> server = KeyServer(MaskedSum(FixedPoint(1.0, 2**-8, clients=3), length=1))
    >>> clients = [Client("ann"), Client("bob"), Client("cat")]
    >>> values = {"ann": [0.5], "bob": [0.25], "cat": [1.0]}
    >>> total = run_round(server, Aggregator(), clients, Wire(cut={"cat": 2}), values)
    >>> total.values, total.included
    (array([0.75]), ('ann', 'bob'))
    >>> total = run_round(server, Aggregator(), clients, Wire(), {**values, "bob": [9.0]}, round=1)
    >>> total.included, total.refused[0].client
    (('ann', 'cat'), 'bob')
    """
    everybody: list[KeyServer | _Member] = [server, aggregator, *clients]
    for party in everybody:
        party.strays = []
    new = [party for party in (aggregator, *clients) if not party.joined]
    server.announce(wire, [party.name for party in new])
    for party in new:
        party.join(wire)
    present, refused = [], []
    for client in clients:
        if client.name in values:
            try:
                client.offer(wire, client.sum.codec.encode(values[client.name]))
                present.append(client)
            except (TypeError, ValueError) as error:
                refused.append(Refusal(client.name, "vector", str(error)))
    refused += _play(server, aggregator, present, wire, round, refused)
    with _adding(f"In the sum: {', '.join(aggregator.included)}."):
        total = server.read(wire, round)
    strays = [stray for party in everybody for stray in party.strays]
    return Total(total, aggregator.included, (*refused, *aggregator.refused, *strays))


def _play(
    server: KeyServer,
    aggregator: Aggregator,
    present: Sequence[Client],
    wire: Wire,
    round: int,
    refused: Sequence[Refusal],
) -> list[Refusal]:
    """The phases of a round, to the message for the server; the clients that failed on the way."""
    failed: dict[str, Refusal] = {}
    with _adding(" ".join(f"{one.client} was refused: {one.reason}" for one in refused)):
        aggregator.begin(wire, round, [client.name for client in present])
    for _ in aggregator.sum.phases:
        for client in present:
            if client.name not in failed:
                try:
                    client.answer(wire)
                except Exception as error:
                    failed[client.name] = Refusal(client.name, "answer", f"{type(error).__name__}: {error}")
        aggregator.gather(wire)
    while aggregator.ask(wire):
        server.judge(wire, round)
        aggregator.heed(wire)
    with _adding(" ".join(f"{one.client} failed: {one.reason}" for one in failed.values())):
        aggregator.forward(wire)
    return list(failed.values())


def _sorted_out(wire: Wire, receiver: str, wanted: str) -> tuple[list[bytes], list[Refusal]]:
    """What arrived from whom it should come from, and refusals of all the rest."""
    messages = wire.receive(receiver)
    reason = f"message to {receiver} must come from {wanted!r}, got one of {{!r}}."
    strays = [Refusal(name, "stray", reason.format(name)) for name, _ in messages if name != wanted]
    return [data for name, data in messages if name == wanted], strays


@contextmanager
def _adding(words: str) -> Iterator[None]:
    """Errors from inside end with these words."""
    try:
        yield
    except ValueError as error:
        error.args = (f"{error} {words}".strip(),)
        raise
