"""iALS: matrix factorisation of implicit feedback by least squares (Hu, Koren and Volinsky, ICDM 2008).

Settings follow the revisit of Rendle et al. (RecSys 2022), who found that its weak results elsewhere came
from untuned regularisation: here it grows with the number of a row's interactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check_count, check_positive, in_threads, stream
from veilrec.data import Dataset
from veilrec.models import als_kernels
from veilrec.systems.vectors import VectorRecommender
from veilrec.training import Array, Job, run_epochs, validation_score
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class IALS(VectorRecommender):
    """Minimises sum_ui c_ui (r_ui - p_u . q_i)^2 + regularization (sum_u n_u |p_u|^2 + sum_i n_i |q_i|^2).

    r_ui is 1 for an interaction and 0 for every other pair; the confidence c_ui is 1 + ``alpha`` and 1. n is
    the number of interactions of the user or item. Each epoch improves every p_u, then every q_i, by
    ``steps`` of conjugate gradient on its normal equations (Takacs, Pilaszy and Tikk, RecSys 2011). A new
    user is one solve.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = IALS(embedding_size=8, epochs=3).fit(data, progress=False)
    >>> len(model.recommend(history={"new": ["i1", "i2"]}, k=5))
    5
    """

    word: ClassVar[str] = "ials"
    summary: ClassVar[str] = "implicit matrix factorisation by alternating least squares"

    embedding_size: int = 64
    alpha: float = 2.0
    regularization: float = 0.1
    epochs: int = 15
    steps: int = 3
    patience: int = 3
    validate_every: int = 3

    def __post_init__(self) -> None:
        for name in ("embedding_size", "epochs", "steps", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("alpha", self.alpha)
        check_positive("regularization", self.regularization)

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout({"item_vectors": floats("items", size)}, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        by_user, by_item = self.history, self.history.T.tocsr()
        size = self.embedding_size
        for name, place, table in (
            ("user_vectors", self.private, by_user),
            ("item_vectors", self.shared, by_item),
        ):
            start = stream(job.seed, self.word, name).standard_normal((table.shape[0], size))
            place[name] = (start * 0.1 / np.sqrt(size)).astype(np.float32)
        users, items = self.private["user_vectors"], self.shared["item_vectors"]

        def step(epoch: int) -> float:
            self._solve(by_user, items, users, self.steps)
            objective = self._solve(by_item, users, items, self.steps)
            return float(1 + self.alpha + objective / by_user.nnz)

        def validate(valid: Dataset) -> float:
            return validation_score(self._score, job.train, valid)

        state = {"user_vectors": users, "item_vectors": items}
        run_epochs(job, self, state=state, step=step, validate=validate)

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        users = np.zeros((histories.shape[0], self.embedding_size), np.float32)
        self._solve(histories, self.shared["item_vectors"], users, 2 * self.embedding_size)
        return np.asarray(users @ self.shared["item_vectors"].T)

    def _solve(self, table: sp.csr_matrix, fixed: Array, free: Array, steps: int) -> float:
        """Improve the vectors ``free`` of the rows of ``table`` with those of its columns ``fixed``."""
        target = np.full(table.nnz, 1 + self.alpha, np.float32)
        ridge = (self.regularization * np.diff(table.indptr)).astype(np.float32)
        system = (target, float(self.alpha), als_kernels.gram(fixed), ridge, fixed)
        found = in_threads(
            als_kernels.solve_rows, len(free), table.indptr, table.indices, *system, free, steps
        )
        return float(sum(found))
