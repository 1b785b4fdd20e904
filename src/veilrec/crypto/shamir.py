"""Shamir's secret sharing of 32 bytes: any ``threshold`` of the shares give the secret, fewer tell nothing.

The secret is the constant term of a random polynomial of degree threshold - 1 over the integers modulo the
prime 2^256 + 297; share x is its value at x = 1, 2, ... (Shamir, "How to share a secret", CACM 1979). A
share that was changed gives another secret: :func:`join` cannot see that, :func:`recover` can.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from veilrec.core import check, check_count

PRIME = 2**256 + 297
SHARE_BYTES = 33
TRIES = 256


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares 1 to ``count`` of a secret of 32 bytes.

    >>> shares = split(bytes(range(32)), threshold=2, count=3)
    >>> join({1: shares[0], 3: shares[2]}, 2) == bytes(range(32))
    True
    """
    check(len(secret) == 32, "secret", "32 bytes long", len(secret))
    check_count("threshold", threshold)
    check_count("count", count, threshold)
    polynomial = [secrets.randbelow(PRIME) for _ in range(threshold - 1)] + [int.from_bytes(secret)]
    shares = []
    for x in range(1, count + 1):
        value = 0
        for coefficient in polynomial:
            value = (value * x + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES))
    return shares


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from ``threshold`` of the shares by their numbers.

    >>> join({1: bytes(33)}, 2)
    Traceback (most recent call last):
        ...
    ValueError: shares must be at least 2, got 1. Too many clients dropped out.
    """
    _check_enough(shares, threshold)
    secret = _value({x: int.from_bytes(shares[x]) for x in sorted(shares)[:threshold]}, 0)
    check(secret < 1 << 256, "secret", "of 256 bits", "a larger number", "A share was changed.")
    return secret.to_bytes(32)


def recover(
    shares: Mapping[int, bytes], threshold: int, good: Callable[[bytes], bool]
) -> tuple[bytes, list[int]]:
    """The one secret that ``good`` accepts, from shares of which some are wrong, and the numbers of those.

    The first ``threshold`` of the n shares are tried first, in the order given, and then other subsets: all
    if there are at most ``TRIES``, else enough to leave out each share once, and ``TRIES`` at random. So one
    wrong share is always survived if n > threshold, three all but surely if n is near twice the threshold,
    more with luck.

    Wrong are those that are not on the polynomial of the subset that succeeded. They are told only if they
    are at most (n - threshold + 1) / 2: then nobody is blamed falsely unless more than so many were changed.
    Nothing is told if the first subset succeeds: the other shares are not looked at.

    >>> shares = dict(enumerate(split(bytes(range(32)), threshold=2, count=4), 1))
    >>> shares[1] = bytes(33)
    >>> secret, wrong = recover(shares, 2, lambda found: found == bytes(range(32)))
    >>> secret == bytes(range(32)), wrong
    (True, [1])
    """
    _check_enough(shares, threshold)
    for number, chosen in enumerate(_subsets(list(shares), threshold)):
        try:
            secret = join({x: shares[x] for x in chosen}, threshold)
        except ValueError:
            continue
        if good(secret):
            points = {x: int.from_bytes(shares[x]) for x in chosen}
            others = sorted(set(shares) - set(chosen)) if number else []
            wrong = [x for x in others if _value(points, x) != int.from_bytes(shares[x])]
            return secret, wrong if 2 * len(wrong) <= len(shares) - threshold + 1 else []
    raise ValueError("secret must be the one promised, got others. Too many shares are wrong.")


def _check_enough(shares: Mapping[int, bytes], threshold: int) -> None:
    remedy = "Too many clients dropped out."
    check(len(shares) >= threshold, "shares", f"at least {threshold}", len(shares), remedy)


def _subsets(numbers: list[int], size: int) -> Iterator[Sequence[int]]:
    spare = len(numbers) - size
    if comb(len(numbers), size) <= TRIES:
        yield from combinations(numbers, size)
        return
    for start in range(size, -spare, -spare):  # blocks that are left out, from the last to the first
        cut = max(start, 0)
        yield numbers[:cut] + numbers[cut + spare :]
    for _ in range(TRIES):
        yield secrets.SystemRandom().sample(numbers, size)


def _value(points: Mapping[int, int], at: int) -> int:
    """The polynomial through the points, at a place (Lagrange)."""
    total = 0
    for x, value in points.items():
        above = below = 1
        for other in points:
            if other != x:
                above, below = above * (other - at) % PRIME, below * (other - x) % PRIME
        total += value * above * pow(below, -1, PRIME)
    return total % PRIME
