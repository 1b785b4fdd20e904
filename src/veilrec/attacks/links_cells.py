"""Link stealing, the cells: who is attacked, whom the attacker knows, and which user-item pairs are asked.

Users with a training edge fall into three groups: *attacked* ones; *reference* users, whose edges the
attacker knows and compares with; *labelled* users, whose edges the attacker knows and trains on. Of attacked
and labelled users a share of the edges is a hint, for attackers who are given one; only the others, the
secret ones, are asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import DataError, stream

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class People:
    """Codes of the three groups, each sorted.

    >>> people = draw_people(sp.csr_matrix(np.ones((8, 2), np.float32)), known=0.5, users=3, seed=1)
    >>> len(people.attacked), len(people.labelled), len(people.reference)
    (3, 2, 2)
    """

    attacked: Codes
    labelled: Codes
    reference: Codes


def draw_people(history: sp.csr_matrix, known: float, users: int, seed: int) -> People:
    """``known`` of the users are known, half of them labelled; at most ``users`` are attacked or labelled.

    >>> history = sp.csr_matrix(np.eye(10, dtype=np.float32))
    >>> draw_people(history, 0.5, 100, seed=1).attacked.size
    5
    """
    warm = np.flatnonzero(np.diff(history.indptr))
    if len(warm) < 3:
        raise DataError(
            f"at least 3 users must have training interactions, got {len(warm):,}: one is attacked, two are "
            "known. Give the data that the model was fitted on."
        )
    mixed = stream(seed, "links", "people").permutation(warm)
    strangers = int(np.clip(round((1 - known) * len(mixed)), 1, len(mixed) - 2))
    secret, mine = mixed[:strangers], mixed[strangers:]
    half = len(mine) // 2
    return People(np.sort(secret[:users]), np.sort(mine[:half][:users]), np.sort(mine[half:]))


@dataclass(frozen=True, eq=False)
class Cells:
    """User-item pairs by rising user code; ``weight``: cells of the whole table that one stands for.

    >>> Cells(np.array([0, 0]), np.array([1, 2]), np.array([True, False]), np.array([1.0, 3.0])).density
    0.25
    """

    user: Codes
    item: Codes
    truth: NDArray[np.bool_]
    weight: NDArray[np.float64]

    @property
    def density(self) -> float:
        """The share of edges in the whole table that the cells stand for."""
        return float(self.weight[self.truth].sum() / self.weight.sum())


def split_edges(
    history: sp.csr_matrix, users: Codes, own: float, generator: np.random.Generator
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Hints and secrets (all users x items): floor(own n) of the n edges of each user are hints.

    >>> hints, secrets = split_edges(sp.csr_matrix(np.ones((2, 5))), np.array([1]), 0.5, stream(1, "split"))
    >>> hints.sum(axis=1).ravel().tolist(), secrets.sum(axis=1).ravel().tolist()
    ([[0.0, 2.0]], [[0.0, 3.0]])
    """
    row, item = _pairs(history, users)
    counts = np.bincount(row, minlength=history.shape[0])
    hint = _places(row, generator) < np.floor(own * counts)[row]
    return _matrix(row[hint], item[hint], history.shape), _matrix(row[~hint], item[~hint], history.shape)


def link_cells(
    secret: sp.csr_matrix,
    history: sp.csr_matrix,
    held: sp.csr_matrix,
    users: Codes,
    most: int,
    generator: np.random.Generator,
) -> Cells:
    """Training edges, and cells with neither a training edge nor a held-out one; at most about ``most``.

    Edges take at most half of the cells. The others are drawn evenly over the users, who differ in weight:
    each draw stands for its user's free cells over the draws there.

    >>> eye = sp.csr_matrix(np.eye(3, 50, dtype=np.float32))
    >>> cells = link_cells(eye, eye, sp.csr_matrix(eye.shape), np.arange(3), 60, stream(1, "cells"))
    >>> cells.weight[~cells.truth].sum().round(6), round(cells.density, 6)
    (np.float64(147.0), 0.02)
    """
    n_items = history.shape[1]
    row, item = _pairs(secret, users)
    weight = np.ones(len(row))
    if len(row) > most // 2:
        kept = np.sort(generator.choice(len(row), most // 2, replace=False))
        weight = np.full(len(kept), len(row) / len(kept))
        row, item = row[kept], item[kept]
    taken = np.unique(np.concatenate([_keys(history, users), _keys(held, users)]))
    free = np.full(history.shape[0], n_items) - np.bincount(taken // n_items, minlength=history.shape[0])
    wanted = np.maximum(1, (most - len(row)) // max(len(users), 1))
    draws = np.repeat(users, min(wanted * 2, 4 * n_items))  # too many: some hit edges, some each other
    drawn = np.unique(draws * n_items + generator.integers(0, n_items, len(draws)))
    drawn = drawn[~np.isin(drawn, taken, assume_unique=True)]
    drawn = drawn[_places(drawn // n_items, generator) < wanted]
    other = drawn // n_items
    counts = np.bincount(other, minlength=len(free))
    each = free / np.maximum(counts, 1)
    each *= free[users].sum() / max(int(free[counts > 0].sum()), 1)  # for users without a draw
    return _sorted(row, item, weight, other, drawn % n_items, each[other])


def membership_cells(
    secret: sp.csr_matrix, held: sp.csr_matrix, users: Codes, most: int, generator: np.random.Generator
) -> Cells:
    """Training edges and as many held-out ones *of the same user*: who the user is tells nothing.

    >>> secret, held = (sp.csr_matrix(np.array([row], np.float32)) for row in ([1, 1, 0, 0], [0, 0, 0, 1]))
    >>> membership_cells(secret, held, np.array([0]), 100, stream(1, "cells")).truth.tolist()
    [True, False]
    """
    size = np.minimum(np.diff(secret.indptr), np.diff(held.indptr))
    share = min(1.0, most / 2 / max(int(size[users].sum()), 1))
    size = np.ceil(size * share).astype(np.int64)
    found = []
    for part in (secret, held):
        row, item = _pairs(part, users)
        kept = _places(row, generator) < size[row]
        found += [row[kept], item[kept], np.ones(int(kept.sum()))]
    return _sorted(*found)


def _pairs(matrix: sp.csr_matrix, users: Codes) -> tuple[Codes, Codes]:
    part = matrix[users]
    return np.repeat(users, np.diff(part.indptr)), part.indices.astype(np.int64)


def _keys(matrix: sp.csr_matrix, users: Codes) -> Codes:
    row, item = _pairs(matrix, users)
    return row * int(matrix.shape[1]) + item


def _places(row: Codes, generator: np.random.Generator) -> Codes:
    """The place of each entry in a random order of its row's entries; ``row`` is sorted."""
    order = np.lexsort((generator.random(len(row)), row))
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row)) - np.searchsorted(row, row)
    return place


def _matrix(row: Codes, item: Codes, shape: tuple[int, int]) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(len(row), np.float32), (row, item)), shape=shape)


def _sorted(row: Codes, item: Codes, weight: Any, other: Codes, apart: Codes, more: Any) -> Cells:
    user = np.concatenate([row, other])
    order = np.argsort(user, kind="stable")
    truth = np.arange(len(user)) < len(row)
    both = np.concatenate([weight, more])
    return Cells(user[order], np.concatenate([item, apart])[order], truth[order], both[order])
