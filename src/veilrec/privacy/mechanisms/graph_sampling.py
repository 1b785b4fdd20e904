"""Coins on all cells of a graph that have no edge, sampled exactly and sparsely.

A graph of 29,858 users and 40,981 items has 1.2 thousand million cells. Independent coins of probability p
on them are the same as one binomial number and that many different cells, each set of cells equally likely.
The binomial is exact too: heads are counted in random bits, which halves the cells, as often as p allows,
and only the survivors toss a real coin.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilrec.privacy.mechanisms.graph import Edges, Ints
from veilrec.privacy.noise import Noise

_WORDS = 1 << 18
_BITS = 63


def false_cells(edges: Edges, probability: float, noise: Noise) -> tuple[Ints, Ints]:
    """Rows and items of the cells without an edge on which a coin of ``probability`` fell.

    >>> rows, items = false_cells(Edges.of(([0, 1, 2], [0, 1], 2)), 1.0, Noise.research(1))
    >>> sorted(zip(rows.tolist(), items.tolist()))
    [(0, 1), (1, 0)]
    """
    free = np.concatenate([[0], np.cumsum(edges.items - edges.degrees)])
    place = subset(int(free[-1]), binomial(int(free[-1]), probability, noise), noise)
    rows = np.searchsorted(free, place, side="right") - 1
    # An edge with j edges before it in its row stands before the free cells from (its item - j) on.
    owner = edges.rows
    before = free[owner] + edges.indices - (np.arange(len(owner)) - edges.indptr[owner])
    passed = np.searchsorted(before, place, side="right") - edges.indptr[rows]
    return rows, place - free[rows] + passed


def binomial(trials: int, probability: float, noise: Noise) -> int:
    """How many of ``trials`` coins fall, exactly.

    >>> binomial(10, 1.0, Noise.research(1)), binomial(10, 0.0, Noise.research(1))
    (10, 0)
    """
    if probability <= 0:
        return 0
    while trials and probability <= 0.5:
        trials, probability = _heads(trials, noise), 2 * probability
    return sum(int(noise.coins(probability, (size,)).sum()) for size in _chunks(trials, _WORDS))


def subset(total: int, size: int, noise: Noise) -> Ints:
    """``size`` different whole numbers below ``total``, sorted, every set equally likely.

    >>> subset(3, 3, Noise.research(1)).tolist()
    [0, 1, 2]
    """
    if not size:
        return np.empty(0, np.int64)
    if 2 * size > total:
        kept = np.ones(total, bool)
        kept[subset(total, total - size, noise)] = False
        return np.flatnonzero(kept)
    chosen = _different(noise.below(total, (size,)))
    while len(chosen) < size:  # never more than are missing, so no set is favoured
        more = _different(noise.below(total, (size - len(chosen),)))
        at = np.searchsorted(chosen, more)
        new = chosen[np.minimum(at, len(chosen) - 1)] != more  # past the end: larger than the last
        chosen = np.insert(chosen, at[new], more[new])
    return chosen


def _different(drawn: Ints) -> Ints:
    """Sorted, each number once; np.unique would take ten times as long."""
    drawn = np.sort(drawn)
    return np.asarray(drawn[np.concatenate([[True], drawn[1:] != drawn[:-1]])])


def _heads(trials: int, noise: Noise) -> int:
    count = 0
    for size in _chunks(trials // _BITS, _WORDS):
        count += int(np.bitwise_count(noise.below(1 << _BITS, (size,))).sum(dtype=np.int64))
    return count + int(noise.below(1 << (trials % _BITS), (1,))[0]).bit_count()


def _chunks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)
