"""Rows that name the same user and item: which of them stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.data.format_table import Table
from veilrec.data.ids import Ids
from veilrec.data.order import stable_order
from veilrec.data.read_ids import warn

POLICIES = ("last", "first", "mean", "error", "keep")
Columns = dict[str, NDArray[Any]]


def settle_pairs(columns: Columns, users: Ids, items: Ids, policy: str, table: Table) -> Columns:
    """One row per (user, item) by the named policy; ``columns`` are arrays in the order of the table.

    "last" and "first" go by time, or by the order of rows without times (and between equal times). "mean"
    averages the ratings, keeps the last time, and marks the pair sensitive if any of its rows is.
    """
    cell = columns["user"].astype(np.int64) * max(len(items), 1) + columns["item"].astype(np.int64)
    if policy == "keep" or not _repeats(cell):
        return columns
    if policy == "error":
        raise _first_repeat(cell, columns, users, items, table)
    order = stable_order(cell, columns["time"]) if "time" in columns else stable_order(cell)
    grouped = cell[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    ends = np.concatenate([starts[1:], [len(order)]]) - 1
    chosen = order[starts if policy == "first" else ends]
    kept = {name: column[chosen] for name, column in columns.items()}
    if policy == "mean":
        rating = columns["rating"][order].astype(np.float64)
        kept["rating"] = (np.add.reduceat(rating, starts) / (ends - starts + 1)).astype(np.float32)
        if "sensitive" in columns:
            kept["sensitive"] = np.logical_or.reduceat(columns["sensitive"][order], starts)
    extra = len(cell) - len(chosen)
    how = "their ratings were averaged" if policy == "mean" else f"the {policy} of each was kept"
    warn(
        f"{table.label}: {extra:,} of {len(cell):,} rows repeat a pair of user and item; {how}. "
        'Say duplicates="keep" to keep them all, or name another policy.'
    )
    back = stable_order(chosen)
    return {name: column[back] for name, column in kept.items()}


def _repeats(cell: NDArray[np.int64]) -> bool:
    in_order = np.sort(cell)
    return bool((in_order[1:] == in_order[:-1]).any())


def _first_repeat(
    cell: NDArray[np.int64], columns: Columns, users: Ids, items: Ids, table: Table
) -> Exception:
    order = stable_order(cell)
    again = np.flatnonzero(cell[order[1:]] == cell[order[:-1]]) + 1
    place = int(again[np.argmin(order[again])])
    row, earlier = int(order[place]), int(order[place - 1])
    user, item = users.values[int(columns["user"][row])], items.values[int(columns["item"][row])]
    where = f"line {table.line(earlier)}" if table.line is not None else f"row {earlier}"
    return table.error(
        f"a pair of user and item must stand in one row only, got user {user!r} with item {item!r} again "
        f'(before in {where}). Remove one, or say duplicates="last", "first", "mean" or "keep".',
        row,
    )
