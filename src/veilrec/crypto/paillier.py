"""Paillier encryption of whole numbers: whoever holds ciphertexts can add what is inside, and not read it.

    encrypt(m) = (1 + m n) h^a mod n^2,  a random of bits(n) / 2 bits        add = multiply mod n^2

The randomiser h^a with a short exponent is that of Damgard, Jurik and Nielsen (see :mod:`keys`); that half
the length is enough follows for Blum integers from the hardness of factoring (Goldreich and Rosen, J. of
Cryptology 2003). It does not depend on m, so a device can make its randomisers while it is idle
(:meth:`Encryptor.prepare`); each is used once and then forgotten. h is fixed, so its powers come from a
table with one row per byte of the exponent. Decryption works modulo p^2 and q^2, one thread for each.

What it does not give. Paillier is malleable: who can multiply ciphertexts can add anything to a sum or count
a share twice, and no check here sees that. Refused are ciphertexts of another key, of a wrong length, out of
range or not invertible, and (by the spare bits of :mod:`packing`) most random damage. Integrity against an
active opponent needs signed messages, which are not offered, and proofs, which ``PaillierSum`` has for a
norm. Decryption does not run in constant time: do not let strangers time the key server.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from veilrec.core import check, check_count, require
from veilrec.crypto.keys import PublicKey, SecretKey
from veilrec.crypto.masks import expand
from veilrec.crypto.shown import Shown
from veilrec.crypto.uncopied import Uncopied

_HEADER = struct.Struct(">6sB16sII")
_MAGIC, _VERSION = b"VRCIPH", 1


def _gmpy2() -> Any:
    return require("gmpy2", extra="crypto", purpose="Paillier encryption")


@dataclass(frozen=True)
class Ciphertexts:
    """Encrypted whole numbers under one key, and how many clients' numbers were added in them.

    >>> secret = SecretKey.for_tests()
    >>> encryptor = Encryptor(secret.public)
    >>> total = encryptor.encrypt([1, -2]) + encryptor.encrypt([10, 20])
    >>> total.summands, decrypt(secret, total)
    (2, [11, 18])
    """

    key: PublicKey
    values: tuple[Any, ...] = field(repr=False)
    summands: int = 1

    def __len__(self) -> int:
        return len(self.values)

    def __add__(self, other: Ciphertexts) -> Ciphertexts:
        same = other.key == self.key
        check(same, "ciphertexts", "under one key", Shown("two keys"), "Encrypt with the key of the round.")
        check(len(other) == len(self), "ciphertexts", f"{len(self)} as in the first share", len(other))
        square = _gmpy2().mpz(self.key.n) ** 2
        values = tuple(a * b % square for a, b in zip(self.values, other.values))
        return Ciphertexts(self.key, values, self.summands + other.summands)

    def to_bytes(self) -> bytes:
        """A header with the key's fingerprint, then the numbers, each of the same length."""
        header = _HEADER.pack(_MAGIC, _VERSION, self.key.fingerprint, len(self), self.summands)
        width = _width(self.key)
        return header + b"".join([value.to_bytes(width) for value in self.values])

    @classmethod
    def from_bytes(cls, data: bytes, key: PublicKey) -> Ciphertexts:
        """Read what :meth:`to_bytes` wrote; what cannot be a ciphertext under ``key`` is refused."""
        gmpy2 = _gmpy2()
        start, width = _HEADER.size, _width(key)
        check(len(data) >= start, "ciphertexts", f"at least {start} bytes long", len(data))
        magic, version, fingerprint, count, summands = _HEADER.unpack_from(data)
        check(magic == _MAGIC, "ciphertexts", "Paillier ciphertexts of veilrec", magic)
        check(version == _VERSION, "version", str(_VERSION), version, "A newer veilrec wrote these bytes.")
        names = (key.fingerprint.hex(), fingerprint.hex())
        remedy = "Encrypt with the key of the round."
        check(fingerprint == key.fingerprint, "key fingerprint", names[0], names[1], remedy)
        check_count("summands", summands)
        need = start + count * width
        check(len(data) == need, "ciphertexts", f"{need} bytes long", len(data), "The bytes were cut.")
        read, n = gmpy2.mpz.from_bytes, gmpy2.mpz(key.n)
        values = tuple([read(data[at : at + width]) for at in range(start, need, width)])
        square = n * n
        good = all(0 < value < square for value in values)
        check(good, "ciphertexts", "from 1 to n^2 - 1", Shown("another number"), "The bytes were damaged.")
        product = gmpy2.mpz(1)
        for value in values:  # a product has no common factor with n if and only if no factor of it has one
            product = product * (value % n) % n
        check(gmpy2.gcd(product, n) == 1, "ciphertexts", "invertible modulo n", Shown("another number"))
        return cls(key, values, summands)


