"""What a data set holds, in numbers and as text with bars for the terminal.

The summary is computed from the raw data without noise. It is for the data's owner, not for publication.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.data.dataset import Attribute, Categorical, Dataset

_QUANTILES = {"min": 0.0, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "max": 1.0}
_MOST_LEVELS = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Info:
    """The summary made by :func:`describe`.

    ``per_user``, ``per_item``, ``gini`` and ``top_share`` count only users and items with interactions;
    ``activity`` and ``popularity`` count them in bins of doubling width. ``attributes`` has, for each
    attribute, its kind, the missing share and the count of each category or the quantiles of its numbers.

    >>> info = describe(Dataset.from_arrays(["ann", "ann", "bob"], ["tea", "mate", "tea"], name="shop"))
    >>> info.users, info.to_dict()["items"]
    (2, 2)
    >>> print(info.to_text().splitlines()[0])
    shop: 3 interactions of 2 users with 2 items
    """

    name: str
    interactions: int
    users: int
    items: int
    silent_users: int
    silent_items: int
    density: float
    per_user: dict[str, float]
    per_item: dict[str, float]
    gini: float
    top_share: dict[str, float]
    ratings: dict[str, int] | None
    rating_range: tuple[float, float] | None
    times: tuple[str, str] | None
    activity: dict[str, int]
    popularity: dict[str, int]
    attributes: dict[str, dict[str, Any]]
    links: int | None
    sensitive: int | None
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return asdict(self)

    def to_text(self, width: int = 40) -> str:
        """The same for a reader at a terminal; the longest bar has ``width`` characters."""
        silent = [
            f"{count:,} {label} without interactions"
            for label, count in (("users", self.silent_users), ("items", self.silent_items))
            if count
        ]
        lines = [
            f"{self.name}: {self.interactions:,} interactions of "
            f"{self.users:,} users with {self.items:,} items",
            f"density      {self.density:.4%}" + (f" ({', '.join(silent)})" if silent else ""),
        ]
        if self.times is not None:
            lines.append(f"times        {self.times[0]} to {self.times[1]}")
        if self.links is not None:
            lines.append(f"links        {self.links:,}")
        if self.sensitive is not None:
            lines.append(f"sensitive    {self.sensitive:,} interactions")
        shares = ", ".join(
            f"the top {part} of items have {share:.1%}" for part, share in self.top_share.items()
        )
        lines.append(f"popularity   Gini {self.gini:.3f}; {shares}")
        lines.append(f"fingerprint  {self.fingerprint[:16]}")
        lines += ["", f"{'':8}" + "".join(f"{label:>12}" for label in self.per_user)]
        for label, numbers in (("per user", self.per_user), ("per item", self.per_item)):
            lines.append(f"{label:8}" + "".join(f"{_short(number):>12}" for number in numbers.values()))
        if self.ratings is not None:
            declared = (
                "" if self.rating_range is None else " (declared {:g} to {:g})".format(*self.rating_range)
            )
            lines += ["", f"ratings{declared}", *_bars(self.ratings, width)]
        lines += ["", "users by number of interactions", *_bars(self.activity, width)]
        lines += ["", "items by number of interactions", *_bars(self.popularity, width)]
        for label, summary in self.attributes.items():
            lines += [
                "",
                f"{label} ({summary['kind']}{_declared(summary)}, {summary['missing']:.1%} missing)",
            ]
            if summary["kind"] == "categorical":
                lines += _bars(summary["values"], width)
            else:
                lines.append("  " + "  ".join(f"{key} {value:g}" for key, value in summary["values"].items()))
        return "\n".join(line.rstrip() for line in lines)


def describe(data: Dataset) -> Info:
    """Count everything worth knowing before a model is fitted.

    >>> data = Dataset.from_arrays(["ann", "ann", "bob"], ["tea", "mate", "tea"], rating=[5, 4, 4])
    >>> info = describe(data)
    >>> info.interactions, info.per_user["mean"], info.ratings
    (3, 1.5, {'4': 2, '5': 1})
    """
    by_user = data.user_counts[data.user_counts > 0]
    by_item = data.item_counts[data.item_counts > 0]
    return Info(
        name=data.name,
        interactions=len(data),
        users=data.n_users,
        items=data.n_items,
        silent_users=data.n_users - len(by_user),
        silent_items=data.n_items - len(by_item),
        density=data.density,
        per_user=_quantiles(by_user),
        per_item=_quantiles(by_item),
        gini=gini(by_item),
        top_share={"1%": _top_share(by_item, 0.01), "10%": _top_share(by_item, 0.1)},
        ratings=None if data.rating is None else _levels(data.rating),
        rating_range=data.rating_range,
        times=None if data.time is None or not len(data) else (_day(data.time.min()), _day(data.time.max())),
        activity=_doubling(by_user),
        popularity=_doubling(by_item),
        attributes={label: _summary(attribute) for label, attribute in data.attributes.items()},
        links=None if data.links is None else len(data.links),
        sensitive=None if data.sensitive is None else int(data.sensitive.sum()),
        fingerprint=data.fingerprint,
    )


def gini(counts: NDArray[Any]) -> float:
    """The Gini coefficient: 0 when all are equal, towards 1 when one has everything; 0 when empty.

    >>> gini(np.array([1, 1, 1])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    total, size = float(counts.sum()), len(counts)
    if total == 0:
        return 0.0
    ranks = np.arange(1, size + 1)
    return float(2 * (ranks * np.sort(counts)).sum() / (size * total) - (size + 1) / size)


def _quantiles(values: NDArray[Any]) -> dict[str, float]:
    if len(values) == 0:
        return {}
    numbers = np.quantile(values, list(_QUANTILES.values()))
    return {
        **{label: float(number) for label, number in zip(_QUANTILES, numbers)},
        "mean": float(values.mean()),
    }


def _top_share(counts: NDArray[np.int64], part: float) -> float:
    """The share of all interactions that fall on the most popular ``part`` of the items (at least one)."""
    if len(counts) == 0:
        return 0.0
    top = int(np.ceil(part * len(counts)))
    return float(np.sort(counts)[-top:].sum() / counts.sum())


def _doubling(counts: NDArray[np.int64]) -> dict[str, int]:
    """How many counts are 1, 2-3, 4-7, 8-15, ..., from the first bin that has any."""
    if len(counts) == 0:
        return {}
    powers = np.bincount(np.frexp(counts)[1] - 1)
    names = ["1", *(f"{2**power}-{2 ** (power + 1) - 1}" for power in range(1, len(powers)))]
    first = int(np.flatnonzero(powers)[0])
    return {label: int(count) for label, count in list(zip(names, powers))[first:]}


def _levels(ratings: NDArray[np.float32]) -> dict[str, int]:
    """The count of each rating or, with more than 20 different ones, of bins: decades or ten equal ones."""
    table = pl.Series(ratings).value_counts(name="count").sort("")
    if len(table) <= _MOST_LEVELS:
        return {f"{value:g}": int(count) for value, count in table.rows()}
    low, high = float(ratings.min()), float(ratings.max())
    if low >= 1 and high >= 100 * low:
        edges = [10.0**power for power in range(int(np.log10(low)), int(np.log10(high)) + 2)]
    else:
        edges = np.linspace(low, high, 11).tolist()
    counts = np.histogram(ratings, edges)[0]
    names = (f"{start:.6g} to {end:.6g}" for start, end in pairwise(edges))
    return {label: int(count) for label, count in zip(names, counts)}


def _short(number: float) -> str:
    """One decimal, and none for whole numbers."""
    return f"{number:,.1f}".removesuffix(".0")


def _day(seconds: np.int64) -> str:
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def _summary(attribute: Attribute) -> dict[str, Any]:
    missing = attribute.missing
    share = float(missing.mean()) if len(missing) else 0.0
    if isinstance(attribute, Categorical):
        counts = np.bincount(attribute.codes[~missing], minlength=len(attribute.categories))
        values: dict[str, float] = {label: int(n) for label, n in zip(attribute.categories, counts)}
        return {"kind": "categorical", "missing": share, "values": values}
    declared = None if attribute.low is None else (attribute.low, attribute.high)
    numbers = _quantiles(attribute.values[~missing].astype(np.float64))
    return {"kind": "numeric", "missing": share, "declared": declared, "values": numbers}


def _declared(summary: dict[str, Any]) -> str:
    if summary["kind"] == "categorical":
        return f", {len(summary['values'])} values"
    return (
        ", no declared range" if summary["declared"] is None else " {:g} to {:g}".format(*summary["declared"])
    )


def _bars(counts: dict[str, int], width: int) -> list[str]:
    """One line per entry: label, count, and a bar in eighths of a character; one that is not 0 shows."""
    if not counts:
        return ["  none"]
    most = max(counts.values()) or 1
    room = max(len(label) for label in counts)
    digits = max(len(f"{count:,}") for count in counts.values())
    lines = []
    for label, count in counts.items():
        eighths = max(round(8 * width * count / most), int(count > 0))
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
        lines.append(f"  {label:>{room}}  {count:>{digits},}  {bar}".rstrip())
    return lines
