"""Argument checks: one wording everywhere, `{name} must be {constraint}, got {value!r}. {remedy}`.

NaN fails every numeric check, because each test is written as "the good case holds".
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def check(condition: bool, name: str, constraint: str, value: object, remedy: str = "") -> None:
    """Raise a ValueError in the house wording unless ``condition`` holds.

    >>> check(False, "k", "at least 1", 0, "Ask for one item or more.")
    Traceback (most recent call last):
        ...
    ValueError: k must be at least 1, got 0. Ask for one item or more.
    """
    if not condition:
        raise ValueError(f"{name} must be {constraint}, got {value!r}. {remedy}".strip())


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_positive(name: str, value: float, remedy: str = "") -> None:
    """``value`` must be a finite number above zero.

    >>> check_positive("learning_rate", float("nan"), "Try 0.01.")
    Traceback (most recent call last):
        ...
    ValueError: learning_rate must be a finite number above 0, got nan. Try 0.01.
    """
    good = _number(value) and 0 < value < float("inf")
    check(good, name, "a finite number above 0", value, remedy)


def check_non_negative(name: str, value: float, remedy: str = "") -> None:
    """``value`` must be a finite number, zero or above.

    >>> check_non_negative("weight_decay", -1)
    Traceback (most recent call last):
        ...
    ValueError: weight_decay must be a finite number, 0 or above, got -1.
    """
    good = _number(value) and 0 <= value < float("inf")
    check(good, name, "a finite number, 0 or above", value, remedy)


def check_fraction(name: str, value: float, remedy: str = "") -> None:
    """``value`` must lie strictly between zero and one.

    >>> check_fraction("test", 1.0)
    Traceback (most recent call last):
        ...
    ValueError: test must be strictly between 0 and 1, got 1.0.
    """
    check(_number(value) and 0 < value < 1, name, "strictly between 0 and 1", value, remedy)


def check_count(name: str, value: int, minimum: int = 1, remedy: str = "") -> None:
    """``value`` must be a whole number of at least ``minimum`` (booleans are not numbers).

    >>> check_count("k", True)
    Traceback (most recent call last):
        ...
    ValueError: k must be a whole number of at least 1, got True.
    """
    good = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
    check(good, name, f"a whole number of at least {minimum}", value, remedy)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """``value`` must be one of ``choices``; the error names the nearest one.

    >>> check_choice("protocol", "ful", ["full", "sampled"])
    Traceback (most recent call last):
        ...
    ValueError: protocol must be one of full, sampled, got 'ful'. Did you mean 'full'?
    """
    choices = list(choices)
    if value in choices:
        return
    near = get_close_matches(str(value), choices, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else ""
    words = ", ".join(word or "''" for word in choices)
    check(False, name, f"one of {words}", value, remedy)