class Encryptor(Uncopied):
    """Encrypts under one public key, with randomisers made beforehand where there are some.

    >>> encryptor = Encryptor(SecretKey.for_tests().public)
    >>> encryptor.prepare(3)
    >>> _ = encryptor.encrypt([5, 6])
    >>> encryptor.prepared
    1
    """

    why_not_copied = "An Encryptor cannot be copied: a randomiser would be used twice. Make a new one."

    def __init__(self, key: PublicKey) -> None:
        gmpy2 = _gmpy2()
        self.key = key
        self._n = gmpy2.mpz(key.n)
        self._square = self._n**2
        self._pool: deque[Any] = deque()
        self._lots: deque[tuple[bytes, list[Any]]] = deque()
        self._process = os.getpid()

    @property
    def prepared(self) -> int:
        """How many randomisers lie ready."""
        return len(self._pool) + sum(len(lot) for _, lot in self._lots)

    def prepare(self, count: int) -> None:
        """Make ``count`` more randomisers; none is ever used twice."""
        check_count("count", count)
        self._own_process()
        self._pool.extend(self._randomiser() for _ in range(count))

    def prepare_lot(self, count: int) -> None:
        """Make ``count`` randomisers whose exponents come from one seed, for one :meth:`encrypt_lot`."""
        check_count("count", count)
        self._own_process()
        self._lots.append(self._lot(count))

    def encrypt(self, plaintexts: Sequence[int]) -> Ciphertexts:
        """Encrypt signed whole numbers of a size below n / 2."""
        self._own_process()
        made = (self._pool.popleft() if self._pool else self._randomiser() for _ in plaintexts)
        return self._with(plaintexts, made)

    def encrypt_lot(self, plaintexts: Sequence[int]) -> tuple[Ciphertexts, bytes]:
        """Encrypt, and tell the seed of the randomisers: ciphertext j has h^a, a = exponents(seed, ...)[j].

        >>> secret = SecretKey.for_tests()
        >>> found, seed = Encryptor(secret.public).encrypt_lot([7])
        >>> (a,), n = exponents(secret.public, seed, 1), secret.public.n
        >>> found.values[0] == (1 + 7 * n) * pow(secret.public.h, a, n * n) % (n * n)
        True
        """
        self._own_process()
        fitting = (one for one in self._lots if len(one[1]) == len(plaintexts))
        found = next(fitting, None) or self._lot(len(plaintexts))
        self._lots = deque(one for one in self._lots if one is not found)
        return self._with(plaintexts, found[1]), found[0]

    def _with(self, plaintexts: Sequence[int], randomisers: Iterable[Any]) -> Ciphertexts:
        n, square, half = self._n, self._square, self._n // 2
        good = all(-half <= one <= half for one in plaintexts)
        check(good, "plaintexts", "from -n/2 to n/2", Shown("a larger number"), "Pack fewer slots.")
        values = tuple([(1 + one * n) * made % square for one, made in zip(plaintexts, randomisers)])
        return Ciphertexts(self.key, values)

    def _lot(self, count: int) -> tuple[bytes, list[Any]]:
        seed = secrets.token_bytes(32)
        return seed, [self._power(one) for one in _exponent_bytes(self.key, seed, count)]

    def _randomiser(self) -> Any:
        return self._power(secrets.token_bytes(len(_table(self.key))))

    def _power(self, exponent: bytes) -> Any:
        power, square = 1, self._square
        for row, byte in zip(_table(self.key), exponent):
            power = power * row[byte] % square
        return power

    def _own_process(self) -> None:
        if self._process != os.getpid():  # a forked child must not use its parent's randomisers again
            self._pool.clear()
            self._lots.clear()
            self._process = os.getpid()


def exponents(key: PublicKey, seed: bytes, count: int) -> list[int]:
    """The exponents of the randomisers of a lot.

    >>> len(exponents(SecretKey.for_tests().public, bytes(32), 3))
    3
    """
    return [int.from_bytes(one, "little") for one in _exponent_bytes(key, seed, count)]


def _exponent_bytes(key: PublicKey, seed: bytes, count: int) -> list[bytes]:
    width = _exponent_width(key)
    raw = expand(seed, count * width, np.uint8).tobytes()
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def _exponent_width(key: PublicKey) -> int:
    return -(-key.bits // 16)


@lru_cache(maxsize=2)
def _table(key: PublicKey) -> list[list[Any]]:
    """Row i, entry j: h^(j 256^i) mod n^2, for exponents of half the bits of n."""
    gmpy2 = _gmpy2()
    square, base, rows = gmpy2.mpz(key.n) ** 2, gmpy2.mpz(key.h), []
    for _ in range(_exponent_width(key)):
        row = [gmpy2.mpz(1)]
        for _ in range(255):
            row.append(row[-1] * base % square)
        rows.append(row)
        base = row[-1] * base % square
    return rows


def decrypt(secret: SecretKey, ciphertexts: Ciphertexts) -> list[int]:
    """The whole numbers inside, from -n/2 to n/2, by the Chinese remainder theorem.

    >>> secret, other = SecretKey.for_tests(), SecretKey.for_tests()
    >>> decrypt(other, Encryptor(secret.public).encrypt([1]))
    Traceback (most recent call last):
        ...
    ValueError: ciphertexts must be under the public key of this secret key, got another key.
    """
    same = ciphertexts.key == secret.public
    check(same, "ciphertexts", "under the public key of this secret key", Shown("another key"))
    gmpy2 = _gmpy2()
    p, q = gmpy2.mpz(secret.p), gmpy2.mpz(secret.q)

    def modulo(prime: Any, other: Any) -> list[Any]:
        # c^(prime-1) = 1 - m n mod prime^2, because (1 + m n)^(prime-1) = 1 + (prime-1) m n
        powers = gmpy2.powmod_base_list(list(ciphertexts.values), prime - 1, prime * prime)
        factor = gmpy2.invert(-other, prime)
        return [(power - 1) // prime * factor % prime for power in powers]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(modulo, (p, q), (q, p))
    n, inverse = p * q, gmpy2.invert(q, p)
    messages = [b + q * ((a - b) * inverse % p) for a, b in zip(first, second)]
    return [int(message if message <= n // 2 else message - n) for message in messages]


def _width(key: PublicKey) -> int:
    return 2 * (-(-key.bits // 8))
