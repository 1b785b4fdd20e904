"""DP-ALS: alternating least squares whose item side sees users only through noisy sums.

    1.  the popular items and their weights w_i >= 1, rare ones more, from noisy counts (``private_items.py``)
    2.  V: random item vectors, drawn without looking at data
    3.  for t = 1..rounds:
    4.      every user, on the own device: u = argmin sum_i c_i (r_i - u . v_i)^2 + regularization n |u|^2,
            cut to length 1; it is never released
    5.      release  b_i = w_i sum s_u u  and  A_i = w_i sum s_u u u^T  over the users of item i,
            and  G = sum s_u u u^T  over all users
    6.      v_i = (G + alpha A_i / w_i + ridge)^-1 (1 + alpha) b_i / w_i, the matrix made positive first
    7.  score = u . v_i, u fitted as in step 4 to the user's own history (so new users are served too)

Implicit feedback as in iALS: r is 1 with confidence c = 1 + alpha for an interaction, else 0 with
confidence 1. A user of n items counts by s_u = min(1, sqrt(n / cap)) / sqrt(sum of w_i^2 over them).

Sensitivity. What a user adds to b has squared norm sum_i s^2 w_i^2 |u|^2 <= 1, to A sum_i s^2 w_i^2 |u|^4
<= 1, and to G the Frobenius norm s |u|^2 <= 1, since w >= 1 (symmetric matrices are sent as upper
triangles, off the diagonal times sqrt(2)). All is sent as one vector, (sqrt(p_b) b, sqrt(p_A) A, sqrt(p_G)
G), p_b + p_A + p_G = 1: a user moves it by at most 1, so a round is one Gaussian event. p_A is
``matrix_share``, p_G is 0.02. Given the vectors that were released, the rounds compose adaptively.

References: Chien, Jain, Krichene, Rendle, Song, Thakurta and Zhang, "Private alternating least squares:
practical private matrix completion with tighter rates", ICML 2021; Hu, Koren and Volinsky, ICDM 2008, for
the implicit weights. Left open, or done otherwise here: weights in place of adaptively sampled items
(``cap_by="sample"`` draws them evenly); one joint release a round in place of two; ``item_ridge`` in units
of the largest eigenvalue that the noise of A_i has, a public number; items that are not popular come last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from veilrec.core import check, check_count, check_positive, in_threads, stream
from veilrec.models import als_kernels
from veilrec.privacy import clip_rows
from veilrec.systems.private_items import PrivateItems, bounded_rows
from veilrec.training import Array, Job
from veilrec.training.layout import Spec, floats

_GRAM_SHARE = 0.02


@dataclass(eq=False)
class DPALS(PrivateItems):
    """Item vectors by ``rounds`` of noisy least squares; user vectors stay with their users.

    ``epsilon`` and ``delta`` (None: 1e-5, or users^-1.1 if smaller) are for all interactions of a user.
    ``count_share`` of the budget finds the ``popular_items`` (None: all items); the rounds share the rest
    alike. ``exponent``, ``cap`` and ``cap_by`` as in ``DPGram``.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900)
    >>> model = DPALS(epsilon=2, embedding_size=4).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 6), sorted(model.private)
    (2.0, [])
    """

    word: ClassVar[str] = "dp-als"
    summary: ClassVar[str] = "alternating least squares on noisy item statistics; private per user"
    label: ClassVar[str] = "item statistics"
    released: ClassVar[str] = "item statistics of every round, and with them the item vectors"

    embedding_size: int = 32
    rounds: int = 3
    alpha: float = 2.0
    regularization: float = 0.01
    item_ridge: float = 3.0
    matrix_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("embedding_size", self.embedding_size)
        check_count("rounds", self.rounds)
        for name in ("alpha", "regularization", "item_ridge"):
            check_positive(name, getattr(self, name))
        fits = 0 < self.matrix_share < 1 - _GRAM_SHARE
        check(fits, "matrix_share", f"above 0 and below {1 - _GRAM_SHARE}", self.matrix_share)

    @property
    def _releases(self) -> int:
        return self.rounds

    def _numbers(self, items: int) -> int:
        width = self.embedding_size * (self.embedding_size + 1) // 2
        return items * (self.embedding_size + width) + width

    def _kept_layout(self) -> dict[str, Spec]:
        return {"item_vectors": floats("kept", self.embedding_size)}

    def _fit(self, job: Job) -> None:
        self._choose_items(job)
        weights = self.shared.pop("weights")
        weights /= weights.min()
        histories = self._histories(job, self.label)[:, self.shared["kept"]]
        _, mechanism = self.mechanisms(job.train.public_users)
        start = stream(job.seed, self.word, "start").standard_normal((len(weights), self.embedding_size))
        vectors = (start / np.sqrt(self.embedding_size)).astype(np.float32)
        for turn in range(self.rounds):
            sums = partial(self._sums, histories, vectors, weights)
            noisy = self._release(job, mechanism, self.label, sums, turn)
            vectors = self._solve(noisy, weights, mechanism.sigma)
        self.shared["item_vectors"] = vectors

    def _sums(self, histories: sp.csr_matrix, vectors: Array, weights: Array) -> Array:
        """Steps 4 and 5, before the noise."""
        own = self._own_vectors(histories, vectors)
        own[~np.isfinite(own).all(axis=1)] = 0  # no cut would bound it: such a user says nothing
        users = clip_rows(own, 1.0)
        return statistics(histories, weights, users, self.cap, self.matrix_share)

    def _own_vectors(self, histories: sp.csr_matrix, vectors: Array) -> Array:
        """Steps 4 and 7: every user's ridge regression on the item vectors, by conjugate gradient."""
        users = np.zeros((histories.shape[0], vectors.shape[1]), np.float32)
        target = np.full(histories.nnz, 1 + self.alpha, np.float32)
        ridge = (self.regularization * np.diff(histories.indptr)).astype(np.float32)
        system = (target, float(self.alpha), als_kernels.gram(vectors), ridge, vectors)
        steps = 2 * vectors.shape[1]
        pointers = (histories.indptr, histories.indices)
        in_threads(als_kernels.solve_rows, len(users), *pointers, *system, users, steps)
        return users

    def _solve(self, noisy: Array, weights: Array, sigma: float) -> Array:
        """Step 6: every item's vector from its noisy sums."""
        sums, own, common = separated(noisy, weights, self.embedding_size, self.matrix_share)
        values, turn = torch.linalg.eigh(torch.from_numpy(common + self.alpha * own))
        edge = self.alpha * sigma * np.sqrt(2 * self.embedding_size / self.matrix_share) / weights
        positive = values.numpy().clip(min=0) + self.item_ridge * edge[:, None] + 1e-6
        turned = np.einsum("iab,ia->ib", turn.numpy(), (1 + self.alpha) * sums) / positive
        return np.ascontiguousarray(np.einsum("iab,ib->ia", turn.numpy(), turned), dtype=np.float32)

    def _score_kept(self, histories: sp.csr_matrix) -> Array:
        vectors = self.shared["item_vectors"]
        return np.asarray(self._own_vectors(histories, vectors) @ vectors.T)


