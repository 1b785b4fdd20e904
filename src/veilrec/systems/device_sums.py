"""How sums over devices are made in a fit: by which backend, between which parties, within which limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from veilrec.core import check, check_choice
from veilrec.crypto import (
    SUMS,
    FixedPoint,
    LengthProof,
    MaskedSum,
    PaillierSum,
    PlainSum,
    SecretKey,
    SecureSum,
    SharedSum,
    ShareKey,
    Total,
)
from veilrec.data import Dataset
from veilrec.federated import Aggregator, Client, KeyServer, Wire, run_round
from veilrec.systems.sizes import check_size
from veilrec.training import Array

MOST_NUMBERS = 1 << 26
"""Numbers in the messages of a round between separate parties: 0.5 GB, and several times that in all."""
Summing = Callable[..., SecureSum]
"""From a grid, the length of the vectors and the fewest devices to how they are added."""


def check_key_bits(bits: int, sums: str) -> None:
    """The length of a Paillier key, which other sums do not have.

    >>> check_key_bits(3072, "masked")
    Traceback (most recent call last):
        ...
    ValueError: key_bits must be 2048 where no key is made, got 3072. Say sums='paillier'.
    """
    check(bits in (2048, 3072), "key_bits", "2048 or 3072", bits)
    good = bits == 2048 or sums == PaillierSum.word
    check(good, "key_bits", "2048 where no key is made", bits, "Say sums='paillier'.")


def check_devices(users: int) -> None:
    """Refuse sums of one device: such a sum is that device's message.

    >>> check_devices(1)
    Traceback (most recent call last):
        ...
    ValueError: users must be two or more where sums are made, got 1. Say sums=''.
    """
    check(users > 1, "users", "two or more where sums are made", users, "Say sums=''.")


def check_messages(public: Dataset, word: str, sums: str, devices: int, length: int) -> None:
    """Refuse rounds whose messages together are too many numbers to be held; plain sums hold one at a time.

    >>> check_messages(Dataset.from_arrays(["ann"], ["tea"]), "pf-gnr-sums", "masked", 2, 1000)
    """
    if sums not in ("", PlainSum.word):
        what, because = "numbers in the messages of a round", "all devices of a round are played at once"
        remedy = "Say sums='plain' or '', a smaller embedding_size, or fewer users or items."
        check_size(public, word, devices * length, MOST_NUMBERS, what, because=because, remedy=remedy)


def check_provable(sums: str, codec: FixedPoint, length: int) -> None:
    """Refuse a grid too fine for devices to prove that their messages keep to its bound.

    >>> check_provable("shared", FixedPoint(1.0, 2.0**-40, clients=2), 5)
    Traceback (most recent call last):
        ...
    ValueError: norm / step must be at most 34359738368, got 1099511627776. Take a larger step.
    """
    if sums in (PaillierSum.word, SharedSum.word):
        LengthProof(length, codec.levels)


def summing(word: str, key: SecretKey | None = None, bits: int = 2048) -> Summing:
    """How sums are made, for a grid and a length; "paillier" with ``key``, or one fresh key of ``bits``.

    No message is longer than the bound of the grid: where that can be seen or proven, it is the ``norm``.

    >>> summing("plain")(FixedPoint(1.0, 2**-8, clients=3), 5).norm
    1.0
    """
    check_choice("sums", word, SUMS)
    keys: dict[str, Any] = {}
    if word == PaillierSum.word:
        secret = SecretKey.generate(bits) if key is None else key
        keys = {"key": secret.public, "secret": secret}
    elif word == SharedSum.word:
        own = ShareKey()
        keys = {"key": own.public, "secret": own}

    def make(codec: FixedPoint, length: int, least: int = 2) -> SecureSum:
        norm = None if word == MaskedSum.word else codec.bound
        return SUMS[word](codec, length, least, norm=norm, **keys)

    return make


def between_parties(backend: SecureSum, values: Mapping[str, Array], round: int = 0) -> Total:
    """A round between server, aggregator and devices that exchange bytes: the server alone has the key.

    >>> code = FixedPoint(1.0, 2**-8, clients=3)
    >>> import numpy as np
    >>> between_parties(summing("masked")(code, 1), {"ann": np.array([0.5]), "bob": np.array([0.25])}).values
    array([0.75])
    """
    devices = [Client(name) for name in values]
    return run_round(KeyServer(backend), Aggregator(), devices, Wire(), values, round)
