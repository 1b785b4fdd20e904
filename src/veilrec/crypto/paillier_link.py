"""Whether ciphertexts hold the vector that was proven: one hash says it for all of them.

The aggregator has ciphertexts c_j, and its halves of the packed numbers x_js. It draws weights e_j of
``WEIGHT_BITS`` bits. If the plaintexts are what they should be, M_j = sum over s of x_js 2^(b s), and the
randomisers too, h^(a_j), then the product of the c_j^(e_j) is

    (1 + n sum over s of 2^(b s) X_s) h^(sum of e_j a_j)  mod n^2,     X_s = sum over j of e_j x_js.

With A_s and B_s the same sums of the two halves, modulo p, from 0 to p - 1, X_s = A_s + B_s - p: it is tiny
beside p, so the halves of it add up to p + X_s, but for a probability of |X_s| / p. The aggregator takes its
A_s - p out of the product and sends a hash of what is left, (1 + n sum of 2^(b s) B_s) h^(sum of e_j a_j).
The reader knows the B_s, and the client tells it the a_j, by the seed that they come from; so it knows what
hash to expect. It sees no ciphertext, and of an honest client it learns nothing.

If one plaintext is another, the equation holds for one e_j of 2^40 at most for each way in which the sums of
halves may carry, whatever the other weights are (the plaintext part of Z*_(n^2) has no elements of small
order). Randomisers may be wrong by an element of small order, which changes no plaintext. Who does not know
the a_j of a ciphertext, because it is somebody else's, cannot use it to test a guess of what is inside: that
is what they are told for. For a sum of several clients, halves, ciphertexts and exponents are added first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilrec.core import check, require
from veilrec.crypto.keys import PublicKey
from veilrec.crypto.masks import expand
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts
from veilrec.crypto.residues import PRIME, Residues, from_ints, to_ints, weighted

WEIGHT_BITS = 40
_WINDOW = 8


def told_link(share: Ciphertexts, half: Residues, packing: Packing, coins: bytes) -> bytes:
    """The aggregator's side: the hash that the reader expects if the share holds the vector.

    ``coins`` (32 bytes) must be drawn after the share arrived.

    >>> import secrets
    >>> from veilrec.crypto.keys import SecretKey
    >>> from veilrec.crypto.paillier import Encryptor, exponents
    >>> from veilrec.crypto.residues import add, from_signed, negative, random_residues
    >>> key, coins, packing = SecretKey.for_tests().public, secrets.token_bytes(32), Packing(8, 256)
    >>> vector, other = np.array([3, -4]), random_residues(bytes(32), 2)
    >>> share, seed = Encryptor(key).encrypt_lot(packing.pack(vector))
    >>> told = told_link(share, add(from_signed(vector), negative(other)), packing, coins)
    >>> told == expected_link(key, other, exponents(key, seed, 1), packing, coins)
    True
    >>> told == expected_link(key, other[::-1], exponents(key, seed, 1), packing, coins)
    False
    """
    weights = _weights(coins, len(share))
    own = _packed([one - PRIME for one in _sums(half, packing, weights)], packing)
    n = share.key.n
    left = _product(share.values, weights, n) * (1 - own * n) % (n * n)
    return _digest(left, share.key)


def expected_link(
    key: PublicKey, half: Residues, exponents: Sequence[int], packing: Packing, coins: bytes
) -> bytes:
    """The reader's side: the hash of what its half of the vector and the exponents make it expect.

    See :func:`told_link`.

    >>> from veilrec.crypto.keys import SecretKey
    >>> from veilrec.crypto.residues import from_signed
    >>> key, half = SecretKey.for_tests().public, from_signed(np.array([1]))
    >>> len(expected_link(key, half, [5], Packing(8, 256), bytes(32)))
    32
    """
    gmpy2 = _gmpy2()
    weights = _weights(coins, len(exponents))
    square = gmpy2.mpz(key.n) ** 2
    power = sum(weight * one for weight, one in zip(weights, exponents))
    inside = 1 + _packed(_sums(half, packing, weights), packing) * key.n
    return _digest(inside * gmpy2.powmod(key.h, power, square) % square, key)


def _gmpy2() -> Any:
    return require("gmpy2", extra="crypto", purpose="Paillier encryption")


def _digest(value: Any, key: PublicKey) -> bytes:
    return hashlib.sha256(int(value).to_bytes(2 * (-(-key.bits // 8)))).digest()


def _weights(coins: bytes, count: int) -> list[int]:
    check(len(coins) == 32, "coins", "32 bytes long", len(coins))
    return [int(one) >> (64 - WEIGHT_BITS) for one in expand(coins, count, np.uint64)]


def _sums(half: Residues, packing: Packing, weights: Sequence[int]) -> list[int]:
    """The weighted sum of every slot in use over the plaintexts, modulo the prime."""
    slots = np.zeros((len(weights) * packing.slots, half.shape[1]), np.uint64)
    slots[: len(half)] = half
    rows = slots.reshape(len(weights), packing.slots, -1).transpose(1, 0, 2)[: len(half)]
    return to_ints(weighted(rows, from_ints(weights)[None])[0])


def _packed(numbers: Sequence[int], packing: Packing) -> int:
    return sum(one << packing.slot_bits * slot for slot, one in enumerate(numbers))


def _product(values: Sequence[Any], weights: Sequence[int], n: int) -> Any:
    """The product of values^weights modulo n^2, all at once: by digits of the weights (Pippenger 1976)."""
    gmpy2 = _gmpy2()
    square, total = gmpy2.mpz(n) ** 2, gmpy2.mpz(1)
    for shift in range(WEIGHT_BITS - _WINDOW, -1, -_WINDOW):
        total = gmpy2.powmod(total, 1 << _WINDOW, square)
        buckets: list[Any] = [None] * (1 << _WINDOW)
        for value, weight in zip(values, weights):
            digit = (weight >> shift) & ((1 << _WINDOW) - 1)
            held = buckets[digit]
            buckets[digit] = value if held is None else held * value % square
        running = whole = gmpy2.mpz(1)
        for held in reversed(buckets[1:]):  # bucket d is taken d times
            if held is not None:
                running = running * held % square
            whole = whole * running % square
        total = total * whole % square
    return total
