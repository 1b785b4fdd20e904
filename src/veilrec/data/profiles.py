"""User profiles: what a data set says of each user, as numbers in [-1, 1] and categories.

The 18 rating statistics and the attributes of GERAI (Zhang et al., WWW 2021, table 1): number of rated items,
count and share of each rating level, share of positive (the two best levels) and negative ones (the two
worst), entropy, median, minimum, maximum and mean; then the declared attributes. Data without ratings, or
without a declared rating range, have the first of them only, and a warning names the others. Two scalings:
``public`` maps by ranges that anybody knows (number of items, rating scale), ``observed`` by the extremes in
the data, as published: those extremes are themselves private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError, check, check_choice, warn
from veilrec.data.dataset import Categorical, Dataset, Numeric

LARGEST = 256
_LEVELS = 10
"""More categories than this say little and cost one coordinate each."""
_OF_RATINGS = (
    "count and share of each rating level, share positive and share negative, entropy, median, lowest, "
    "highest and mean"
)


@dataclass(frozen=True, eq=False)
class Profiles:
    """Numbers [users, a] in [-1, 1] and category codes [users, c], -1 where unknown.

    ``left_out`` says, a sentence each, what the data could not give.

    >>> import veilrec as vr
    >>> data = vr.synthetic(users=60, items=40, interactions=900)
    >>> found = profiles(data)
    >>> found.numbers.shape, len(found.category_names)
    ((60, 18), 3)
    """

    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]
    number_names: tuple[str, ...]
    category_names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    left_out: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each categorical feature has."""
        return tuple(len(names) for names in self.categories)

    @property
    def width(self) -> int:
        """Coordinates: one per number, one per category."""
        return len(self.number_names) + sum(self.sizes)

    def beside(self, other: Profiles) -> Profiles:
        """The features of both, of the same users."""
        return Profiles(
            np.concatenate([self.numbers, other.numbers], axis=1),
            np.concatenate([self.codes, other.codes], axis=1),
            (*self.number_names, *other.number_names),
            (*self.category_names, *other.category_names),
            (*self.categories, *other.categories),
            (*self.left_out, *other.left_out),
        )

    def dense(self) -> NDArray[np.float32]:
        """Numbers and one-hot categories, [users, width]; an unknown category is all zeros."""
        parts = [self.numbers]
        for column, size in enumerate(self.sizes):
            parts.append((self.codes[:, column, None] == np.arange(size)).astype(np.float64))
        return np.concatenate(parts, axis=1).astype(np.float32)


def profiles(
    data: Dataset,
    *,
    scaling: str = "public",
    statistics: bool = True,
    attributes: Sequence[str] | None = None,
    bins: Mapping[str, Sequence[float]] | None = None,
    extremes: Mapping[str, Sequence[float]] | None = None,
    quiet: bool = False,
) -> Profiles:
    """The profiles of all users of ``data``.

    ``attributes``: which ones (all unless said). Categorical attributes are categories. A numeric attribute
    becomes categories when ``bins`` names its public edges (``{"age": (35, 46)}``: under 35, 35 to 45, over),
    else a number scaled by its declared range. An attribute with a single category tells nothing and is left
    out, as are statistics for want of ratings, with a warning; ``quiet`` only notes it in ``left_out``.
    ``extremes`` are those of other data, by which to scale instead of the own (:func:`extremes_of`).

    >>> import veilrec as vr
    >>> profiles(vr.synthetic(users=60, items=40, interactions=900), statistics=False).number_names
    ()
    """
    check_choice("scaling", scaling, ["public", "observed"])
    wanted = list(data.attributes) if attributes is None else list(attributes)
    numbers, codes = ({}, {}) if not statistics else (rating_statistics(data), {})
    left_out = _without_ratings(data) if statistics else []
    if scaling == "observed":
        ends = extremes or {name: (column.min(), column.max()) for name, column in numbers.items()}
        numbers = {name: _between(column, *ends[name]) for name, column in numbers.items() if name in ends}
    elif numbers:
        numbers = {name: _by_public_range(name, column, data) for name, column in numbers.items()}
    edges = dict(bins or {})
    for name in wanted:
        check_choice("attribute", name, data.attributes)
        found = data.attributes[name]
        if isinstance(found, Numeric) and name in edges:
            found = binned(found, edges[name])
        if isinstance(found, Numeric):
            numbers[name] = _declared(name, found)
        elif len(found.categories) <= 1:
            some = "one category" if found.categories else "no value"
            left_out.append(f"attribute {name} has {some} and tells nothing: left out")
        else:
            check(
                len(found.categories) <= LARGEST,
                f"attribute {name}",
                f"of at most {LARGEST} categories",
                len(found.categories),
                "Put rare ones together.",
            )
            codes[name] = found
    if not quiet:
        for words in left_out:
            warn(words)
    shape = (data.n_users, 0)
    return Profiles(
        np.stack(list(numbers.values()), axis=1) if numbers else np.zeros(shape),
        np.stack([c.codes.astype(np.int64) for c in codes.values()], axis=1)
        if codes
        else np.zeros(shape, np.int64),
        tuple(numbers),
        tuple(codes),
        tuple(column.categories for column in codes.values()),
        tuple(left_out),
    )


