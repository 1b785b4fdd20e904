"""GF-CF: a graph filter in place of training (Shen et al., CIKM 2021).

Reference: "How powerful is graph convolution for recommendation?".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from veilrec.core import CannotFoldIn, bar, check, check_count, check_non_negative, in_threads, stream
from veilrec.models import gather_rows, kernels
from veilrec.models.spectral import top_right_vectors
from veilrec.systems.item_knn import single_items
from veilrec.training import Array, Job, Recommender
from veilrec.training.layout import Layout, floats, places, pointers


@dataclass(eq=False)
class GFCF(Recommender):
    """Scores of a history r: r D^-t/2 (R~^T R~) D^t/2 + alpha r D^-1/2 (V V^T) D^1/2.

    The first term is a linear graph filter, the second an ideal low-pass one. R~ = D_U^-1/2 R D^-1/2 is the
    interaction matrix divided by the roots of the users' and the items' degrees, and V holds its ``rank``
    leading right singular vectors (``models/spectral.py``). t is the ``tilt``: at 0, as in the paper, what
    the user has and what is scored are discounted alike for their popularity; above 0 the former more, which
    helps on sparse data and harms on dense (``docs/decisions/0002-classical-models.md``).

    Nothing of the size items x items is held: the linear filter runs over the histories of all users, so it
    needs the owner's whole model.

    >>> from veilrec.data import Dataset
    >>> data = Dataset.from_arrays(["a", "a", "b", "b", "c"], ["x", "y", "y", "z", "x"])
    >>> GFCF(rank=2).fit(data).recommend(["c"], k=1)["item"].to_list()
    ['y']
    """

    word: ClassVar[str] = "gf-cf"
    summary: ClassVar[str] = "training-free graph filter: neighbours plus the low frequencies"

    rank: int = 256
    alpha: float = 0.3
    tilt: float = 0.0

    def __post_init__(self) -> None:
        check_count("rank", self.rank)
        check_non_negative("alpha", self.alpha)
        check(0 <= self.tilt <= 1, "tilt", "from 0 to 1", self.tilt)

    def _layout(self) -> Layout:
        return Layout(
            {"item_scale": floats("items"), "vectors": floats("items", "rank")},
            {
                "user_scale": floats("users"),
                "item_pointers": pointers("items", "item_users", rising="strictly"),
                "item_users": places("users", "entries"),
            },
        )

    def _fit(self, job: Job) -> None:
        by_user, by_item = self.history, self.history.T.tocsr()
        user_scale, item_scale = (_inverse_root(np.diff(table.indptr)) for table in (by_user, by_item))
        normal = (sp.diags(user_scale) @ by_user @ sp.diags(item_scale)).tocsr()
        with bar("filtering gf-cf", None, show=job.progress):
            _, vectors = top_right_vectors(normal, self.rank, stream(job.seed, self.word))
        self.shared |= {"item_scale": item_scale, "vectors": vectors}
        self.private |= {
            "user_scale": user_scale,
            "item_pointers": by_item.indptr,
            "item_users": by_item.indices,
        }

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        if "user_scale" not in self.private:
            raise CannotFoldIn(
                "this is the shareable part of a gf-cf model, and its filter runs over the histories of all "
                "users. Load the owner's whole model, or use ease, ials or item-knn."
            )
        scale, vectors = self.shared["item_scale"], torch.from_numpy(self.shared["vectors"])
        entries, pointers = histories.indices, histories.indptr
        scaled = sp.csr_matrix((scale[entries], entries, pointers), histories.shape)
        out = (gather_rows(scaled, vectors) @ vectors.T).numpy()
        out *= self.alpha * np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        in_threads(
            kernels.filter_rows,
            len(out),
            pointers,
            entries,
            self.private["item_pointers"],
            self.private["item_users"],
            self.history.indptr,
            self.history.indices,
            self.private["user_scale"] ** 2,
            scale ** np.float32(1 + self.tilt),
            scale ** np.float32(1 - self.tilt),
            out,
            block=16,
        )
        return np.asarray(out)

    def _item_similarity(self, items: Array) -> Array:
        return self._score_histories(single_items(items, len(self.items)))


def _inverse_root(degree: Array) -> Array:
    """degree^-1/2, and 0 where the degree is 0."""
    return np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0).astype(np.float32)
