"""Secure sums by masks that cancel: no key holder, no third party, and clients may drop out at any moment.

The protocol of Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS
2017, against a server that follows it but is curious. Client u sends, modulo 2^32 or 2^64,

    y_u = x_u + b_u + (sum over v after u of m_uv) - (sum over v before u of m_uv)

where m_uv is known to u and v alone and b_u to u alone. In a sum over everyone the m_uv cancel. Each client
hands Shamir shares of b_u and of its key for the m_uv to the others beforehand. At the end the aggregator
names the survivors, whose y_u it has; for each of them it gets shares of b_u, for every other client shares
of the key. **Never both for one client**: a client answers once in a round. So a vector that arrives late
stays hidden behind its b_u. Simply masking again among the survivors would not be safe: together with the
late vector, the two sums would differ by exactly one client's values.

More than half of the clients must stay to the end. Before anybody masks anything, clients say whose shares
they cannot open, and who dealt too many of these is left out. So is who complains of too many: else a few
could put out all but one, and read that one's vector off the sum. (Of four clients or fewer, nobody can be
spared: a complaint ends the round.) Wrong shares at the end are left out, and refused by name where that can
be told; with more of them than :func:`shamir.recover` can leave out, the round is lost. So it is if a client
promises another b_u than it uses. A lost round must not be played again with the same vectors and fewer
clients: whoever opens the first one later, with more patience or with shares that a liar kept back, has two
sums that differ by one client's vector.

Masked sums are for clients that run this code. Nobody can look behind a mask, so a dishonest client may send
any vector: the sum of all is checked, and one that honest clients cannot have made is refused, no more. Where
clients may be dishonest take ``SharedSum``, or ``PaillierSum`` with a norm. Not offered either: protection
from a server that invents clients or shows different lists to different clients (that needs signed keys).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from veilrec.core import check
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.masks import SEAL_BYTES, agree, derive, expand, seal, unseal
from veilrec.crypto.messages import join_entries, split_entries
from veilrec.crypto.parties import Refusal, SumAggregator, SumClient
from veilrec.crypto.shamir import SHARE_BYTES, recover, split
from veilrec.crypto.sums import SecureSum, write_sum


@dataclass(frozen=True)
class MaskedSum(SecureSum):
    """Sums of masked vectors; the aggregator learns the sum and nothing else.

    >>> from veilrec.crypto import FixedPoint
    >>> masked = MaskedSum(FixedPoint(bound=1.0, step=2**-8, clients=3), length=2)
    >>> masked.total({"ann": [0.5, 1.0], "bob": [0.25, -1.0]}).values
    array([0.75, 0.  ])
    """

    word: ClassVar[str] = "masked"
    phases: ClassVar[tuple[tuple[str, str], ...]] = (
        ("begin", "keys"),  # two public keys and a hash of b_u
        ("directory", "shares"),  # Shamir shares, sealed for each of the others
        ("delivery", "opened"),  # whose shares cannot be opened
        ("peers", "masked"),  # y_u
        ("survivors", "reveal"),  # one share per client: of b_u or of the key
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Nobody can look behind a mask: take SharedSum, or the bound alone."
        check(self.norm is None, "norm", "None in a masked sum", self.norm, remedy)

    @property
    def dtype(self) -> Any:
        """The unsigned words in which masks live: the smallest that hold every sum."""
        return np.uint32 if self.codec.slot_bits <= 32 else np.uint64

    def threshold(self, clients: int) -> int:
        """How many clients must stay to the end: more than half."""
        return clients // 2 + 1

    def client(self, name: str, integers: Integers) -> SumClient:
        """One client's side of one round, with fresh keys."""
        return _MaskedClient(self, name, self.checked(integers))

    def aggregator(self, round: int, names: Iterable[str]) -> SumAggregator:
        """The aggregator's side of one round."""
        return _MaskedAggregator(self, round, names)

    def pair_mask(self, shared: bytes, round: int, name: str, other: str) -> NDArray[Any]:
        """What ``name`` adds for its pair with ``other``; the negative of what ``other`` adds."""
        first, second = sorted((name, other))
        mask = expand(derive(shared, "mask", round, first, second), self.length, self.dtype)
        return mask if name == first else -mask


