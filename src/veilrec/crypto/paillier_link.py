"""Whether ciphertexts hold the vector that was proven: one number says it for all of them.

The aggregator has ciphertexts c_j of plaintexts M_j, and its halves of the packed numbers x_js. It draws
weights e_j of ``WEIGHT_BITS`` bits and multiplies the c_j^(e_j): inside is the sum of e_j M_j modulo n. If
the M_j are what they should be, sum_s x_js 2^(b s), this is

    sum over s of 2^(b s) X_s,      X_s = sum over j of e_j x_js = A_s + B_s - p,

with A_s and B_s the same sums of the two halves, modulo p, from 0 to p - 1: X_s is tiny beside p, so the
halves add up to p + X_s (but for a probability of |X_s| / p). The aggregator takes its A_s - p off, inside
the ciphertext, and hides it anew; what is left is sum_s 2^(b s) B_s, which the reader knows beforehand. An
honest client's ciphertexts therefore tell the reader nothing. If one M_j is another, the equation holds for
one e_j of 2^40 at most, whatever the other weights are (n has no small factors), or if an addition carries
otherwise, for which X_s is too small. For the sum of several clients, halves and ciphertexts are added first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veilrec.core import check, require
from veilrec.crypto.keys import SecretKey
from veilrec.crypto.masks import expand
from veilrec.crypto.packing import Packing
from veilrec.crypto.paillier import Ciphertexts, Encryptor, decrypt
from veilrec.crypto.residues import PRIME, Residues, from_ints, to_ints, weighted

WEIGHT_BITS = 40
_WINDOW = 8


def ask_link(share: Ciphertexts, half: Residues, packing: Packing, coins: bytes) -> Ciphertexts:
    """The aggregator's side: one ciphertext, of what the reader knows if the share holds the vector.

    ``coins`` (32 bytes) must be drawn after the share arrived.

    >>> import secrets
    >>> from veilrec.crypto.residues import add, from_signed, negative, random_residues
    >>> secret, coins, packing = SecretKey.for_tests(), secrets.token_bytes(32), Packing(8, 256)
    >>> vector, other = np.array([3, -4]), random_residues(coins, 2)
    >>> share = Encryptor(secret.public).encrypt(packing.pack(vector))
    >>> asked = ask_link(share, add(from_signed(vector), negative(other)), packing, coins)
    >>> links(secret, asked, [other], packing, coins)
    [True]
    >>> links(secret, asked, [other[::-1]], packing, coins)
    [False]
    """
    weights = _weights(coins, len(share))
    own = _packed([one - PRIME for one in _sums(half, packing, weights)], packing)
    n = share.key.n
    taken = -own % n
    fresh = Encryptor(share.key).encrypt([taken if taken <= n // 2 else taken - n])
    combined = _power(share.values, weights, n)
    return Ciphertexts(share.key, (combined * fresh.values[0] % (combined.__class__(n) ** 2),))


def links(
    secret: SecretKey, asked: Ciphertexts, halves: Sequence[Residues], packing: Packing, coins: bytes
) -> list[bool]:
    """The reader's side, for several questions: whether each ciphertext holds what its half makes it expect.

    See :func:`ask_link`.

    >>> links(SecretKey.for_tests(), Ciphertexts(None, ()), [], Packing(8, 256), bytes(32))
    []
    """
    if not halves:
        return []
    weights = _weights(coins, packing.plaintexts(len(halves[0])))
    n = secret.public.n
    expected = [_packed(_sums(half, packing, weights), packing) for half in halves]
    return [(found - one) % n == 0 for found, one in zip(decrypt(secret, asked), expected)]


def _weights(coins: bytes, count: int) -> list[int]:
    check(len(coins) == 32, "coins", "32 bytes long", len(coins))
    return [int(one) >> (64 - WEIGHT_BITS) for one in expand(coins, count, np.uint64)]


def _sums(half: Residues, packing: Packing, weights: Sequence[int]) -> list[int]:
    """The weighted sum of every slot in use over the plaintexts, modulo the prime."""
    slots = np.zeros((len(weights) * packing.slots, 2), np.uint64)
    slots[: len(half)] = half
    rows = slots.reshape(len(weights), packing.slots, 2).transpose(1, 0, 2)[: len(half)]
    return to_ints(weighted(rows, from_ints(weights)[None])[0])


def _packed(numbers: Sequence[int], packing: Packing) -> int:
    return sum(one << packing.slot_bits * slot for slot, one in enumerate(numbers))


def _power(values: Sequence[Any], weights: Sequence[int], n: int) -> Any:
    """The product of values^weights modulo n^2, all at once: by digits of the weights (Pippenger 1976)."""
    gmpy2 = require("gmpy2", extra="crypto", purpose="Paillier encryption")
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
