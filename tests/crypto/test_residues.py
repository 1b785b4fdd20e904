"""Numbers modulo 2^192 - 237 against Python's own, at random and at the ends."""

from __future__ import annotations

import random
from itertools import chain

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.crypto.residues import (
    PRIME,
    WIDEST,
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

ENDS = [0, 1, 236, 237, 2**63, 2**64 - 1, 2**64, 2**128 - 1, 2**128, 2**191, PRIME - 237, PRIME - 1]
ANY = st.sampled_from([*ENDS, PRIME, PRIME + 1, 2**192 - 1]) | st.integers(0, 2**192 - 1)
NUMBERS = st.lists(ANY, min_size=1, max_size=12)


def words(numbers: list[int]) -> np.ndarray:
    """Also those that no reduced number has."""
    return from_bytes(b"".join(one.to_bytes(24, "little") for one in numbers))


@given(st.data(), NUMBERS)
def test_sums_and_negatives_are_those_of_whole_numbers(data, a: list[int]) -> None:
    b = data.draw(st.lists(ANY, min_size=len(a), max_size=len(a)))
    found = to_ints(add(words(a), words(b)))
    assert found == [(x + y) % PRIME for x, y in zip(a, b)]
    assert to_ints(negative(words(a))) == [-x % PRIME for x in a]
    assert to_ints(from_bytes(to_bytes(words(a)))) == [x % PRIME for x in a] == to_ints(from_ints(a))


def test_the_modulus_is_a_prime() -> None:
    assert PRIME == 2**192 - 237
    assert gmpy2.is_prime(PRIME, 50)
    assert not gmpy2.is_prime(PRIME + 2, 50)


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=9))
def test_signed_numbers(numbers: list[int]) -> None:
    assert to_ints(from_signed(np.array(numbers))) == [x % PRIME for x in numbers]


@pytest.mark.parametrize(("count", "width", "times"), [(1, 1, 1), (3, 66, 2), (5, 700, 1)])
def test_weighted_sums_are_exact(count: int, width: int, times: int) -> None:
    draw = random.Random(count)
    for one in (lambda: draw.randrange(PRIME), lambda: 2**192 - 1, lambda: draw.choice(ENDS)):
        rows = [[one() for _ in range(width)] for _ in range(count)]
        weights = [[one() for _ in range(width)] for _ in range(times)]
        found = weighted(
            words([*chain(*rows)]).reshape(count, width, 3),
            words([*chain(*weights)]).reshape(times, width, 3),
        )
        for t in range(times):
            slow = [sum(a * b for a, b in zip(row, weights[t])) % PRIME for row in rows]
            assert to_ints(found[t]) == slow


def test_weighted_sums_are_exact_at_the_widest() -> None:
    width = WIDEST - 1
    rows = np.broadcast_to(words([2**192 - 1]), (width, 3))[None]
    assert to_ints(weighted(rows, rows)[0]) == [width * 236**2 % PRIME]
    with pytest.raises(ValueError, match="numbers in a row must be below 1048576, got 1048576"):
        weighted(*np.broadcast_to(np.zeros(3, np.uint64), (2, 1, WIDEST, 3)))


def test_signed_sums_are_exact() -> None:
    draw, count = random.Random(1), 1 << 16
    numbers = [draw.choice((2**192 - 1, draw.randrange(PRIME))) for _ in range(count)]
    signs = np.array([[1.0] * count, [-1.0] * count, draw.choices((-1.0, 0.0, 1.0), k=count)])
    found = from_digits(signed_sums(signs, words(numbers)))
    assert found == [sum(int(s) * x for s, x in zip(row, numbers)) % PRIME for row in signs]
    with pytest.raises(ValueError, match="numbers must be at most"):
        signed_sums(np.ones((1, count + 1)), np.zeros((count + 1, 3), np.uint64))


def test_a_key_gives_the_same_numbers_again_and_all_bits_are_in_use() -> None:
    numbers = random_residues(b"k" * 32, 2000)
    assert np.array_equal(numbers, random_residues(b"k" * 32, 2000))
    assert not np.array_equal(numbers, random_residues(b"l" * 32, 2000))
    bits = np.unpackbits(np.frombuffer(to_bytes(numbers), np.uint8).reshape(2000, 24), axis=1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5.5 * 0.5 / np.sqrt(2000)


def test_bytes_of_a_wrong_length_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 24 bytes long each, got 15"):
        from_bytes(bytes(15))