class _MaskedClient(SumClient):
    _backend: MaskedSum

    def __init__(self, backend: MaskedSum, name: str, integers: Integers) -> None:
        super().__init__(backend, name)
        self._integers = integers
        self._seal_key, self._mask_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._own = secrets.token_bytes(32)  # b_u
        self._entry = b""  # what the directory must say about this client
        self._directory: dict[str, bytes] = {}
        self._sealing: dict[str, bytes] = {}  # secrets shared with the others, to seal shares
        self._held: dict[str, bytes] = {}  # shares of b_v and of v's key, by v
        self._dealers: set[str] = set()  # whose shares were delivered, and this client
        self._peers: set[str] = set()  # whose masks are in y_u

    def _answer(self, kind: str, payload: bytes) -> bytes:
        answers = {
            "begin": self._keys,
            "directory": self._shares,
            "delivery": self._opened,
            "peers": self._masked,
        }
        return answers.get(kind, self._reveal)(payload)

    def _keys(self, payload: bytes) -> bytes:
        publics = (key.public_key().public_bytes_raw() for key in (self._seal_key, self._mask_key))
        self._entry = b"".join(publics) + hashlib.sha256(self._own).digest()
        return self._entry

    def _shares(self, payload: bytes) -> bytes:
        self._directory = split_entries(payload)
        most, least = self._backend.codec.clients, self._backend.least
        count = len(self._directory)
        check(least <= count <= most, "number of clients", f"from {least} to {most}", count)
        check(self._directory.get(self.name) == self._entry, "directory", "true about this client", "not so")
        threshold = self._backend.threshold(count)
        mine = split(self._own, threshold, count)
        key = split(_clamped(self._mask_key.private_bytes_raw()), threshold, count)
        parts = {name: a + b for name, a, b in zip(sorted(self._directory), mine, key)}
        self._held[self.name] = parts.pop(self.name)
        self._sealing = {name: agree(self._seal_key, self._directory[name][:32]) for name in parts}
        return join_entries(
            {name: seal(self._seal(self.name, name, name), part) for name, part in parts.items()}
        )

    def _seal(self, sender: str, receiver: str, other: str) -> bytes:
        return derive(self._sealing[other], "share", self.round, sender, receiver)

    def _opened(self, payload: bytes) -> bytes:
        delivered = split_entries(payload)
        strangers = sorted(set(delivered) - set(self._sealing))
        check(not strangers, "delivery", "from clients in the directory", strangers)
        self._dealers = {self.name, *delivered}
        for name, sealed in delivered.items():
            try:
                self._held[name] = unseal(self._seal(name, self.name, name), sealed)
            except ValueError:
                continue  # the others' shares may be enough
        return join_entries(dict.fromkeys(self._dealers - set(self._held), b""))

    def _masked(self, payload: bytes) -> bytes:
        self._peers = set(split_entries(payload))
        good = self.name in self._peers and self._peers <= self._dealers
        check(good, "peers", "clients that dealt shares, this one among them", sorted(self._peers))
        need = self._backend.threshold(len(self._directory))
        check(len(self._peers) >= need, "clients", f"at least {need}", len(self._peers))
        total = self._integers.astype(self._backend.dtype)
        total += expand(derive(self._own, "own", self.round, self.name, ""), len(total), total.dtype)
        for name in self._peers - {self.name}:
            shared = agree(self._mask_key, self._directory[name][32:64])
            total += self._backend.pair_mask(shared, self.round, self.name, name)
        return total.astype(total.dtype.newbyteorder("<")).tobytes()

    def _reveal(self, payload: bytes) -> bytes:
        survivors = set(split_entries(payload))
        need = max(self._backend.least, self._backend.threshold(len(self._directory)))
        remedy = "A sum over fewer is not revealed."
        check(len(survivors) >= need, "survivors", f"at least {need}", len(survivors), remedy)
        good = self.name in survivors and survivors <= self._peers
        check(good, "survivors", "clients of this round, this one among them", sorted(survivors))
        cut = SHARE_BYTES
        held = {v: part for v, part in self._held.items() if v in self._peers}
        return join_entries({v: part[:cut] if v in survivors else part[cut:] for v, part in held.items()})


