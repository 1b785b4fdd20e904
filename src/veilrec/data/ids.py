"""External ids: kept exactly as given, stored lean, looked up fast.

Ids are text or whole numbers. Text that is a canonical 64-bit number everywhere in a column ("17",
never "017" or "+17") is stored as numbers, because it can be turned back without loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import DataError, warn

_CANONICAL = r"^(0|-?[1-9][0-9]{0,18})$"


def compact(series: pl.Series) -> pl.Series:
    """The same ids as 64-bit numbers where that loses nothing, else as text.

    >>> compact(pl.Series(["7", "12"])).dtype, compact(pl.Series(["07", "12"])).dtype
    (Int64, String)
    """
    if series.dtype.is_integer():
        numbers = series.cast(pl.Int64, strict=False)
        return numbers if numbers.null_count() == series.null_count() else series.cast(pl.String)
    text = series if series.dtype == pl.String else series.cast(pl.String)
    if len(text) == 0 or text.null_count() or not text.head(1000).str.contains(_CANONICAL).all():
        return text
    numbers = text.cast(pl.Int64, strict=False)
    if numbers.null_count():
        return text
    # every canonical number is at least as short as any other spelling of it, so equal totals suffice
    values, counts = _distinct(numbers.to_numpy(), count=True)
    shortest = pl.Series(values).cast(pl.String).str.len_bytes().to_numpy().astype(np.int64)
    written = int(text.str.len_bytes().cast(pl.Int64).sum())
    return numbers if int((shortest * counts).sum()) == written else text


def one_kind(name: str, values: list[Any]) -> list[Any]:
    """The values of a column of Python objects in one kind: all numbers, or all as text, with a warning.

    A whole number is the same however it is typed: 7.0 beside 7 is 7. None is a missing value.

    >>> one_kind("user", [7, 7.0, None])
    [7, 7, None]
    """
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return values
    plain = [_whole(value) for value in values]
    if all(value is None or _is_number(value) for value in plain):
        return plain if all(value is None or isinstance(value, int) for value in plain) else _floats(plain)
    if str in kinds:
        number = next((value for value in plain if _is_number(value)), None)
        same = "" if number is None else f", so that {number!r} and {str(number)!r} are one"
        others = ", ".join(sorted(kind.__name__ for kind in kinds - {str}))
        warn(
            f"column {name!r} must be of one kind, got text beside values of type {others}: all are read as "
            f"text{same}. Convert the column if they are not."
        )
    return [None if value is None else str(value) for value in plain]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)


def _whole(value: Any) -> Any:
    return int(value) if _is_number(value) and value == value // 1 else value


def _floats(values: list[Any]) -> list[Any]:
    return [None if value is None else float(value) for value in values]


class Ids:
    """A sorted vocabulary of external ids; the code of an id is its position.

    >>> ids = Ids(["b", "a", "b"])
    >>> len(ids), list(ids.take([1, 0])), ids.codes(["a", "z"]).tolist()
    (2, ['b', 'a'], [0, -1])
    """

    def __init__(self, values: Iterable[Any] | pl.Series) -> None:
        series = compact(values if isinstance(values, pl.Series) else pl.Series(list(values)))
        if len(series) == 0:
            series = pl.Series([], dtype=pl.Int64)
        if series.null_count():
            raise DataError("ids must be given everywhere, got a missing one. Leave such rows out.")
        if series.dtype == pl.Int64:
            series = pl.Series(_distinct(series.to_numpy())[0])
        else:
            series = series.unique().sort()
        self.values: pl.Series = series.alias("id")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Ids({len(self)} {'numbers' if self.numeric else 'texts'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and self.values.equals(other.values)

    def __hash__(self) -> int:
        return hash((len(self), self.numeric))

    @property
    def numeric(self) -> bool:
        """Whether the ids are stored as whole numbers."""
        return self.values.dtype == pl.Int64

    def take(self, codes: Iterable[int] | NDArray[Any]) -> pl.Series:
        """The external ids at these codes."""
        positions = np.asarray(codes if isinstance(codes, np.ndarray) else list(codes), dtype=np.int64)
        return self.values.gather(positions)

    def codes(self, external: Iterable[Any] | pl.Series) -> NDArray[np.int32]:
        """The codes of these ids, -1 where unknown. A number and its text ("17") name the same id."""
        series = external if isinstance(external, pl.Series) else pl.Series(list(external), strict=False)
        if len(series) == 0 or len(self) == 0:
            return np.full(len(series), -1, dtype=np.int32)
        if not self.numeric:
            return self._text_codes(series.cast(pl.String))
        if series.dtype.is_integer():
            wanted = series.cast(pl.Int64, strict=False)
        else:
            text = series.cast(pl.String)
            wanted = text.cast(pl.Int64, strict=False)
            wanted = wanted.set((wanted.cast(pl.String) != text).fill_null(False), None)
        known = wanted.is_not_null().to_numpy() if wanted.null_count() else None
        return _lookup(self.values.to_numpy(), wanted.fill_null(0).to_numpy(), known)

    def _text_codes(self, text: pl.Series) -> NDArray[np.int32]:
        if 20 * len(text) < len(self):  # a few bisections beat a hash table of the whole vocabulary
            found = self.values.search_sorted(text.fill_null("")).to_numpy()
            place = np.minimum(found, len(self) - 1).astype(np.int32)  # unsigned numbers have no place for -1
            same = (self.values.gather(place) == text).fill_null(False).to_numpy()
            return np.where(same, place, np.int32(-1))
        physical = text.cast(pl.Enum(self.values), strict=False).to_physical().cast(pl.Int32)
        return physical.fill_null(-1).to_numpy()


def encode(series: pl.Series) -> tuple[NDArray[np.int32], Ids]:
    """Codes and vocabulary of a column of ids.

    >>> codes, ids = encode(pl.Series(["x", "y", "x"]))
    >>> codes.tolist(), list(ids.values)
    ([0, 1, 0], ['x', 'y'])
    """
    values = compact(series)
    ids = Ids(values.unique() if values.dtype == pl.String else values)
    return ids.codes(values), ids


def _dense(low: int, high: int, n: int) -> bool:
    """Whether a table with one cell for every number from ``low`` to ``high`` is worth its memory."""
    return high - low + 1 <= 4 * n + 1000


def _distinct(numbers: NDArray[np.int64], count: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers in order, and (if asked) how often each occurs."""
    if len(numbers) and _dense(low := int(numbers.min()), high := int(numbers.max()), len(numbers)):
        if count:
            cells = np.bincount(numbers - low)
            values = np.flatnonzero(cells)
            return values + low, cells[values]
        seen = np.zeros(high - low + 1, dtype=np.bool_)
        seen[numbers - low] = True
        return np.flatnonzero(seen) + low, np.zeros(0, np.int64)
    values, counts = np.unique(numbers, return_counts=True)
    return values, counts


def _lookup(
    table: NDArray[np.int64], wanted: NDArray[np.int64], known: NDArray[np.bool_] | None
) -> NDArray[np.int32]:
    """Positions of ``wanted`` in the sorted ``table``, -1 where absent or not ``known``."""
    low, high = int(table[0]), int(table[-1])
    if _dense(low, high, len(wanted)):  # a direct table beats bisection
        direct = np.full(high - low + 1, -1, dtype=np.int32)
        direct[table - low] = np.arange(len(table), dtype=np.int32)
        outside = (wanted < low) | (wanted > high)
        if outside.any():
            known = ~outside if known is None else known & ~outside
            wanted = np.where(outside, low, wanted)
        found = direct[wanted - low]
    else:
        place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
        found = np.where(table[place] == wanted, place, -1).astype(np.int32)
    return found if known is None else np.where(known, found, -1).astype(np.int32)
