"""Paillier keys: made from the operating system's randomness, written as bytes, never printed.

A public key is (n, h): n = p q with p and q prime, both 3 mod 4 and gcd(p - 1, q - 1) = 2 (so that n is a
Blum integer), and h = (-x^2)^n mod n^2 for a random x, the base of the randomisers of Damgard, Jurik and
Nielsen, "A generalization of Paillier's public-key system with applications to electronic voting", Int. J.
of Information Security 2010. The security rests on the decisional composite residuosity
assumption; 2048 bits stand for about 112 bits of strength, 3072 for 128 (NIST SP 800-57).

Files: a header (magic, version, kind, bits), then the numbers, each of fixed length, then a SHA-256 of all
that against damage. A secret key's file can be read by its owner only, and a file that others can read is
refused. In memory a key stays until Python forgets it: nothing here can wipe it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import gcd
from pathlib import Path

from veilrec.core import DataError, check, check_choice, require
from veilrec.crypto.shown import Shown
from veilrec.crypto.uncopied import Uncopied

KEY_BITS = (2048, 3072)
_HEADER = struct.Struct(">6sBBH")
_MAGIC, _VERSION = b"VRPAIL", 1
_KINDS = {"public key": 1, "secret key": 2}


@dataclass(frozen=True)
class PublicKey:
    """What a client needs to encrypt: the modulus n and the base h of the randomisers.

    A base that hides nothing (1 or -1 modulo n) is refused. That h is an n-th power, only who has the primes
    can tell: :class:`SecretKey` checks it.

    ``insecure`` marks a short key for tests, which protects nothing. Inside a process it works like any other
    key. Its bytes are refused wherever the reader does not ask for ``insecure`` as well; the parties of
    :mod:`veilrec.federated` never ask.

    >>> key = SecretKey.for_tests().public
    >>> PublicKey.from_bytes(key.to_bytes(), insecure=True) == key, len(key.fingerprint)
    (True, 16)
    >>> PublicKey.from_bytes(key.to_bytes())
    Traceback (most recent call last):
        ...
    ValueError: key size must be 2048 or 3072 bits, got 512. Make a new key with SecretKey.generate().
    """

    n: int = field(repr=False)
    h: int = field(repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        remedy = "Make a new key with SecretKey.generate()."
        check(self.insecure or self.bits in KEY_BITS, "key size", "2048 or 3072 bits", self.bits, remedy)
        check(self.n % 2 == 1 and self.n > 1, "n", "odd and above 1", Shown("another number"))
        # A power of 1 or -1 modulo n would hide nothing: whoever sees a ciphertext could read it.
        good = 1 < self.h < self.n**2 and gcd(self.h, self.n) == 1 and self.h % self.n not in (1, self.n - 1)
        promise = "between 1 and n^2, without a common factor with n, and neither 1 nor -1 modulo n"
        check(good, "h", promise, Shown("another number"), remedy)

    @property
    def bits(self) -> int:
        """The length of the modulus."""
        return self.n.bit_length()

    @cached_property
    def fingerprint(self) -> bytes:
        """Sixteen bytes that name this key in messages."""
        return hashlib.sha256(self.to_bytes()).digest()[:16]

    def to_bytes(self) -> bytes:
        """The key as bytes, the same for the same key."""
        size = _size(self.bits)
        return _sealed("public key", self.bits, self.n.to_bytes(size), self.h.to_bytes(2 * size))

    @classmethod
    def from_bytes(cls, data: bytes, *, insecure: bool = False) -> PublicKey:
        """Read what :meth:`to_bytes` wrote."""
        bits, body = _unsealed("public key", data, (1, 2))
        size = _size(bits)
        n, h = int.from_bytes(body[:size]), int.from_bytes(body[size:])
        key = cls(n, h, insecure and bits not in KEY_BITS)
        check(key.bits == bits, "n", f"of {bits} bits", key.bits, "The bytes were damaged.")
        return key


class SecretKey(Uncopied):
    """The two primes, and the public key that belongs to them; every key is checked when it is made or read.

    Neither ``repr`` nor an error shows the primes. A key can be neither pickled nor copied, and so what holds
    one cannot be pickled either: bytes with the primes are made by ``to_bytes`` and ``save`` alone.

    >>> key = SecretKey.for_tests()
    >>> key
    SecretKey(public=PublicKey(insecure=True))
    >>> SecretKey.from_bytes(key.to_bytes(), insecure=True) == key
    True
    >>> SecretKey(1, key.public.n, key.public)
    Traceback (most recent call last):
        ...
    ValueError: p and q must be two factors of n above 1, got other numbers. Load or make another key.
    """

    why_not_copied = "A SecretKey cannot be pickled or copied: its primes would get out. Use save and load."

    def __init__(self, p: int, q: int, public: PublicKey) -> None:
        other, remedy = Shown("other numbers"), "Load or make another key."
        good = p > 1 and q > 1 and p != q and p * q == public.n
        check(good, "p and q", "two factors of n above 1", other, remedy)
        good = p.bit_length() == q.bit_length() and p % 4 == q % 4 == 3 and gcd(p - 1, q - 1) == 2
        promise = "primes of one length, both 3 mod 4, with gcd(p - 1, q - 1) = 2"
        check(good and _is_prime(p) and _is_prime(q), "p and q", promise, other, remedy)
        # h^((p - 1)(q - 1)) = 1 modulo n^2, by its two halves: these are the n-th powers. One that is 1 or -1
        # modulo one of the primes would give that prime away.
        good = all(pow(public.h, f - 1, f * f) == 1 and public.h % f not in (1, f - 1) for f in (p, q))
        promise = "an n-th power modulo n^2, and neither 1 nor -1 modulo p or q"
        check(good, "h", promise, Shown("another number"), remedy)
        self.p, self.q, self.public = p, q, public

    def __repr__(self) -> str:
        return f"SecretKey(public={self.public!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and other.public == self.public

    def __hash__(self) -> int:
        return hash(self.public)

    @classmethod
    def generate(cls, bits: int = 2048) -> SecretKey:
        """A fresh key of 2048 or 3072 bits."""
        check(bits in KEY_BITS, "bits", "2048 or 3072", bits, "Shorter keys can be broken, longer are slow.")
        return cls._fresh(bits, insecure=False)

    @classmethod
    def for_tests(cls, bits: int = 512) -> SecretKey:
        """A short key that protects nothing, for tests and examples only."""
        check(bits % 16 == 0 and 128 <= bits < 2048, "bits", "a multiple of 16, 128 to 2032", bits)
        return cls._fresh(bits, insecure=True)

    @classmethod
    def _fresh(cls, bits: int, insecure: bool) -> SecretKey:
        half = bits // 2
        p = _blum_prime(half)
        q = _blum_prime(half)
        while abs(p - q).bit_length() < 3 * half // 4 or gcd(p - 1, q - 1) != 2:
            q = _blum_prime(half)
        n = p * q
        x = secrets.randbelow(n - 2) + 2  # a common factor with n would be a factorisation by luck
        return cls(p, q, PublicKey(n, pow(-x * x % n, n, n * n), insecure))

    def to_bytes(self) -> bytes:
        """The key as bytes: keep them as you keep the key."""
        size = _size(self.public.bits)
        public = (self.public.n.to_bytes(size), self.public.h.to_bytes(2 * size))
        return _sealed("secret key", self.public.bits, *public, self.p.to_bytes(size), self.q.to_bytes(size))

    @classmethod
    def from_bytes(cls, data: bytes, *, insecure: bool = False) -> SecretKey:
        """Read what :meth:`to_bytes` wrote."""
        bits, body = _unsealed("secret key", data, (1, 2, 1, 1))
        size = _size(bits)
        cuts = (0, size, 3 * size, 4 * size, 5 * size)
        n, h, p, q = (int.from_bytes(body[start:stop]) for start, stop in pairwise(cuts))
        key = cls(p, q, PublicKey(n, h, insecure and bits not in KEY_BITS))
        check(key.public.bits == bits, "n", f"of {bits} bits", key.public.bits, "The bytes were damaged.")
        return key

    def save(self, path: str | Path) -> None:
        """Write the key to a file that only its owner may read; whole or not at all."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(self.to_bytes())
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path, *, insecure: bool = False) -> SecretKey:
        """Read a file that :meth:`save` wrote; one that others can read is refused."""
        if not Path(path).is_file():
            raise DataError("a secret key must be a file, got none. Check the path, or save one.", file=path)
        mode = Path(path).stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            remedy = f"Run: chmod 600 {Path(path).name}, and make a new key if others may have read it."
            raise DataError(f"mode must be 0o600 or less, got {oct(mode)}. {remedy}", file=path)
        try:
            return cls.from_bytes(Path(path).read_bytes(), insecure=insecure)
        except ValueError as error:
            raise DataError(str(error), file=path) from None


