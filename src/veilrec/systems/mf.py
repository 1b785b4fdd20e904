"""MF: rating prediction by matrix factorisation with biases (Koren, Bell and Volinsky, Computer 2009).

Fitted by alternating ridge regressions whose penalty grows with the number of ratings (ALS-WR, Zhou et al.,
AAIM 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import DataError, check_count, check_positive, in_threads, stream
from veilrec.data import Dataset
from veilrec.metrics import rmse
from veilrec.models import als_kernels
from veilrec.systems.vectors import VectorRecommender
from veilrec.training import Array, Job, run_epochs
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class MF(VectorRecommender):
    """Predicts r_ui = mean + b_u + b_i + p_u . q_i, clipped to the declared range of the ratings.

    Minimises the squared error over the known ratings plus regularization (sum_u n_u (b_u^2 + |p_u|^2) + the
    same of the items), n the number of ratings. Each epoch is a ridge regression of r - mean - b_i on (q_i,
    1) for every user, which gives p_u and b_u together, and then the same for every item. With validation
    data the epoch of the lowest RMSE is kept.

    >>> from veilrec.data import Dataset
    >>> data = Dataset.from_arrays(["a", "a", "b"], ["x", "y", "x"], rating=[5, 3, 4], rating_range=(1, 5))
    >>> MF(embedding_size=2).fit(data, progress=False).scores(["b"], ["y"]).round(1).tolist()
    [[2.700000047683716]]
    """

    word: ClassVar[str] = "mf"
    summary: ClassVar[str] = "rating prediction from biases and factors"
    reads: ClassVar[tuple[str, ...]] = ("interactions", "ratings")
    rates: ClassVar[bool] = True

    embedding_size: int = 32
    regularization: float = 0.1
    epochs: int = 20
    steps: int = 5
    patience: int = 3
    validate_every: int = 1

    def __post_init__(self) -> None:
        for name in ("embedding_size", "epochs", "steps", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("regularization", self.regularization)

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout(
            {
                "mean": floats(1),
                "range": floats(2, optional=True),
                "item_vectors": floats("items", size),
                "item_bias": floats("items"),
            },
            {"user_vectors": floats("users", size), "user_bias": floats("users")},
        )

    def _fit(self, job: Job) -> None:
        for part in (job.train, job.valid):
            if part is not None and part.rating is None:
                raise DataError(
                    f"{part.name} has no ratings, and mf predicts ratings. Use data with a rating column, "
                    "or a model for interactions (ials, bpr, ease)."
                )
        by_user = job.train.matrix("rating")
        mean = np.float32(by_user.data.mean(dtype=np.float64))
        by_user.data -= mean
        by_item = by_user.T.tocsr()
        state: dict[str, Array] = {}
        for name, table in (("user", by_user), ("item", by_item)):  # rows (p_u, b_u) and (q_i, b_i)
            start = stream(job.seed, self.word, name).standard_normal(
                (table.shape[0], self.embedding_size + 1)
            )
            state[name] = (start * 0.1 / np.sqrt(self.embedding_size)).astype(np.float32)
            state[name][:, -1] = 0

        def step(epoch: int) -> float:
            self._solve(by_user, state["item"], state["user"])
            return float(self._solve(by_item, state["user"], state["item"]) / by_user.nnz)

        def publish() -> None:
            self.private["user_vectors"], self.private["user_bias"] = _parts(state["user"])
            self.shared["item_vectors"], self.shared["item_bias"] = _parts(state["item"])

        self.shared["mean"] = np.array([mean])
        if job.train.rating_range is not None:
            self.shared["range"] = np.array(job.train.rating_range, np.float32)

        def validate(valid: Dataset) -> float:
            publish()
            assert valid.rating is not None
            return -rmse(self.predict(valid.user, valid.item), valid.rating)

        run_epochs(job, self, state=state, step=step, validate=validate)
        publish()

    def _solve(self, table: sp.csr_matrix, fixed: Array, free: Array) -> float:
        """Regress each row of ``table`` on (vector, 1) of its columns; returns the objective."""
        design = fixed.copy()
        design[:, -1] = 1
        target = table.data - fixed[table.indices, -1]
        ridge = (self.regularization * np.diff(table.indptr)).astype(np.float32)
        system = (target, 1.0, np.zeros((free.shape[1],) * 2, np.float32), ridge, design)
        found = in_threads(
            als_kernels.solve_rows, len(free), table.indptr, table.indices, *system, free, self.steps
        )
        return float(sum(found) + np.square(target, dtype=np.float64).sum())

    def predict(self, users: Array, items: Array) -> Array:
        """The rating of each pair (users[n], items[n]), given as codes."""
        inner = np.einsum("nk,nk->n", self.private["user_vectors"][users], self.shared["item_vectors"][items])
        bias = self.private["user_bias"][users] + self.shared["item_bias"][items]
        return self._clip(inner + bias + self.shared["mean"])

    def _score(self, users: Array) -> Array:
        bias = self.private["user_bias"][users, None] + self.shared["item_bias"]
        return self._clip(super()._score(users) + bias + self.shared["mean"])

    def _clip(self, ratings: Array) -> Array:
        return np.clip(ratings, *self.shared["range"]) if "range" in self.shared else ratings


def _parts(rows: Array) -> tuple[Array, Array]:
    return rows[:, :-1].copy(), rows[:, -1].copy()
