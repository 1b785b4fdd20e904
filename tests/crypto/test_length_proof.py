"""Proofs of length: who is within the length passes, who is not does not, and nobody learns more.

The slow oracle is arithmetic with Python's whole numbers, straight from the head of ``length_proof.py``.
"""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.core import stream
from veilrec.crypto import LengthProof
from veilrec.crypto.four_squares import four_squares
from veilrec.crypto.length_proof import SIGNS, squares
from veilrec.crypto.residues import PRIME, Residues, add, from_ints, from_signed, negative, to_ints

K = 64


def passes(proof: LengthProof, half: Residues, key: bytes, coins: bytes | None = None) -> bool:
    coins = secrets.token_bytes(32) if coins is None else coins
    (told,), (known,) = proof.evidence([half], coins), proof.evidence([proof.other_half(key)], coins)
    return proof.holds(proof.write(told), known, coins)


def laid(proof: LengthProof, numbers: list[int]) -> np.ndarray:
    """Rows of numbers as they stand in a half, filled up with zeros."""
    rows = (proof.length + 4 + K - 1) // K
    x = np.zeros(rows * K, np.int64)
    x[: len(numbers)] = numbers
    return x.reshape(rows, K)


# ---- what passes -------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 200), st.integers(1, 2**36))
def test_every_vector_within_the_length_passes(data, length: int, most: int) -> None:
    proof = LengthProof(length, min(most, LengthProof(length, 1).limit))
    raw = data.draw(st.lists(st.integers(-proof.most, proof.most), min_size=length, max_size=length))
    x = np.array(raw, np.int64)
    while squares(x) > proof.most**2:
        x //= 2
        x[x == -1] = 0
    key = secrets.token_bytes(32)
    assert passes(proof, proof.half(x, key), key)


@pytest.mark.parametrize("length", [1, 59, 60, 61, 124, 16380, 16381, 40_000])
def test_the_ends_pass(length: int) -> None:
    limit = LengthProof(length, 1).limit
    for most in (1, 2**14 - 1, 2**14, limit):
        proof, key = LengthProof(length, most), secrets.token_bytes(32)
        whole = np.zeros(length, np.int64)
        assert passes(proof, proof.half(whole, key), key)
        whole[-1] = -most
        assert passes(proof, proof.half(whole, key), key)
        whole[:] = -max(1, int(most / length**0.5)) if length <= most**2 else 0
        if squares(whole) <= most**2:
            assert passes(proof, proof.half(whole, key), key)


def test_honest_clients_are_never_refused() -> None:
    """Carries happen as often as the docstring says: at bit s, less than once in 2^48 times."""
    for length in (1, 40_000, 3_000_000):
        proof = LengthProof(length, LengthProof(length, 1).limit)
        assert SIGNS * proof.most / 2**proof._carry <= 2**-48
        assert (length + 4) * (2 ** (proof._carry + 1)) ** 2 < PRIME  # and no sum of squares wraps around
    low = LengthProof(300, 1 << 20)  # a twin whose carry bit stands so low that refusals can be counted
    random, carries, bits = stream(1, "carries"), 0, 24
    for _ in range(120):
        x = random.normal(size=300)
        numbers = np.rint(x / np.linalg.norm(x) * low.most * 0.999).astype(np.int64)
        key, coins = secrets.token_bytes(32), secrets.token_bytes(32)
        ((a, _, _),) = low.evidence([low.half(numbers, key)], coins)
        ((b, _, _),) = low.evidence([low.other_half(key)], coins)
        carries += sum(x >> bits != -y % PRIME >> bits for x, y in zip(a, b))
    expected = 120 * SIGNS * low.most / 2**bits * (2 / np.pi) ** 0.5 * 0.5**0.5
    assert expected / 1.5 < carries < expected * 1.5  # 270, give or take 17


# ---- what does not -----------------------------------------------------------------------------------------


def test_a_longer_vector_is_refused_by_honest_code() -> None:
    proof = LengthProof(2, 5)
    with pytest.raises(
        ValueError, match=r"length of a share must be at most 5, got 5\.099\. Clip it first\."
    ):
        proof.half(np.array([1, 5]), bytes(32))