def _blum_prime(bits: int) -> int:
    """A random prime that is 3 mod 4, with its two highest bits set, so that a product has full length."""
    while True:
        candidate = secrets.randbits(bits) | 3 << (bits - 2) | 3
        if _is_prime(candidate):
            return candidate


def _is_prime(number: int) -> bool:
    gmpy2 = require("gmpy2", extra="crypto", purpose="Paillier encryption")
    return bool(gmpy2.is_prime(number, 40))


def _size(bits: int) -> int:
    return -(-bits // 8)


def _sealed(kind: str, bits: int, *parts: bytes) -> bytes:
    data = _HEADER.pack(_MAGIC, _VERSION, _KINDS[kind], bits) + b"".join(parts)
    return data + hashlib.sha256(data).digest()


def _unsealed(kind: str, data: bytes, sizes: tuple[int, ...]) -> tuple[int, bytes]:
    """The bits and the body of a key's bytes, all but the numbers themselves checked."""
    start, tail = _HEADER.size, 32
    check(len(data) > start + tail, kind, f"more than {start + tail} bytes long", len(data))
    magic, version, found, bits = _HEADER.unpack_from(data)
    check(magic == _MAGIC, kind, "a Paillier key of veilrec", magic)
    check(version == _VERSION, "version", str(_VERSION), version, "A newer veilrec wrote these bytes.")
    names = {number: name for name, number in _KINDS.items()}
    check_choice("kind of key", names.get(found), [kind])
    need = start + tail + sum(sizes) * _size(bits)
    check(len(data) == need, kind, f"{need} bytes long", len(data), "The bytes were cut.")
    whole = hashlib.sha256(data[:-tail]).digest() == data[-tail:]
    check(whole, kind, "whole", Shown("another checksum"), "The bytes were damaged.")
    return bits, data[start:-tail]
