"""A proof, to two parties who do not collude, that a hidden vector of whole numbers is no longer than agreed.

The vector x of a client is split into two halves that look random, x = A + B modulo the prime p of
:mod:`residues`; the aggregator has A, the reader B. Both apply the same linear functions to their halves, and
the reader puts the results together. What is shown is |x|^2 <= N^2, exactly, as follows.

Square. The client appends four numbers whose squares add up to N^2 - |x|^2 (Lagrange), so that the squares
of all add up to N^2. It lays them out in rows of k, appends two random numbers a, b to every row r, and adds
a half of the coefficients of

    h(X) = sum over r of f_r(X) g_r(X),
    f_r(X) = sum over j of x_rj X^j + a_r X^k,      g_r(X) = sum over j of x_rj X^(k-1-j) + b_r X^k

to both halves. The coefficient of X^(k-1) is the sum of all squares, which must be N^2 and is not sent. The
aggregator draws a point and sends its halves of all f_r, g_r and of h at this point. They are hidden by a and
b; the reader checks the equation. If the squares do not add up to N^2 modulo p, the two sides are different
polynomials of degree 2k, and equal at 2k points of p at most.

Size. That they add up over the integers follows if the numbers are small. The aggregator draws ``SIGNS``
times a sign for every number (1 and -1 with probability 1/4, else 0); the sum of the signed numbers must be
below 2^s in size. The halves of such a sum are, but for the sign, the same from bit s on, or else one carries
into the other: a hash of those bits is compared. A number of 2^(s+1) or more in size passes each time with
probability 1/2 at most: whatever the others add up to, it passes with sign 0 or with signs other than 0, not
with both. s is such that all numbers below 2^(s+1) have squares that add up to less than p. So somebody who
sends a longer vector passes with a probability of about 2^-64.

What an honest vector shows. The squares add up to N^2 whatever the vector is, so a signed sum has a root mean
square of N / sqrt(2), and one of them carries, which refuses the client and tells the reader a little of that
sum, with a probability below SIGNS N / 2^s. The constructor refuses an N for which that is above 2^-48.
Nothing else is shown, as long as there is one point for a vector: two would tell the reader something of x.
The client must not know point and signs before it has sent its half; they are never sent to clients.

References. Corrigan-Gibbs and Boneh, "Prio", NSDI 2017 (halves, polynomials, a point); Boneh et al., "Zero-
knowledge proofs on secret-shared data via fully linear PCPs", CRYPTO 2019; Gentry, Halevi and Lyubashevsky,
"Practical non-interactive publicly verifiable secret sharing", EUROCRYPT 2022, and Bell et al., "ACORN",
USENIX Security 2023 (random signs, then exact squares modulo p).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_count
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.four_squares import four_squares
from veilrec.crypto.masks import expand
from veilrec.crypto.residues import (
    BYTES,
    PRIME,
    Residues,
    add,
    from_bytes,
    from_digits,
    from_ints,
    from_signed,
    negative,
    random_residues,
    signed_sums,
    to_bytes,
    to_ints,
    weighted,
)
from veilrec.crypto.shown import Shown

SIGNS = 64
_K = 64
_SPLIT = 14  # bits of the lower part of a number whose products are added in floating point
_BLOCK = 256  # rows for which signs are drawn at a time


class Evidence(NamedTuple):
    """What one party's half of a vector and of the proof gives at the point and with the signs.

    >>> Evidence([1], np.zeros((2, 4, 3), np.uint64), 5).rest
    5
    """

    sums: list[int]  # of the signed numbers
    rows: Residues  # [2, rows, 3]: f_r and g_r at the point
    rest: int  # h at the point, without the known coefficient


@dataclass(frozen=True)
class LengthProof:
    """What both parties agree on: ``length`` numbers, of which the squares add up to ``most`` ** 2 or less.

    >>> import secrets
    >>> proof = LengthProof(length=3, most=7)
    >>> coins, key = secrets.token_bytes(32), secrets.token_bytes(32)
    >>> half, other = proof.half(np.array([2, -3, 6]), key), proof.other_half(key)
    >>> (told,), (known,) = proof.evidence([half], coins), proof.evidence([other], coins)
    >>> proof.holds(proof.write(told), known, coins)
    True
    """

    length: int
    most: int

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("most", self.most)
        remedy = "Take a larger step."
        check(self.most <= self.limit, "norm / step", f"at most {self.limit}", self.most, remedy)

    @property
    def limit(self) -> int:
        """The largest ``most`` for which honest clients pass all but always."""
        return 1 << (self._carry - 54)  # SIGNS is 2^6

    @property
    def _carry(self) -> int:  # s
        return (PRIME.bit_length() - (self._rows * _K).bit_length()) // 2 - 1

    @property
    def _rows(self) -> int:
        return -(-(self.length + 4) // _K)

    @property
    def size(self) -> int:
        """How many numbers modulo the prime one half has."""
        return self._rows * (_K + 2) + 2 * _K

    @property
    def told_bytes(self) -> int:
        """How long the evidence is that one party tells the other."""
        return 32 + (2 * self._rows + 1) * BYTES

    # -- the client -----------------------------------------------------------------------------------

    def half(self, numbers: Integers, key: bytes) -> Residues:
        """The aggregator's half of a vector and its proof; the reader has ``key``."""
        check_length(numbers, self.most)
        rest = four_squares(self.most**2 - squares(numbers))
        x = np.zeros((self._rows, _K), np.int64)
        x.reshape(-1)[: self.length] = numbers
        x.reshape(-1)[self.length : self.length + 4] = rest
        return self.half_of(x, key)

    def half_of(self, x: NDArray[np.int64], key: bytes) -> Residues:
        """The half for rows that are filled up to ``most``; far beyond it, coefficients are not exact."""
        masks = random_residues(secrets.token_bytes(32), 2 * self._rows).reshape(self._rows, 2, -1)
        laid = np.concatenate([from_signed(x), masks], axis=1).reshape(2 * self._rows + x.size, -1)
        both = np.concatenate([laid, from_ints(_coefficients(x, masks))])
        return add(both, negative(self.other_half(key)))

    # -- both parties ---------------------------------------------------------------------------------

    def other_half(self, key: bytes) -> Residues:
        """The reader's half."""
        return random_residues(key, self.size)

    def vector(self, half: Residues) -> Residues:
        """The half of the client's vector alone, which may be added up over clients."""
        return self._laid(half)[:, :_K].reshape(self._rows * _K, -1)[: self.length]

    def evidence(self, halves: Sequence[Residues], coins: bytes) -> list[Evidence]:
        """What each half gives, at the point and with the signs that ``coins`` (32 bytes) stand for."""
        powers = self._powers(coins)
        ups, downs = powers[:_K], powers[_K - 1 :: -1]
        weights = from_ints([*ups, powers[_K], 0, *downs, 0, powers[_K]]).reshape(2, _K + 2, -1)
        sums, found = self._sums(halves, coins), []
        for one, half in zip(sums, halves):
            coefficients = to_ints(half[-2 * _K :])
            told = [power for place, power in enumerate(powers) if place != _K - 1]
            rest = sum(a * b for a, b in zip(coefficients, told)) % PRIME
            found.append(Evidence(from_digits(one), weighted(self._laid(half), weights), rest))
        return found

    def write(self, evidence: Evidence) -> bytes:
        """What the aggregator tells the reader of its evidence."""
        upper = [one >> self._carry for one in evidence.sums]
        return _digest(upper) + to_bytes(evidence.rows) + evidence.rest.to_bytes(BYTES, "little")

    def holds(self, told: bytes, known: Evidence, coins: bytes) -> bool:
        """Whether what the aggregator told and the reader's own evidence fit together."""
        check(len(told) == self.told_bytes, "evidence", f"{self.told_bytes} bytes long", len(told))
        upper = [-one % PRIME >> self._carry for one in known.sums]
        halves = from_bytes(told[32:-BYTES]).reshape(known.rows.shape)
        f, g = (to_ints(one) for one in add(halves, known.rows))
        right = int.from_bytes(told[-BYTES:], "little") + known.rest
        right += self.most**2 * self._powers(coins)[_K - 1]
        left = sum(a * b for a, b in zip(f, g))
        return told[:32] == _digest(upper) and (left - right) % PRIME == 0

    def _laid(self, half: Residues) -> Residues:
        return half[: -2 * _K].reshape(self._rows, _K + 2, -1)

    def _powers(self, coins: bytes) -> list[int]:
        (point,) = to_ints(random_residues(_purpose(coins, b"point"), 1))
        powers = [1]
        for _ in range(2 * _K):
            powers.append(powers[-1] * (point or 1) % PRIME)
        return powers

    def _sums(self, halves: Sequence[Residues], coins: bytes) -> NDArray[np.int64]:
        """Signed sums of all halves in digits, [halves, SIGNS, 6]; the signs are drawn block by block."""
        total = np.zeros((len(halves), SIGNS, 6), np.int64)
        for start in range(0, self._rows, _BLOCK):
            count = min(_BLOCK, self._rows - start) * _K
            key = _purpose(coins, b"signs %d" % start)
            bits = np.unpackbits(expand(key, 2 * SIGNS * count // 8, np.uint8)).reshape(2, SIGNS, count)
            signs = bits[0].astype(np.float64) - bits[1]
            for place, half in enumerate(halves):
                total[place] += signed_sums(signs, self._laid(half)[start : start + _BLOCK, :_K])
        return total


def check_length(numbers: Integers, most: int, step: float = 1.0) -> None:
    """Refuse a vector of whole numbers that is longer than ``most``; the words count in ``step``.

    >>> check_length(np.array([3, 4]), 5)
    >>> check_length(np.array([4, 4]), 5, step=0.5)
    Traceback (most recent call last):
        ...
    ValueError: length of a share must be at most 2.5, got 2.828. Clip it first.
    """
    total = squares(numbers)
    length = Shown(f"{sqrt(total) * step:.4g}")
    check(total <= most**2, "length of a share", f"at most {most * step:g}", length, "Clip it first.")


def squares(numbers: Integers) -> int:
    """The sum of the squares of whole numbers below 2^53, however large it is.

    >>> squares(np.array([2**52, -(2**52)])) == 2**105
    True
    """
    low, high = numbers & ((1 << 26) - 1), numbers >> 26
    parts = ((high, high, 52), (high, low, 27), (low, low, 0))
    return sum(_products(a, b) << shift for a, b, shift in parts)


def _products(a: Integers, b: Integers) -> int:
    """The sum of products below 2^54, in pieces of 2^8 that 63 bits hold."""
    return sum(np.add.reduceat(a * b, np.arange(0, len(a), 256)).tolist())


def _coefficients(x: NDArray[np.int64], masks: Residues) -> list[int]:
    """The coefficients of h, from that of 1 to that of X^(2k), without that of X^(k-1)."""
    low = (x & ((1 << _SPLIT) - 1)).astype(np.float64)
    high = (x >> _SPLIT).astype(np.float64)
    mixed = high.T @ low
    grams = ((high.T @ high, 2 * _SPLIT), (mixed + mixed.T, _SPLIT), (low.T @ low, 0))
    h = [0] * (2 * _K + 1)
    for place in range(2 * _K - 1):
        h[place] = sum(int(np.trace(gram, _K - 1 - place)) << shift for gram, shift in grams)
    digits = masks.astype("<u8", copy=False).view("<u2").astype(np.float64)  # [rows, 2, 12]
    parts = [(np.tensordot(digits, part, (0, 0)), shift) for part, shift in ((high, _SPLIT), (low, 0))]
    for j in range(_K):
        crossed = [
            sum(int(part[which, i, j]) << (16 * i + shift) for part, shift in parts for i in range(12))
            for which in range(2)
        ]
        h[2 * _K - 1 - j] += crossed[0]  # a_r X^k meets x_rj X^(k-1-j)
        h[_K + j] += crossed[1]
    h[2 * _K] = sum(a * b for a, b in zip(to_ints(masks[:, 0]), to_ints(masks[:, 1])))
    return h[: _K - 1] + h[_K:]


def _purpose(coins: bytes, purpose: bytes) -> bytes:
    check(len(coins) == 32, "coins", "32 bytes long", len(coins))
    return hashlib.sha256(coins + purpose).digest()


def _digest(numbers: Sequence[int]) -> bytes:
    return hashlib.sha256(b"".join(one.to_bytes(BYTES, "little") for one in numbers)).digest()
