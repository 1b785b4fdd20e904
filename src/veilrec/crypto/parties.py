"""The two sides of a round of a secure sum, as far as they are the same for every backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from veilrec.core import check, check_count
from veilrec.crypto.messages import Envelope, peek_round

if TYPE_CHECKING:
    from veilrec.crypto.sums import SecureSum

AGGREGATOR = "aggregator"
READER = "reader"
_WORDS = 500  # of a reason, whatever a client sent


class Refusal(NamedTuple):
    """A message, or a vector or a share in it, that was refused: whose, of which kind, and why.

    >>> Refusal("ann", "share", "length must be 8, got 7.").client
    'ann'
    """

    client: str
    kind: str
    reason: str


class SumClient(ABC):
    """A client in one round: one answer per phase, none of them twice.

    >>> from veilrec.crypto import FixedPoint, PlainSum
    >>> code = FixedPoint(bound=1.0, step=0.5, clients=2)
    >>> PlainSum(code, length=1).client("ann", code.encode([0.5])).name
    'ann'
    """

    def __init__(self, backend: SecureSum, name: str) -> None:
        check(name != AGGREGATOR, "name", "a client's", name)
        self.name, self._backend = name, backend
        self._envelope: Envelope | None = None
        self._phase = 0

    def reply(self, message: bytes) -> bytes:
        """The answer to the aggregator's message of this phase."""
        phases = self._backend.phases
        remedy = "Make a new client for a new round."
        check(self._phase < len(phases), "phase", f"below {len(phases)}", self._phase, remedy)
        if self._envelope is None:
            self._envelope = Envelope(self._backend.fingerprint, peek_round(message))
        receives, sends = phases[self._phase]
        payload = self._envelope.open(message, receives, AGGREGATOR)
        self._phase += 1  # before the answer: a phase that failed is not tried again
        return self._envelope.seal(sends, self.name, self._answer(receives, payload))

    @property
    def round(self) -> int:
        """The round, known from the first message on."""
        check(self._envelope is not None, "round", "begun", None, "Answer the first message first.")
        return self._envelope.round  # type: ignore[union-attr]

    @abstractmethod
    def _answer(self, kind: str, payload: bytes) -> bytes:
        """The payload of the answer to a message of this kind."""


class SumAggregator(ABC):
    """The aggregator in one round. Subclasses say what to do with a payload; refusals are handled here.

    >>> from veilrec.crypto import FixedPoint, PlainSum
    >>> aggregator = PlainSum(FixedPoint(1.0, 0.5, 2), length=1).aggregator(0, ["ann", "bob"])
    >>> _ = aggregator.begin()
    >>> _ = aggregator.gather([("ann", b"nonsense")])
    >>> aggregator.refused[0].reason
    'message must be at least 43 bytes long, got 8.'
    """

    def __init__(self, backend: SecureSum, round: int, names: Iterable[str]) -> None:
        self._invited = list(names)
        check(len(set(self._invited)) == len(self._invited), "names", "given once each", self._invited)
        most, least = backend.codec.clients, backend.least
        good = least <= len(self._invited) <= most
        check(good, "number of clients", f"from {least} to {most}", len(self._invited))
        check_count("round", round, 0)
        self._backend, self._envelope = backend, Envelope(backend.fingerprint, round)
        self._phase = 0
        self._waiting: set[str] = set()
        self.refused: list[Refusal] = []

    def begin(self) -> dict[str, bytes]:
        """The first message to every client invited."""
        return self._sealed(dict.fromkeys(self._invited, b""))

    def gather(self, replies: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """Take the replies of one phase, one client after the other; the messages of the next phase."""
        check(self._phase < len(self._backend.phases), "phase", "open", self._phase, "Call aggregate().")
        kind = self._backend.phases[self._phase][1]
        heard: set[str] = set()
        for name, message in replies:
            try:
                check(name in self._waiting, "client", "invited to this phase", name)
                check(name not in heard, "client", "heard once in a phase", name, "The first message counts.")
                self._accept(kind, name, self._envelope.open(message, kind, name))
                heard.add(name)
            except ValueError as error:
                self.refused.append(Refusal(name, kind, str(error)[:_WORDS]))
        self._phase += 1
        return self._sealed(self._next(kind))

    def question(self) -> bytes | None:
        """What the reader must judge before there is a sum; None if nothing is left to ask.

        Each question is made once: after it, :meth:`heed` takes the verdicts.
        """
        return None

    def heed(self, verdicts: bytes) -> None:
        """Take the reader's verdicts: clients whose proof fails are refused."""
        check(False, "verdicts", "asked for", len(verdicts), "This sum asks nothing.")

    def aggregate(self) -> bytes:
        """The message to the reader; refused for fewer clients than agreed."""
        done = self._phase == len(self._backend.phases)
        check(done, "phase", "the last", self._phase, "Gather the replies of every phase first.")
        least, remedy = self._backend.least, "Start another round with more clients."
        check(len(self.included) >= least, "clients in the sum", f"at least {least}", self.included, remedy)
        return self._envelope.seal("aggregate", AGGREGATOR, self._sum())

    def _sealed(self, payloads: Mapping[str, bytes]) -> dict[str, bytes]:
        self._waiting = set(payloads)
        if not payloads:
            return {}
        kind = self._backend.phases[self._phase][0]
        return {name: self._envelope.seal(kind, AGGREGATOR, data) for name, data in payloads.items()}

    @property
    @abstractmethod
    def included(self) -> tuple[str, ...]:
        """The clients whose vectors are in the sum."""

    @abstractmethod
    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        """Take one payload whole, or raise ValueError and take nothing."""

    def _next(self, kind: str) -> dict[str, bytes]:
        """Payloads for the next phase, after the replies of this kind; none after the last."""
        return {}

    @abstractmethod
    def _sum(self) -> bytes:
        """The payload of the aggregate."""
