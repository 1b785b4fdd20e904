"""Sums in which clients prove that their vectors are no longer than agreed, though nobody can read them.

    client       agrees on a secret with the reader's key (X25519), makes from it a key for run, round and its
                 name, and the other half of its vector and proof for this key    (``length_proof.py``)
    aggregator   draws coins when all halves are there, and asks the reader: coins, and for every client its
                 part of the agreement and what its half gives with these coins
    reader       finds the secrets, makes its halves, and says who is refused, and why

The coins are drawn once in a round and told to no client. Aggregator and reader must not collude: together
they read every vector. Both are trusted to follow the protocol; clients are not, and may collude with one of
the two. A secret must be *agreed* on: a reader that decrypts what clients send it, and then says whether
their proofs hold, can be made to decrypt an honest client's secret bit by bit.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.length_proof import LengthProof
from veilrec.crypto.masks import agree, derive
from veilrec.crypto.messages import Envelope, join_entries, split_entries
from veilrec.crypto.parties import AGGREGATOR, READER, Refusal, SumAggregator
from veilrec.crypto.residues import BYTES, Residues, from_bytes, to_bytes
from veilrec.crypto.sums import SecureSum
from veilrec.crypto.uncopied import Uncopied

LENGTHS = b"lengths"
PARTS = {"about", "clients", "coins", "told"}
_AT_ONCE = 16

Held = TypeVar("Held")


class ShareKey(Uncopied):
    """The reader's key, fresh or always the same for a ``seed`` of 32 bytes; ``public`` is what clients need.

    >>> len(ShareKey().public), ShareKey(bytes(32)).public == ShareKey(bytes(32)).public
    (32, True)
    """

    why_not_copied = "A ShareKey cannot be copied: whoever has it reads half of everything. Make a new one."

    def __init__(self, seed: bytes | None = None) -> None:
        key = X25519PrivateKey
        self._private = key.generate() if seed is None else key.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes_raw()

    def find(self, hidden: bytes) -> bytes:
        """The secret that a client agreed on with this key."""
        return agree(self._private, hidden)


@dataclass(frozen=True)
class ProvenSum(SecureSum):
    """A sum whose clients prove ``norm`` to aggregator and reader.

    See :class:`SharedSum` and :class:`PaillierSum`.

    >>> ProvenSum.__abstractmethods__ >= {"agreed_key", "agreed_secret"}
    True
    """

    run: str = field(default_factory=partial(secrets.token_hex, 16), kw_only=True)
    """Drawn by the reader, told to all: what a client sent in one run is worth nothing in another."""

    def settings(self) -> dict[str, Any]:
        """The settings of every sum and the name of the run."""
        return {**super().settings(), "run": self.run}

    @cached_property
    def proof(self) -> LengthProof:
        """What is proven of a vector."""
        return LengthProof(self.length, self.norm_steps)

    @property
    @abstractmethod
    def agreed_key(self) -> bytes:
        """The reader's public key, for secrets."""

    @property
    @abstractmethod
    def agreed_secret(self) -> ShareKey:
        """The reader's secret key of :attr:`agreed_key`; an error for everybody else."""

    def hide(self) -> tuple[bytes, bytes]:
        """A fresh secret, and what lets the reader find it: a public key."""
        own = X25519PrivateKey.generate()
        return agree(own, self.agreed_key), own.public_key().public_bytes_raw()

    def client_key(self, secret: bytes, hidden: bytes, purpose: str, round: int, name: str) -> bytes:
        """A key for one purpose, one round of one run and one client, from the secret."""
        return derive(secret, purpose, round, name, hidden.hex() + self.fingerprint.hex())

    def write_half(self, name: str, round: int, integers: Integers, secret: bytes, hidden: bytes) -> bytes:
        """What a client sends of its vector for the proof."""
        return to_bytes(self.proof.half(integers, self.client_key(secret, hidden, "half", round, name)))

    def read_half(self, parts: Mapping[str, bytes]) -> Residues:
        """What a client sent, checked as far as the aggregator can."""
        agree(X25519PrivateKey.generate(), parts["hidden"])  # refuses points for which nobody has a secret
        need = self.proof.size * BYTES
        check(len(parts["half"]) == need, "half of a vector", f"{need} bytes long", len(parts["half"]))
        return from_bytes(parts["half"])

    def found_keys(self, hidden: Mapping[str, bytes], purpose: str, round: int) -> Iterator[bytes]:
        """The reader's side of :meth:`client_key`, for many clients."""
        for name, one in hidden.items():
            yield self.client_key(self.agreed_secret.find(one), one, purpose, round, name)

    def other_halves(self, hidden: Mapping[str, bytes], round: int) -> Iterator[Residues]:
        """The reader's halves of these clients' vectors and proofs, one after the other."""
        yield from map(self.proof.other_half, self.found_keys(hidden, "half", round))

    def judge(self, question: bytes, round: int) -> bytes:
        """The reader's verdicts: for everything asked about a reason to refuse it, or nothing."""
        envelope = Envelope(self.fingerprint, round)
        asked = split_entries(envelope.open(question, "question", AGGREGATOR))
        check(set(asked) == PARTS, "question", f"of {', '.join(sorted(PARTS))}", sorted(asked))
        reasons = self._judge(asked, round)
        verdicts = join_entries({name: reason.encode() for name, reason in reasons.items()})
        return envelope.seal("verdicts", READER, verdicts)

    def _judge(self, asked: Mapping[str, bytes], round: int) -> dict[str, str]:
        check(asked["about"] == LENGTHS, "question", "about lengths", asked["about"])
        hidden, told = split_entries(asked["clients"]), split_entries(asked["told"])
        check(list(hidden) == list(told), "clients asked about", "the same in both parts", sorted(told))
        names, halves = list(hidden), self.other_halves(hidden, round)
        reason = f"proof of a length of at most {self.norm:g} must hold, got one that does not."
        found = {}
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            evidence = self.proof.evidence([one for _, one in zip(some, halves)], asked["coins"])
            for name, known in zip(some, evidence):
                found[name] = "" if self.proof.holds(told[name], known, asked["coins"]) else reason
        return found


