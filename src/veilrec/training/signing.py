"""The signature of a model: who wrote these bytes, and that they are still the same.

``signature.json`` has the public key, every other member with its size and sha256, and an Ed25519 signature
of that list. It says that the holder of the key signed these members together. It does not say that the
holder is who you think (compare the fingerprint by another way), nor that what the statement says is true.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilrec.core import DataError
from veilrec.crypto import SigningKey, VerifyKey
from veilrec.training.members import SIGNATURE, Bytes
from veilrec.training.parsing import Parser, is_list, is_text, is_whole

_DOMAIN = b"veilrec model signature 1\0"
_FORMAT = 1


def signature_of(members: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """What stands in ``signature.json`` for these members, given as bytes by name.

    >>> key = SigningKey.generate()
    >>> signature_of({"model.json": b"{}"}, key)["members"][0]["bytes"]
    2
    """
    listed = _listed(members)
    return {
        "format": _FORMAT,
        "key": key.public.raw.hex(),
        "members": listed,
        "signature": key.sign(_message(listed)).hex(),
    }


def check_signature(members: Mapping[str, Bytes], path: Path, key: VerifyKey | None) -> VerifyKey | None:
    """The key that signed the members, None where nobody did; a broken signature is refused.

    With a ``key`` a signature by that key must be there.
    """
    parser = Parser(path)
    if SIGNATURE not in members:
        if key is not None:
            raise DataError(
                f"the model must be signed by {key.fingerprint}, got none. Ask its owner for a signed one.",
                file=path,
            )
        return None
    about = parser.fields(
        parser.json(members[SIGNATURE], SIGNATURE),
        SIGNATURE,
        format=is_whole,
        key=is_text,
        members=is_list,
        signature=is_text,
    )
    if about["format"] != _FORMAT:
        parser.refuse(f"format of {SIGNATURE}", str(_FORMAT), str(about["format"]))
    try:
        found, signature = VerifyKey(bytes.fromhex(about["key"])), bytes.fromhex(about["signature"])
    except ValueError as error:
        raise DataError(f"{SIGNATURE} cannot be read ({error}). Save it again.", file=path) from error
    truth = _listed(members)
    if about["members"] != truth:
        said = {str(one.get("name")): one for one in about["members"] if isinstance(one, dict)}
        names = [*said, *(one["name"] for one in truth)]
        now = {one["name"]: one for one in truth}
        changed = next((name for name in names if said.get(name) != now.get(name)), "the list")
        raise DataError(
            f"the signature must be of these members, got one of others: {changed[:100]} was changed, added "
            "or left out. Ask its owner for the original.",
            file=path,
        )
    if not found.checks(signature, _message(truth)):
        raise DataError(
            "the signature must be that of its key, got another. Ask its owner for the original.", file=path
        )
    if key is not None and found != key:
        raise DataError(
            f"the model must be signed by {key.fingerprint}, got a signature by {found.fingerprint}.",
            file=path,
        )
    return found


def _listed(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "bytes": len(members[name]), "sha256": hashlib.sha256(members[name]).hexdigest()}
        for name in sorted(members)
        if name != SIGNATURE
    ]


def _message(listed: list[dict[str, Any]]) -> bytes:
    """The list as bytes, one way only, under a name that no other signature has."""
    return _DOMAIN + json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()