AS_NUMBERS = (
    "Few whole numbers are read as classes; to have numbers declare their range: numeric_ranges=, or veilrec "
    "data import ... --attribute-range NAME=LOW,HIGH."
)


def are_numbers(attribute: Categorical | Numeric | None) -> bool:
    """Whether the classes of an attribute are numbers that nobody has declared to be classes.

    >>> are_numbers(Categorical(np.array([0], np.int32), ("18", "20"), declared=False))
    True
    """
    if not isinstance(attribute, Categorical) or attribute.declared:
        return False
    return len(attribute.categories) > 1 and all(word.lstrip("-").isdigit() for word in attribute.categories)


def binned(attribute: Numeric, edges: Sequence[float]) -> Categorical:
    """A numeric attribute as categories between public edges.

    >>> ages = Numeric(np.array([20, 35, 45, 46, np.nan], np.float32), low=1, high=100)
    >>> binned(ages, (35, 46)).codes.tolist(), binned(ages, (35, 46)).categories
    ([0, 1, 1, 2, -1], ('below 35', '35 to 46', '46 and above'))
    """
    edges = check_edges("bins", edges)
    codes = np.where(np.isnan(attribute.values), -1, np.digitize(attribute.values, edges))
    names = [
        f"below {edges[0]:g}",
        *(f"{a:g} to {b:g}" for a, b in pairwise(edges)),
        f"{edges[-1]:g} and above",
    ]
    return Categorical(codes.astype(np.int32), tuple(names))


def check_edges(name: str, edges: Sequence[float], *, or_none: bool = False) -> tuple[float, ...]:
    """The edges between classes as numbers; they must be finite, rising and, unless ``or_none``, some.

    >>> check_edges("age_edges", (35, 46))
    (35.0, 46.0)
    >>> check_edges("age_edges", (46, 35))
    Traceback (most recent call last):
        ...
    ValueError: age_edges must be rising finite edges, got (46, 35). Write, say, (35, 46).
    """
    try:
        found = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        found = (math.nan,)
    good = all(math.isfinite(edge) for edge in found) and all(a < b for a, b in pairwise(found))
    check(good and (or_none or len(found) > 0), name, "rising finite edges", edges, "Write, say, (35, 46).")
    return found


