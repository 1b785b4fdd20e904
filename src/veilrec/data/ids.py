"""External ids: kept exactly as given, stored lean, looked up fast.

Ids are text or whole numbers. Text that is a canonical whole number everywhere in a column ("17",
never "017" or "+17") is stored as numbers, because it can be turned back without loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

_CANONICAL = r"^(0|-?[1-9][0-9]{0,17})$"


def compact(series: pl.Series) -> pl.Series:
    """The same ids as 64-bit numbers where that loses nothing, else as text.

    >>> compact(pl.Series(["7", "12"])).dtype, compact(pl.Series(["07", "12"])).dtype
    (Int64, String)
    """
    if series.dtype.is_integer():
        return series.cast(pl.Int64)
    if series.dtype != pl.String:
        series = series.cast(pl.String)
    if len(series) and series.head(1000).str.contains(_CANONICAL).all() and series.str.contains(_CANONICAL).all():
        return series.cast(pl.Int64)
    return series


class Ids:
    """A sorted vocabulary of external ids; the code of an id is its position.

    >>> ids = Ids(["b", "a", "b"])
    >>> len(ids), list(ids.take([1, 0])), ids.codes(["a", "z"]).tolist()
    (2, ['b', 'a'], [0, -1])
    """

    def __init__(self, values: Iterable[Any] | pl.Series) -> None:
        series = values if isinstance(values, pl.Series) else pl.Series(list(values))
        if len(series) == 0:
            series = pl.Series([], dtype=pl.Int64)
        self.values: pl.Series = compact(series).unique().sort().alias("id")

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
        series = external if isinstance(external, pl.Series) else pl.Series("id", list(external), strict=False)
        if len(series) == 0 or len(self) == 0:
            return np.full(len(series), -1, dtype=np.int32)
        if self.numeric and not series.dtype.is_integer():
            text = series.cast(pl.String)
            number = text.cast(pl.Int64, strict=False)
            series = number.set(~text.str.contains(_CANONICAL).fill_null(False), None)
        wanted = series.cast(self.values.dtype)
        if self.numeric:
            table = self.values.to_numpy()
            filled = wanted.fill_null(0).to_numpy()
            low, span = int(table[0]), int(table[-1]) - int(table[0]) + 1
            if span <= 4 * len(table) + 1_000_000:  # a direct table beats bisection for dense ids
                direct = np.full(span, -1, dtype=np.int32)
                direct[table - low] = np.arange(len(table), dtype=np.int32)
                inside = (filled >= low) & (filled <= int(table[-1])) & wanted.is_not_null().to_numpy()
                return np.where(inside, direct[np.where(inside, filled - low, 0)], -1).astype(np.int32)
            place = np.minimum(np.searchsorted(table, filled), len(table) - 1)
            found = (table[place] == filled) & wanted.is_not_null().to_numpy()
            return np.where(found, place, -1).astype(np.int32)
        table_frame = pl.DataFrame({"id": self.values, "code": np.arange(len(self), dtype=np.int32)})
        joined = wanted.alias("id").to_frame().join(table_frame, on="id", how="left", maintain_order="left")
        return joined["code"].fill_null(-1).to_numpy()


def encode(series: pl.Series) -> tuple[NDArray[np.int32], Ids]:
    """Codes and vocabulary of a column of ids.

    >>> codes, ids = encode(pl.Series(["x", "y", "x"]))
    >>> codes.tolist(), list(ids.values)
    ([0, 1, 0], ['x', 'y'])
    """
    values = compact(series)
    ids = Ids(values)
    return ids.codes(values), ids
