"""Shamir's secret sharing of 32 bytes: any ``threshold`` of the shares give the secret, fewer tell nothing.

The secret is the constant term of a random polynomial of degree threshold - 1 over the integers modulo the
prime 2^256 + 297; share x is its value at x = 1, 2, ... (Shamir, "How to share a secret", CACM 1979). A
share that was changed gives another secret, and nothing here can see that: check the secret by its hash.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from veilrec.core import check, check_count

PRIME = 2**256 + 297
SHARE_BYTES = 33


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
    remedy = "Too many clients dropped out."
    check(len(shares) >= threshold, "shares", f"at least {threshold}", len(shares), remedy)
    points = {x: int.from_bytes(shares[x]) for x in sorted(shares)[:threshold]}
    total = 0
    for x, value in points.items():
        above = below = 1
        for other in points:
            if other != x:
                above, below = above * other % PRIME, below * (other - x) % PRIME
        total += value * above * pow(below, -1, PRIME)
    secret = total % PRIME
    check(secret < 1 << 256, "secret", "of 256 bits", "a larger number", "A share was changed.")
    return secret.to_bytes(32)
