"""Shamir's shares: any threshold of them rebuild, fewer tell nothing."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from veilrec.core import stream
from veilrec.crypto import shamir
from veilrec.crypto.shamir import PRIME, join, recover, split


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.integers(0, 4), st.randoms())
def test_any_threshold_of_shares_rebuilds(secret: bytes, threshold: int, more: int, random) -> None:
    shares = dict(enumerate(split(secret, threshold, threshold + more), 1))
    kept = random.sample(sorted(shares), threshold)
    assert join({x: shares[x] for x in kept}, threshold) == secret
    assert join(shares, threshold) == secret


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.integers(1, 4), st.data())
def test_one_wrong_share_is_survived_and_told(secret: bytes, threshold: int, more: int, data) -> None:
    shares = dict(enumerate(split(secret, threshold, threshold + more), 1))
    wrong = data.draw(st.sampled_from(sorted(shares)))
    shares[wrong] = ((int.from_bytes(shares[wrong]) + data.draw(st.integers(1, 9))) % PRIME).to_bytes(33)
    found, told = recover(shares, threshold, lambda one: one == secret)
    assert found == secret
    assert told == ([wrong] if wrong <= threshold else [])  # not looked at if it is not needed


@pytest.mark.parametrize(("threshold", "count"), [(16, 30), (20, 24), (30, 32), (10, 40)])
def test_one_wrong_share_of_many_is_survived_without_luck(monkeypatch, threshold: int, count: int) -> None:
    monkeypatch.setattr(shamir, "TRIES", 0)
    shares = dict(enumerate(split(bytes(32), threshold, count), 1))
    for wrong in shares:
        found, told = recover({**shares, wrong: b"\1" * 33}, threshold, lambda one: one == bytes(32))
        assert (found, told) == (bytes(32), [wrong] if wrong <= threshold else [])


def test_three_wrong_shares_of_many_are_survived() -> None:
    shares = dict(enumerate(split(bytes(32), 16, 30), 1))
    bad = dict.fromkeys((2, 15, 30), b"\1" * 33)  # no block of 14 has them all
    assert recover({**shares, **bad}, 16, lambda one: one == bytes(32)) == (bytes(32), [2, 15, 30])


def test_the_tries_are_bounded() -> None:
    shares, seen = dict(enumerate(split(bytes(32), 16, 30), 1)), []
    with pytest.raises(ValueError, match="secret must be the one promised, got others"):
        recover(shares, 16, lambda one: bool(seen.append(one)))
    assert len(seen) == shamir.TRIES + 3
    with pytest.raises(ValueError, match=r"shares must be at least 3, got 2\."):
        recover({1: bytes(33), 2: bytes(33)}, 3, lambda one: True)


def test_two_liars_in_agreement_cannot_blame_the_honest() -> None:
    """Their changes cancel in the secret of shares 1 to 4, and so 5, 6 and 7 look wrong there."""
    shares = dict(enumerate(split(bytes(32), 4, 7), 1))
    weights = [4, -6]  # of shares 1 and 2 in the secret: 2 3 4 / (1 2 3) and 1 3 4 / (-1 1 2)
    for x, change in zip((1, 2), (-weights[1], weights[0])):
        shares[x] = ((int.from_bytes(shares[x]) + change) % PRIME).to_bytes(33)
    assert join({x: shares[x] for x in (1, 2, 3, 4)}, 4) == bytes(32)
    order = (1, 3, 4, 5, 2, 6, 7)  # the first four fail, 1 to 4 come next
    tried = []

    def good(found: bytes) -> bool:
        tried.append(found)
        return found == bytes(32)

    assert recover({x: shares[x] for x in order}, 4, good) == (bytes(32), [])
    assert len(tried) == 2


def test_the_field_is_a_prime_above_every_secret() -> None:
    import gmpy2

    assert gmpy2.is_prime(PRIME, 40)
    assert PRIME > 2**256
    assert join(dict(enumerate(split(b"\xff" * 32, 2, 2), 1)), 2) == b"\xff" * 32


def test_a_worked_polynomial(monkeypatch) -> None:
    monkeypatch.setattr(shamir.secrets, "randbelow", lambda limit: 3)  # 5 + 3 x
    shares = split((5).to_bytes(32), threshold=2, count=2)
    assert [int.from_bytes(one) for one in shares] == [8, 11]


def leaks(draw, runs: int = 2000) -> bool:
    """Whether the top bits of one share of two depend on the secret, or are not uniform."""
    pvalues = []
    for secret in (bytes(32), b"\xff" * 32):
        shamir.secrets.randbelow, kept = draw, shamir.secrets.randbelow
        try:
            tops = [int.from_bytes(split(secret, 2, 2)[0]) >> 252 for _ in range(runs)]
        finally:
            shamir.secrets.randbelow = kept
        pvalues.append(chisquare(np.bincount(np.minimum(tops, 15), minlength=16)).pvalue)
    return min(pvalues) < 1e-6


def test_one_share_of_two_tells_nothing() -> None:
    random = stream(3, "shamir")
    assert not leaks(lambda limit: int.from_bytes(random.bytes(40)) % limit)
    assert shamir.secrets is secrets


def test_small_coefficients_are_caught() -> None:
    random = stream(3, "shamir")
    assert leaks(lambda limit: int.from_bytes(random.bytes(16)))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="secret must be 32 bytes long, got 31"):
        split(bytes(31), 2, 3)
    with pytest.raises(ValueError, match="count must be a whole number of at least 4, got 3"):
        split(bytes(32), 4, 3)
    with pytest.raises(ValueError, match=r"shares must be at least 3, got 2\. Too many clients dropped out"):
        join({1: bytes(33), 2: bytes(33)}, 3)
    shares = dict(enumerate(split(bytes(32), 2, 2), 1))
    assert join({**shares, 2: bytes(33)}, 2) != bytes(32)  # a changed share changes the secret
