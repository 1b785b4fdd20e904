"""Whole numbers modulo the prime 2^127 - 1, many at a time: an array [..., 2] of a low and a high word.

For vectors that are split into two random-looking halves and for linear checks on those halves. All numbers
lie from 0 to the prime; the prime itself stands for 0 too, until :func:`to_ints` reads it. Products of
vectors are matrix products of their digits in floating point, small enough to be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check
from veilrec.crypto.masks import expand

PRIME = 2**127 - 1
BYTES = 16
_TOP = np.uint64((1 << 63) - 1)
_ONE, _LAST = np.uint64(1), np.uint64(63)

Residues = NDArray[np.uint64]


def random_residues(key: bytes, count: int) -> Residues:
    """``count`` pseudo-random numbers from a key.

    >>> to_ints(random_residues(bytes(32), 1))[0] == int.from_bytes(expand(bytes(32), 16, np.uint8)) % 2**127
    False
    >>> to_ints(random_residues(bytes(32), 2))[:1] == to_ints(random_residues(bytes(32), 1))
    True
    """
    words = expand(key, 2 * count, np.uint64).astype(np.uint64).reshape(count, 2)
    words[:, 1] &= _TOP
    return words


def from_signed(numbers: NDArray[np.int64]) -> Residues:
    """Signed whole numbers above -2^63.

    >>> to_ints(from_signed(np.array([-1]))) == [PRIME - 1]
    True
    """
    size = np.abs(numbers).astype(np.uint64)
    out = np.stack([size, np.zeros_like(size)], axis=-1)
    return np.where((numbers < 0)[..., None], negative(out), out)


def from_ints(numbers: Sequence[int]) -> Residues:
    """Any whole numbers.

    >>> to_ints(from_ints([5, -1, PRIME + 7]))[::2]
    [5, 7]
    """
    raw = b"".join([(one % PRIME).to_bytes(BYTES, "little") for one in numbers])
    return from_bytes(raw)


def to_ints(numbers: Residues) -> list[int]:
    """The numbers of a vector, each below the prime.

    >>> to_ints(from_ints([3, 4]))
    [3, 4]
    """
    raw = to_bytes(numbers)
    return [int.from_bytes(raw[at : at + BYTES], "little") % PRIME for at in range(0, len(raw), BYTES)]


def to_bytes(numbers: Residues) -> bytes:
    """Sixteen bytes for each number.

    >>> to_bytes(from_ints([258])).hex()
    '02010000000000000000000000000000'
    """
    return numbers.astype("<u8").tobytes()


def from_bytes(raw: bytes) -> Residues:
    """Read what :func:`to_bytes` wrote; numbers of 128 bits are refused.

    >>> from_bytes(bytes([255] * 16))
    Traceback (most recent call last):
        ...
    ValueError: numbers modulo 2^127 - 1 must be of 127 bits, got one of 128. The bytes were damaged.
    """
    name = "numbers modulo 2^127 - 1"
    check(len(raw) % BYTES == 0, name, "16 bytes long each", len(raw))
    words = np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, 2)
    if (words[:, 1] > _TOP).any():
        raise ValueError(f"{name} must be of 127 bits, got one of 128. The bytes were damaged.")
    return words


def negative(a: Residues) -> Residues:
    """What gives 0 when it is added.

    >>> to_ints(add(negative(from_ints([5])), from_ints([5])))
    [0]
    """
    return np.stack([~a[..., 0], a[..., 1] ^ _TOP], axis=-1)


def add(a: Residues, b: Residues) -> Residues:
    """The sum, number by number.

    >>> to_ints(add(from_ints([PRIME - 1]), from_ints([3])))
    [2]
    """
    low = a[..., 0] + b[..., 0]
    high = a[..., 1] + b[..., 1] + (low < b[..., 0])  # below 2^64, since both are below 2^63
    over = high >> _LAST
    out = np.empty((*low.shape, 2), np.uint64)
    np.add(low, over, out=out[..., 0])  # 2^127 = 1
    np.add(high & _TOP, out[..., 0] < over, out=out[..., 1])
    return out


def weighted(rows: Residues, weights: Residues) -> Residues:
    """The sums over j of rows[i, j] weights[t, j], as [t, i].

    >>> rows, weights = from_ints(range(6)).reshape(2, 3, 2), from_ints([1, 10, -1]).reshape(1, 3, 2)
    >>> to_ints(weighted(rows, weights)[0])
    [8, 38]
    """
    (count, width, _), times = rows.shape, len(weights)
    check(width < 1 << 18, "numbers in a row", "below 2**18", width)  # 8 x 2^18 x 2^32 = 2^53
    left = _digits(rows).transpose(0, 2, 1).astype(np.float64).reshape(count * 8, width)
    right = _digits(weights).transpose(1, 0, 2).astype(np.float64).reshape(width, times * 8)
    products = (left @ right).reshape(count, 8, times, 8)
    out = np.zeros((times, count, 20), "<u2")
    carry = np.zeros((times, count), np.int64)
    for place in range(20):  # the digits of the whole product, base 2^16
        for i in range(max(0, place - 7), min(place, 7) + 1):
            carry += products[:, i, :, place - i].T.astype(np.int64)
        out[:, :, place] = carry & 0xFFFF
        carry >>= 16
    return _folded(out.view("<u8").astype(np.uint64))


def signed_sums(signs: NDArray[np.float64], numbers: Residues) -> NDArray[np.int64]:
    """Sums of at most 2^16 numbers with signs [t, numbers] of -1, 0 and 1, in four digits of 32 bits, [t, 4].

    >>> found = signed_sums(np.array([[1.0, -1.0]]), from_ints([7, 5]))
    >>> from_digits(found)
    [2]
    """
    check(len(numbers) <= 1 << 16, "numbers", "at most 2**16 at a time", len(numbers))
    digits = np.ascontiguousarray(numbers.astype("<u8")).view("<u4").astype(np.float64)
    return (signs @ digits).astype(np.int64)


def from_digits(digits: NDArray[np.int64]) -> list[int]:
    """Rows of signed digits, base 2^32, as numbers below the prime.

    >>> from_digits(np.array([[1, -1, 0, 0]])) == [(1 - 2**32) % PRIME]
    True
    """
    return [sum(int(one) << 32 * place for place, one in enumerate(row)) % PRIME for row in digits]


def _digits(numbers: Residues) -> NDArray[Any]:
    """Eight digits base 2^16 for each number, in a new last axis."""
    return np.ascontiguousarray(numbers.astype("<u8")).view("<u2")


def _folded(words: NDArray[np.uint64]) -> Residues:
    """Five words as one number modulo the prime: bits from 127 on are added below."""
    first = np.stack([words[..., 0], words[..., 1] & _TOP], axis=-1)
    rest = [(words[..., i] >> _LAST) | (words[..., i + 1] << _ONE) for i in (1, 2, 3)]
    second = np.stack([rest[0], rest[1] & _TOP], axis=-1)
    third = np.stack([(rest[1] >> _LAST) | (rest[2] << _ONE), np.zeros_like(rest[0])], axis=-1)
    return add(add(first, second), third)