@pytest.mark.parametrize("times", [0, 1, 2, 1000])
def test_a_vector_longer_by_one_does_not_pass(times: int) -> None:
    """Its best four numbers are tried: squares cannot be negative, so nothing can be taken off."""
    proof, key = LengthProof(100, 1000), secrets.token_bytes(32)
    for extra in ([], [1, 0, 0, 0], [0, 0, 0, -1]):
        x = laid(proof, [1000] + [0] * 99)
        assert passes(proof, proof.half_of(x, key), key)  # just long enough
        x.reshape(-1)[5 : 5 + len(extra)] = extra
        x.reshape(-1)[0] += times
        good = times == 0 and not extra
        assert passes(proof, proof.half_of(x, key), key) is good


def test_a_shorter_sum_of_squares_does_not_pass_either() -> None:
    proof, key = LengthProof(100, 1000), secrets.token_bytes(32)
    assert not passes(proof, proof.half_of(laid(proof, [999]), key), key)


def wrapped(proof: LengthProof, first: int) -> Residues:
    """Numbers whose squares add up to N^2 modulo the prime, though ``first`` is too long for that."""
    need = (proof.most**2 - first * first) % PRIME
    return from_ints([first, 0, 0, *four_squares(need)])


def half_of_residues(proof: LengthProof, numbers: Residues, key: bytes) -> Residues:
    """The half of a liar who shares numbers of any size, with true coefficients for them."""
    rows = (proof.length + 4 + K - 1) // K
    flat = [*to_ints(numbers), *[0] * (rows * K - len(numbers))]
    x = [flat[r * K : r * K + K] for r in range(rows)]
    masks = [(secrets.randbelow(PRIME), secrets.randbelow(PRIME)) for _ in range(rows)]
    h = slow_product(x, masks)
    whole = [one for row, pair in zip(x, masks) for one in (*row, *pair)] + h[: K - 1] + h[K:]
    return add(from_ints(whole), negative(proof.other_half(key)))


def slow_product(x: list[list[int]], masks: list[tuple[int, int]]) -> list[int]:
    """The coefficients of h, term by term."""
    h = [0] * (2 * K + 1)
    for row, (a, b) in zip(x, masks):
        f, g = [*row, a], [*reversed(row), b]
        for i, left in enumerate(f):
            if left:
                for j, right in enumerate(g):
                    h[i + j] += left * right
    return [one % PRIME for one in h]


