"""Item-kNN: what was had together will be had together.

References: Sarwar et al., WWW 2001; Deshpande and Karypis, TOIS 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check_count, check_non_negative, in_threads
from veilrec.models import kernels
from veilrec.training import Array, Job, Recommender
from veilrec.training.layout import Layout, floats, places, pointers


@dataclass(eq=False)
class ItemKNN(Recommender):
    """Score of item j for user u: the sum of s_ij over u's items i with j among their nearest ``neighbours``.

    s_ij = c_ij / (sqrt(c_i c_j) + shrinkage), with c_ij the number of users who have both items and c_i those
    who have i. ``shrinkage`` discounts similarities that rest on few users. Ties go to the item with the
    smaller code.

    >>> from veilrec.data import Dataset
    >>> data = Dataset.from_arrays(["a", "a", "b", "b", "c"], ["tea", "mate", "tea", "mate", "tea"])
    >>> ItemKNN(shrinkage=0).fit(data).similar_items(["tea"])["score"].round(3).to_list()
    [0.8159999847412109]
    """

    word: ClassVar[str] = "item-knn"
    summary: ClassVar[str] = "cosine neighbours of the items a user has"

    neighbours: int = 100
    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_count("neighbours", self.neighbours)
        check_non_negative("shrinkage", self.shrinkage)

    def _layout(self) -> Layout:
        return Layout(
            {
                "pointers": pointers("items", "neighbours", rising="strictly"),
                "neighbours": places("items", "entries"),
                "similarity": floats("entries"),
            }
        )

    def _fit(self, job: Job) -> None:
        users, items = self.history, self.history.T.tocsr()
        n_items = users.shape[1]
        shape = (n_items, min(self.neighbours, n_items))
        found, similarity = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
        pointers = (items.indptr, items.indices, users.indptr, users.indices)
        in_threads(kernels.best_neighbours, n_items, *pointers, float(self.shrinkage), found, similarity)
        used = found >= 0
        self.shared["pointers"] = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
        self.shared["neighbours"], self.shared["similarity"] = found[used], similarity[used]

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        out = np.zeros(histories.shape, np.float32)
        table = (self.shared["pointers"], self.shared["neighbours"], self.shared["similarity"])
        in_threads(kernels.add_sparse_rows, len(out), histories.indptr, histories.indices, *table, out)
        return out

    def _item_similarity(self, items: Array) -> Array:
        return self._score_histories(single_items(items, len(self.items)))


def single_items(items: Array, n_items: int) -> sp.csr_matrix:
    """Histories of one item each: what a linear model answers to them is its item-item table.

    >>> single_items(np.array([2, 0]), 3).toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    rows = np.arange(len(items) + 1, dtype=np.int32)
    values = np.ones(len(items), np.float32)
    return sp.csr_matrix((values, np.asarray(items, np.int32), rows), shape=(len(items), n_items))
