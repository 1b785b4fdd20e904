"""Numbers modulo 2^127 - 1 against Python's own, at random and at the ends."""

from __future__ import annotations

import random
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.crypto.residues import (
    PRIME,
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

ENDS = [0, 1, 2, 2**63, 2**64 - 1, 2**64, 2**126, PRIME - 2, PRIME - 1]
NUMBERS = st.lists(st.sampled_from(ENDS) | st.integers(0, PRIME - 1), min_size=1, max_size=12)


@given(st.data(), NUMBERS)
def test_sums_and_negatives_are_those_of_whole_numbers(data, a: list[int]) -> None:
    b = data.draw(st.lists(st.sampled_from(ENDS) | st.integers(0, PRIME), min_size=len(a), max_size=len(a)))
    found = to_ints(add(from_ints(a), from_ints(b)))
    assert found == [(x + y) % PRIME for x, y in zip(a, b)]
    assert to_ints(negative(from_ints(a))) == [-x % PRIME for x in a]
    assert to_ints(from_bytes(to_bytes(from_ints(a)))) == a


def test_the_prime_stands_for_zero() -> None:
    zero = negative(from_ints([0]))
    assert to_bytes(zero) != to_bytes(from_ints([0]))
    assert to_ints(zero) == [0]
    assert to_ints(add(zero, zero)) == [0]
    assert to_ints(add(zero, from_ints([7]))) == [7]


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=9))
def test_signed_numbers(numbers: list[int]) -> None:
    assert to_ints(from_signed(np.array(numbers))) == [x % PRIME for x in numbers]


@pytest.mark.parametrize(("count", "width", "times"), [(1, 1, 1), (3, 66, 2), (5, 700, 1)])
def test_weighted_sums_are_exact(count: int, width: int, times: int) -> None:
    draw = random.Random(count)
    for one in (lambda: draw.randrange(PRIME), lambda: PRIME - 1, lambda: draw.choice(ENDS)):
        rows = [[one() for _ in range(width)] for _ in range(count)]
        weights = [[one() for _ in range(width)] for _ in range(times)]
        found = weighted(
            from_ints([*chain(*rows)]).reshape(count, width, 2),
            from_ints([*chain(*weights)]).reshape(times, width, 2),
        )
        for t in range(times):
            slow = [sum(a * b for a, b in zip(row, weights[t])) % PRIME for row in rows]
            assert to_ints(found[t]) == slow


def test_weighted_sums_are_exact_at_the_widest() -> None:
    width = (1 << 18) - 1
    rows = np.broadcast_to(from_ints([PRIME - 1]), (width, 2))[None]
    assert to_ints(weighted(rows, rows)[0]) == [width % PRIME]  # (-1) (-1), so often
    with pytest.raises(ValueError, match=r"numbers in a row must be below 2\*\*18, got 262144"):
        weighted(np.zeros((1, 1 << 18, 2), np.uint64), np.zeros((1, 1 << 18, 2), np.uint64))


def test_signed_sums_are_exact() -> None:
    draw, count = random.Random(1), 1 << 16
    numbers = [draw.choice((PRIME - 1, draw.randrange(PRIME))) for _ in range(count)]
    signs = np.array([[1.0] * count, [-1.0] * count, draw.choices((-1.0, 0.0, 1.0), k=count)])
    found = from_digits(signed_sums(signs, from_ints(numbers)))
    assert found == [sum(int(s) * x for s, x in zip(row, numbers)) % PRIME for row in signs]
    with pytest.raises(ValueError, match="numbers must be at most"):
        signed_sums(np.ones((1, count + 1)), np.zeros((count + 1, 2), np.uint64))


def test_a_key_gives_the_same_numbers_again_and_all_bits_are_in_use() -> None:
    numbers = random_residues(b"k" * 32, 2000)
    assert np.array_equal(numbers, random_residues(b"k" * 32, 2000))
    assert not np.array_equal(numbers, random_residues(b"l" * 32, 2000))
    bits = np.unpackbits(np.frombuffer(to_bytes(numbers), np.uint8).reshape(2000, 16), axis=1)
    share = bits.mean(axis=0)
    assert share[120] == 0.0  # the highest bit of the last byte
    rest = np.delete(share, 120)
    assert np.abs(rest - 0.5).max() < 5.5 * 0.5 / np.sqrt(2000)


def test_bytes_of_a_wrong_length_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 16 bytes long each, got 15"):
        from_bytes(bytes(15))
