"""Every whole number is a sum of four squares (Lagrange); here they are found."""

from __future__ import annotations

import secrets
from math import isqrt

from veilrec.core import check_count


def four_squares(number: int) -> tuple[int, int, int, int]:
    """Four whole numbers whose squares add up to ``number``, drawn at random (Rabin and Shallit 1986).

    Two are drawn so that what is left is 1 modulo 4. If it is a prime it is a sum of two squares, which the
    Euclidean algorithm finds; whether it is one is not tested, but whether the squares add up.

    >>> sum(x * x for x in four_squares(2**60 - 59)) == 2**60 - 59
    True
    """
    check_count("number", number, 0)
    scale = 1
    while number and number % 4 == 0:
        number, scale = number // 4, 2 * scale
    odd = number % 4 - 1  # how many of the first two are odd
    most = isqrt(number)
    while True:
        a, b = (2 * secrets.randbelow(most // 2 + 1) + (odd > place) for place in range(2))
        pair = _two_squares(number - a * a - b * b)
        if pair is not None:
            return scale * a, scale * b, scale * pair[0], scale * pair[1]


def _two_squares(number: int) -> tuple[int, int] | None:
    if number < 2:
        return (0, number) if number >= 0 else None
    root = pow(2 + secrets.randbelow(number), (number - 1) // 4, number)  # a root of -1 for half of all bases
    high, low = number, root
    while low * low > number:
        high, low = low, high % low
    other = isqrt(number - low * low)
    return (low, other) if low * low + other * other == number else None
