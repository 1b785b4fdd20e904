"""A wire in memory that carries bytes and remembers who saw which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from veilrec.core import check, check_count


class Transfer(NamedTuple):
    """One message that arrived.

    >>> Transfer("ann", "aggregator", b"...").receiver
    'aggregator'
    """

    sender: str
    receiver: str
    data: bytes


class Wire:
    """Delivers messages in order. ``cut`` names parties whose line breaks after so many messages sent.

    >>> wire = Wire(cut={"bob": 1})
    >>> for sender in ("ann", "bob", "bob"):
    ...     wire.send(sender, "aggregator", sender.encode())
    >>> wire.receive("aggregator")
    [('ann', b'ann'), ('bob', b'bob')]
    >>> wire.seen_by("aggregator")
    [b'ann', b'bob']
    """

    def __init__(self, cut: Mapping[str, int] | None = None) -> None:
        self._cut = dict(cut or {})
        for name, messages in self._cut.items():
            check_count(f"cut of {name}", messages, 0)
        self._sent: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
        self.transfers: list[Transfer] = []

    def send(self, sender: str, receiver: str, data: bytes) -> None:
        """Carry bytes to a receiver; a broken line loses them."""
        check(type(data) is bytes, "data", "bytes", type(data), "Parties share no objects.")
        self._sent[sender] += 1
        if sender in self._cut and self._sent[sender] > self._cut[sender]:
            return
        self._waiting[receiver].append((sender, data))
        self.transfers.append(Transfer(sender, receiver, data))

    def receive(self, receiver: str) -> list[tuple[str, bytes]]:
        """What lies ready for a receiver, as (sender, bytes), oldest first; each message once."""
        return self._waiting.pop(receiver, [])

    def seen_by(self, name: str) -> list[bytes]:
        """Everything that ever arrived at one party."""
        return [one.data for one in self.transfers if one.receiver == name]
