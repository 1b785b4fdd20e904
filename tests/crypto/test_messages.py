"""Envelopes and lists of named parts: what goes in comes out, everything else is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.crypto.messages import Envelope, join_entries, peek_round, split_entries

ENVELOPE = Envelope(bytes(range(16)), round=7)


@given(st.text(min_size=1, max_size=30).filter(lambda t: t.isprintable()), st.binary(max_size=50))
def test_what_is_sealed_is_opened(sender: str, payload: bytes) -> None:
    sealed = ENVELOPE.seal("share", sender, payload)
    assert ENVELOPE.open(sealed, "share", sender) == payload
    assert peek_round(sealed) == 7


def test_golden_bytes() -> None:
    head = b"VRMS\x01share" + bytes(7) + bytes(range(16)) + bytes(7) + b"\x07\x00\x03"
    assert ENVELOPE.seal("share", "ann", b"xyz") == head + b"annxyz"


@pytest.mark.parametrize(
    ("envelope", "kind", "sender", "words"),
    [
        (Envelope(bytes(16), 7), "share", "ann", "settings fingerprint must be '?0+'?, got"),
        (Envelope(bytes(range(16)), 8), "share", "ann", "round must be 8, got 7"),
        (ENVELOPE, "keys", "ann", "kind of message must be 'keys', got 'share'"),
        (ENVELOPE, "share", "an", "sender must be 'an', got 'ann'"),
    ],
)
def test_other_expectations_are_refused(envelope: Envelope, kind: str, sender: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        envelope.open(ENVELOPE.seal("share", "ann", b""), kind, sender)


@given(st.binary(max_size=80))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="message must be"):
        ENVELOPE.open(data, "share", "ann")


def test_versions_and_senders_are_checked() -> None:
    sealed = ENVELOPE.seal("share", "ann", b"")
    with pytest.raises(ValueError, match="version must be 1, got 2"):
        ENVELOPE.open(sealed[:4] + b"\x02" + sealed[5:], "share", "ann")
    for wrong in ("", "x" * 70_000):
        with pytest.raises(ValueError, match="sender must be a name"):
            ENVELOPE.seal("share", wrong, b"")
    with pytest.raises(ValueError, match="round must be a whole number of at least 0, got -1"):
        Envelope(bytes(16), -1).seal("share", "ann", b"")


@given(st.dictionaries(st.text(max_size=5).filter(lambda t: t.isprintable()), st.binary(max_size=9)))
def test_entries_come_back(entries: dict[str, bytes]) -> None:
    assert split_entries(join_entries(entries)) == entries


@given(st.binary(max_size=40))
def test_random_entries_are_refused_or_mean_what_they_say(data: bytes) -> None:
    try:
        found = split_entries(data)
    except ValueError:  # and nothing else
        return
    assert len(join_entries(found)) == len(data) or any("\ufffd" in name for name in found)


def test_cut_and_doubled_entries_are_refused() -> None:
    data = join_entries({"ann": b"1", "bob": b"2"})
    for cut in range(1, len(data)):
        if cut != len(data) // 2:
            with pytest.raises(ValueError, match="entries must be"):
                split_entries(data[:cut])
    with pytest.raises(ValueError, match="names must be given once each, got 'ann'"):
        split_entries(join_entries({"ann": b"1"}) * 2)
