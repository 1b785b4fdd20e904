"""Secure sums under Paillier: clients encrypt, the aggregator multiplies, the key server reads.

The aggregator sees ciphertexts and no key. The holder of the key must see no client's ciphertexts: it could
decrypt a single share, so the two must be run by parties that do not collude (the third party of PF-GNR).
A client that drops out leaves nothing behind.

Nobody can look into a ciphertext. So with ``norm`` clients also split their vectors in two and prove their
length (``proven_sum.py``); and that the ciphertexts hold just these vectors, aggregator and key server check
together (``paillier_link.py``): first for the sum of all, and only if that fails client by client.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add as plus
from typing import Any, ClassVar

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.keys import PublicKey, SecretKey
from veilrec.crypto.messages import join_entries, split_entries
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts, Encryptor, decrypt
from veilrec.crypto.paillier_link import ask_link, links
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.proven_sum import ProvenAggregator, ProvenSum
from veilrec.crypto.residues import add
from veilrec.crypto.shown import Shown

LINKS = b"links"
_SECRET_BYTES = 16


@dataclass(frozen=True)
class PaillierSum(ProvenSum):
    """Sums of encrypted vectors. Clients and aggregator need ``key``; only the reader has ``secret``.

    With ``norm`` a client whose vector is longer, or whose ciphertexts hold another one, is refused by name.
    Without it the bound holds for clients that keep to it. One dishonest client among N can then move the sum
    by far more than the bound, and as long as every slot of the sum stays within N x bound, nobody notices; a
    slot beyond that stops the round when the sum is read, and nothing tells whose share it was.

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
        if self.norm is not None:
            _ = self.proof  # refuses a norm that cannot be proven

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
        return (_PaillierAggregator if self.norm is None else _ProvenAggregator)(self, round, names)

    def hide(self) -> tuple[bytes, bytes]:
        """Sixteen random bytes, and one ciphertext with them."""
        secret = secrets.token_bytes(_SECRET_BYTES)
        return secret, Encryptor(self.key).encrypt([int.from_bytes(secret)]).to_bytes()

    def check_hidden(self, hidden: bytes) -> None:
        """Refuse what is not one ciphertext."""
        self._read_ciphertexts(hidden, 1)

    def find(self, hidden: list[bytes]) -> list[bytes]:
        """The secrets inside; whatever else was encrypted is cut to their size."""
        found = [self._read_ciphertexts(one, 1).values[0] for one in hidden]
        opened = decrypt(self._secret, Ciphertexts(self.key, tuple(found)))
        return [(one % (1 << 8 * _SECRET_BYTES)).to_bytes(_SECRET_BYTES) for one in opened]

    def _judge(self, asked: Mapping[str, bytes], round: int) -> dict[str, str]:
        if asked.get("about") != LINKS:
            return super()._judge(asked, round)
        groups = split_entries(asked["groups"])
        halves = []
        for hidden in groups.values():
            vectors = (self.proof.vector(one) for one in self.other_halves(split_entries(hidden), round))
            halves.append(reduce(add, vectors))
        found = self._read_ciphertexts(asked["told"], len(groups))
        good = links(self._secret, found, halves, self.packing, asked["coins"])
        reason = "ciphertexts must hold the vector that was proven, got another."
        return {name: "" if one else reason for name, one in zip(groups, good)}

    def _read_ciphertexts(self, data: bytes, count: int) -> Ciphertexts:
        found = Ciphertexts.from_bytes(data, self.key)
        check(len(found) == count, "ciphertexts in a share", str(count), len(found))
        check(found.summands == 1, "summands of a share", "1", found.summands)
        return found

    @property
    def _secret(self) -> SecretKey:
        remedy = "Only the holder of the secret key can judge or open a sum."
        check(self.secret is not None, "secret", "given", self.secret, remedy)
        assert self.secret is not None
        return self.secret

    def _read(self, payload: bytes, round: int) -> tuple[Integers, int]:
        secret = self._secret
        found = Ciphertexts.from_bytes(payload, self.key)
        self.check_summands(found.summands)
        check(len(found) == self.ciphertexts, "ciphertexts", str(self.ciphertexts), len(found))
        return self.packing.unpack(decrypt(secret, found), self.length), found.summands


class _PaillierClient(SumClient):
    _backend: PaillierSum

    def __init__(self, backend: PaillierSum, name: str, integers: Integers, encryptor: Encryptor) -> None:
        super().__init__(backend, name)
        self._integers, self._encryptor = integers, encryptor

    def _answer(self, kind: str, payload: bytes) -> bytes:
        backend = self._backend
        share = self._encryptor.encrypt(backend.packing.pack(self._integers)).to_bytes()
        if backend.norm is None:
            return share
        return join_entries({"share": share, **backend.write_half(self.name, self.round, self._integers)})


class _PaillierAggregator(SumAggregator):
    _backend: PaillierSum

    def __init__(self, backend: PaillierSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._total: Ciphertexts | None = None
        self._included: list[str] = []

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._included)

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        share = self._backend._read_ciphertexts(payload, self._backend.ciphertexts)
        self._total = share if self._total is None else self._total + share
        self._included.append(name)

    def _sum(self) -> bytes:
        assert self._total is not None  # aggregate() refuses an empty sum
        return self._total.to_bytes()


class _ProvenAggregator(ProvenAggregator):
    """Keeps every share until the reader has judged lengths and links."""

    _backend: PaillierSum

    def __init__(self, backend: PaillierSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._shares: dict[str, Ciphertexts] = {}
        self._linked = False

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        parts = split_entries(payload)
        good = set(parts) == {"half", "hidden", "share"}
        check(good, "share", "ciphertexts, a half and what hides the other", sorted(parts))
        share = self._backend._read_ciphertexts(parts["share"], self._backend.ciphertexts)
        self._keep(name, parts)
        self._shares[name] = share

    def _next_question(self) -> dict[str, bytes] | None:
        self._asked += 1
        if self._asked == 1:
            return self._about_lengths()
        if self._linked:
            return None
        everybody = self.included
        return self._about_links([everybody] if self._asked == 2 else [(one,) for one in everybody])

    def _about_links(self, groups: Sequence[tuple[str, ...]]) -> dict[str, bytes]:
        backend, coins = self._backend, secrets.token_bytes(32)
        asked: list[Any] = []
        for group in groups:
            share = reduce(plus, (self._shares[name] for name in group))
            half = reduce(add, (backend.proof.vector(self._halves[name]) for name in group))
            asked += ask_link(share, half, backend.packing, coins).values
        hidden = [join_entries({name: self._hidden[name] for name in group}) for group in groups]
        self._pending = tuple(f"{place:06d}" for place in range(len(groups)))
        return {
            "about": LINKS,
            "coins": coins,
            "groups": join_entries(dict(zip(self._pending, hidden))),
            "told": Ciphertexts(backend.key, tuple(asked)).to_bytes(),
        }

    def _take(self, reasons: Mapping[str, str]) -> None:
        if self._asked == 1:
            super()._take(reasons)
        elif self._asked == 2:  # of the sum of all
            self._linked = not reasons
        else:
            everybody = self.included
            super()._take({everybody[int(place)]: reason for place, reason in reasons.items()})
            self._linked = True

    def _expel(self, name: str, reason: str) -> None:
        super()._expel(name, reason)
        del self._shares[name]

    def _sum(self) -> bytes:
        check(self._linked, "proofs", "judged", "not all", "Ask the reader first: question() and heed().")
        return reduce(plus, self._shares.values()).to_bytes()
