"""Whole numbers modulo the prime p = 2^192 - 237, many at a time: an array [..., 3] of words, lowest first.

For vectors that are split into two random-looking halves, and for linear checks on those halves. Any three
words stand for a number modulo p; :func:`to_ints` gives the one below p. Products of vectors are matrix
products of their digits in floating point, small enough to be exact; 2^192 = 237 brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check
from veilrec.crypto.masks import expand

_OVER = 237
PRIME = 2**192 - _OVER
BYTES = 24
_WORDS, _DIGITS = 3, 12  # of 64 and of 16 bits

Residues = NDArray[np.uint64]


def random_residues(key: bytes, count: int) -> Residues:
    """``count`` pseudo-random numbers from a key.

    >>> random_residues(bytes(32), 2).tobytes() == expand(bytes(32), 48, np.uint8).tobytes()
    True
    """
    return expand(key, _WORDS * count, np.uint64).astype(np.uint64, copy=False).reshape(count, _WORDS)


def from_signed(numbers: NDArray[np.int64]) -> Residues:
    """Signed whole numbers above -2^63.

    >>> to_ints(from_signed(np.array([-1]))) == [PRIME - 1]
    True
    """
    out = np.zeros((*numbers.shape, _WORDS), np.uint64)
    out[..., 0] = np.abs(numbers)
    below = numbers < 0
    out[below] = negative(out[below])
    return out


def from_ints(numbers: Sequence[int]) -> Residues:
    """Any whole numbers.

    >>> to_ints(from_ints([5, -1, PRIME + 7]))[::2]
    [5, 7]
    """
    return from_bytes(b"".join([(one % PRIME).to_bytes(BYTES, "little") for one in numbers]))


def to_ints(numbers: Residues) -> list[int]:
    """The numbers of a vector, each below the prime.

    >>> to_ints(from_ints([3, 4]))
    [3, 4]
    """
    raw = to_bytes(numbers)
    return [int.from_bytes(raw[at : at + BYTES], "little") % PRIME for at in range(0, len(raw), BYTES)]


def to_bytes(numbers: Residues) -> bytes:
    """Twenty-four bytes for each number.

    >>> to_bytes(from_ints([258])).hex()
    '020100000000000000000000000000000000000000000000'
    """
    return numbers.astype("<u8", copy=False).tobytes()


def from_bytes(raw: bytes) -> Residues:
    """Read what :func:`to_bytes` wrote.

    >>> from_bytes(bytes(23))
    Traceback (most recent call last):
        ...
    ValueError: numbers must be 24 bytes long each, got 23. The bytes were cut.
    """
    check(len(raw) % BYTES == 0, "numbers", f"{BYTES} bytes long each", len(raw), "The bytes were cut.")
    return np.frombuffer(raw, "<u8").astype(np.uint64, copy=False).reshape(-1, _WORDS)


def negative(a: Residues) -> Residues:
    """What gives 0 when it is added: of all bits the other ones are 2^192 - 1 - a = 236 - a.

    >>> to_ints(add(negative(from_ints([5])), from_ints([5])))
    [0]
    """
    return add(~a, np.broadcast_to(_MINUS, a.shape))


def add(a: Residues, b: Residues) -> Residues:
    """The sum, number by number.

    >>> to_ints(add(from_ints([PRIME - 1]), from_ints([3])))
    [2]
    """
    out = np.empty(a.shape, np.uint64)
    carry: Any = None
    for word in range(_WORDS):
        first, total = a[..., word], out[..., word]
        np.add(first, b[..., word], out=total)
        over = total < first
        if carry is not None:
            np.add(total, carry, out=total)
            over |= carry & (total == 0)
        carry = over
    extra = carry * np.uint64(_OVER)  # 2^192 = 237
    while extra.any():
        for word in range(_WORDS):
            total = out[..., word]
            np.add(total, extra, out=total)
            extra = (total < extra).astype(np.uint64)
        extra *= np.uint64(_OVER)
    return out


def weighted(rows: Residues, weights: Residues) -> Residues:
    """The sums over j of rows[i, j] weights[t, j], as [t, i].

    >>> rows, weights = from_ints(range(6)).reshape(2, 3, 3), from_ints([1, 10, -1]).reshape(1, 3, 3)
    >>> to_ints(weighted(rows, weights)[0])
    [8, 38]
    """
    (count, width, _), times = rows.shape, len(weights)
    check(width < WIDEST, "numbers in a row", f"below {WIDEST}", width)  # 2^20 x 2^32 < 2^53
    left = np.ascontiguousarray(_digits(rows).transpose(0, 2, 1), np.float64).reshape(-1, width)
    right = np.ascontiguousarray(_digits(weights).transpose(1, 0, 2), np.float64).reshape(width, -1)
    products = (left @ right).reshape(count, _DIGITS, times, _DIGITS).transpose(1, 3, 2, 0)
    digits = np.zeros((2 * _DIGITS + 4, times, count), np.int64)  # of the whole product, not yet below 2^16
    for i in range(_DIGITS):
        digits[i : i + _DIGITS] += products[i].astype(np.int64)
    while True:
        for place in range(len(digits) - 1):
            digits[place + 1] += digits[place] >> 16
            digits[place] &= 0xFFFF
        above = digits[_DIGITS:].copy()
        if not above.any():
            break
        digits[_DIGITS:] = 0
        digits[: len(above)] += _OVER * above  # 2^192 = 237
    out = np.ascontiguousarray(digits[:_DIGITS].transpose(1, 2, 0), "<u2")
    return out.view("<u8").astype(np.uint64, copy=False)


def signed_sums(signs: NDArray[np.float64], numbers: Residues) -> NDArray[np.int64]:
    """Sums of at most 2^16 numbers with signs [t, numbers] of -1, 0 and 1, in six digits of 32 bits, [t, 6].

    >>> found = signed_sums(np.array([[1.0, -1.0]]), from_ints([7, 5]))
    >>> from_digits(found)
    [2]
    """
    digits = numbers.astype("<u8", copy=False).view("<u4").astype(np.float64).reshape(-1, _DIGITS // 2)
    check(len(digits) <= 1 << 16, "numbers", "at most 2**16 at a time", len(digits))
    return (signs @ digits).astype(np.int64)


def from_digits(digits: NDArray[np.int64]) -> list[int]:
    """Rows of signed digits, base 2^32, as numbers below the prime.

    >>> from_digits(np.array([[1, -1, 0, 0]])) == [(1 - 2**32) % PRIME]
    True
    """
    return [sum(int(one) << 32 * place for place, one in enumerate(row)) % PRIME for row in digits]


def _digits(numbers: Residues) -> NDArray[Any]:
    """Twelve digits base 2^16 for each number, in the last axis."""
    return numbers.astype("<u8", copy=False).view("<u2")


WIDEST = 1 << 20
_MINUS = from_ints([1 - _OVER])[0]
