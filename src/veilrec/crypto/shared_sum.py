"""Secure sums of vectors that are split in two: the aggregator adds one half, the reader the other.

The cheapest sum here in which a client can be dishonest: no ciphertexts, one message from each client, which
may drop out before it without a trace, and a proof that its vector is no longer than ``norm`` (Prio:
Corrigan-Gibbs and Boneh, NSDI 2017). Half of a vector is as good as random bytes. The reader makes its own
from a secret that it finds by X25519 from the client's message, so that only the aggregator's half is sent.
As with Paillier, aggregator and reader must not collude.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.messages import join_entries, split_entries
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.proven_sum import ProvenAggregator, ProvenSum, ShareKey, held
from veilrec.crypto.residues import Residues, add, from_bytes, from_ints, to_bytes, to_ints
from veilrec.crypto.shown import Shown


@dataclass(frozen=True)
class SharedSum(ProvenSum):
    """Sums of vectors in two halves, none longer than ``norm``; only the reader has ``secret``.

    >>> from veilrec.crypto import FixedPoint
    >>> secret, code = ShareKey(), FixedPoint(bound=2.0, step=2**-8, clients=3)
    >>> reader = SharedSum(code, length=2, norm=2.0, key=secret.public, secret=secret)
    >>> reader.total({"ann": [0.5, 1.0], "bob": [0.25, -1.0]}).values
    array([0.75, 0.  ])
    """

    word: ClassVar[str] = "shared"
    key: bytes = field(kw_only=True)
    secret: ShareKey | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Shared sums need a length that clients prove they keep to."
        check(self.norm is not None, "norm", "given", self.norm, remedy)
        check(len(self.key) == 32, "key", "32 bytes long", len(self.key))
        same = self.secret is None or self.secret.public == self.key
        check(same, "secret", "the secret key of key", Shown("another key"))
        _ = self.proof  # refuses a norm that cannot be proven

    def settings(self) -> dict[str, Any]:
        """The settings of every sum and the public key."""
        return {**super().settings(), "key": self.key.hex()}

    def client(self, name: str, integers: Integers) -> SumClient:
        """One client's side of one round."""
        return _SharedClient(self, name, self.checked(integers))

    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round."""
        return _SharedAggregator(self, round, names)

    @property
    def agreed_key(self) -> bytes:
        """The public key."""
        return self.key

    @property
    def agreed_secret(self) -> ShareKey:
        """The secret key, if this is the reader's."""
        return held(self.secret)

    def _read(self, payload: bytes, round: int) -> tuple[Integers, int]:
        parts = split_entries(payload)
        good = set(parts) == {"halves", "hidden"}
        check(good, "aggregate", "halves and what hides the others", sorted(parts))
        hidden, total = split_entries(parts["hidden"]), from_bytes(parts["halves"])
        self.check_summands(len(hidden))
        check(len(total) == self.length, "sum of halves", f"{self.length} numbers long", len(total))
        for half in self.other_halves(hidden, round):
            total = add(total, self.proof.vector(half))
        return _signed(total), len(hidden)


class _SharedClient(SumClient):
    _backend: SharedSum

    def __init__(self, backend: SharedSum, name: str, integers: Integers) -> None:
        super().__init__(backend, name)
        self._integers = integers

    def _answer(self, kind: str, payload: bytes) -> bytes:
        secret, hidden = self._backend.hide()
        half = self._backend.write_half(self.name, self.round, self._integers, secret, hidden)
        return join_entries({"half": half, "hidden": hidden})


class _SharedAggregator(ProvenAggregator):
    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        parts = split_entries(payload)
        check(set(parts) == {"half", "hidden"}, "share", "a half and what hides the other", sorted(parts))
        self._keep(name, parts)

    def _sum(self) -> bytes:
        check(self._judged > 0, "proofs", "judged", "none", "Ask the reader first: question() and heed().")
        vector = self._backend.proof.vector
        first, *others = self._halves.values()
        total = vector(first)
        for half in others:
            total = add(total, vector(half))
        return join_entries({"halves": to_bytes(total), "hidden": join_entries(self._hidden)})


def _signed(total: Residues) -> Integers:
    """Numbers modulo the prime as signed ones; those of 2^62 and more in size are refused."""
    shifted = add(total, np.broadcast_to(from_ints([1 << 62]), total.shape))  # all of them above 0
    bad = np.flatnonzero(shifted[:, 1:].any(axis=1) | (shifted[:, 0] >= 1 << 63))
    words = Shown(f"{to_ints(total[bad[:1]])} at {bad[:1]}")
    check(not len(bad), "sum", "of small numbers", words, "The halves are not of one round.")
    return shifted[:, 0].astype(np.int64) - (1 << 62)