def rating_statistics(data: Dataset) -> dict[str, NDArray[np.float64]]:
    """The statistics by name, one value per user, not scaled.

    >>> data = Dataset.from_arrays(["ann", "bob", "ann"], ["tea", "tea", "mate"])
    >>> rating_statistics(data)["items"].tolist()
    [2.0, 1.0]
    """
    count = np.bincount(data.user, minlength=data.n_users).astype(np.float64)
    out = {"items": count}
    if data.rating is None or data.rating_range is None:  # without a scale nothing can be said of ratings
        return out
    low, high = data.rating_range
    levels, width = _levels(low, high)
    place = np.rint(data.rating - levels[0]) if width is None else np.floor((data.rating - low) / width)
    level = np.clip(place.astype(np.int64), 0, len(levels) - 1)
    table = np.zeros((data.n_users, len(levels)))
    np.add.at(table, (data.user, level), 1.0)
    some = np.maximum(count, 1)[:, None]
    share = table / some
    out |= {f"count {v:g}": table[:, j] for j, v in enumerate(levels)}
    out |= {f"share {v:g}": share[:, j] for j, v in enumerate(levels)}
    out["share positive"], out["share negative"] = share[:, -2:].sum(1), share[:, :2].sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        out["entropy"] = -np.nansum(np.where(share > 0, share * np.log(share), 0.0), axis=1)
    middle = (low + high) / 2
    out["median"], out["lowest"], out["highest"] = (np.full(data.n_users, middle) for _ in range(3))
    order = np.lexsort((data.rating, data.user))
    ends = np.cumsum(count).astype(np.int64)
    starts, has = ends - count.astype(np.int64), count > 0
    sorted_rating = data.rating[order].astype(np.float64)
    n = count[has].astype(np.int64)
    first = starts[has]
    out["median"][has] = (sorted_rating[first + (n - 1) // 2] + sorted_rating[first + n // 2]) / 2
    out["lowest"][has], out["highest"][has] = sorted_rating[first], sorted_rating[first + n - 1]
    total = np.bincount(data.user, data.rating, data.n_users)
    out["mean"] = np.where(has, total / np.maximum(count, 1), middle)
    return out


def _levels(low: float, high: float) -> tuple[NDArray[np.float64], float | None]:
    """Whole numbers of a scale, if they are 2 to 10, else the middles of ten even parts and their width."""
    whole = np.arange(math.floor(low), math.floor(high) + 1, dtype=np.float64)
    if 2 <= len(whole) <= _LEVELS:
        return whole, None
    width = (high - low) / _LEVELS
    return np.asarray(low + width * (np.arange(_LEVELS) + 0.5), np.float64), width


def _without_ratings(data: Dataset) -> list[str]:
    if data.rating is None:
        why, remedy = "ratings", "Read the data with their column of ratings, if there is one"
    elif data.rating_range is None:
        why, remedy = (
            "declared range of ratings",
            "Declare it: rating_range=(low, high), or veilrec data import ... --rating-range LOW,HIGH",
        )
    else:
        return []
    return [f"the data have no {why}, so the profiles are without {_OF_RATINGS}. {remedy}."]


def _between(column: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    return np.zeros_like(column) if low == high else np.clip(2 * (column - low) / (high - low) - 1, -1, 1)


def _by_public_range(name: str, column: NDArray[np.float64], data: Dataset) -> NDArray[np.float64]:
    if name == "items" or name.startswith("count "):
        return np.asarray(2 * np.log1p(column) / math.log1p(data.n_items) - 1)
    if name.startswith("share "):
        return 2 * column - 1
    assert data.rating_range is not None
    low, high = data.rating_range
    if name == "entropy":
        return np.asarray(2 * column / math.log(len(_levels(low, high)[0])) - 1)
    return 2 * (column - low) / (high - low) - 1


def _declared(name: str, attribute: Numeric) -> NDArray[np.float64]:
    if attribute.low is None or attribute.high is None:
        raise DataError(
            f"attribute {name} must have a declared public range, got none. Read the table of users with "
            f"numeric_ranges={{{name!r}: (low, high)}}, or veilrec data import ... "
            f"--attribute-range {name}=LOW,HIGH, or without that column."
        )
    values = attribute.values.astype(np.float64)
    outside = (values < attribute.low) | (values > attribute.high)
    if outside.any():
        span = f"{attribute.low:g} to {attribute.high:g}"
        count = int(outside.sum())
        warn(f"attribute {name} has {count} values outside of {span}: moved to its edge")
    scaled = (
        2
        * (np.clip(values, attribute.low, attribute.high) - attribute.low)
        / (attribute.high - attribute.low)
        - 1
    )
    return np.asarray(np.where(np.isnan(values), 0.0, scaled))
