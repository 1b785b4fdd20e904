"""Secure sums of vectors that are split in two: the aggregator adds one half, the reader the other.

The cheapest sum here in which a client can be dishonest: no ciphertexts, one message from each client, which
may drop out before it without a trace, and a proof that its vector is no longer than ``norm`` (Prio:
Corrigan- Gibbs and Boneh, NSDI 2017). Half of a vector is as good as random bytes. The reader makes its own
from a secret that it finds by X25519 from the client's message, so that only the aggregator's half is sent.
As with Paillier, aggregator and reader must not collude.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.masks import agree
from veilrec.crypto.messages import join_entries, split_entries
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.proven_sum import ProvenAggregator, ProvenSum
from veilrec.crypto.residues import PRIME, Residues, add, from_bytes, to_bytes, to_ints
from veilrec.crypto.shown import Shown
from veilrec.crypto.uncopied import Uncopied


class ShareKey(Uncopied):
    """The reader's key; ``public`` is what clients need.

    >>> len(ShareKey().public)
    32
    """

    why_not_copied = "A ShareKey cannot be copied: whoever has it reads half of everything. Make a new one."

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def find(self, hidden: bytes) -> bytes:
        """The secret that a client agreed on with this key."""
        return agree(self._private, hidden)


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

    def hide(self) -> tuple[bytes, bytes]:
        """A secret agreed on with the reader's key, and the public key that it needs for it."""
        own = X25519PrivateKey.generate()
        return agree(own, self.key), own.public_key().public_bytes_raw()

    def check_hidden(self, hidden: bytes) -> None:
        """Refuse what is no public key."""
        agree(X25519PrivateKey.generate(), hidden)

    def find(self, hidden: list[bytes]) -> list[bytes]:
        """The secrets, with the reader's key."""
        remedy = "Only the holder of the secret key can judge or open a sum."
        check(self.secret is not None, "secret", "given", self.secret, remedy)
        assert self.secret is not None
        return [self.secret.find(one) for one in hidden]

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
        return join_entries(self._backend.write_half(self.name, self.round, self._integers))


class _SharedAggregator(ProvenAggregator):
    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        parts = split_entries(payload)
        check(set(parts) == {"half", "hidden"}, "share", "a half and what hides the other", sorted(parts))
        self._keep(name, parts)

    def _sum(self) -> bytes:
        check(self._asked > 0, "proofs", "judged", "none", "Ask the reader first: question() and heed().")
        vector = self._backend.proof.vector
        first, *others = self._halves.values()
        total = vector(first)
        for half in others:
            total = add(total, vector(half))
        return join_entries({"halves": to_bytes(total), "hidden": join_entries(self._hidden)})


def _signed(total: Residues) -> Integers:
    """Numbers modulo the prime as signed ones; one that needs more than 63 bits is refused."""
    small, large = total[:, 1] == 0, total[:, 1] == PRIME >> 64
    size = np.where(small, total[:, 0], ~total[:, 0]).astype(np.int64)
    good = (small | large) & (size >= 0)
    words = Shown(f"{to_ints(total[~good][:1])} at {np.flatnonzero(~good)[:1]}")
    check(bool(good.all()), "sum", "of small numbers", words, "The halves are not of one round.")
    return np.where(small, size, -size)
