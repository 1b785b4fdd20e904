"""One interface for sums over clients that nobody but the last reader sees, whatever the cryptography.

A round has three kinds of party, and they exchange bytes only:

    client        sum.client(name, integers).reply(message) -> message       its own vector
    aggregator    sum.aggregator(round, names): begin, gather, ..., aggregate   no key
    reader        sum.judge(question, round) -> verdicts                     the key, if there is one
                  sum.open(aggregate, round) -> the sum as floats

A backend has one or more phases; in each, the aggregator sends every client that is still there one message
and gathers the replies. A client that says nothing has dropped out. A reply that is malformed, of another
round, key or length, out of range, from a stranger or sent twice is refused: it is listed with its sender and
the reason, nothing of it enters the sum, and the round goes on.

Out of range is a value beyond the codec's bound or, where ``norm`` is given, a vector that is longer. A plain
sum sees both. Of what is encrypted or split nothing can be seen, so there clients *prove* that they keep to
``norm``: the aggregator asks the reader questions that tell neither of them anything else about an honest
vector (``proven_sum.py``). Without ``norm``, and in masked sums always, clients keep to the bound by
themselves.

All exact backends add the same whole numbers (:mod:`fixed_point`), so their sums have the same bits.
"""

from __future__ import annotations

import hashlib
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_positive
from veilrec.crypto.fixed_point import FixedPoint, Integers
from veilrec.crypto.length_proof import check_length
from veilrec.crypto.messages import Envelope
from veilrec.crypto.parties import AGGREGATOR, Refusal, SumAggregator, SumClient

_SUMMANDS = struct.Struct(">I")


@dataclass(frozen=True)
class Total:
    """The outcome of a round: the sum, whose values are in it, and what was refused.

    >>> Total(np.zeros(2), ("ann", "bob"), ()).included
    ('ann', 'bob')
    """

    values: NDArray[np.float64]
    included: tuple[str, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class SecureSum(ABC):
    """What the parties of a sum agree on: the grid, the length of the vectors, and the fewest clients.

    See :class:`PlainSum`, :class:`PaillierSum` and :class:`MaskedSum`.

    >>> SecureSum.__abstractmethods__ >= {"client", "aggregator"}
    True
    """

    codec: FixedPoint
    length: int
    least: int = 2
    norm: float | None = field(default=None, kw_only=True)
    """The largest length of a client's vector, at most the bound."""
    word: ClassVar[str]
    # what a client receives and what it answers, phase by phase
    phases: ClassVar[tuple[tuple[str, str], ...]] = (("begin", "share"),)

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("least", self.least, 2, "The sum of one client is that client's secret.")
        most, remedy = self.codec.clients, "A sum needs as many clients as that, and two at least."
        check(self.least <= most, "least", f"at most {most}, the number of clients", self.least, remedy)
        if self.norm is not None:
            bound, step = self.codec.bound, self.codec.step
            check_positive("norm", self.norm)
            remedy = "Take a larger bound: it is what the slots of a sum are made for."
            check(self.norm <= bound, "norm", f"at most the bound {bound}", self.norm, remedy)
            whole = Fraction(self.norm) / Fraction(step)
            check(whole.denominator == 1, "norm", f"a multiple of the step {step}", self.norm)

    @abstractmethod
    def client(self, name: str, integers: Integers) -> SumClient:
        """One client's side of one round, with its encoded vector."""

    @abstractmethod
    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round, with the names of the clients invited."""

    def settings(self) -> dict[str, Any]:
        """What must be the same on both ends; nothing secret."""
        code = self.codec
        grid = {"bound": code.bound, "step": code.step, "clients": code.clients}
        return {"sum": self.word, **grid, "length": self.length, "least": self.least, "norm": self.norm}

    def to_bytes(self) -> bytes:
        """The settings as bytes; ``sum_from_bytes`` reads them."""
        return json.dumps(self.settings(), sort_keys=True).encode()

    @cached_property
    def fingerprint(self) -> bytes:
        """Sixteen bytes that stand for the settings in every message."""
        return hashlib.sha256(self.to_bytes()).digest()[:16]

    def checked(self, integers: ArrayLike) -> Integers:
        """One client's encoded vector, if it has the right size and range."""
        array = np.asarray(integers)
        check(array.shape == (self.length,), "shape of a share", f"({self.length},)", array.shape)
        whole = self.codec.checked(array)
        if self.norm is not None:
            check_length(whole, self.norm_steps, self.codec.step)
        return whole

    @property
    def norm_steps(self) -> int:
        """``norm`` in whole steps of the grid."""
        check(self.norm is not None, "norm", "given", self.norm)
        return int(Fraction(self.norm) / Fraction(self.codec.step))  # type: ignore[arg-type]

    def judge(self, question: bytes, round: int) -> bytes:
        """The reader's verdicts on what the aggregator asks; only where clients prove something."""
        del question, round
        raise ValueError(f"question must be one about proofs, got one about {self.word} sums without any.")

    def open(self, aggregate: bytes, round: int) -> NDArray[np.float64]:
        """The reader's side: the sum inside an aggregate, as floats."""
        payload = Envelope(self.fingerprint, round).open(aggregate, "aggregate", AGGREGATOR)
        integers, summands = self._read(payload, round)
        self.check_summands(summands)
        return self.codec.decode(self.codec.checked(integers, summands))

    def check_summands(self, count: int) -> None:
        """Refuse a sum of fewer clients than agreed, or of more than the codec was made for."""
        most, remedy = self.codec.clients, "Wait for more clients."
        check(count >= self.least, "clients in the sum", f"at least {self.least}", count, remedy)
        check(count <= most, "clients in the sum", f"at most {most}", count)

    def total(self, values: Mapping[str, ArrayLike], round: int = 0) -> Total:
        """A whole round in this process: encode, exchange, sum, open."""
        clients = {name: self.client(name, self.codec.encode(one)) for name, one in values.items()}
        aggregator = self.aggregator(round, clients)
        inbox = aggregator.begin()
        for _ in self.phases:
            inbox = aggregator.gather((name, clients[name].reply(data)) for name, data in inbox.items())
        while (question := aggregator.question()) is not None:
            aggregator.heed(self.judge(question, round))
        opened = self.open(aggregator.aggregate(), round)
        return Total(opened, aggregator.included, tuple(aggregator.refused))

    def _read(self, payload: bytes, round: int) -> tuple[Integers, int]:
        """The summed whole numbers of an aggregate, and how many clients are in it."""
        need = _SUMMANDS.size + 8 * self.length
        check(len(payload) == need, "aggregate", f"{need} bytes long", len(payload))
        numbers = np.frombuffer(payload, "<i8", offset=_SUMMANDS.size).astype(np.int64)
        return numbers, int(_SUMMANDS.unpack_from(payload)[0])


def write_sum(integers: Integers, summands: int) -> bytes:
    """A sum of whole numbers as the payload of an aggregate.

    >>> write_sum(np.array([1]), 2).hex()
    '000000020100000000000000'
    """
    return _SUMMANDS.pack(summands) + integers.astype("<i8").tobytes()
