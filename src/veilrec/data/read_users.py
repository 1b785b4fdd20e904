"""The table of users (attributes) and the table of links, tied to the users of the interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import check, warn
from veilrec.data.columns import find_common, find_named, plain_name
from veilrec.data.dataset import Attribute, Categorical, Links, Numeric
from veilrec.data.format_table import Table
from veilrec.data.ids import Ids
from veilrec.data.order import stable_order
from veilrec.data.read_attributes import attribute
from veilrec.data.read_ids import coded, id_column, known_rows, missing_id
from veilrec.data.read_report import ReadReport


def read_users(
    table: Table,
    users: Ids,
    *,
    user: str | None,
    unknown_users: str,
    missing: str,
    numeric_ranges: Mapping[str, tuple[float, float]],
    categories: Mapping[str, Sequence[str]],
) -> tuple[dict[str, Attribute], ReadReport]:
    """Every column but the id as an attribute of ``users``; who has no row has no values."""
    key = _user_column(table, user)
    others = [name for name in table.names if name != key]
    for label, declared in (("numeric_ranges", numeric_ranges), ("categories", categories)):
        for name in declared:
            check(name in others, label, f"about the attributes {', '.join(others)}", name)
    both = sorted(numeric_ranges.keys() & categories.keys())
    check(not both, "a declared attribute", "given either a range or categories", both)
    frame = table.rows(table.names)
    codes, gone = _codes(table, frame[key], users, missing)
    rows = known_rows(table, frame[key], codes, gone, unknown_users)
    order = stable_order(codes[rows])
    again = np.flatnonzero(np.diff(codes[rows][order]) == 0) + 1
    if len(again):
        row, earlier = int(rows[order[again[0]]]), int(rows[order[again[0] - 1]])
        where = table.where(earlier)
        raise table.error(
            f"a user must have one row only, got {frame[key][row]!r} again (before in {where}). "
            "Remove one of the rows.",
            row,
        )
    target = codes[rows]
    found: dict[str, Attribute] = {}
    for name in others:
        values = attribute(table, name, frame[name], numeric_ranges.get(name), categories.get(name))
        if isinstance(values, Categorical):
            placed = np.full(len(users), -1, np.int32)
            placed[target] = values.codes[rows]
            found[name] = replace(values, codes=placed)
        else:
            spread = np.full(len(users), np.nan, np.float32)
            spread[target] = values.values[rows]
            found[name] = Numeric(spread, values.low, values.high)
    dropped = {"missing id": gone.sum(), "unknown user": (~gone & (codes < 0)).sum()}
    return found, ReadReport.of("users", table, frame.height, dropped, len(rows))


def read_links(
    table: Table, users: Ids, *, user: str | None, unknown_users: str, missing: str
) -> tuple[Links, ReadReport]:
    """Directed links between known users, each once, sorted; self links are dropped with a warning."""
    source, target = _link_columns(table, user)
    frame = table.rows([source, target])
    ends, gone, known = [], np.zeros(frame.height, np.bool_), np.ones(frame.height, np.bool_)
    for name in (source, target):
        codes, absent = _codes(table, frame[name], users, missing)
        gone |= absent
        ends.append(codes)
    for name, codes in zip((source, target), ends):
        mask = np.zeros(frame.height, np.bool_)
        mask[known_rows(table, frame[name], codes, gone, unknown_users)] = True
        known &= mask
    own = known & (ends[0] == ends[1])
    if own.any():
        warn(f"{table.label}: {int(own.sum()):,} links lead from a user to the same user; left out.")
    dropped = {"missing id": gone.sum(), "unknown user": (~gone & ~known).sum(), "link to oneself": own.sum()}
    known &= ~own
    cells = np.sort(ends[0][known].astype(np.int64) * len(users) + ends[1][known])
    kept = np.unique(cells)
    if len(kept) < len(cells):
        warn(f"{table.label}: {len(cells) - len(kept):,} links are named more than once; each counts once.")
    dropped["repeated link"] = len(cells) - len(kept)
    links = Links((kept // len(users)).astype(np.int32), (kept % len(users)).astype(np.int32))
    return links, ReadReport.of("links", table, frame.height, dropped, len(kept))


def _codes(
    table: Table, external: pl.Series, users: Ids, policy: str
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The codes of a column of ids, -1 where unknown, and where the id is missing."""
    own, ids, gone = coded(table, "user", id_column(table, "user", external))
    if gone.any() and policy == "error":
        raise missing_id(table, "user", gone)
    codes = users.codes(ids.take(own))
    return np.where(gone, np.int32(-1), codes), gone


def _user_column(table: Table, user: str | None) -> str:
    """The id column: named like that of the interactions, or by a common name, or "id"."""
    if not table.named:
        return table.names[0]
    if user is not None and any(plain_name(name) == plain_name(user) for name in table.names):
        return find_named(table, "user", user)
    found = find_common(table.names, "user")
    if found is None:
        found = next((name for name in table.names if plain_name(name) == "id"), None)
    if found is None:
        raise table.error(
            f"the user column must have a common name, or the name it has in the interactions, "
            f"but the columns are {table.listing()}. Rename the column with the ids to 'user'."
        )
    return found


def _link_columns(table: Table, user: str | None) -> tuple[str, str]:
    """Source and target, by common names, or the only two columns in their order."""
    if not table.named:
        return table.names[0], table.names[1]
    target = find_common(table.names, "target")
    others = [name for name in table.names if name != target]
    source = find_common(others, "source")
    if source is None and user is not None:
        source = next((name for name in others if plain_name(name) == plain_name(user)), None)
    source = source or find_common(others, "user")
    if source is not None and target is not None:
        return source, target
    if len(table.names) == 2:
        return table.names[0], table.names[1]
    raise table.error(
        f"a link must have the columns source and target, but the columns are {table.listing()}. "
        "Rename the two columns to 'source' and 'target'."
    )