@pytest.mark.parametrize("first", [1001, 2**40, 2**95, 2**96, PRIME // 2, PRIME - 2000])
def test_squares_that_add_up_modulo_the_prime_only_do_not_pass(first: int) -> None:
    """Without the signed sums they would: numbers around 2^96 have squares that wrap around."""
    proof = LengthProof(3, 1000)
    numbers = wrapped(proof, first)
    assert sum(x * x for x in to_ints(numbers)) % PRIME == 1000**2
    for _ in range(5):
        key, coins = secrets.token_bytes(32), secrets.token_bytes(32)
        half = half_of_residues(proof, numbers, key)
        assert not passes(proof, half, key, coins)
        (told,), (known,) = proof.evidence([half], coins), proof.evidence([proof.other_half(key)], coins)
        mended = proof.write(told._replace(sums=[-one % PRIME for one in known.sums]))
        assert proof.holds(mended, known, coins)  # the control: nothing but the sums is wrong


def test_a_large_number_fails_half_of_all_signed_sums() -> None:
    """Also one near half the prime, of which two are nothing: that is why signs may be 0."""
    proof, seen = LengthProof(200, 1 << 20), {}
    for name, big in {"large": 2**120, "half": (PRIME + 1) // 2}.items():
        numbers = from_ints([big, *[3] * 199])
        failed = 0
        for _ in range(30):
            key, coins = secrets.token_bytes(32), secrets.token_bytes(32)
            half = half_of_residues(proof, numbers, key)
            ((a, _, _),) = proof.evidence([half], coins)
            ((b, _, _),) = proof.evidence([proof.other_half(key)], coins)
            times = sum(x >> proof._carry != -y % PRIME >> proof._carry for x, y in zip(a, b))
            assert 0 < times < SIGNS  # each sum has signs of its own: else it passes every second time
            failed += times
        seen[name] = failed / (30 * SIGNS)
    for share in seen.values():
        assert abs(share - 0.5) < 5 * 0.5 / (30 * SIGNS) ** 0.5


@pytest.mark.parametrize("place", ["vector", "mask", "coefficient"])
def test_a_half_that_was_changed_does_not_pass(place: str) -> None:
    proof, key = LengthProof(100, 1000), secrets.token_bytes(32)
    half = proof.half(np.arange(-50, 50), key)
    for _ in range(3):
        changed = half.copy()
        at = {"vector": 3, "mask": K, "coefficient": -1}[place]
        changed[at] = add(changed[at], from_ints([1 + secrets.randbelow(PRIME - 1)])[0])
        assert not passes(proof, changed, key)
    assert not passes(proof, half, secrets.token_bytes(32))
    assert passes(proof, half, key)


# ---- the equation, slowly ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "most"), [(3, 40), (150, 2**30), (700, 2**20)])
def test_the_half_and_its_evidence_are_the_definition(length: int, most: int) -> None:
    proof, key, coins = LengthProof(length, most), secrets.token_bytes(32), secrets.token_bytes(32)
    random = stream(2, "slow", length)
    x = random.normal(size=length)
    numbers = np.rint(x / np.linalg.norm(x) * most * 0.9).astype(np.int64)
    half = proof.half(numbers, key)
    whole = to_ints(add(half, proof.other_half(key)))
    rows = (length + 4 + K - 1) // K
    table = [whole[r * (K + 2) : (r + 1) * (K + 2)] for r in range(rows)]
    x = [row[:K] for row in table]
    signed = [one if one < PRIME // 2 else one - PRIME for row in x for one in row]
    assert signed[:length] == numbers.tolist()
    assert sum(one * one for one in signed) == most**2
    assert not any(signed[length + 4 :])
    h = slow_product(x, [(row[K], row[K + 1]) for row in table])
    assert h[K - 1] == most**2
    assert whole[rows * (K + 2) :] == h[: K - 1] + h[K:]

    (told,), (known,) = proof.evidence([half], coins), proof.evidence([proof.other_half(key)], coins)
    both = to_ints(add(told.rows, known.rows).reshape(-1, 3))
    point = proof._powers(coins)[1]
    f = [sum(one * point**j for j, one in enumerate([*row[:K], row[K]])) % PRIME for row in table]
    g = [
        sum(one * point**j for j, one in enumerate([*row[K - 1 :: -1], row[K + 1]])) % PRIME for row in table
    ]
    assert both == f + g
    right = sum(one * point**j for j, one in enumerate(h) if j != K - 1) % PRIME
    assert (told.rest + known.rest) % PRIME == right
    sums = [(a + b) % PRIME for a, b in zip(told.sums, known.sums)]
    assert all(min(one, PRIME - one) < 2**proof._carry for one in sums)
    assert len(set(sums)) > SIGNS / 3


def test_signs_are_one_minus_one_and_mostly_zero() -> None:
    """Read off one number at a time: a vector with a single 1 gives the signs of its place."""
    proof, coins = LengthProof(200, 10), secrets.token_bytes(32)
    zero = from_signed(np.zeros(proof.size, np.int64))
    halves = []
    for place in range(0, 190, 2):
        one = zero.copy()
        one[place // K * (K + 2) + place % K] = from_ints([1])[0]
        halves.append(one)
    found = np.array([[x if x < 5 else x - PRIME for x in one.sums] for one in proof.evidence(halves, coins)])
    share = [(found == sign).mean() for sign in (-1, 0, 1)]
    assert np.allclose(share, [0.25, 0.5, 0.25], atol=5 * 0.5 / found.size**0.5)
    assert len(np.unique(found, axis=0)) == len(found)  # every place has its own
    other = proof.evidence(halves[:1], secrets.token_bytes(32))[0].sums
    assert other != proof.evidence(halves[:1], coins)[0].sums


# ---- what is shown -----------------------------------------------------------------------------------------


def test_what_either_party_sees_does_not_depend_on_the_vector() -> None:
    """The bits of a half and of what is told are fair coins, for a vector of zeros and for one at the limit.

    The control leaves the random numbers of the rows out: the reader then sees the vector itself.
    """
    proof = LengthProof(500, 1 << 30)
    loud = np.zeros(500, np.int64)
    loud[:4] = 1 << 29

    def even(numbers: list[list[int]]) -> bool:
        """Whether every one of 192 bits is a fair coin."""
        bits = np.array([[x >> at & 1 for at in range(192)] for some in numbers for x in some], float)
        return bool(np.abs(bits.mean(axis=0) - 0.5).max() < 7 * 0.5 / len(bits) ** 0.5)

    for numbers in (np.zeros(500, np.int64), loud):
        halves, opened, bare = [], [], []
        for _ in range(20):
            key, coins = secrets.token_bytes(32), secrets.token_bytes(32)
            half = proof.half(numbers, key)
            (told,), (known,) = proof.evidence([half], coins), proof.evidence([proof.other_half(key)], coins)
            halves.append(to_ints(half))
            opened.append(to_ints(add(told.rows, known.rows).reshape(-1, 3)))  # what the reader puts together
            whole, top = to_ints(add(half, proof.other_half(key))), proof._powers(coins)[K]
            own = [whole[row * (K + 2) + K + which] for which in range(2) for row in range(proof._rows)]
            bare.append([(x - mask * top) % PRIME for x, mask in zip(opened[-1], own, strict=True)])
        assert even(halves)
        assert even(opened)
        assert not even(bare)  # the control


def test_without_masks_the_reader_would_read_a_row() -> None:
    proof, key, coins = LengthProof(60, 1 << 20), secrets.token_bytes(32), secrets.token_bytes(32)
    half = proof.half(np.zeros(60, np.int64), key)
    (told,), (known,) = proof.evidence([half], coins), proof.evidence([proof.other_half(key)], coins)
    opened = to_ints(add(told.rows, known.rows)[0])
    whole = to_ints(add(half, proof.other_half(key)))
    bare = (opened[0] - whole[K] * proof._powers(coins)[K]) % PRIME  # the random number taken off
    rest = whole[60:64]
    assert bare == sum(x * proof._powers(coins)[60 + j] for j, x in enumerate(rest)) % PRIME
    assert bare != opened[0]


# ---- pieces ------------------------------------------------------------------------------------------------


@given(st.integers(0, 500) | st.integers(0, 2**110))
def test_every_number_is_a_sum_of_four_squares(number: int) -> None:
    assert sum(x * x for x in four_squares(number)) == number


def test_four_squares_are_not_always_the_same() -> None:
    assert len({four_squares(10**12 + 1) for _ in range(5)}) > 1
    with pytest.raises(ValueError, match="number must be a whole number of at least 0, got -1"):
        four_squares(-1)


@given(st.lists(st.integers(-(2**53) + 1, 2**53 - 1), max_size=600))
def test_squares_are_added_exactly(numbers: list[int]) -> None:
    assert squares(np.array(numbers, np.int64)) == sum(x * x for x in numbers)


def test_bad_settings_are_refused_in_words() -> None:
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="length must be"):
            LengthProof(wrong, 5)
    limit = LengthProof(3, 1).limit
    words = rf"norm / step must be at most {limit}, got {limit + 1}\. Take a larger step\."
    with pytest.raises(ValueError, match=words):
        LengthProof(3, limit + 1)
    proof = LengthProof(3, 5)
    half = proof.half(np.zeros(3, np.int64), bytes(32))
    with pytest.raises(ValueError, match="coins must be 32 bytes long, got 31"):
        proof.evidence([half], bytes(31))
    (known,) = proof.evidence([half], bytes(32))
    with pytest.raises(ValueError, match=f"evidence must be {proof.told_bytes} bytes long, got 3"):
        proof.holds(b"abc", known, bytes(32))
