"""EASE: a linear autoencoder with a closed form (Steck, "Embarrassingly shallow autoencoders", WWW 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import bar, check_count, check_positive, in_threads
from veilrec.data import Dataset
from veilrec.models import kernels
from veilrec.models.inverse import invert_in_place
from veilrec.systems.sizes import check_size
from veilrec.training import Array, Job, Recommender
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class EASE(Recommender):
    """Scores X B, where B minimises |X - X B|^2 + regularization |B|^2 with a diagonal of zeros.

    With P = (X^T X + regularization I)^-1: B_ij = -P_ij / P_jj off the diagonal (equation 8). B has a weight
    for each pair of items, so the number of items is limited by ``max_items``.

    >>> from veilrec.data import Dataset
    >>> data = Dataset.from_arrays(["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"])
    >>> EASE(regularization=1).fit(data).shared["weights"].tolist()
    [[0.0, 0.5], [0.6666666865348816, 0.0]]
    """

    word: ClassVar[str] = "ease"
    summary: ClassVar[str] = "linear autoencoder with a closed form; strong on up to 20,000 items"

    regularization: float = 500.0
    max_items: int = 20_000

    def __post_init__(self) -> None:
        check_positive("regularization", self.regularization)
        check_count("max_items", self.max_items)

    def _check_data(self, public: Dataset) -> None:
        because = f"a weight per pair of items takes {12 * public.n_items**2 / 1e9:.1f} GB"
        remedy = "Raise max_items if there is the memory, or use gf-cf, ials or item-knn."
        check_size(public, self.word, public.n_items, self.max_items, "items", because=because, remedy=remedy)

    def _layout(self) -> Layout:
        return Layout({"weights": floats("items", "items")})

    def _fit(self, job: Job) -> None:
        with bar("solving ease", None, show=job.progress):
            self.shared["weights"] = ease_weights(self.history, self.regularization)

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        out = np.zeros(histories.shape, np.float32)
        table = self.shared["weights"]
        in_threads(kernels.add_dense_rows, len(out), histories.indptr, histories.indices, table, out, block=8)
        return out

    def _item_similarity(self, items: Array) -> Array:
        return self.shared["weights"][items]


def ease_weights(history: sp.csr_matrix, regularization: float) -> Array:
    """B in float32; solved in float64, in place.

    >>> ease_weights(sp.csr_matrix(np.ones((1, 2), np.float32)), 1.0).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    n_items = history.shape[1]
    by_item = history.T.tocsr()
    inverse = np.zeros((n_items, n_items))
    pointers = (by_item.indptr, by_item.indices, history.indptr, history.indices)
    in_threads(kernels.count_together, n_items, *pointers, inverse)  # X^T X
    inverse.flat[:: n_items + 1] += regularization
    invert_in_place(inverse)  # P
    np.divide(inverse, -inverse.diagonal().copy(), out=inverse)
    inverse.flat[:: n_items + 1] = 0
    return inverse.astype(np.float32)