class _MaskedAggregator(SumAggregator):
    _backend: MaskedSum

    def __init__(self, backend: MaskedSum, round: int, names: Iterable[str]) -> None:
        super().__init__(backend, round, names)
        self._directory: dict[str, bytes] = {}
        self._sealed_shares: dict[str, dict[str, bytes]] = {}
        self._unread: dict[str, set[str]] = {}  # whose shares a client cannot open
        self._peers: list[str] = []  # who masks with whom
        self._revealed: dict[str, dict[str, bytes]] = {}
        self._total = np.zeros(backend.length, backend.dtype)
        self._included: list[str] = []

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(self._included)

    def _accept(self, kind: str, name: str, payload: bytes) -> None:
        if kind == "keys":
            check(len(payload) == 96, "keys", "96 bytes long", len(payload))
            for start in (0, 32):
                agree(X25519PrivateKey.generate(), payload[start : start + 32])
            self._directory[name] = payload
        elif kind == "shares":
            parts = split_entries(payload)
            check(
                set(parts) == set(self._directory) - {name},
                "shares",
                "one for each other client",
                sorted(parts),
            )
            size = 2 * SHARE_BYTES + SEAL_BYTES
            check(all(len(one) == size for one in parts.values()), "shares", f"{size} bytes long each", name)
            self._sealed_shares[name] = parts
        elif kind == "opened":
            unread = set(split_entries(payload))
            check(unread < set(self._sealed_shares), "dealers", "of this round, and not all", sorted(unread))
            self._unread[name] = unread - {name}
        elif kind == "masked":
            size = self._total.nbytes
            check(len(payload) == size, "masked vector", f"{size} bytes long", len(payload))
            self._total += np.frombuffer(payload, self._total.dtype.newbyteorder("<"))
            self._included.append(name)
        else:
            parts = split_entries(payload)
            check(set(parts) <= set(self._peers), "shares", "of clients of this round", sorted(parts))
            check(all(len(one) == SHARE_BYTES for one in parts.values()), "shares", "33 bytes long", name)
            self._revealed[name] = parts

    def _next(self, kind: str) -> dict[str, bytes]:
        if kind == "keys":
            return dict.fromkeys(self._directory, join_entries(self._directory))
        if kind == "shares":
            senders = self._sealed_shares
            return {u: join_entries({v: senders[v][u] for v in senders if v != u}) for u in senders}
        if kind == "opened":
            self._choose_peers()
            return dict.fromkeys(self._peers, join_entries(dict.fromkeys(self._peers, b"")))
        if kind == "masked":
            return dict.fromkeys(self._included, join_entries(dict.fromkeys(self._included, b"")))
        return {}

    def _choose_peers(self) -> None:
        """Leave out who complains of too many dealers, or has dealt too many shares that cannot be read."""
        few = (len(self._directory) - self._backend.threshold(len(self._directory))) // 2
        for name, unread in self._unread.items():
            if len(unread) > few:
                reason = f"complaints must be about {few} dealers at most, got {len(unread)}."
                self.refused.append(Refusal(name, "opened", reason))
        heard = {name: unread for name, unread in self._unread.items() if len(unread) <= few}
        for dealer in heard:
            count = sum(dealer in unread for unread in heard.values())
            if count <= few:
                self._peers.append(dealer)
                continue
            reason = f"sealed shares must be readable for all but {few}, got {count} that are not."
            self.refused.append(Refusal(dealer, "shares", reason))

    def _sum(self) -> bytes:
        backend, survivors = self._backend, set(self._included)
        total, round = self._total.copy(), self._envelope.round
        for name in self._peers:
            secret = self._rebuilt(name)
            if name in survivors:
                total -= expand(derive(secret, "own", round, name, ""), len(total), total.dtype)
            else:
                key = X25519PrivateKey.from_private_bytes(secret)
                for other in survivors:  # what the survivors added for their pair with the one who left
                    shared = agree(key, self._directory[other][32:64])
                    total -= backend.pair_mask(shared, round, other, name)
        signed = total.view(np.int32 if total.dtype == np.uint32 else np.int64)
        return write_sum(signed.astype(np.int64), len(survivors))

    def _rebuilt(self, name: str) -> bytes:
        """What a client promised in the directory, from the shares of the others; wrong ones are refused."""
        names = dict(enumerate(sorted(self._directory), 1))
        doubted = {one.client for one in self.refused}  # who lied once is asked last
        order = sorted(names, key=lambda x: names[x] in doubted)
        held = {x: self._revealed.get(names[x], {}) for x in order}
        parts = {x: found[name] for x, found in held.items() if name in found}
        threshold = self._backend.threshold(len(names))
        try:
            secret, wrong = recover(parts, threshold, lambda found: self._promised(name, found))
        except ValueError as error:
            words = "the round is lost, and its vectors must not be sent again."
            raise ValueError(f"{error} The mask of {name} stays: {words}") from None
        for liar in (names[x] for x in wrong):
            del self._revealed[liar][name]
            reason = f"share of {name}'s secret must fit the others', got another. {liar} changed it"
            self.refused.append(Refusal(liar, "reveal", f"{reason}, or {name} dealt it so."))
        return secret

    def _promised(self, name: str, secret: bytes) -> bool:
        entry = self._directory[name]
        if name in self._included:
            return hashlib.sha256(secret).digest() == entry[64:]
        key = X25519PrivateKey.from_private_bytes(secret).public_key()
        return secret == _clamped(secret) and key.public_bytes_raw() == entry[32:64]


def _clamped(key: bytes) -> bytes:
    """The one form in which an X25519 key is shared: in five of its bits, every value means the same key."""
    return bytes([key[0] & 248, *key[1:31], key[31] & 127 | 64])
