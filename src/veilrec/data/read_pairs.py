"""Rows that name the same user and item: which of them stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import warn
from veilrec.data.format_table import Table
from veilrec.data.ids import Ids
from veilrec.data.order import stable_order

POLICIES = ("last", "first", "mean", "error", "keep")
Columns = dict[str, NDArray[Any]]


def settle_pairs(columns: Columns, users: Ids, items: Ids, policy: str, table: Table) -> Columns:
    """One row per (user, item) by the named policy; ``columns`` are arrays in the order of the table.

    "last" and "first" go by time, or by the order of rows without times (and between equal times). "mean"
    averages the ratings, keeps the last time, and marks the pair sensitive if any of its rows is.
    """
    if policy == "keep":
        return columns
    cell = columns["user"].astype(np.int64) * max(len(items), 1) + columns["item"]
    order = stable_order(cell)
    same = np.diff(cell[order]) == 0  # whether a row and the next in this order are one pair
    if not same.any():
        return columns
    if policy == "error":
        raise _first_repeat(order, same, columns, users, items, table)
    repeated = np.zeros(len(order), np.bool_)
    repeated[1:] |= same
    repeated[:-1] |= same
    rows = order[repeated]
    if "time" in columns:
        rows = rows[stable_order(cell[rows], columns["time"][rows])]
    starts = np.flatnonzero(np.diff(cell[rows], prepend=-1) != 0)
    ends = np.append(starts[1:], len(rows)) - 1
    chosen = rows[starts if policy == "first" else ends]
    if policy == "mean":
        columns = dict(columns)
        means = np.add.reduceat(columns["rating"][rows].astype(np.float64), starts) / (ends - starts + 1)
        columns["rating"] = _replaced(columns["rating"], chosen, means)
        if "sensitive" in columns:
            any_mark = np.logical_or.reduceat(columns["sensitive"][rows], starts)
            columns["sensitive"] = _replaced(columns["sensitive"], chosen, any_mark)
    keep = np.ones(len(order), np.bool_)
    keep[rows] = False
    keep[chosen] = True
    extra = len(rows) - len(chosen)
    how = "their ratings were averaged" if policy == "mean" else f"the {policy} of each was kept"
    warn(
        f"{table.label}: {extra:,} of {len(cell):,} rows repeat a pair of user and item; {how}. "
        'Say duplicates="keep" (--duplicates keep) to keep them all, or name another policy.'
    )
    return {name: column[keep] for name, column in columns.items()}


def _replaced(column: NDArray[Any], rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
    column = column.copy()
    column[rows] = values
    return column


def _first_repeat(
    order: NDArray[np.int64],
    same: NDArray[np.bool_],
    columns: Columns,
    users: Ids,
    items: Ids,
    table: Table,
) -> Exception:
    again = np.flatnonzero(same) + 1
    place = int(again[np.argmin(order[again])])
    row, earlier = int(order[place]), int(order[place - 1])
    user, item = users.values[int(columns["user"][row])], items.values[int(columns["item"][row])]
    where = table.where(earlier)
    return table.error(
        f"a pair of user and item must stand in one row only, got user {user!r} with item {item!r} again "
        f'(before in {where}). Remove one, or say duplicates="last", "first", "mean" or "keep".',
        row,
    )
