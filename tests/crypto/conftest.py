"""Keys for the tests of this room: one real key, made once, and one short fixed key."""

from __future__ import annotations

import pytest

from veilrec.crypto import PublicKey, SecretKey

P, Q = 0xD48DE9C5A7A44D19E56CD9AE1A554C1B, 0xCE35C2CD3BF6641BDB0E2050B76932FB


@pytest.fixture(scope="session")
def secret() -> SecretKey:
    return SecretKey.generate(2048)


@pytest.fixture(scope="session")
def toy() -> SecretKey:
    p, q = P, Q
    n = p * q
    return SecretKey(p, q, PublicKey(n, pow(-9 % n, n, n * n), insecure=True))
