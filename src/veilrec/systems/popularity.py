"""Popularity: the same list for everyone, most interacted with first. The null recommender of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.training import Array, Job, Recommender
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class Popularity(Recommender):
    """Score of an item = number of training interactions with it.

    >>> from veilrec.data import Dataset
    >>> data = Dataset.from_arrays(["a", "b", "b"], ["x", "x", "y"])
    >>> Popularity().fit(data).recommend(["a"], k=1)["item"].to_list()
    ['y']
    """

    word: ClassVar[str] = "popularity"
    summary: ClassVar[str] = "most interacted with first; the null recommender"

    def _layout(self) -> Layout:
        return Layout({"count": floats("items")})

    def _fit(self, job: Job) -> None:
        self.shared["count"] = np.asarray(self.history.sum(axis=0), dtype=np.float32).ravel()

    def _score(self, users: Array) -> Array:
        return np.broadcast_to(self.shared["count"], (len(users), len(self.items)))

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        return np.broadcast_to(self.shared["count"], histories.shape)
