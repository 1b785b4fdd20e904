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
from veilrec.crypto.masks import derive, seal, unseal
from veilrec.crypto.messages import join_entries, split_entries
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts, Encryptor, decrypt, exponents
from veilrec.crypto.paillier_link import expected_link, told_link
from veilrec.crypto.parties import SumAggregator, SumClient
from veilrec.crypto.proven_sum import ProvenAggregator, ProvenSum, ShareKey, held
from veilrec.crypto.residues import WIDEST, add
from veilrec.crypto.shown import Shown

LINKS = b"links"


@dataclass(frozen=True)
class PaillierSum(ProvenSum):
    """Sums of encrypted vectors. Clients and aggregator need ``key``; only the reader has ``secret``.

    With ``norm`` a client whose vector is longer, or whose ciphertexts hold another one, is refused by name;
    if the errors of several cancel, the sum is that of the vectors they have proven. Without it the bound
    holds for clients that keep to it. One dishonest client among N can then move the sum by far more than the
    bound, and as long as every slot of the sum stays within N x bound, nobody notices; a slot beyond that
    stops the round when the sum is read, and nothing tells whose share it was.

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
    proof_key: bytes | None = field(default=None, kw_only=True, repr=False)
    """The reader's public key for proofs; made from ``secret`` where that is known."""

    def __post_init__(self) -> None:
        super().__post_init__()
        same = self.secret is None or self.secret.public == self.key
        check(same, "secret", "the secret key of key", Shown("another key"))
        _ = self.packing  # refuses a key too short for one slot
        if self.norm is not None:
            if self.proof_key is None:
                object.__setattr__(self, "proof_key", self.agreed_secret.public)
            good = self.proof_key is not None and len(self.proof_key) == 32
            check(good, "proof_key", "32 bytes long", self.proof_key)
            good = self.secret is None or self.proof_key == self.agreed_secret.public
            check(good, "proof_key", "that of the secret key", Shown("another key"))
            _ = self.proof  # refuses a norm that cannot be proven
            most = f"below {WIDEST}"
            check(self.ciphertexts < WIDEST, "ciphertexts of a share", most, self.ciphertexts)

    @cached_property
    def packing(self) -> Packing:
        """How values lie in plaintexts."""
        return Packing(self.codec.slot_bits, self.key.bits)

    @property
    def ciphertexts(self) -> int:
        """How many ciphertexts one share has, and so how many randomisers it needs."""
        return self.packing.plaintexts(self.length)

    def settings(self) -> dict[str, Any]:
        """The settings of every sum and the public keys."""
        proof_key = None if self.norm is None or self.proof_key is None else self.proof_key.hex()
        return {**super().settings(), "key": self.key.to_bytes().hex(), "proof_key": proof_key}

    def client(self, name: str, integers: Integers, encryptor: Encryptor | None = None) -> SumClient:
        """One client's side of one round; its own ``encryptor`` may hold randomisers made beforehand."""
        encryptor = Encryptor(self.key) if encryptor is None else encryptor
        check(encryptor.key == self.key, "encryptor", "for the key of the sum", Shown("another key"))
        return _PaillierClient(self, name, self.checked(integers), encryptor)

    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round."""
        return (_PaillierAggregator if self.norm is None else _ProvenAggregator)(self, round, names)

    @property
    def agreed_key(self) -> bytes:
        """The public key for secrets of proofs."""
        assert self.proof_key is not None  # given where there is a norm
        return self.proof_key

    @cached_property
    def agreed_secret(self) -> ShareKey:
        """Its secret key, if this is the reader's."""
        return _share_key(held(self.secret))

    def _judge(self, asked: Mapping[str, bytes], round: int) -> dict[str, str]:
        if asked["about"] != LINKS:
            return super()._judge(asked, round)
        groups, told = split_entries(asked["clients"]), split_entries(asked["told"])
        check(list(groups) == list(told), "groups asked about", "the same in both parts", sorted(told))
        reason = "ciphertexts must hold the vector that was proven, got another."
        found = {}
        for place, clients in groups.items():
            expected = self._expected(split_entries(clients), asked["coins"], round)
            found[place] = "" if told[place] == expected else reason
        return found

    def _expected(self, clients: Mapping[str, bytes], coins: bytes, round: int) -> bytes | None:
        """The hash that the ciphertexts of these clients must give; None if a seed cannot be read."""
        check(bool(clients), "group", "of one client or more", "none")
        hidden = {name: parts[:32] for name, parts in clients.items()}
        try:
            keys = self.found_keys(hidden, "seed", round)
            seeds = [unseal(key, parts[32:]) for key, parts in zip(keys, clients.values())]
        except ValueError:
            return None
        half = reduce(add, (self.proof.vector(one) for one in self.other_halves(hidden, round)))
        lots = (exponents(self.key, seed, self.ciphertexts) for seed in seeds)
        summed = [sum(some) for some in zip(*lots)]
        return expected_link(self.key, half, summed, self.packing, coins)

    def _read_ciphertexts(self, data: bytes, count: int) -> Ciphertexts:
        found = Ciphertexts.from_bytes(data, self.key)
        check(len(found) == count, "ciphertexts in a share", str(count), len(found))
        check(found.summands == 1, "summands of a share", "1", found.summands)
        return found

    def _read(self, payload: bytes, round: int) -> tuple[Integers, int]:
        secret = held(self.secret)
        found = Ciphertexts.from_bytes(payload, self.key)
        self.check_summands(found.summands)
        check(len(found) == self.ciphertexts, "ciphertexts", str(self.ciphertexts), len(found))
        return self.packing.unpack(decrypt(secret, found), self.length), found.summands


