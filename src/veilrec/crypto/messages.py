"""The envelope of every message of a secure sum: bytes that say what they are, from whom and for which round.

    magic, version, kind, fingerprint of the settings, round, length of the sender's name, name, payload

The receiver names what it expects and refuses everything else. The envelope guards against mistakes (another
round, other settings, another key, a cut message), not against forgers: it carries no signature, so the
channel below must authenticate its ends, as TLS does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veilrec.core import check, check_count
from veilrec.crypto.shown import Shown

_HEADER = struct.Struct(">4sB12s16sQH")
_MAGIC, _VERSION = b"VRMS", 1
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Envelope:
    """What two parties of one round agree on: a fingerprint of the settings, and the round's number.

    >>> envelope = Envelope(bytes(16), round=3)
    >>> sealed = envelope.seal("share", "ann", b"...")
    >>> envelope.open(sealed, "share", "ann")
    b'...'
    >>> envelope.open(sealed, "share", "bob")
    Traceback (most recent call last):
        ...
    ValueError: sender must be 'bob', got 'ann'. A message was sent under another name.
    """

    fingerprint: bytes
    round: int

    def seal(self, kind: str, sender: str, payload: bytes) -> bytes:
        """The message as bytes."""
        name = sender.encode()
        check(0 < len(name) < 1 << 16, "sender", "a name of 1 to 65535 bytes", sender)
        check(len(kind) <= 12, "kind", "at most 12 letters", kind)
        check_count("round", self.round, 0)
        start = (_MAGIC, _VERSION, kind.encode(), self.fingerprint, self.round, len(name))
        return _HEADER.pack(*start) + name + payload

    def open(self, message: bytes, kind: str, sender: str) -> bytes:
        """The payload of a message of this round, of this kind, from this sender."""
        size = _HEADER.size
        magic, version, found, fingerprint, number, length = _header(message)
        check(magic == _MAGIC, "message", "a message of veilrec", magic)
        check(version == _VERSION, "version", str(_VERSION), version, "Both ends need the same veilrec.")
        found = found.rstrip(b"\0").decode("ascii", "replace")
        check(found == kind, "kind of message", repr(kind), found)
        remedy = "Both ends need the same key, bound, step, clients and length."
        same = fingerprint == self.fingerprint
        check(same, "settings fingerprint", self.fingerprint.hex(), fingerprint.hex(), remedy)
        remedy = "A message belongs to one round."
        check(number == self.round, "round", str(self.round), number, remedy)
        name = message[size : size + length].decode("utf-8", "replace")
        check(name == sender, "sender", repr(sender), name, "A message was sent under another name.")
        return message[size + length :]


def peek_round(message: bytes) -> int:
    """The round a message claims to belong to.

    >>> peek_round(Envelope(bytes(16), round=3).seal("begin", "sum", b""))
    3
    """
    return int(_header(message)[4])


def _header(message: bytes) -> tuple[Any, ...]:
    check(isinstance(message, bytes), "message", "bytes", type(message), "Parties share no objects.")
    check(len(message) >= _HEADER.size, "message", f"at least {_HEADER.size} bytes long", len(message))
    return _HEADER.unpack_from(message)


def join_entries(entries: Mapping[str, bytes]) -> bytes:
    """Named parts as one payload, in order of name.

    >>> split_entries(join_entries({"bob": b"2", "ann": b"1"}))
    {'ann': b'1', 'bob': b'2'}
    """
    parts = []
    for name, data in sorted(entries.items()):
        key = name.encode()
        good = max(len(key), len(data)) < 1 << 32
        check(good, "part of a message", "below 4 GiB", name, "Send fewer at once.")
        parts += [_LENGTH.pack(len(key)), key, _LENGTH.pack(len(data)), data]
    return b"".join(parts)


def split_entries(payload: bytes) -> dict[str, bytes]:
    """Read what :func:`join_entries` wrote; each name once, nothing left over.

    >>> split_entries(b"xyz")
    Traceback (most recent call last):
        ...
    ValueError: entries must be whole, got 3 bytes at 0. The message was cut.
    """
    found: dict[str, bytes] = {}
    at, fields = 0, []
    while at < len(payload):
        size = _LENGTH.unpack_from(payload, at)[0] if at + _LENGTH.size <= len(payload) else len(payload)
        stop = at + _LENGTH.size + size
        left = Shown(f"{len(payload) - at} bytes at {at}")
        check(stop <= len(payload), "entries", "whole", left, "The message was cut.")
        fields.append(payload[at + _LENGTH.size : stop])
        at = stop
    check(len(fields) % 2 == 0, "entries", "pairs of a name and its data", len(fields))
    for key, data in zip(fields[::2], fields[1::2]):
        name = key.decode("utf-8", "replace")
        check(name not in found, "names", "given once each", name)
        found[name] = data
    return found
