"""Negative samples: items a user has not interacted with, drawn uniformly, vectorised."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from veilrec.training.job import Array


class NegativeSampler:
    """Draws items outside each user's history.

    A pair (user, item) is looked up by bisection in the sorted keys of the history. After ``rounds``
    redraws a user who has nearly everything may keep a positive; the default makes that rarer than one in a
    million up to a history of half the items.

    >>> sampler = NegativeSampler(sp.csr_matrix([[1, 0], [0, 1]]))
    >>> sampler.draw(np.array([0, 1]), np.random.default_rng(0)).tolist()
    [1, 0]
    """

    def __init__(self, history: sp.csr_matrix, rounds: int = 20) -> None:
        self.n_items, self.rounds = history.shape[1], rounds
        rows = np.repeat(np.arange(history.shape[0], dtype=np.int64), np.diff(history.indptr))
        self.keys = np.sort(rows * self.n_items + history.indices)

    def seen(self, users: Array, items: Array) -> Array:
        """Whether each pair is in the history."""
        wanted = users.astype(np.int64) * self.n_items + items
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.asarray(self.keys[place] == wanted)

    def draw(self, users: Array, random: np.random.Generator) -> Array:
        """One item per entry of ``users``, of its shape."""
        items = random.integers(0, self.n_items, size=users.shape)
        wrong = np.flatnonzero(self.seen(users.ravel(), items.ravel()))
        flat, owners = items.reshape(-1), users.ravel()
        for _ in range(self.rounds):
            if len(wrong) == 0:
                break
            flat[wrong] = random.integers(0, self.n_items, size=len(wrong))
            wrong = wrong[self.seen(owners[wrong], flat[wrong])]
        return items
