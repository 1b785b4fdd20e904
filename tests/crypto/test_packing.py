"""Packing: the sum law against a slow oracle, the extremes of a slot, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.crypto import Packing


def slow_pack(values: list[int], packing: Packing) -> list[int]:
    """The definition: sum of v_i 2^(b i), group by group."""
    groups = [values[start : start + packing.slots] for start in range(0, len(values), packing.slots)]
    return [sum(v << packing.slot_bits * i for i, v in enumerate(group)) for group in groups]


@given(st.integers(3, 63), st.integers(256, 700), st.lists(st.integers(-1, 1), max_size=60), st.data())
def test_packing_is_the_definition_and_adds_up(bits: int, modulus: int, signs: list[int], data) -> None:
    packing = Packing(bits, modulus)
    quarter = 1 << (bits - 2)
    one = [sign * data.draw(st.integers(0, quarter)) for sign in signs]
    other = [-sign * data.draw(st.integers(0, quarter - 1)) for sign in signs]
    packed = [packing.pack(np.array(v, np.int64)) for v in (one, other)]
    assert packed[0] == slow_pack(one, packing)
    assert all(abs(p) < 2 ** (modulus - 2) for p in packed[0])
    added = [a + b for a, b in zip(*packed)]
    assert packing.unpack(added, len(one)).tolist() == [a + b for a, b in zip(one, other)]


@pytest.mark.parametrize("bits", [2, 25, 32, 33, 63])
def test_the_extremes_of_a_slot_survive(bits: int) -> None:
    packing = Packing(bits, 2048)
    half = 1 << (bits - 1)
    values = np.array([half - 1, -half] * packing.slots, np.int64)
    assert packing.unpack(packing.pack(values), len(values)).tolist() == values.tolist()


def test_a_slot_too_full_is_refused_before_and_seen_after() -> None:
    packing = Packing(8, 256)
    with pytest.raises(ValueError, match=r"integers must be of 8 bits, got \[128\]"):
        packing.pack(np.array([128]))
    top = [0] * (packing.slots - 1) + [100]
    overflowing = 2 * packing.pack(np.array(top))[0]  # 200 in the last slot
    with pytest.raises(ValueError, match="plaintexts must be packed in 23 slots"):
        packing.unpack([overflowing], packing.slots)


def test_what_no_packing_made_is_refused() -> None:
    packing = Packing(25, 2048)
    for wrong in (2**2046, -(2**2046), 2 ** (79 * 25)):
        with pytest.raises(ValueError, match=r"got other bits\. The key is not the right one"):
            packing.unpack([wrong], 3)
    with pytest.raises(ValueError, match="plaintexts must be 1 for 3 values, got 2"):
        packing.unpack([0, 0], 3)


def test_settings() -> None:
    assert Packing(25, 2048).slots == 79  # 64 bits stay free at the top
    assert Packing(48, 2048).slots == 41
    assert Packing(25, 2048).plaintexts(107_648) == 1363
    with pytest.raises(ValueError, match="slot_bits must be at most 63, got 64"):
        Packing(64, 2048)
    with pytest.raises(ValueError, match="modulus_bits must be room for one slot, got 80"):
        Packing(25, 80)
