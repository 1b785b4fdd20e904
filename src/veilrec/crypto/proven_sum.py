"""Sums in which clients prove that their vectors are no longer than agreed, though nobody can read them.

    client       makes a secret that only the reader can find (``hide``), a key from it for this round and its
                 name, and the other half of its vector and proof for this key    (``length_proof.py``)
    aggregator   draws coins when all halves are there, and asks the reader: coins, and for every client what
                 hides the secret and what the half gives with these coins
    reader       finds the secrets, makes its halves, and says who is refused, and why

The coins are drawn once in a round and told to no client. Aggregator and reader must not collude: together
they read every vector. Both are trusted to follow the protocol; clients are not.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.length_proof import LengthProof
from veilrec.crypto.masks import derive
from veilrec.crypto.messages import Envelope, join_entries, split_entries
from veilrec.crypto.parties import AGGREGATOR, READER, Refusal, SumAggregator
from veilrec.crypto.residues import BYTES, Residues, from_bytes, to_bytes
from veilrec.crypto.sums import SecureSum

LENGTHS = b"lengths"
_AT_ONCE = 16


@dataclass(frozen=True)
class ProvenSum(SecureSum):
    """A sum whose clients prove ``norm`` to aggregator and reader.

    See :class:`SharedSum` and :class:`PaillierSum`.

    >>> ProvenSum.__abstractmethods__ >= {"hide", "find"}
    True
    """

    @cached_property
    def proof(self) -> LengthProof:
        """What is proven of a vector."""
        return LengthProof(self.length, self.norm_steps)

    @abstractmethod
    def hide(self) -> tuple[bytes, bytes]:
        """A fresh secret, and what lets the reader find it."""

    @abstractmethod
    def check_hidden(self, hidden: bytes) -> None:
        """Refuse what hides no secret, as far as the aggregator can see that."""

    @abstractmethod
    def find(self, hidden: list[bytes]) -> list[bytes]:
        """The reader's side of :meth:`hide`, for many clients."""

    def write_half(self, name: str, round: int, integers: Integers) -> dict[str, bytes]:
        """What a client sends of its vector for the proof."""
        secret, hidden = self.hide()
        return {"hidden": hidden, "half": to_bytes(self.proof.half(integers, _key(secret, round, name)))}

    def read_half(self, parts: Mapping[str, bytes]) -> tuple[bytes, Residues]:
        """What a client sent, checked as far as the aggregator can."""
        self.check_hidden(parts["hidden"])
        need = self.proof.size * BYTES
        check(len(parts["half"]) == need, "half of a vector", f"{need} bytes long", len(parts["half"]))
        return parts["hidden"], from_bytes(parts["half"])

    def other_halves(self, hidden: Mapping[str, bytes], round: int) -> Iterable[Residues]:
        """The reader's halves of these clients' vectors and proofs, one after the other."""
        for name, secret in zip(hidden, self.find(list(hidden.values()))):
            yield self.proof.other_half(_key(secret, round, name))

    def judge(self, question: bytes, round: int) -> bytes:
        """The reader's verdicts: for everything asked about a reason to refuse it, or nothing."""
        envelope = Envelope(self.fingerprint, round)
        asked = split_entries(envelope.open(question, "question", AGGREGATOR))
        reasons = self._judge(asked, round)
        verdicts = join_entries({name: reason.encode() for name, reason in reasons.items()})
        return envelope.seal("verdicts", READER, verdicts)

    def _judge(self, asked: Mapping[str, bytes], round: int) -> dict[str, str]:
        check(asked.get("about") == LENGTHS, "question", "about lengths", asked.get("about"))
        hidden, told = split_entries(asked["hidden"]), split_entries(asked["told"])
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
        self._asked = 0
        self._pending: tuple[str, ...] = ()  # what verdicts are awaited for

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._halves)

    def _keep(self, name: str, parts: Mapping[str, bytes]) -> None:
        self._hidden[name], self._halves[name] = self._backend.read_half(parts)

    def question(self) -> bytes | None:
        check(not self._pending, "verdicts", "heard", "none", "Heed the answer to the last question first.")
        enough = len(self.included) >= self._backend.least  # else there will be no sum
        asked = self._next_question() if enough else None
        return None if asked is None else self._envelope.seal("question", AGGREGATOR, join_entries(asked))

    def heed(self, verdicts: bytes) -> None:
        reasons = split_entries(self._envelope.open(verdicts, "verdicts", READER))
        good = set(reasons) == set(self._pending)
        check(good, "verdicts", "on all that was asked, once each", sorted(reasons))
        self._pending = ()
        self._take({name: reason.decode("utf-8", "replace") for name, reason in reasons.items() if reason})

    def _next_question(self) -> dict[str, bytes] | None:
        self._asked += 1
        return self._about_lengths() if self._asked == 1 else None

    def _about_lengths(self) -> dict[str, bytes]:
        proof, coins = self._backend.proof, secrets.token_bytes(32)
        evidence = proof.evidence(list(self._halves.values()), coins)
        told = {name: proof.write(one) for name, one in zip(self._halves, evidence)}
        self._pending = tuple(told)
        hidden = {name: self._hidden[name] for name in told}
        return {
            "about": LENGTHS,
            "coins": coins,
            "hidden": join_entries(hidden),
            "told": join_entries(told),
        }

    def _take(self, reasons: Mapping[str, str]) -> None:
        for name, reason in reasons.items():
            self._expel(name, reason)

    def _expel(self, name: str, reason: str) -> None:
        del self._halves[name], self._hidden[name]
        self.refused.append(Refusal(name, "share", reason))


def _key(secret: bytes, round: int, name: str) -> bytes:
    return derive(secret, "half", round, name, "")
