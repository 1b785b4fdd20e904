"""Filters: drop rare users, rare items or low ratings, and everything that belonged only to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError, check, check_count
from veilrec.data.dataset import Dataset, Links
from veilrec.data.ids import Ids


def k_core(data: Dataset, user_min: int = 5, item_min: int = 5) -> Dataset:
    """The largest part in which each user has ``user_min`` interactions and each item ``item_min``.

    Users and items below are dropped in turn until none is left to drop. A repeated pair counts each time.
    Attributes and links of dropped users go with them.

    >>> data = Dataset.from_arrays([1, 1, 2, 2, 3], ["a", "b", "a", "b", "c"])
    >>> k_core(data, 2, 2)
    Dataset 'data': 4 interactions of 2 users with 2 items
    """
    check_count("user_min", user_min)
    check_count("item_min", item_min)
    user, item, rows = data.user, data.item, np.arange(len(data))
    while True:
        busy = np.bincount(user, minlength=data.n_users) >= user_min
        liked = np.bincount(item, minlength=data.n_items) >= item_min
        kept = busy[user] & liked[item]
        if bool(kept.all()):
            break
        user, item, rows = user[kept], item[kept], rows[kept]
    if len(rows) == 0:
        raise DataError(_nothing_left(data, user_min, item_min))
    words = f"which users and items were kept: those of the {user_min}-{item_min}-core of everybody's rows"
    return replace(_shrink(data, rows), shaped=(*data.shaped, words))


def min_rating(data: Dataset, threshold: float) -> Dataset:
    """Only the interactions rated ``threshold`` or better, and the users and items that have any.

    >>> min_rating(Dataset.from_arrays([1, 1, 2], ["a", "b", "a"], rating=[5, 2, 4]), 4)
    Dataset 'data': 2 interactions of 2 users with 1 items with rating
    """
    check(isinstance(threshold, int | float) and threshold == threshold, "threshold", "a number", threshold)
    if data.rating is None:
        raise DataError(f"min_rating needs ratings, and {data.name!r} has none. Leave the filter out.")
    rows = np.flatnonzero(data.rating >= threshold)
    if len(rows) == 0:
        best = f"the highest rating is {data.rating.max():g}" if len(data) else "there are no ratings at all"
        raise DataError(
            f"threshold must be low enough to keep some interaction, got {threshold!r}. Of {_size(data)} "
            f"none is left: {best}. Lower threshold."
        )
    return _shrink(data, rows)


def _size(data: Dataset) -> str:
    return f"{len(data):,} interactions of {data.n_users:,} users with {data.n_items:,} items"


def _nothing_left(data: Dataset, user_min: int, item_min: int) -> str:
    busiest = int(data.user_counts.max(initial=0))
    most_liked = int(data.item_counts.max(initial=0))
    if not len(data):
        remedy = "There was nothing to filter."
    elif busiest < user_min:
        remedy = f"Lower user_min: the busiest user has {busiest:,}."
    elif most_liked < item_min:
        remedy = f"Lower item_min: the most popular item has {most_liked:,}."
    else:
        remedy = "Lower user_min or item_min: each alone leaves something, together they leave nothing."
    return (
        "user_min and item_min must be low enough to keep some interaction, "
        f"got {user_min} and {item_min}. Of {_size(data)} none is left. {remedy}"
    )


def _recode(ids: Ids, used: NDArray[np.bool_]) -> tuple[Ids, NDArray[np.int32], NDArray[np.int64]]:
    """The vocabulary of the used ids, the new code of each old one (-1: gone), the old code of each new one.

    The order can change: with the last "x17" gone the rest may be whole numbers, which sort as numbers.
    """
    kept = np.flatnonzero(used)
    survivors = ids.values.gather(kept)
    smaller = Ids(survivors)
    fresh = smaller.codes(survivors)
    new_code = np.full(len(ids), -1, np.int32)
    new_code[kept] = fresh
    old_code = np.empty(len(kept), np.int64)
    old_code[fresh] = kept
    return smaller, new_code, old_code


def _shrink(data: Dataset, rows: NDArray[np.int64]) -> Dataset:
    """Only these rows, with the vocabularies, attributes and links of the users and items they name."""
    users, user_code, old_user = _recode(data.users, np.bincount(data.user[rows], minlength=data.n_users) > 0)
    items, item_code, _ = _recode(data.items, np.bincount(data.item[rows], minlength=data.n_items) > 0)
    columns: Mapping[str, Any] = {
        label: None if getattr(data, label) is None else getattr(data, label)[rows]
        for label in ("rating", "time", "sensitive")
    }
    links = None
    if data.links is not None:
        source, target = user_code[data.links.source], user_code[data.links.target]
        both = (source >= 0) & (target >= 0)
        links = Links(source[both], target[both])
    user, item = user_code[data.user[rows]], item_code[data.item[rows]]
    in_order = bool((np.diff(user) >= 0).all())  # nearly always; then the rows need no new sorting
    build = Dataset if in_order else Dataset.from_codes
    return build(
        user,
        item,
        users,
        items,
        **columns,
        attributes={label: attribute.take(old_user) for label, attribute in data.attributes.items()},
        links=links,
        rating_range=data.rating_range,
        name=data.name,
        frame_kind=data.frame_kind,
        shaped=data.shaped,
        origin=data.identity,
    )
