"""The wire: order, memory, broken lines, and bytes only."""

from __future__ import annotations

import pytest

from veilrec.federated import Transfer, Wire


def test_messages_arrive_once_and_in_order_and_are_remembered() -> None:
    wire = Wire()
    for data in (b"1", b"2"):
        wire.send("ann", "bob", data)
    wire.send("bob", "ann", b"3")
    assert wire.receive("bob") == [("ann", b"1"), ("ann", b"2")]
    assert wire.receive("bob") == []
    assert wire.receive("nobody") == []
    assert wire.seen_by("bob") == [b"1", b"2"]
    assert wire.transfers[-1] == Transfer("bob", "ann", b"3")


def test_a_broken_line_loses_messages_and_nobody_sees_them() -> None:
    wire = Wire(cut={"ann": 0, "bob": 1})
    for sender in ("ann", "bob", "bob", "cat"):
        wire.send(sender, "dan", sender.encode())
    assert wire.seen_by("dan") == [b"bob", b"cat"]
    assert [one.sender for one in wire.transfers] == ["bob", "cat"]
    with pytest.raises(ValueError, match="cut of ann must be a whole number of at least 0, got -1"):
        Wire(cut={"ann": -1})


@pytest.mark.parametrize("thing", ["text", bytearray(b"x"), None, [b"x"]])
def test_only_bytes_travel(thing) -> None:
    with pytest.raises(ValueError, match=r"data must be bytes, got .* Parties share no objects"):
        Wire().send("ann", "bob", thing)