def _share_key(secret: SecretKey) -> ShareKey:
    """A key for proofs that belongs to a Paillier key, so that its holder has one secret to keep."""
    primes = b"".join(one.to_bytes(-(-one.bit_length() // 8)) for one in (secret.p, secret.q))
    return ShareKey(derive(primes, "proofs", 0, "", ""))


class _PaillierClient(SumClient):
    _backend: PaillierSum

    def __init__(self, backend: PaillierSum, name: str, integers: Integers, encryptor: Encryptor) -> None:
        super().__init__(backend, name)
        self._integers, self._encryptor = integers, encryptor

    def _answer(self, kind: str, payload: bytes) -> bytes:
        backend = self._backend
        packed = backend.packing.pack(self._integers)
        if backend.norm is None:
            return self._encryptor.encrypt(packed).to_bytes()
        share, seed = self._encryptor.encrypt_lot(packed)
        secret, hidden = backend.hide()
        half = backend.write_half(self.name, self.round, self._integers, secret, hidden)
        sealed = seal(backend.client_key(secret, hidden, "seed", self.round, self.name), seed)
        return join_entries({"half": half, "hidden": hidden, "seed": sealed, "share": share.to_bytes()})


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
        self._seeds: dict[str, bytes] = {}  # of the randomisers, sealed for the reader
        self._linked = False

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        parts = split_entries(payload)
        good = set(parts) == {"half", "hidden", "seed", "share"}
        check(good, "share", "ciphertexts, their seed, a half and what hides the other", sorted(parts))
        check(len(parts["seed"]) == 48, "sealed seed", "48 bytes long", len(parts["seed"]))
        share = self._backend._read_ciphertexts(parts["share"], self._backend.ciphertexts)
        self._keep(name, parts)
        self._shares[name], self._seeds[name] = share, parts["seed"]

    def _next_question(self) -> dict[str, bytes] | None:
        if self._judged == 0:
            return self._about_lengths()
        if self._linked:
            return None
        everybody = self.included
        return self._about_links([everybody] if self._judged == 1 else [(one,) for one in everybody])

    def _about_links(self, groups: Sequence[tuple[str, ...]]) -> dict[str, bytes]:
        backend, coins = self._backend, secrets.token_bytes(32)
        told, clients = {}, {}
        for place, group in enumerate(groups):
            share = reduce(plus, (self._shares[name] for name in group))
            half = reduce(add, (backend.proof.vector(self._halves[name]) for name in group))
            told[f"{place:09d}"] = told_link(share, half, backend.packing, coins)
            parts = {name: self._hidden[name] + self._seeds[name] for name in group}
            clients[f"{place:09d}"] = join_entries(parts)
        return self._asking(LINKS, coins, clients, told)

    def _take(self, reasons: Mapping[str, str]) -> None:
        if self._judged == 1:
            super()._take(reasons)
        elif self._judged == 2:  # of the sum of all
            self._linked = not reasons
        else:
            everybody = self.included
            super()._take({everybody[int(place)]: reason for place, reason in reasons.items()})
            self._linked = True

    def _expel(self, name: str, reason: str) -> None:
        super()._expel(name, reason)
        del self._shares[name], self._seeds[name]

    def _sum(self) -> bytes:
        check(self._linked, "proofs", "judged", "not all", "Ask the reader first: question() and heed().")
        return reduce(plus, self._shares.values()).to_bytes()
