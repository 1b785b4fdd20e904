"""Many small whole numbers in one large one: slots of equal width, side by side.

pack(v) = sum of v_i 2^(b i) over the slots i, with signs kept, so that pack(u) + pack(v) = pack(u + v): it
does not matter how many packed vectors were added. To read the slots the constant sum of 2^(b-1) 2^(b i) is
added first; each digit is then v_i + 2^(b-1), which lies in [0, 2^b) as long as v_i fits b bits.
``SPARE_BITS`` at the top are never used: whatever decrypts to random bits (a wrong key, a damaged
ciphertext) is noticed there except with a probability of 2^-64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_count
from veilrec.crypto.fixed_point import Integers
from veilrec.crypto.shown import Shown

SPARE_BITS = 64


@dataclass(frozen=True)
class Packing:
    """Slots of ``slot_bits`` bits in whole numbers below 2^(modulus_bits - 1), thus below any such modulus.

    >>> packing = Packing(slot_bits=25, modulus_bits=2048)
    >>> packing.slots
    79
    >>> one, other = packing.pack(np.array([1, -2])), packing.pack(np.array([-5, 7]))
    >>> packing.unpack([one[0] + other[0]], 2)
    array([-4,  5])
    """

    slot_bits: int
    modulus_bits: int

    def __post_init__(self) -> None:
        check_count("slot_bits", self.slot_bits, 2)
        check(self.slot_bits <= 63, "slot_bits", "at most 63", self.slot_bits, "Take a larger step.")
        remedy = "Take a longer key or a larger step."
        check(self.slots >= 1, "modulus_bits", "room for one slot", self.modulus_bits, remedy)

    @property
    def slots(self) -> int:
        """How many values one plaintext holds."""
        return (self.modulus_bits - 1 - SPARE_BITS) // self.slot_bits

    @property
    def offset(self) -> int:
        """What makes every digit non-negative."""
        ones = ((1 << self.slots * self.slot_bits) - 1) // ((1 << self.slot_bits) - 1)
        return ones << (self.slot_bits - 1)

    def plaintexts(self, length: int) -> int:
        """How many plaintexts ``length`` values need."""
        return -(-length // self.slots)

    def pack(self, integers: Integers) -> list[int]:
        """Signed plaintexts, the last one filled up with zeros."""
        half = 1 << (self.slot_bits - 1)
        flat = np.asarray(integers, np.int64).reshape(-1)
        good = (flat >= -half) & (flat < half)
        check(bool(good.all()), "integers", f"of {self.slot_bits} bits", flat[~good][:1].tolist())
        digits = np.full((self.plaintexts(len(flat)), self.slots), half, np.uint64)
        digits.reshape(-1)[: len(flat)] = (flat + half).view(np.uint64)
        words = np.zeros((len(digits), self._words), "<u8")
        for slot in range(self.slots):
            word, shift = divmod(slot * self.slot_bits, 64)
            words[:, word] |= digits[:, slot] << np.uint64(shift)
            if shift + self.slot_bits > 64:
                words[:, word + 1] |= digits[:, slot] >> np.uint64(64 - shift)
        raw, size, offset = words.tobytes(), 8 * self._words, self.offset
        starts = range(0, len(raw), size)
        return [int.from_bytes(raw[start : start + size], "little") - offset for start in starts]

    def unpack(self, plaintexts: Iterable[int], length: int) -> Integers:
        """The first ``length`` values of signed plaintexts; one that no packing can have made is refused."""
        offset, top, size = self.offset, 1 << self.slots * self.slot_bits, 8 * self._words
        shifted = [int(one) + offset for one in plaintexts]
        need = self.plaintexts(length)
        check(len(shifted) == need, "plaintexts", f"{need} for {length} values", len(shifted))
        good = all(0 <= one < top for one in shifted)
        remedy = "The key is not the right one, a share overflowed, or a ciphertext was damaged."
        check(good, "plaintexts", f"packed in {self.slots} slots", Shown("other bits"), remedy)
        raw = b"".join(one.to_bytes(size, "little") for one in shifted)
        words: NDArray[np.uint64] = np.frombuffer(raw, "<u8").reshape(-1, self._words)
        digits = np.empty((len(words), self.slots), np.uint64)
        for slot in range(self.slots):
            word, shift = divmod(slot * self.slot_bits, 64)
            digits[:, slot] = words[:, word] >> np.uint64(shift)
            if shift + self.slot_bits > 64:
                digits[:, slot] |= words[:, word + 1] << np.uint64(64 - shift)
        digits &= np.uint64((1 << self.slot_bits) - 1)
        return digits.reshape(-1)[:length].view(np.int64) - (1 << (self.slot_bits - 1))

    @property
    def _words(self) -> int:
        return -(-self.slots * self.slot_bits // 64)
