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
from veilrec.crypto.shamir import PRIME, join, split


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.integers(0, 4), st.randoms())
def test_any_threshold_of_shares_rebuilds(secret: bytes, threshold: int, more: int, random) -> None:
    shares = dict(enumerate(split(secret, threshold, threshold + more), 1))
    kept = random.sample(sorted(shares), threshold)
    assert join({x: shares[x] for x in kept}, threshold) == secret
    assert join(shares, threshold) == secret


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
