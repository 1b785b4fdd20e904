from __future__ import annotations

import math

import pytest

from veilrec.core import check_choice, check_count, check_fraction, check_non_negative, check_positive


@pytest.mark.parametrize("check", [check_positive, check_non_negative, check_fraction])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, "1", None])
def test_numbers_refuse(check, value) -> None:
    with pytest.raises(ValueError, match=r"^x must be .*, got .*\. Do this\.$"):
        check("x", value, "Do this.")


@pytest.mark.parametrize("value", [True, 1.0, 0, math.nan, "2"])
def test_counts_refuse(value) -> None:
    with pytest.raises(ValueError, match="x must be a whole number of at least 1"):
        check_count("x", value)


def test_good_values_pass() -> None:
    check_positive("x", 1e-9)
    check_non_negative("x", 0)
    check_fraction("x", 0.5)
    check_count("x", 1)
    check_choice("x", "a", ["a"])


def test_edges() -> None:
    for bad in (0, 1):
        with pytest.raises(ValueError):
            check_fraction("x", bad)
    with pytest.raises(ValueError):
        check_positive("x", 0)


def test_the_empty_word_is_shown() -> None:
    with pytest.raises(ValueError, match="sums must be one of '', plain, got 'aes'"):
        check_choice("sums", "aes", ["", "plain"])