def statistics(histories: sp.csr_matrix, weights: Array, users: Array, cap: int, share: float) -> Array:
    """Step 5 before the noise: what all users together send, as one vector.

    >>> one = statistics(sp.csr_matrix(np.ones((1, 4))), np.ones(4), np.array([[0.6, 0.8]]), 1, 0.2)
    >>> len(one), round(float(np.linalg.norm(one)), 3)
    (23, 0.992)
    """
    rows = bounded_rows(histories, weights, cap)  # s_u w_i
    scale = (rows @ (1 / weights)) / np.maximum(np.diff(histories.indptr), 1)  # s_u
    a, b = np.triu_indices(users.shape[1])
    squares = users[:, a] * users[:, b] * np.where(a == b, 1.0, np.sqrt(2))
    parts = (rows.T @ users, rows.T @ squares, scale @ squares)
    shares = np.sqrt([1 - share - _GRAM_SHARE, share, _GRAM_SHARE])
    return np.concatenate([factor * np.ravel(part) for factor, part in zip(shares, parts, strict=True)])


def separated(values: Array, weights: Array, size: int, share: float) -> tuple[Array, Array, Array]:
    """What ``statistics`` put together: b / w [items, size], A / w [items, size, size] and G [size, size].

    >>> one = statistics(sp.csr_matrix(np.ones((1, 1))), np.ones(1), np.array([[0.6, 0.8]]), 1, 0.2)
    >>> [part.round(2).tolist() for part in separated(one, np.ones(1), 2, 0.2)[:2]]
    [[[0.6, 0.8]], [[[0.36, 0.48], [0.48, 0.64]]]]
    """
    items, width = len(weights), size * (size + 1) // 2
    shares = np.sqrt([1 - share - _GRAM_SHARE, share, _GRAM_SHARE])
    cuts = [items * size, items * (size + width)]
    sums, own, common = (part / factor for part, factor in zip(np.split(values, cuts), shares, strict=True))
    a, b = np.triu_indices(size)
    flat = np.concatenate([own, common]).reshape(-1, width) / np.where(a == b, 1.0, np.sqrt(2))
    matrices = np.empty((items + 1, size, size))
    matrices[:, a, b] = flat
    matrices[:, b, a] = flat
    return sums.reshape(items, size) / weights[:, None], matrices[:-1] / weights[:, None, None], matrices[-1]
