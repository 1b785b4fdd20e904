"""DP-Spectral: noisy power iteration on the normalised adjacency, for catalogues too large for DP-Gram.

    1.  rows x_u of length at most 1 over the popular items, discounted for popularity  (``private_items.py``)
    2.  V_0: random orthonormal columns, drawn without looking at data
    3.  for t = 1..iterations:  Y_t = sum_u x_u y_u^T + noise,  y_u = V^T x_u cut to length ``clip``
                                V_t = left singular vectors of Y_t
    4.  gain_i = sqrt(1 - (shrinkage edge / s_i)^2) for the singular values s_i of the last Y, 0 below
    5.  score = W^-1 V gain V^T W r

Nothing of the size items x items is ever held: sum_u x_u y_u^T is two sparse products.

Sensitivity. Given V_t-1, which is released, a user adds x y^T to Y_t, of Frobenius norm |x| |y| <= clip.
The iterations compose adaptively; each is one Gaussian event. The ``edge``, (sqrt(items) + sqrt(rank))
sigma, is the largest singular value that the noise alone has (Davidson and Szarek 2001): a public number.

References: Hardt and Price, "The noisy power method", NIPS 2014 (and Hardt and Roth, STOC 2013, for the
private form); Shen et al., CIKM 2021, for the filter. Left open by them, and chosen here: one user is a
whole row, not one entry, so the noise is scaled by ``clip`` and not by the coherence of V. A user of whom V
explains more than clip^2 counts for less, which costs a bias; the smaller the clip, the more users count
alike and the less the noise. Step 4 is not in the papers; without it the directions that are noise harm the
lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check, check_count, check_non_negative, stream
from veilrec.privacy import clip_rows
from veilrec.privacy.mechanisms import Gaussian
from veilrec.systems.dp_gram import eigenvalue_gain
from veilrec.systems.private_items import PrivateItems
from veilrec.training import Array, Job
from veilrec.training.layout import Spec, floats


@dataclass(eq=False)
class DPSpectral(PrivateItems):
    """A low-pass filter of ``rank`` directions found by ``iterations`` noisy steps.

    ``epsilon`` and ``delta`` (None: 1e-5, or users^-1.1 if smaller) are for all interactions of a user.
    ``count_share`` of the budget finds the ``popular_items`` (None: all items) and their weights, counts to
    the power of -``exponent``; the steps share the rest alike. ``cap`` and ``cap_by`` as in ``DPGram``.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900)
    >>> model = DPSpectral(epsilon=2, rank=4).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 6), model.guarantee.claims[0].events[1].count
    (2.0, 3)
    """

    word: ClassVar[str] = "dp-spectral"
    summary: ClassVar[str] = (
        "low-pass filter by noisy power iteration, for large catalogues; private per user"
    )
    label: ClassVar[str] = "power steps"
    released: ClassVar[str] = "noisy products of every step, and with them the item vectors"

    exponent: float = 0.5
    rank: int = 32
    iterations: int = 3
    clip: float = 0.1
    shrinkage: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("rank", self.rank)
        check_count("iterations", self.iterations)
        check(0 < self.clip <= 1, "clip", "above 0 and at most 1", self.clip)
        check_non_negative("shrinkage", self.shrinkage)

    @property
    def _releases(self) -> int:
        return self.iterations

    def _numbers(self, items: int) -> int:
        return items * min(self.rank, items)

    def _kept_layout(self) -> dict[str, Spec]:
        return {"left": floats("kept", "rank"), "right": floats("rank", "kept")}

    def _fit(self, job: Job) -> None:
        self._choose_items(job)
        rows = self._bounded(job)
        items, rank = rows.shape[1], min(self.rank, rows.shape[1])
        _, unit = self.mechanisms(job.train.public_users)
        mechanism = Gaussian(unit.noise_multiplier, sensitivity=self.clip)
        start = stream(job.seed, self.word, "start").standard_normal((items, rank))
        vectors, values = np.linalg.qr(start)[0], np.ones(rank)
        for turn in range(self.iterations):
            step = partial(power_step, rows, vectors, self.clip)
            noisy = self._release(job, mechanism, self.label, step, turn)
            vectors, values, _ = np.linalg.svd(noisy, full_matrices=False)
        edge = float(np.sqrt(items) + np.sqrt(rank)) * mechanism.sigma
        gain = eigenvalue_gain(values, self.shrinkage * edge)
        weights = self.shared.pop("weights")
        self.shared["left"] = (weights[:, None] * vectors * gain).astype(np.float32)
        self.shared["right"] = np.ascontiguousarray((vectors / weights[:, None]).T, dtype=np.float32)

    def _score_kept(self, histories: sp.csr_matrix) -> Array:
        return np.asarray((histories @ self.shared["left"]) @ self.shared["right"])


def power_step(rows: sp.csr_matrix, vectors: Array, clip: float) -> Array:
    """sum_u x_u y_u^T with y_u = V^T x_u cut to length ``clip``.

    >>> power_step(sp.csr_matrix([[0.6, 0.8]]), np.array([[1.0], [0.0]]), 0.5).round(3).tolist()
    [[0.3], [0.4]]
    """
    return np.asarray(rows.T @ clip_rows(rows @ vectors, clip))
