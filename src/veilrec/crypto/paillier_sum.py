"""Secure sums under Paillier: clients encrypt, the aggregator multiplies, the key server reads.

The aggregator sees ciphertexts and no key. The holder of the key must see the aggregate only: it could
decrypt a single share, so the two must be run by parties that do not collude (the third party of PF-GNR).
A client that drops out leaves nothing behind. A share that is out of range inside its ciphertexts cannot be
seen: see :class:`PaillierSum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.keys import PublicKey, SecretKey
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts, Encryptor, decrypt
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.shown import Shown
from veilrec.crypto.sums import SecureSum


@dataclass(frozen=True)
class PaillierSum(SecureSum):
    """Sums of encrypted vectors. Clients and aggregator need ``key``; only the reader has ``secret``.

    The bound holds for clients that keep to it: their own code refuses a larger value, and nobody else can.
    One dishonest client among N can move the sum by far more than the bound, and as long as every slot of the
    sum stays within N x bound, nobody notices. A slot beyond that stops the round when the sum is read, and
    nothing tells whose share it was. To see more takes proofs of range, which are not offered.

    >>> from veilrec.crypto import FixedPoint
    >>> secret = SecretKey.for_tests()
    >>> code = FixedPoint(bound=1.0, step=2**-8, clients=3)
    >>> reader = PaillierSum(code, length=2, key=secret.public, secret=secret)
    >>> reader.total({"ann": [0.5, 1.0], "bob": [0.25, -1.0]}).values
    array([0.75, 0.  ])
    """

    word: ClassVar[str] = "paillier"
    key: PublicKey = field(kw_only=True)
    secret: SecretKey | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        same = self.secret is None or self.secret.public == self.key
        check(same, "secret", "the secret key of key", Shown("another key"))
        _ = self.packing  # refuses a key too short for one slot

    @cached_property
    def packing(self) -> Packing:
        """How values lie in plaintexts."""
        return Packing(self.codec.slot_bits, self.key.bits)

    @property
    def ciphertexts(self) -> int:
        """How many ciphertexts one share has, and so how many randomisers it needs."""
        return self.packing.plaintexts(self.length)

    def settings(self) -> dict[str, Any]:
        """The settings of every sum and the public key."""
        return {**super().settings(), "key": self.key.to_bytes().hex()}

    def client(self, name: str, integers: Integers, encryptor: Encryptor | None = None) -> SumClient:
        """One client's side of one round; its own ``encryptor`` may hold randomisers made beforehand."""
        encryptor = Encryptor(self.key) if encryptor is None else encryptor
        check(encryptor.key == self.key, "encryptor", "for the key of the sum", Shown("another key"))
        return _PaillierClient(self, name, self.checked(integers), encryptor)

    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round."""
        return _PaillierAggregator(self, round, names)

    def _read(self, payload: bytes) -> tuple[Integers, int]:
        remedy = "Only the holder of the secret key can open a sum."
        check(self.secret is not None, "secret", "given", self.secret, remedy)
        assert self.secret is not None
        found = Ciphertexts.from_bytes(payload, self.key)
        most = self.codec.clients
        check(found.summands <= most, "summands", f"at most {most}", found.summands)
        check(len(found) == self.ciphertexts, "ciphertexts", str(self.ciphertexts), len(found))
        return self.packing.unpack(decrypt(self.secret, found), self.length), found.summands


class _PaillierClient(SumClient):
    def __init__(self, backend: PaillierSum, name: str, integers: Integers, encryptor: Encryptor) -> None:
        super().__init__(backend, name)
        self._integers, self._packing, self._encryptor = integers, backend.packing, encryptor

    def _answer(self, kind: str, payload: bytes) -> bytes:
        return self._encryptor.encrypt(self._packing.pack(self._integers)).to_bytes()


class _PaillierAggregator(SumAggregator):
    def __init__(self, backend: PaillierSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._key, self._need = backend.key, backend.ciphertexts
        self._total: Ciphertexts | None = None
        self._included: list[str] = []

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._included)

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        share = Ciphertexts.from_bytes(payload, self._key)
        check(len(share) == self._need, "ciphertexts in a share", str(self._need), len(share))
        check(share.summands == 1, "summands of a share", "1", share.summands)
        self._total = share if self._total is None else self._total + share
        self._included.append(name)

    def _sum(self) -> bytes:
        assert self._total is not None  # aggregate() refuses an empty sum
        return self._total.to_bytes()
