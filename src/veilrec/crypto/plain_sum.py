"""The sum without any secrecy: the same grid, the same messages, and an aggregator that reads everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.sums import SecureSum, write_sum


@dataclass(frozen=True)
class PlainSum(SecureSum):
    """The same sum without encryption: the aggregator reads every share. For experiments, and as a measure.

    >>> from veilrec.crypto import FixedPoint
    >>> plain = PlainSum(FixedPoint(bound=1.0, step=2**-8, clients=3), length=2)
    >>> plain.total({"ann": [0.5, 1.0], "bob": [0.25, -1.0]}).values
    array([0.75, 0.  ])
    """

    word: ClassVar[str] = "plain"

    def client(self, name: str, integers: Integers) -> SumClient:
        """One client's side of one round."""
        return _PlainClient(self, name, self.checked(integers))

    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round."""
        return _PlainAggregator(self, round, names)


class _PlainClient(SumClient):
    def __init__(self, backend: SecureSum, name: str, integers: Integers) -> None:
        super().__init__(backend, name)
        self._integers = integers

    def _answer(self, kind: str, payload: bytes) -> bytes:
        return self._integers.astype("<i8").tobytes()


class _PlainAggregator(SumAggregator):
    def __init__(self, backend: SecureSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._total = np.zeros(backend.length, np.int64)
        self._included: list[str] = []

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._included)

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        size = 8 * self._backend.length
        check(len(payload) == size, "share", f"{size} bytes long", len(payload))
        self._total += self._backend.checked(np.frombuffer(payload, "<i8"))
        self._included.append(name)

    def _sum(self) -> bytes:
        return write_sum(self._total, len(self._included))
