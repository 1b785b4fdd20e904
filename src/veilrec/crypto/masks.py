"""Masks that two clients can both make and nobody else: X25519, HKDF-SHA256 and AES-256 in counter mode.

Every key is derived for one purpose, one round and one pair of names, so that no stream of a cipher and no
nonce is ever used twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from veilrec.core import check
from veilrec.crypto.messages import join_entries

SEAL_BYTES = 16
_NONCE = bytes(12)  # every key seals one message only


def agree(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two X25519 keys share; a public key of small order is refused.

    >>> ann, bob = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    >>> agree(ann, bob.public_key().public_bytes_raw()) == agree(bob, ann.public_key().public_bytes_raw())
    True
    """
    check(len(public) == 32, "public key", "32 bytes long", len(public))
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ValueError("public key must be a point of large order, got another. Make a new key.") from None


def derive(shared: bytes, purpose: str, round: int, first: str, second: str) -> bytes:
    """A key of 32 bytes for one purpose in one round between two clients, in this order.

    >>> derive(bytes(32), "mask", 1, "ann", "bob") != derive(bytes(32), "mask", 2, "ann", "bob")
    True
    """
    parts = {"0": purpose.encode(), "1": str(round).encode(), "2": first.encode(), "3": second.encode()}
    info = b"veilrec secure sum" + join_entries(parts)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)


def expand(key: bytes, length: int, dtype: Any) -> NDArray[Any]:
    """``length`` pseudo-random unsigned words from a key.

    >>> expand(bytes(32), 4, np.uint32).tobytes().hex()  # AES-256 of a block of zeros
    'dc95c078a2408989ad48a21492842087'
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    raw = stream.update(bytes(length * np.dtype(dtype).itemsize))
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<"))


def seal(key: bytes, text: bytes) -> bytes:
    """Encrypt and authenticate one message with a key that is used for nothing else.

    >>> unseal(bytes(32), seal(bytes(32), b"share"))
    b'share'
    """
    return AESGCM(key).encrypt(_NONCE, text, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Read what :func:`seal` wrote; changed bytes raise.

    >>> unseal(bytes(32), bytes(20))
    Traceback (most recent call last):
        ...
    ValueError: sealed message must be whole, got changed bytes. It was not made with this key.
    """
    try:
        return AESGCM(key).decrypt(_NONCE, sealed, None)
    except InvalidTag:
        text = "sealed message must be whole, got changed bytes. It was not made with this key."
        raise ValueError(text) from None
