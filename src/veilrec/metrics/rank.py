"""Full ranking: every item scored for every user, tile by tile, in bounded memory.

A matrix product may round the same row differently in a batch of 100 and in a batch of 7, or at another
place in the batch. Lists would then depend on how users were grouped. Here they do not: a tile always has
the same number of rows (a function of the number of items alone), and a user always sits in the same row of
its tile (a function of the user's code alone). Rows nobody asked for repeat a user that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from veilrec.core import bar, check, check_count
from veilrec.metrics.patterns import as_pattern
from veilrec.metrics.topk import candidate_mask, check_block, select

ScoreBlock = Callable[[NDArray[np.int64]], NDArray[np.float32]]

_TILE_BYTES = 48 * 2**20
_TILE_ROWS = 512


def tile_rows(n_items: int) -> int:
    """Users per tile: the largest power of two whose scores take at most 48 MiB; at least 1, at most 512.

    >>> tile_rows(1_682), tile_rows(40_981), tile_rows(10_000_000)
    (512, 256, 1)
    """
    rows = min(_TILE_ROWS, _TILE_BYTES // (4 * n_items))
    return 1 << max(0, rows.bit_length() - 1)


def score_tiles(
    score_block: ScoreBlock, users: NDArray[np.int64], n_items: int, description: str, progress: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """Score distinct ``users`` tile by tile: positions in ``users``, their rows in the block, the block.

    >>> tiles = score_tiles(lambda codes: np.zeros((len(codes), 2), np.float32), np.arange(3), 2, "", False)
    >>> [(positions.tolist(), block.shape) for positions, rows, block in tiles]
    [([0, 1, 2], (512, 2))]
    """
    height = tile_rows(n_items)
    # multiplicative hashing spreads neighbouring, strided and random codes evenly over the rows
    mixed = users.astype(np.uint64) * np.uint64(2654435769) % np.uint64(2**32)
    row: NDArray[np.int64] = (mixed * np.uint64(height) >> np.uint64(32)).astype(np.int64)
    order = np.argsort(row, kind="stable")
    load = np.bincount(row, minlength=height)
    turn = np.empty(len(users), np.int64)
    turn[order] = np.arange(len(users)) - np.repeat(np.cumsum(load) - load, load)
    tiles = np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1]) if len(users) else []
    with bar(description, len(users), show=progress) as ticker:
        for members in tiles:
            codes = np.full(height, users[members[0]], np.int64)
            codes[row[members]] = users[members]
            block = score_block(codes)
            check_block("the result of score_block", block)
            check(
                block.shape == (height, n_items), "score_block", f"{height} x {n_items} scores", block.shape
            )
            yield members, row[members], block
            ticker.advance(len(members))


def rank_all(
    score_block: ScoreBlock,
    users: ArrayLike,
    k: int,
    *,
    n_items: int,
    seen: sp.csr_matrix | None = None,
    candidates: ArrayLike | None = None,
    progress: bool = False,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The ``k`` best items of each user by :func:`top_k`: item codes and scores, [len(users), k].

    ``score_block(codes)`` gives float32 scores [len(codes), n_items]. Its row r may depend on ``codes[r]``,
    on r and on ``len(codes)``, on nothing else; then a user's list has the same bits alone, in any company
    and in any order. ``seen`` (all users x items) has one row per user *code*. Held at a time: one tile of
    scores (48 MiB, or one row) and the lists.

    >>> taste, items = np.eye(3, dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> rank_all(lambda codes: taste[codes] @ items.T, [2, 0], 2, n_items=2)[0].tolist()
    [[1, 0], [1, 0]]
    """
    check_count("k", k)
    check_count("n_items", n_items)
    codes = check_users(users, None if seen is None else seen.shape[0])
    distinct, place = np.unique(codes, return_inverse=True)
    pattern = None if seen is None else as_pattern("seen", seen, n_items=n_items)
    allowed = candidate_mask(candidates, n_items)
    items, scores = np.empty((len(distinct), k), np.int32), np.empty((len(distinct), k), np.float32)
    for members, rows, block in score_tiles(score_block, distinct, n_items, "ranking", progress):
        known = None if pattern is None else pattern[distinct[members]]
        items[members], scores[members], bad = select(block, rows, k, known, allowed)
        if bad >= 0:
            raise nan_score(int(distinct[members[bad]]))
    return items[place], scores[place]


def check_users(users: ArrayLike, n_users: int | None) -> NDArray[np.int64]:
    """``users`` as int64 codes; they must lie below ``n_users`` where that is known.

    >>> check_users([3, 1], 4).tolist()
    [3, 1]
    """
    codes: NDArray[Any] = np.asarray(users)
    good = codes.ndim == 1 and (codes.size == 0 or np.issubdtype(codes.dtype, np.integer))
    check(good, "users", "a list of user codes", users)
    codes = codes.astype(np.int64)
    outside = codes[(codes < 0) | (codes >= (np.inf if n_users is None else n_users))]
    bounds = "codes, 0 or above" if n_users is None else f"codes from 0 to {n_users - 1}"
    check(outside.size == 0, "users", bounds, outside[:3].tolist())
    return codes


def nan_score(user: int) -> ValueError:
    """The error for a NaN among a user's scores."""
    return ValueError(
        f"score_block must give numbers, got NaN for user code {user}. Look for a model that diverged."
    )
