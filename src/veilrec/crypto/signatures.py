"""Ed25519 keys that sign files (RFC 8032), by the library `cryptography`; in PEM, as openssl writes them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from veilrec.core import DataError, check
from veilrec.crypto.shown import Shown

_MOST = 10_000
_REMEDY = "Make a pair with `veilrec keys new NAME`."


@dataclass(frozen=True)
class VerifyKey:
    """The public half: who has it can check a signature, and make none.

    >>> key = SigningKey.generate()
    >>> key.public.checks(key.sign(b"a statement"), b"a statement")
    True
    >>> key.public.checks(key.sign(b"a statement"), b"another")
    False
    """

    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check(len(self.raw) == 32, "public key", "of 32 bytes", Shown(f"{len(self.raw)} bytes"), _REMEDY)

    @property
    def fingerprint(self) -> str:
        """What names the key to people: the first half of its sha256, in groups."""
        digest = hashlib.sha256(self.raw).hexdigest()[:32]
        return "-".join(digest[at : at + 4] for at in range(0, 32, 4))

    def checks(self, signature: bytes, message: bytes) -> bool:
        """Whether the holder of the secret half has signed the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_pem(self) -> bytes:
        """The key as text.

        >>> SigningKey.generate().public.to_pem().splitlines()[0]
        b'-----BEGIN PUBLIC KEY-----'
        """
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        return key.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)

    @classmethod
    def load(cls, path: str | Path) -> VerifyKey:
        """Read a public key; a file with a secret one is refused, so that it is not handed round."""
        try:
            found = forms.load_pem_public_key(_content(path, "public"))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"a public key must be Ed25519 in PEM, got other bytes. {_REMEDY}", file=path
            ) from error
        if not isinstance(found, Ed25519PublicKey):
            raise DataError(f"a public key must be Ed25519, got another kind. {_REMEDY}", file=path)
        return cls(found.public_bytes_raw())


class SigningKey:
    """The secret half, never printed.

    >>> SigningKey.generate()
    SigningKey(secret)
    """

    def __init__(self, raw: bytes) -> None:
        check(len(raw) == 32, "secret key", "of 32 bytes", Shown(f"{len(raw)} bytes"), _REMEDY)
        self._key = Ed25519PrivateKey.from_private_bytes(raw)

    def __repr__(self) -> str:
        return "SigningKey(secret)"

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> VerifyKey:
        """The public half."""
        return VerifyKey(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """64 bytes that only this key can make for the message."""
        return self._key.sign(message)

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write ``path``.key, for its owner's eyes only, and ``path``.pub; nothing is written over.

        >>> import tempfile
        >>> secret, public = SigningKey.generate().save(Path(tempfile.mkdtemp()) / "shop")
        >>> oct(secret.stat().st_mode & 0o777), VerifyKey.load(public) == SigningKey.load(secret).public
        ('0o600', True)
        """
        target = Path(path)
        files = target.with_name(target.name + ".key"), target.with_name(target.name + ".pub")
        for file in files:
            if os.path.lexists(file):
                raise DataError(
                    "a key must be a new file, got one that is there. Choose another name.", file=file
                )
        target.parent.mkdir(parents=True, exist_ok=True)
        secret = self._key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        for file, content, mode in zip(files, (secret, self.public.to_pem()), (0o600, 0o644), strict=True):
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
        return files

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a file that :meth:`save` wrote; one that others can read is refused."""
        content = _content(path, "secret")
        mode = Path(path).stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            remedy = f"Run: chmod 600 {Path(path).name}, and make a new key if others may have read it."
            raise DataError(f"mode must be 0o600 or less, got {oct(mode)}. {remedy}", file=path)
        try:
            found = forms.load_pem_private_key(content, None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise DataError(
                f"a secret key must be Ed25519 in PEM, got other bytes. {_REMEDY}", file=path
            ) from error
        if not isinstance(found, Ed25519PrivateKey):
            raise DataError(f"a secret key must be Ed25519, got another kind. {_REMEDY}", file=path)
        return cls(found.private_bytes_raw())


def _content(path: str | Path, half: str) -> bytes:
    if not Path(path).is_file():
        raise DataError(f"a {half} key must be a file, got none. {_REMEDY}", file=path)
    with Path(path).open("rb") as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise DataError(f"a {half} key must be a short file, got a long one. {_REMEDY}", file=path)
    if half == "public" and b"PRIVATE" in content:
        raise DataError("the public key must be given, got a secret one. Give the .pub file.", file=path)
    return content
