"""Fixed point: the two laws, the overflow proof, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.crypto import FixedPoint


def codecs() -> st.SearchStrategy[FixedPoint]:
    """Any step, any bound and number of clients that fit."""

    def build(step_bits: int, levels: int, clients: int) -> FixedPoint:
        return FixedPoint(levels * 2.0**step_bits, 2.0**step_bits, clients)

    return st.builds(build, st.integers(-40, 10), st.integers(1, 1 << 30), st.integers(1, 1 << 20))


def breaks_the_laws(code: FixedPoint, vectors: list[list[float]], encode: Callable[[float], int]) -> bool:
    """Whether an encoder misses the rounding or the sum law, in exact arithmetic."""
    step, total = Fraction(code.step), Fraction(0)
    numbers = 0
    for vector in vectors:
        for x in vector:
            whole = encode(x)
            if abs(Fraction(x) - whole * step) > step / 2:
                return True
            total += whole * step
            numbers += whole
    return Fraction(float(code.decode(np.array([numbers]))[0])) != total


@given(codecs(), st.lists(st.floats(-1, 1), min_size=1, max_size=8))
def test_the_laws_hold(code: FixedPoint, fractions: list[float]) -> None:
    values = [code.bound * x for x in fractions[: code.clients]]
    assert not breaks_the_laws(code, [[x] for x in values], lambda x: int(code.encode([x])[0]))


def test_a_codec_that_cuts_instead_of_rounding_is_caught() -> None:
    code = FixedPoint(1.0, 0.25, 4)
    assert breaks_the_laws(code, [[0.2]], lambda x: int(x / code.step))
    assert not breaks_the_laws(code, [[0.2]], lambda x: int(code.encode(x)))


def test_worked_values() -> None:
    code = FixedPoint(bound=2.0, step=0.5, clients=3)
    assert code.levels == 4
    assert code.encode([[-2.0, -0.25], [0.75, 2.0]]).tolist() == [[-4, 0], [2, 4]]  # halves go to even
    assert code.decode([[12, -12]]).tolist() == [[6.0, -6.0]]
    assert code.slot_bits == 5  # from -12 to 12


@given(codecs())
def test_the_extreme_sum_fits_its_slot_and_no_smaller_one(code: FixedPoint) -> None:
    most = code.clients * int(code.encode(code.bound))
    assert int(code.encode(-code.bound)) * code.clients == -most
    assert most <= 2 ** (code.slot_bits - 1) - 1
    assert most > 2 ** (code.slot_bits - 2) - 1
    assert code.decode(np.array([most]))[0] == Fraction(code.bound) * code.clients


def test_a_setting_that_could_overflow_is_refused() -> None:
    FixedPoint(1.0, 2.0**-43, clients=1023)
    with pytest.raises(
        ValueError, match=r"clients x bound / step must be below 2\*\*53, got 9007199254740992"
    ):
        FixedPoint(1.0, 2.0**-43, clients=1024)


@pytest.mark.parametrize("value", [1.0000001, -1.5, np.inf, -np.inf, np.nan])
def test_a_value_outside_the_bound_is_refused_with_its_place(value: float) -> None:
    with pytest.raises(ValueError, match=r"values must be from -1.0 to 1.0, got .* at 2\. Clip them first\."):
        FixedPoint(1.0, 2**-10, 3).encode([0.0, 1.0, value])


@pytest.mark.parametrize("number", [5, -5, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_an_encoded_value_outside_the_range_is_refused(number: int) -> None:
    code = FixedPoint(1.0, 0.5, clients=3)
    assert code.checked([4, -4], summands=2).tolist() == [4, -4]
    with pytest.raises(ValueError, match=r"encoded values must be from -4 to 4, got .* at 0"):
        code.checked([number], summands=2)


def test_too_many_summands_and_floats_are_refused() -> None:
    code = FixedPoint(1.0, 0.5, clients=3)
    with pytest.raises(ValueError, match="summands must be at most 3, got 4"):
        code.checked([1], summands=4)
    for wrong in ([0.5], [True], np.array([1], np.uint64)):
        with pytest.raises(ValueError, match="encoded values must be signed whole numbers"):
            code.checked(wrong)
    with pytest.raises(ValueError, match="encoded values must be from -6 to 6, got 7 at 0"):
        code.decode([7])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 0.5, 2), "bound must be a finite number above 0"),
        ((float("nan"), 0.5, 2), "bound must be a finite number above 0"),
        ((1.0, 0.3, 2), "step must be a power of two, got 0.3"),
        ((1.0, -0.5, 2), "step must be a finite number above 0"),
        ((0.75, 0.5, 2), "bound must be a multiple of the step 0.5, got 0.75"),
        ((1.0, 0.5, 0), "clients must be a whole number of at least 1"),
    ],
)
def test_bad_settings_are_refused(arguments: tuple[float, float, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        FixedPoint(*arguments)
