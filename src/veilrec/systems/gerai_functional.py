"""GERAI-C/FM: the functional mechanism of GERAI where it is sound; private for whole users.

    1.  item vectors from a noisy Gram matrix of the interactions      (``dp_gram.py``; counts and G released)
    2.  on the device: z_u = sum of the vectors of the own items, divided by its length: one convolution
    3.  q_uv = z_u * y_v coordinate by coordinate, and beside them the popularity of v
    4.  triples (u, v, v'): v an own item, left out of its own z_u; v' not; coefficients (q / 2, q q^T / 8) of
        q = q_uv - q_uv', cut to length 1, mean over the own triples
    5.  release the sum over users once, with noise; h = the minimum of the noisy loss plus a ridge
    6.  score h . q_uv, on the device

The paper perturbs the coefficients of a loss whose q is trained further on the same people, at every step,
with noise that reaches h alone: no epsilon follows. Here q is frozen before the coefficients are computed and
made of releases and the user's own history alone, they are released once, and a user's share is bounded.

Sensitivity. Step 1: 1 for the counts, 1 for G. Step 5: sqrt(1/4 + 1/64), since the mean over the own triples
of vectors of length at most 1 has at most that length. Which triples a user has depends on the seed, the
user's own id and items alone. ``count_share`` of the budget goes to the counts, the rest in equal parts to
G and the coefficients (in squared signal to noise). Joint DP: see ``private_items.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check, check_count, check_non_negative, check_positive, stream
from veilrec.data import Dataset, Ids, id_draws
from veilrec.privacy import Claim
from veilrec.privacy.mechanisms import FunctionalMechanism, packed
from veilrec.systems.dp_gram import MOST_ITEMS, check_pairs, eigenvalue_gain, gram, spectrum
from veilrec.systems.private_items import PrivateItems
from veilrec.systems.vectors import unit_rows
from veilrec.training import Array, Job, release_once
from veilrec.training.layout import Spec, floats

_GRAM, _LOSS = "item-item matrix", "coefficients of the pairwise loss"


@dataclass(eq=False)
class GERAIFunctional(PrivateItems):
    """Frozen private vectors, and a scorer h by the sound functional mechanism (GERAI-C/FM).

    ``epsilon`` and ``delta`` are for all interactions of a user. ``embedding_size`` vectors of the noisy
    matrix are kept; ``negatives`` triples are made of each own item; ``scale`` stretches the coordinates of q
    before they are cut to length 1: the more, the stronger the signal, until it is cut. ``max_items`` as in
    ``DPGram``.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900)
    >>> model = GERAIFunctional(embedding_size=4).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 6), [event.label for event in model.guarantee.claims[0].events]
    (8.0, ['item counts', 'item-item matrix', 'coefficients of the pairwise loss'])
    """

    word: ClassVar[str] = "gerai-functional"
    summary: ClassVar[str] = "private item vectors, and a scorer by the sound functional mechanism"
    label: ClassVar[str] = _GRAM
    released: ClassVar[str] = "item-item matrix and coefficients of the loss"

    embedding_size: int = 16
    negatives: int = 4
    shrinkage: float = 1.0
    scale: float = 3.0
    max_items: int = MOST_ITEMS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("embedding_size", self.embedding_size)
        check_count("negatives", self.negatives)
        check_non_negative("shrinkage", self.shrinkage)
        check_positive("scale", self.scale)
        check_count("max_items", self.max_items)
        check(self.scale <= 1e6, "scale", "at most 1e6", self.scale, "A few units are usual.")

    def _check_data(self, public: Dataset) -> None:
        kept = min(public.n_items, self.popular_items or public.n_items)
        check_pairs(public, self.word, kept, self.max_items)
        super()._check_data(public)

    @property
    def _releases(self) -> int:
        return 2

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        (claim,) = super()._claims(public)
        *counts, own = claim.events
        own = replace(own, count=1)
        return (replace(claim, events=(*counts, own, own.named(_LOSS))),)

    def _kept_layout(self) -> dict[str, Spec]:
        return {
            "weights": floats("kept", wide=True),
            "vectors": floats("kept", "size", wide=True),
            "h": floats("size+1", wide=True),
        }

    def _fit(self, job: Job) -> None:
        self._choose_items(job)
        _, mechanism = self.mechanisms(job.train.public_users)
        rows = self._bounded(job)
        noisy = self._release(job, mechanism, _GRAM, lambda: packed(gram(rows)))
        values, vectors, edge = spectrum(noisy, rows.shape[1], mechanism.sigma, self.embedding_size)
        gain = eigenvalue_gain(values, self.shrinkage * edge)
        vectors = vectors[:, gain > 0] * np.sqrt(gain[gain > 0])
        self.shared["vectors"] = vectors * math.sqrt(len(vectors) / vectors.shape[1])
        differences, owner = self._triples(
            self._histories(job, _LOSS)[:, self.shared["kept"]], job.train.users, job.seed
        )
        functional = FunctionalMechanism(mechanism.noise_multiplier)
        self.shared["h"] = release_once(
            job, _LOSS, lambda: functional.release(differences, owner, job.noise.child(_LOSS), _LOSS).solve()
        )

    # -- q --------------------------------------------------------------------------------------------

    def _pair(self, own: Array, items: Array) -> Array:
        """q of rows of z and items of the same number: [..., vectors + 1]."""
        vectors, counts = self.shared["vectors"][items], self.shared["counts"][self.shared["kept"]][items]
        popular = np.log1p(np.maximum(counts, 0)) / math.log1p(max(float(self.shared["counts"].max()), 1.0))
        return np.concatenate([self.scale * own * vectors, popular[..., None]], axis=-1)

    def _triples(self, histories: sp.csr_matrix, ids: Ids, seed: int) -> tuple[Array, Array]:
        """Differences q_uv - q_uv' and their users."""
        items, held = histories.shape[1], np.diff(histories.indptr)
        owner = np.repeat(np.arange(len(held)), held)
        own = self.shared["weights"][histories.indices, None] * self.shared["vectors"][histories.indices]
        total = sp.csr_matrix((np.ones(len(owner)), np.arange(len(owner)), histories.indptr)) @ own
        without = unit_rows(total[owner] - own)  # z_u as if v were not known
        order = stream(seed, self.word, "negatives").permutation(items)
        turn = (id_draws(ids, seed, self.word, "negatives") % np.uint64(items)).astype(np.int64)
        place = np.arange(len(owner)) - np.repeat(histories.indptr[:-1], held)
        liked = self._pair(without, histories.indices)
        found, whose = [], []
        taken = histories.astype(bool)
        for step in range(self.negatives):
            other = order[(turn[owner] + place * self.negatives + step) % items]
            new = ~np.asarray(taken[owner, other]).ravel()
            found.append((liked - self._pair(without, other))[new])
            whose.append(owner[new])
        return np.concatenate(found), np.concatenate(whose)

    def _score_kept(self, histories: sp.csr_matrix) -> Array:
        h, vectors = self.shared["h"], self.shared["vectors"]
        z = unit_rows(histories @ (self.shared["weights"][:, None] * vectors))
        popular = self._pair(np.zeros((1, vectors.shape[1])), np.arange(len(vectors)))[:, -1] * h[-1]
        return np.asarray((self.scale * z * h[:-1]) @ vectors.T + popular)
