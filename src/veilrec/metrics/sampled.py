"""Protocols with one positive per list: each held-out interaction is ranked alone among unrated items.

Their numbers are far higher than those of full ranking and must not stand beside them; the names of the
metrics therefore carry the protocol. Ties count against the model: the positive stands behind every item with
the same score, so a model that scores all items alike gets the last rank, not the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import check, check_count, stream
from veilrec.metrics.patterns import as_pattern, evaluated_users, row_entries
from veilrec.metrics.rank import ScoreBlock, nan_score, score_tiles


@dataclass(frozen=True, eq=False)
class PositiveRanks:
    """The rank of each held-out interaction in its own list, 1 the best; in order of user, then item.

    >>> lists = PositiveRanks("1+99 sampled", np.array([0, 0]), np.array([3, 8]), np.array([1, 12]))
    >>> {name: values.tolist() for name, values in lists.metrics(ks=[10]).items()}["hit@10 (1+99 sampled)"]
    [1.0, 0.0]
    """

    protocol: str
    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rank: NDArray[np.int64]

    def metrics(self, ks: Iterable[int] = (5, 10, 20)) -> dict[str, NDArray[np.float64]]:
        """Hit@k, NDCG@k and MRR@k of each list, named with the protocol.

        With one positive at rank r: Hit@k = 1, NDCG@k = 1 / log2(r + 1) and MRR@k = 1 / r where r <= k, else
        all three are 0. For intervals over users, first average each user's lists with :func:`per_user`.
        """
        found = {}
        for k in sorted(set(ks)):
            check_count("k", k)
            inside = self.rank <= k
            found[f"hit@{k} ({self.protocol})"] = inside.astype(np.float64)
            found[f"ndcg@{k} ({self.protocol})"] = np.where(inside, 1.0 / np.log2(self.rank + 1.0), 0.0)
            found[f"mrr@{k} ({self.protocol})"] = np.where(inside, 1.0 / self.rank, 0.0)
        return found


def one_positive_ranks(
    score_block: ScoreBlock, held_out: sp.csr_matrix, seen: sp.csr_matrix, *, progress: bool = False
) -> PositiveRanks:
    """Rank each held-out item of a user against all items that are neither seen nor held out for that user.

    ``score_block`` is that of :func:`rank_all`; ``held_out`` and ``seen`` are users x items. A user's other
    held-out items are taken out of the list.

    >>> scores = np.array([[4, 3, 2, 1]], np.float32)
    >>> held_out, seen = sp.csr_matrix([[0, 1, 0, 1]]), sp.csr_matrix([[1, 0, 0, 0]])
    >>> one_positive_ranks(lambda codes: scores[codes], held_out, seen).rank.tolist()
    [1, 2]
    """
    from veilrec.metrics import kernels

    held, rated, users = _prepare(held_out, seen)
    n_items = held.shape[1]
    ranks = np.empty(held.nnz, np.int64)
    for members, rows, block in score_tiles(score_block, users, n_items, "ranking each positive", progress):
        codes = users[members]
        positives, known = held[codes], rated[codes]
        found = np.empty(positives.nnz, np.int64)
        sets = (positives.indptr, positives.indices, known.indptr, known.indices)
        typed = (part.astype(np.int64 if i % 2 == 0 else np.int32, copy=False) for i, part in enumerate(sets))
        bad = kernels.first_bad(
            kernels.count_rows, len(rows), n_items, np.ascontiguousarray(block), rows, *typed, found
        )
        if bad >= 0:
            raise nan_score(int(codes[bad]))
        ranks[row_entries(held, codes)] = found
    return _result("one positive", held, ranks)


def sampled_ranks(
    score_block: ScoreBlock,
    held_out: sp.csr_matrix,
    seen: sp.csr_matrix,
    *,
    seed: int,
    n_negatives: int = 99,
    progress: bool = False,
) -> PositiveRanks:
    """Rank each held-out item among ``n_negatives`` items drawn from those the user has not rated (1+99).

    The negatives of a list are distinct, drawn uniformly from the items neither seen nor held out for the
    user; the same ``seed`` gives every model the same ones. Arguments as in :func:`one_positive_ranks`.

    >>> scores = np.array([[4, 3, 2, 1]], np.float32)
    >>> held_out, seen = sp.csr_matrix([[0, 1, 0, 1]]), sp.csr_matrix([[1, 0, 0, 0]])
    >>> lists = sampled_ranks(lambda codes: scores[codes], held_out, seen, seed=1, n_negatives=1)
    >>> lists.protocol, lists.rank.tolist()
    ('1+1 sampled', [1, 2])
    """
    check_count("n_negatives", n_negatives)
    held, rated, users = _prepare(held_out, seen)
    n_items = held.shape[1]
    unrated = n_items - np.diff(rated.indptr).astype(np.int64)
    fewest = int(unrated[users].min(initial=n_items))
    check(
        n_negatives <= fewest, "n_negatives", f"at most {fewest}, what some user has not rated", n_negatives
    )
    ranks = np.empty(held.nnz, np.int64)
    tiles = score_tiles(score_block, users, n_items, "ranking among sampled items", progress)
    for number, (members, rows, block) in enumerate(tiles):
        codes = users[members]
        entries = row_entries(held, codes)
        owner = np.repeat(np.arange(len(codes)), np.diff(held.indptr)[codes])
        drawn = _distinct(stream(seed, "sampled negatives", number), unrated[codes][owner], n_negatives)
        negatives = _nth_unrated(rated[codes], owner, drawn)
        positive = block[rows[owner], held.indices[entries]][:, None]
        others = block[rows[owner][:, None], negatives]
        nan = (np.isnan(others) | np.isnan(positive)).any(axis=1)
        if nan.any():
            raise nan_score(int(codes[owner[np.argmax(nan)]]))
        ranks[entries] = 1 + (others >= positive).sum(axis=1)
    return _result(f"1+{n_negatives} sampled", held, ranks)


def _prepare(
    held_out: sp.csr_matrix, seen: sp.csr_matrix
) -> tuple[sp.csr_matrix, sp.csr_matrix, NDArray[np.int64]]:
    held = as_pattern("held_out", held_out)
    known = as_pattern("seen", seen, *held.shape)
    flags = [
        sp.csr_matrix((np.ones(part.nnz, np.int8), part.indices, part.indptr), part.shape)
        for part in (held, known)
    ]
    return held, as_pattern("rated", flags[0].maximum(flags[1])), evaluated_users(held)


def _result(protocol: str, held: sp.csr_matrix, ranks: NDArray[np.int64]) -> PositiveRanks:
    user = np.repeat(np.arange(held.shape[0], dtype=np.int32), np.diff(held.indptr))
    return PositiveRanks(protocol, user, held.indices.astype(np.int32), ranks)


def _distinct(generator: np.random.Generator, high: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Per row, ``count`` distinct numbers below ``high[row]``, ascending; repeats are drawn anew."""
    drawn = np.sort(generator.integers(0, high[:, None], size=(len(high), count)), axis=1)
    pending = np.arange(len(high))
    while pending.size:
        part = drawn[pending]
        repeated = np.zeros(part.shape, np.bool_)
        repeated[:, 1:] = part[:, 1:] == part[:, :-1]
        still = repeated.any(axis=1)
        part[repeated] = generator.integers(0, high[pending[np.nonzero(repeated)[0]]])
        drawn[pending] = np.sort(part, axis=1)
        pending = pending[still]
    return drawn


def _nth_unrated(rated: sp.csr_matrix, owner: NDArray[np.int64], nth: NDArray[np.int64]) -> NDArray[np.int64]:
    """The item with ``nth`` unrated items below it, for row ``owner`` of ``rated``.

    A rated item at place p of its row has (item - p) unrated items below it, so the answer is nth plus the
    number of rated items with at most nth unrated ones below.
    """
    counts = np.diff(rated.indptr)
    below = rated.indices - (np.arange(rated.nnz) - np.repeat(rated.indptr[:-1], counts))
    width = np.int64(rated.shape[1] + 1)
    keys = np.repeat(np.arange(len(counts)), counts) * width + below
    smaller = np.searchsorted(keys, owner[:, None] * width + nth, side="right") - rated.indptr[owner][:, None]
    return np.asarray(nth + smaller)
