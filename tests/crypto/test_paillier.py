"""Paillier: golden ciphertexts, oracles, an independent implementation, fresh randomisers, bad input."""

from __future__ import annotations

import copy
import os
import pickle
import secrets

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from veilrec.core import stream
from veilrec.crypto import Ciphertexts, Encryptor, PublicKey, SecretKey, decrypt, paillier

# Ciphertexts of 0, 1, 123456789 and -5 under the fixed key of conftest, made by python-paillier 1.5.0 with
# the randomisers 2, 3, 12345 and 987654321.
GOLDEN = (
    "31833338a2fa4b1d2227100338122b078a348d14c24c953a1c2cbf4cefb0be08"
    "b9a78772a36ae680e77bb08bb9bdd1ea27cd79bb3d7a320886f17b4423d956f9",
    "721b8dd81885b24c4f7b1f24bef1a33254b7b32d22b40bf6f9127fcc00d19a00"
    "6ce0a289c43eedc5ec61e22a8b826c2c5b3d4e05a891face45544164ab31b854",
    "0e1722f6d5a3bd724e8194b1a4eb38e57067bfb59bb4c57598d5f84e4e51b1e7"
    "661ea24275c21d4e8face8f855bf4e2a0a08fabb1f2afddeb40472e0ca611645",
    "6bae2870a37f354fc99b3cda5e9ac22e121344ab290959c8083c940345598b00"
    "a710bfff135a383b29322a80ce1af9ec67f8c9f3eafdd88f162231634b95a8ce",
)


def packed(key: PublicKey, *values: int, summands: int = 1) -> Ciphertexts:
    return Ciphertexts(key, tuple(gmpy2.mpz(value) for value in values), summands)


def test_golden_ciphertexts_decrypt(toy: SecretKey) -> None:
    golden = packed(toy.public, *(int(one, 16) for one in GOLDEN))
    assert decrypt(toy, golden) == [0, 1, 123456789, -5]


def test_golden_bytes(toy: SecretKey, monkeypatch) -> None:
    monkeypatch.setattr(paillier.secrets, "token_bytes", lambda size: bytes(range(1, size + 1)))
    n, h = toy.public.n, toy.public.h
    exponent = int.from_bytes(bytes(range(1, 17)), "little")  # half of the 256 bits
    expected = (1 + 7 * n) * pow(h, exponent, n * n) % (n * n)
    data = Encryptor(toy.public).encrypt([7]).to_bytes()
    head = b"VRCIPH\x01" + toy.public.fingerprint + bytes([0, 0, 0, 1, 0, 0, 0, 1])
    assert data == head + expected.to_bytes(64)


def test_every_plaintext_of_a_tiny_key() -> None:
    p, q = 19, 23
    n = p * q
    tiny = SecretKey(p, q, PublicKey(n, pow(-4 % n, n, n * n), insecure=True))
    messages = list(range(-(n // 2), n // 2 + 1))
    found = Encryptor(tiny.public).encrypt(messages)
    assert decrypt(tiny, found) == messages
    lam = 198  # the textbook: L(c^lam mod n^2) / L((1 + n)^lam mod n^2) mod n
    for message, value in zip(messages, found.values):
        top = (pow(int(value), lam, n * n) - 1) // n
        assert (top * pow(lam, -1, n) - message) % n == 0


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(-(2**250), 2**250), min_size=3, max_size=3), min_size=1, max_size=6))
def test_sums_are_sums(toy: SecretKey, vectors: list[list[int]]) -> None:
    encryptor = Encryptor(toy.public)
    total = encryptor.encrypt(vectors[0])
    for vector in vectors[1:]:
        total += encryptor.encrypt(vector)
    assert total.summands == len(vectors)
    assert decrypt(toy, total) == [sum(column) for column in zip(*vectors)]


def test_a_real_key_adds_negative_numbers(secret: SecretKey) -> None:
    encryptor = Encryptor(secret.public)
    large = secret.public.n // 2
    total = encryptor.encrypt([large, -large, -3]) + encryptor.encrypt([-1, 2, 1])
    assert decrypt(secret, Ciphertexts.from_bytes(total.to_bytes(), secret.public)) == [
        large - 1,
        2 - large,
        -2,
    ]


@pytest.mark.parametrize("which", ["toy", "secret"])
def test_python_paillier_agrees_in_both_directions(which: str, request) -> None:
    phe = pytest.importorskip("phe", reason="python-paillier (phe) is not installed")
    key: SecretKey = request.getfixturevalue(which)
    public = phe.PaillierPublicKey(key.public.n)
    private = phe.PaillierPrivateKey(public, key.p, key.q)
    messages = [0, 1, -1, 2**100, -(2**200)]
    ours = Encryptor(key.public).encrypt(messages)
    assert [private.raw_decrypt(int(c)) for c in ours.values] == [m % key.public.n for m in messages]
    theirs = packed(key.public, *(public.raw_encrypt(m % key.public.n) for m in messages))
    assert decrypt(key, theirs) == messages
    assert decrypt(key, ours + theirs) == [2 * m for m in messages]


# ---- randomisers -------------------------------------------------------------------------------------------