def held(secret: Held | None) -> Held:
    """The secret, or an error for those who do not have it.

    >>> held(None)
    Traceback (most recent call last):
        ...
    ValueError: secret must be given, got None. Only the holder of the secret key can judge or open a sum.
    """
    remedy = "Only the holder of the secret key can judge or open a sum."
    check(secret is not None, "secret", "given", secret, remedy)
    assert secret is not None
    return secret


class ProvenAggregator(SumAggregator):
    """The aggregator's side: halves are kept until the reader has judged them.

    >>> issubclass(ProvenAggregator, SumAggregator)
    True
    """

    _backend: ProvenSum

    def __init__(self, backend: ProvenSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._hidden: dict[str, bytes] = {}
        self._halves: dict[str, Residues] = {}
        self._judged = 0  # questions whose verdicts were heard
        self._pending: tuple[str, ...] = ()  # what verdicts are awaited for

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._halves)

    def _keep(self, name: str, parts: Mapping[str, bytes]) -> None:
        self._halves[name] = self._backend.read_half(parts)
        self._hidden[name] = parts["hidden"]

    def question(self) -> bytes | None:
        check(not self._pending, "verdicts", "heard", "none", "Heed the answer to the last question first.")
        enough = len(self.included) >= self._backend.least  # else there will be no sum
        asked = self._next_question() if enough else None
        return None if asked is None else self._envelope.seal("question", AGGREGATOR, join_entries(asked))

    def heed(self, verdicts: bytes) -> None:
        check(bool(self._pending), "verdicts", "asked for", "others", "Ask the reader first: question().")
        reasons = split_entries(self._envelope.open(verdicts, "verdicts", READER))
        good = set(reasons) == set(self._pending)
        check(good, "verdicts", "on all that was asked, once each", sorted(reasons))
        self._pending = ()
        self._judged += 1
        self._take({name: reason.decode("utf-8", "replace") for name, reason in reasons.items() if reason})

    def _next_question(self) -> dict[str, bytes] | None:
        return self._about_lengths() if self._judged == 0 else None

    def _about_lengths(self) -> dict[str, bytes]:
        proof, coins = self._backend.proof, secrets.token_bytes(32)
        evidence = proof.evidence(list(self._halves.values()), coins)
        told = {name: proof.write(one) for name, one in zip(self._halves, evidence)}
        return self._asking(LENGTHS, coins, self._hidden, told)

    def _asking(
        self, about: bytes, coins: bytes, clients: Mapping[str, bytes], told: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        self._pending = tuple(told)
        return {
            "about": about,
            "clients": join_entries(clients),
            "coins": coins,
            "told": join_entries(told),
        }

    def _take(self, reasons: Mapping[str, str]) -> None:
        for name, reason in reasons.items():
            self._expel(name, reason)

    def _expel(self, name: str, reason: str) -> None:
        del self._halves[name], self._hidden[name]
        self.refused.append(Refusal(name, "share", reason))
