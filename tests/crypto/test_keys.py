"""Keys: where they come from, what their bytes say, and who may read their file."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import os
import pickle
import stat
from math import gcd
from pathlib import Path

import gmpy2
import pytest

from veilrec.core import DataError
from veilrec.crypto import FixedPoint, PaillierSum, PublicKey, SecretKey


def test_a_fresh_key_is_what_the_scheme_needs(secret: SecretKey) -> None:
    p, q, public = secret.p, secret.q, secret.public
    assert public.bits == 2048
    assert p != q
    assert gmpy2.is_prime(p, 20)
    assert gmpy2.is_prime(q, 20)
    assert (p % 4, q % 4) == (3, 3)
    assert gcd(p - 1, q - 1) == 2
    assert abs(p - q).bit_length() > 1024 - 100
    # h is the n-th power of minus a square: of Jacobi symbol +1, but no square modulo either prime
    root = gmpy2.invert(gmpy2.mpz(public.n), (p - 1) * (q - 1))
    base = gmpy2.powmod(public.h, root, public.n)
    assert (gmpy2.jacobi(base, p), gmpy2.jacobi(base, q)) == (-1, -1)


def test_every_key_is_a_blum_integer_of_full_length() -> None:
    for _ in range(20):
        key = SecretKey.for_tests(256)
        assert (key.p % 4, key.q % 4, gcd(key.p - 1, key.q - 1)) == (3, 3, 2)
        assert key.public.bits == 256


@pytest.mark.parametrize("bits", [0, 512, 1024, 2047, 4096, "2048"])
def test_other_sizes_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits must be 2048 or 3072, got"):
        SecretKey.generate(bits)


def test_the_longer_key_works() -> None:
    key = SecretKey.generate(3072)
    assert SecretKey.from_bytes(key.to_bytes()) == key
    assert key.public.bits == 3072


def test_two_keys_differ(toy: SecretKey, secret: SecretKey) -> None:
    assert SecretKey.for_tests().public.n != SecretKey.for_tests().public.n
    assert toy.public.fingerprint != secret.public.fingerprint


def test_short_keys_stay_in_tests(toy: SecretKey) -> None:
    data = toy.public.to_bytes()
    assert PublicKey.from_bytes(data, insecure=True) == toy.public
    for read in (
        lambda: PublicKey.from_bytes(data),
        lambda: SecretKey.from_bytes(toy.to_bytes()),
        lambda: PublicKey(toy.public.n, toy.public.h),
    ):
        with pytest.raises(ValueError, match="key size must be 2048 or 3072 bits, got 256"):
            read()


def test_bytes_of_a_public_key_have_no_secret(secret: SecretKey) -> None:
    data = secret.public.to_bytes()
    assert PublicKey.from_bytes(data) == secret.public
    for number in (secret.p, secret.q):
        assert number.to_bytes(128) not in data
        assert number.to_bytes(128) in secret.to_bytes()  # the search can succeed


@pytest.mark.parametrize("place", [0, 6, 7, 8, 40, -1])
def test_damaged_bytes_are_refused(toy: SecretKey, place: int) -> None:
    for key, read in ((toy.public, PublicKey.from_bytes), (toy, SecretKey.from_bytes)):
        data = bytearray(key.to_bytes())
        data[place] ^= 1
        with pytest.raises(ValueError, match="must be"):
            read(bytes(data), insecure=True)


def test_cut_and_mixed_up_bytes_are_refused(toy: SecretKey) -> None:
    data = toy.to_bytes()
    for wrong in (b"", data[:9], data[:-1], data + b"x"):
        with pytest.raises(ValueError, match="bytes long"):
            SecretKey.from_bytes(wrong, insecure=True)
    with pytest.raises(ValueError, match="kind of key must be one of secret key, got 'public key'"):
        SecretKey.from_bytes(toy.public.to_bytes(), insecure=True)
    other = toy.to_bytes()[:-32].replace(b"\x01\x00", b"\x00\xff", 1)  # 255 instead of 256 bits
    with pytest.raises(ValueError, match=r"n must be of 255 bits, got 256\. The bytes were damaged"):
        SecretKey.from_bytes(other + hashlib.sha256(other).digest(), insecure=True)


def test_primes_that_do_not_belong_to_n_are_refused(toy: SecretKey) -> None:
    n = toy.public.n
    for p, q in ((toy.p + 2, toy.q), (1, n), (n, 1), (-toy.p, -toy.q), (0, 0)):
        with pytest.raises(ValueError, match="p and q must be two factors of n above 1, got other numbers"):
            SecretKey(p, q, toy.public)
    with pytest.raises(ValueError, match="two factors"):
        SecretKey(toy.p, toy.p, PublicKey(toy.p**2, 4, insecure=True))


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (15, 11),  # no prime
        (11, 15),
        (13, 11),  # 1 mod 4
        (19, 31),  # gcd(18, 30) = 6
        (7, 11),  # 3 and 4 bits
    ],
)
def test_primes_of_another_structure_are_refused(p: int, q: int) -> None:
    n = 19 * 23
    SecretKey(19, 23, PublicKey(n, pow(-4 % n, n, n * n), insecure=True))  # small ones that keep it will do
    with pytest.raises(ValueError, match="p and q must be primes of one length, both 3 mod 4") as caught:
        SecretKey(p, q, PublicKey(p * q, 4, insecure=True))
    assert str(p) not in str(caught.value).replace("3 mod 4", "")


def with_base(key: PublicKey | SecretKey, h: int) -> bytes:
    """The bytes of a key with another base, and with the right checksum."""
    size = (key.public if isinstance(key, SecretKey) else key).bits // 8
    data = key.to_bytes()[:-32]
    data = data[: 10 + size] + h.to_bytes(2 * size) + data[10 + 3 * size :]
    return data + hashlib.sha256(data).digest()


@pytest.mark.parametrize(
    "base",
    [
        lambda p, n: n * n - 1,  # -1: a ciphertext would be the plaintext but for its sign
        lambda p, n: n * n - n - 1,
        lambda p, n: n - 1,
        lambda p, n: n + 1,  # 1 modulo n
        lambda p, n: 1,
        lambda p, n: 0,
        lambda p, n: n,
        lambda p, n: p * (n + 2),
    ],
)
def test_a_base_that_hides_nothing_is_refused(toy: SecretKey, base) -> None:
    n, h = toy.public.n, base(toy.p, toy.public.n)
    for read in (
        lambda: PublicKey(n, h, insecure=True),
        lambda: PublicKey.from_bytes(with_base(toy.public, h), insecure=True),
        lambda: SecretKey.from_bytes(with_base(toy, h), insecure=True),
    ):
        with pytest.raises(ValueError, match=r"h must be between 1 and n\^2, .* nor -1 modulo n, got"):
            read()
    with pytest.raises(ValueError, match="h must be between 1 and"):
        PublicKey(n, n * n + 2, insecure=True)


def test_a_base_that_is_no_power_is_found_out_by_who_has_the_primes(toy: SecretKey) -> None:
    p, q, n = toy.p, toy.q, toy.public.n
    assert SecretKey.from_bytes(with_base(toy, toy.public.h), insecure=True) == toy
    one_and_minus_one = pow(p * pow(p, -1, q) * -2 + 1, n, n * n)  # 1 modulo p, -1 modulo q: an n-th power
    assert (one_and_minus_one % p, one_and_minus_one % q) == (1, q - 1)
    for h in (2, n + 2, toy.public.h * (1 + n) % (n * n), one_and_minus_one):
        for read in (
            lambda h=h: SecretKey(p, q, PublicKey(n, h, insecure=True)),
            lambda h=h: SecretKey.from_bytes(with_base(toy, h), insecure=True),
        ):
            with pytest.raises(
                ValueError, match=r"h must be an n-th power modulo n\^2, .*, got another number"
            ):
                read()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_secret_key_cannot_be_copied(toy: SecretKey, copier) -> None:
    with pytest.raises(TypeError, match=r"A SecretKey cannot be pickled or copied: .* Use save and load"):
        copier(toy)
    assert pickle.loads(pickle.dumps(toy.public)) == toy.public


@pytest.mark.parametrize("spill", [pickle.dumps, copy.deepcopy, dataclasses.asdict, dataclasses.astuple])
def test_what_holds_a_secret_key_does_not_spill_it(toy: SecretKey, spill) -> None:
    code = FixedPoint(1.0, 2**-8, clients=3)
    with pytest.raises(TypeError, match="A SecretKey cannot be pickled or copied"):
        spill(PaillierSum(code, 2, key=toy.public, secret=toy))
    spill(PaillierSum(code, 2, key=toy.public))  # without it, nothing stands in the way


def test_a_key_is_the_same_as_itself_read_again(toy: SecretKey) -> None:
    again, other = SecretKey.from_bytes(toy.to_bytes(), insecure=True), SecretKey.for_tests(256)
    assert (again, hash(again), again.p, again.q) == (toy, hash(toy), toy.p, toy.q)
    assert toy not in (other, toy.public, None)


def test_nothing_prints_a_secret(secret: SecretKey) -> None:
    shown = f"{secret!r} {secret}"
    for number in (secret.p, secret.q):
        assert str(number) not in shown
        assert f"{number:x}" not in shown.lower()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a matter of posix")
def test_the_file_of_a_secret_key_is_its_owners(toy: SecretKey, tmp_path: Path) -> None:
    path = tmp_path / "key"
    toy.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SecretKey.load(path, insecure=True) == toy
    assert [one.name for one in tmp_path.iterdir()] == ["key"]
    path.chmod(0o640)
    with pytest.raises(DataError, match=r"key: mode must be 0o600 or less, got 0o640. Run: chmod 600 key"):
        SecretKey.load(path, insecure=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "no key", tmp_path, tmp_path / "no folder" / "key"):
        with pytest.raises(
            DataError, match=r"a secret key must be a file, got none\. Check the path"
        ) as caught:
            SecretKey.load(path)
        assert caught.value.file == path


def test_a_damaged_file_is_named(toy: SecretKey, tmp_path: Path) -> None:
    path = tmp_path / "key"
    toy.save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="key: secret key must be"):
        SecretKey.load(path, insecure=True)


def test_a_save_that_fails_leaves_the_old_file(toy: SecretKey, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "key"
    toy.save(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        SecretKey.for_tests().save(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["key"]