def looks_fresh(randomisers: list[int], level: float = 1e-6) -> bool:
    """All different, and low bytes uniform: neither less even nor more even than chance makes them."""
    low = np.array([int(one) & 255 for one in randomisers])
    even = chisquare(np.bincount(low // 8, minlength=32)).pvalue
    return len(set(randomisers)) == len(randomisers) and bool(level < even < 1 - level)


def drawn(encryptor: Encryptor, count: int) -> list[int]:
    """The randomisers of encryptions of zero."""
    return [int(value) for value in encryptor.encrypt([0] * count).values]


@pytest.fixture
def _seeded(monkeypatch) -> None:
    monkeypatch.setattr(paillier.secrets, "token_bytes", stream(5, "randomisers").bytes)


@pytest.mark.usefixtures("_seeded")
def test_randomisers_are_fresh(toy: SecretKey) -> None:
    encryptor = Encryptor(toy.public)
    encryptor.prepare(2000)
    assert looks_fresh(drawn(encryptor, 3000))


class _OneForAll(Encryptor):
    def _randomiser(self):
        return 12345


class _Repeating(Encryptor):
    def encrypt(self, plaintexts):
        pool = list(self._pool)
        out = super().encrypt(plaintexts)
        self._pool.extend(pool)  # the mistake: the pool is not used up
        return out


class _Counting(Encryptor):
    count = 0

    def _randomiser(self):
        type(self).count += 1
        return gmpy2.powmod(self.key.h, self.count, self.key.n**2) & ~255 | self.count & 255


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize("broken", [_OneForAll, _Repeating, _Counting])
def test_broken_twins_are_not_fresh(toy: SecretKey, broken: type[Encryptor]) -> None:
    encryptor = broken(toy.public)
    encryptor.prepare(1000)
    found = [one for _ in range(3) for one in drawn(encryptor, 1000)]
    assert not looks_fresh(found)


def test_a_prepared_randomiser_is_used_once(toy: SecretKey) -> None:
    encryptor = Encryptor(toy.public)
    encryptor.prepare(4)
    ready = [int(one) for one in encryptor._pool]
    first = drawn(encryptor, 3)
    assert first == ready[:3]  # in their order
    assert encryptor.prepared == 1
    later = drawn(encryptor, 5)
    assert encryptor.prepared == 0
    assert later[0] == ready[3]
    assert len({*first, *later}) == 8


def test_a_pool_cannot_be_copied_into_a_second_use(toy: SecretKey, monkeypatch) -> None:
    encryptor = Encryptor(toy.public)
    encryptor.prepare(3)
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a randomiser would be used twice"):
            copier(encryptor)
    ready = {int(one) for one in encryptor._pool}
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a forked child
    assert not ready & set(drawn(encryptor, 3))


def test_the_exponent_has_half_the_length(secret: SecretKey, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(paillier.secrets, "token_bytes", lambda size: asked.append(size) or b"\x01" * size)
    Encryptor(secret.public).encrypt([0])
    assert asked == [128]
    assert paillier.secrets is secrets  # the operating system's, when nobody patches it


# ---- bad input ---------------------------------------------------------------------------------------------


def test_the_wrong_key_is_refused(toy: SecretKey) -> None:
    other = SecretKey.for_tests(256)
    share = Encryptor(other.public).encrypt([1])
    with pytest.raises(ValueError, match="ciphertexts must be under the public key of this secret key"):
        decrypt(toy, share)
    with pytest.raises(ValueError, match=r"key fingerprint must be '?[0-9a-f]{32}'?, got '[0-9a-f]{32}'"):
        Ciphertexts.from_bytes(share.to_bytes(), toy.public)
    with pytest.raises(ValueError, match="ciphertexts must be under one key, got two keys"):
        _ = Encryptor(toy.public).encrypt([1]) + share


def test_tampered_ciphertexts_are_refused(toy: SecretKey) -> None:
    key = toy.public
    data = Encryptor(key).encrypt([1, 2]).to_bytes()
    bad = {
        "bytes long": [b"", data[:20], data[:-1], data + b"\0", data[:31] + data[31 + 64 :]],
        "Paillier ciphertexts of veilrec": [b"X" + data[1:]],
        "version must be 1, got 9": [data[:6] + b"\x09" + data[7:]],
        "key fingerprint must be": [data[:7] + b"\0" + data[8:]],
        "summands must be": [data[:27] + bytes(4) + data[31:]],
    }
    for words, cases in bad.items():
        for case in cases:
            with pytest.raises(ValueError, match=words):
                Ciphertexts.from_bytes(case, key)


def test_numbers_that_are_no_ciphertexts_are_refused(toy: SecretKey) -> None:
    key, good = toy.public, Encryptor(toy.public).encrypt([5]).values[0]
    for wrong in (0, key.n**2, key.n**2 + 1):
        with pytest.raises(ValueError, match=r"ciphertexts must be from 1 to n\^2 - 1"):
            Ciphertexts.from_bytes(packed(key, good, wrong).to_bytes(), key)
    for wrong in (toy.p, 3 * toy.q, key.n, key.n**2 - key.n):
        with pytest.raises(ValueError, match="ciphertexts must be invertible modulo n"):
            Ciphertexts.from_bytes(packed(key, good, wrong).to_bytes(), key)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(toy: SecretKey, data: bytes) -> None:
    with pytest.raises(ValueError, match="must be"):
        Ciphertexts.from_bytes(data, toy.public)


def test_lengths_and_sizes_are_checked(toy: SecretKey) -> None:
    encryptor, half = Encryptor(toy.public), toy.public.n // 2
    with pytest.raises(ValueError, match="ciphertexts must be 2 as in the first share, got 1"):
        _ = encryptor.encrypt([1, 2]) + encryptor.encrypt([1])
    encryptor.encrypt([half, -half])
    for wrong in (half + 1, -half - 1):
        with pytest.raises(ValueError, match="plaintexts must be from -n/2 to n/2, got a larger number"):
            encryptor.encrypt([wrong])
    with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
        encryptor.prepare(0)
