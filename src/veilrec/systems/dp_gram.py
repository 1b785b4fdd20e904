"""DP-Gram: noise once on the item-item Gram matrix, everything else is arithmetic on the result.

    1.  rows x_u of length at most 1 over the popular items        (``private_items.py``, from noisy counts)
    2.  G = sum_u x_u x_u^T, released with symmetric Gaussian noise
    3.  eigenvalues of G: l -> l sqrt(1 - (shrinkage edge / l)^2), 0 below the edge; the ``rank`` largest stay
    4.  pca:  score = W^-1 V gain V^T W r        ease:  score = W^-1 B^T W r, B from (G + regularization)^-1

Sensitivity. A user adds x x^T, whose Frobenius norm is |x|^2 <= 1. Released is the upper triangle with the
entries off the diagonal times sqrt(2): its Euclidean norm is the Frobenius norm of the matrix, so one user
moves it by at most 1. Dividing by sqrt(2) afterwards leaves noise of variance sigma^2 on the diagonal and
sigma^2 / 2 off it, whose largest eigenvalue is about sqrt(2 m) sigma for m items: the ``edge``, a public
number.

References: Blum, Dwork, McSherry and Nissim, PODS 2005 (noise on the second moments); Dwork, Talwar, Thakurta
and Zhang, STOC 2014 (analysed with Gaussian noise); McSherry and Mironov, KDD 2009 (for recommendations);
Steck, WWW 2019 (EASE). Left open by them, and chosen here: normalised rows instead of clipped ratings, so
that no clipping bound has to be tuned; popular items by an own release; the shrinkage of eigenvalues, the
one that is best in Frobenius norm for spikes in symmetric noise (Donoho, Gavish and Johnstone, Ann. Stat.
2018), used for rows whose own spectrum is not made of spikes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from veilrec.core import (
    check_choice,
    check_count,
    check_non_negative,
    check_positive,
    in_threads,
)
from veilrec.data import Dataset
from veilrec.models import kernels
from veilrec.privacy.mechanisms import packed, unpacked
from veilrec.systems.private_items import PrivateItems
from veilrec.systems.sizes import check_size
from veilrec.training import Array, Job
from veilrec.training.layout import Spec, floats

MOST_ITEMS = 10_000
_CELLS = 1 << 24


@dataclass(eq=False)
class DPGram(PrivateItems):
    """Covariance perturbation: ``filter`` is "pca" or "ease".

    ``epsilon`` and ``delta`` (None: 1e-5, or users^-1.1 if smaller) are for all interactions of a user.
    ``count_share`` of the budget finds the ``popular_items`` (None: all items) and their weights, counts to
    the power of -``exponent``. Users with fewer than ``cap`` items count for less; above it rows are scaled
    down, or ``cap`` items are drawn (``cap_by="sample"``). ``shrinkage`` times the edge of the noise is taken
    from the eigenvalues; ``regularization`` is the ridge of EASE (a user adds at most 1 to a diagonal entry).
    More than ``max_items`` items to keep are refused.

    >>> from veilrec.data import synthetic
    >>> model = DPGram(epsilon=2).fit(synthetic(users=60, items=40, interactions=900), progress=False)
    >>> round(model.guarantee.epsilon, 6), model.guarantee.claims[0].adversaries
    (2.0, 'OF')
    """

    word: ClassVar[str] = "dp-gram"
    summary: ClassVar[str] = "noise once on the item-item Gram matrix, then PCA or EASE; private per user"
    label: ClassVar[str] = "item-item matrix"
    released: ClassVar[str] = "item-item matrix"

    filter: str = "pca"
    rank: int = 64
    shrinkage: float = 1.0
    regularization: float = 30.0
    max_items: int = MOST_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("filter", self.filter, ["pca", "ease"])
        check_count("rank", self.rank)
        check_count("max_items", self.max_items)
        check_non_negative("shrinkage", self.shrinkage)
        check_positive("regularization", self.regularization)

    def _check_data(self, public: Dataset) -> None:
        check_pairs(public, self.word, self._kept(public), self.max_items)
        super()._check_data(public)

    def _kept(self, public: Dataset) -> int:
        return min(public.n_items, self.popular_items or public.n_items)

    def _kept_layout(self) -> dict[str, Spec]:
        return {"table": floats("kept", "kept")}

    def _fit(self, job: Job) -> None:
        items = self._kept(job.train)
        self._choose_items(job)
        _, mechanism = self.mechanisms(job.train.public_users)
        rows = self._bounded(job)
        noisy = self._release(job, mechanism, self.label, lambda: packed(gram(rows)))
        values, vectors, edge = spectrum(noisy, items, mechanism.sigma, self.rank)
        gain = eigenvalue_gain(values, self.shrinkage * edge)
        if self.filter == "ease":
            table = ease_table(values * gain, vectors, self.regularization)
        else:
            table = (vectors * gain) @ vectors.T
        weights = self.shared.pop("weights")
        self.shared["table"] = (weights[:, None] * table / weights).astype(np.float32)

    def _score_kept(self, histories: sp.csr_matrix) -> Array:
        out = np.zeros(histories.shape, np.float32)
        table = self.shared["table"]
        in_threads(kernels.add_dense_rows, len(out), histories.indptr, histories.indices, table, out, block=8)
        return out


def check_pairs(public: Dataset, word: str, kept: int, most: int) -> None:
    """Refuse more items than a matrix of items x items, its noise and its eigenvectors are made for.

    >>> check_pairs(Dataset.from_arrays(["ann"], ["tea"]), "dp-gram", kept=10_000, most=10_000)
    """
    because = "a number per pair of items is drawn and held"
    remedy = "Say popular_items, raise max_items, or use dp-spectral."
    check_size(public, word, kept, most, "items", because=because, remedy=remedy)


def gram(rows: sp.csr_matrix) -> Array:
    """X^T X in float64, some users at a time.

    >>> gram(sp.csr_matrix([[1.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    total = np.zeros((rows.shape[1], rows.shape[1]))
    size = max(1, _CELLS // rows.shape[1])
    for start in range(0, rows.shape[0], size):
        block = rows[start : start + size].toarray()
        total += block.T @ block
    return total


def spectrum(released: Array, items: int, sigma: float, rank: int) -> tuple[Array, Array, float]:
    """The largest eigenvalues of the released triangle, their vectors, and the edge of the noise.

    >>> values, vectors, edge = spectrum(packed(np.eye(9)), 9, 0.1, 2)
    >>> values.shape, vectors.shape, round(edge, 3)
    ((2,), (9, 2), 0.424)
    """
    return *leading(unpacked(released, items), rank), float(np.sqrt(2 * items)) * sigma


def leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The largest eigenvalues, in falling order, and their vectors.

    >>> leading(np.diag([1.0, 3.0, 2.0]), 2)[0].tolist()
    [3.0, 2.0]
    """
    size = len(matrix)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[max(0, size - rank), size - 1])
    return values[::-1], vectors[:, ::-1]


def eigenvalue_gain(values: Array, edge: float) -> Array:
    """What is kept of each eigenvalue: sqrt(1 - (edge / l)^2), and 0 below the edge; the first always stays.

    >>> eigenvalue_gain(np.array([5.0, 2.0, -1.0]), 3.0).tolist()
    [0.8, 0.0, 0.0]
    """
    gain = np.sqrt(1 - np.minimum(1.0, edge / np.maximum(values, 1e-12)) ** 2)
    gain[values <= 0] = 0.0
    return gain if gain.any() else np.asarray(np.arange(len(values)) == 0, np.float64)


def ease_table(values: Array, vectors: Array, regularization: float) -> Array:
    """B_ij = -P_ij / P_jj off the diagonal, 0 on it, with P = (V diag(values) V^T + regularization I)^-1.

    P is I - S over the regularization, where S = V diag(l / (l + regularization)) V^T.

    >>> ease_table(np.array([2.0, 0.0]), np.array([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5, 1.0).round(6).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    values = np.maximum(values, 0)
    table = (vectors * (values / (values + regularization))) @ vectors.T
    table /= np.maximum(1 - table.diagonal().copy(), 1e-12)
    np.fill_diagonal(table, 0)
    return np.asarray(table)
