"""Numbers as whole multiples of a step, so that a sum of many clients is exact and cannot overflow.

With q(x) = the multiple of ``step`` nearest to x (halves to even) the laws are, for |x| <= bound:

    |x - q(x)| <= step / 2                                             (rounding)
    decode(encode(x_1) + ... + encode(x_N)) = q(x_1) + ... + q(x_N)    (exact, for N <= clients)

Proof that nothing overflows. The step is a power of two and the bound a multiple of it, so scaling is exact
in floating point and |encode(x)| <= levels = bound / step. N values add up to at most clients x levels in
size, which fits ``slot_bits`` bits with a sign. The constructor refuses settings for which clients x levels
reaches 2^53: below, every sum is also a float64 without rounding. A value outside the bound, or NaN, is
refused, never wrapped or cut: clip first, where the sensitivity is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_positive
from veilrec.crypto.shown import Shown

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FixedPoint:
    """Values in [-bound, bound] on a grid of ``step``, for sums over at most ``clients`` clients.

    >>> code = FixedPoint(bound=1.0, step=2**-16, clients=200)
    >>> code.levels, code.slot_bits
    (65536, 25)
    >>> code.decode(code.encode([0.5, -0.25]) + code.encode([0.5, 1.0]))
    array([1.  , 0.75])
    >>> code.encode([1.5])
    Traceback (most recent call last):
        ...
    ValueError: values must be from -1.0 to 1.0, got 1.5 at 0. Clip them first.
    """

    bound: float
    step: float
    clients: int

    def __post_init__(self) -> None:
        check_positive("bound", self.bound)
        check_positive("step", self.step)
        check_count("clients", self.clients)
        check(
            Fraction(self.step).numerator.bit_count() == 1, "step", "a power of two", self.step, "Try 2**-16."
        )
        levels = Fraction(self.bound) / Fraction(self.step)
        check(levels.denominator == 1, "bound", f"a multiple of the step {self.step}", self.bound)
        remedy = "Take a larger step, a smaller bound or fewer clients."
        most = self.clients * int(levels)
        check(most < 1 << 53, "clients x bound / step", "below 2**53", most, remedy)

    @property
    def levels(self) -> int:
        """The largest whole number that one value becomes."""
        return int(Fraction(self.bound) / Fraction(self.step))

    @property
    def slot_bits(self) -> int:
        """The bits that hold any sum of ``clients`` values, sign included."""
        return (self.clients * self.levels).bit_length() + 1

    def encode(self, values: ArrayLike) -> Integers:
        """The nearest whole numbers of steps; the shape stays."""
        x = np.asarray(values, np.float64)
        good = np.abs(x) <= self.bound  # false for NaN
        if not good.all():
            where = int(np.flatnonzero(~good)[0])
            value = Shown(f"{float(x.reshape(-1)[where])} at {where}")
            check(False, "values", f"from {-self.bound} to {self.bound}", value, "Clip them first.")
        return np.rint(x / self.step).astype(np.int64)

    def decode(self, sums: ArrayLike) -> NDArray[np.float64]:
        """A sum of encoded values as floats, without any rounding."""
        whole = self.checked(sums, self.clients)
        return np.asarray(whole.astype(np.float64) * self.step)

    def checked(self, integers: ArrayLike, summands: int = 1) -> Integers:
        """The same whole numbers, if ``summands`` clients in their range can have made them.

        >>> FixedPoint(1.0, 0.5, 3).checked([4], summands=2)
        array([4])
        >>> FixedPoint(1.0, 0.5, 3).checked([4])
        Traceback (most recent call last):
            ...
        ValueError: encoded values must be from -2 to 2, got 4 at 0. A share is out of range.
        """
        check_count("summands", summands)
        remedy = "Sum fewer, or encode for more clients."
        check(summands <= self.clients, "summands", f"at most {self.clients}", summands, remedy)
        array = np.asarray(integers)
        whole = np.issubdtype(array.dtype, np.signedinteger)
        check(whole, "encoded values", "signed whole numbers", array.dtype, "Encode them first.")
        most = summands * self.levels
        good = (array >= -most) & (array <= most)  # not abs: the least integer has none
        if not good.all():
            where = int(np.flatnonzero(~good)[0])
            found = Shown(f"{array.reshape(-1)[where]} at {where}")
            check(False, "encoded values", f"from {-most} to {most}", found, "A share is out of range.")
        return array.astype(np.int64)
