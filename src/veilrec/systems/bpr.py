"""BPR-MF: matrix factorisation for ranking (Rendle et al., "Bayesian personalized ranking", UAI 2009).

The stochastic gradient is stratified (Gemulla et al., KDD 2011), so that threads never meet and the result is
the same for every number of them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from veilrec.core import check_count, check_non_negative, check_positive, stream, thread_count
from veilrec.data import Dataset
from veilrec.models import bpr_kernels
from veilrec.systems.vectors import VectorRecommender
from veilrec.training import Array, Job, run_epochs, validation_score
from veilrec.training.layout import Layout, floats

_BLOCKS = 4


@dataclass(eq=False)
class BPR(VectorRecommender):
    """Scores x_ui = p_u . q_i + b_i; minimises -ln sigmoid(x_ui - x_uj), u having item i and not item j.

    Each epoch deals users and items into random blocks and visits every interaction once, in random order
    within its (user block, item block) stratum; j is drawn evenly from the same item block.
    ``regularization`` decays what a step touches, and the learning rate falls linearly over the epochs. With
    validation data the epoch of the best Recall@20 is kept.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> len(BPR(embedding_size=8, epochs=3).fit(data, progress=False).recommend(["u1"], k=5))
    5
    """

    word: ClassVar[str] = "bpr"
    summary: ClassVar[str] = "matrix factorisation trained on pairs: had before not had"

    embedding_size: int = 64
    learning_rate: float = 0.08
    regularization: float = 0.005
    epochs: int = 60
    patience: int = 3
    validate_every: int = 5

    def __post_init__(self) -> None:
        for name in ("embedding_size", "epochs", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("regularization", self.regularization)

    def _layout(self) -> Layout:
        size = self.embedding_size
        shared = {"item_vectors": floats("items", size), "item_bias": floats("items")}
        return Layout(shared, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        history, size = self.history, self.embedding_size
        n_users, n_items = history.shape
        blocks = _BLOCKS if min(n_users, n_items) >= 16 * _BLOCKS else 1
        users = np.repeat(np.arange(n_users, dtype=np.int32), np.diff(history.indptr))
        p = stream(job.seed, self.word, "users").standard_normal((n_users, size))
        q = stream(job.seed, self.word, "items").standard_normal((n_items, size + 1))
        p, q = ((start * 0.1 / np.sqrt(size)).astype(np.float32) for start in (p, q))
        q[:, -1] = 0  # the biases

        def step(epoch: int) -> float:
            rng = stream(job.seed, self.word, epoch)
            user_block, item_block = (rng.permutation(n) % blocks for n in (n_users, n_items))
            dealt = bpr_kernels.deal(users, history.indices, user_block, item_block, blocks)
            seeds = rng.integers(2**62, size=blocks * blocks)
            rate = self.learning_rate * (1 - epoch / self.epochs)

            def stratum(at: int) -> float:
                part = slice(dealt[2][at], dealt[2][at + 1])
                candidates = np.flatnonzero(item_block == at % blocks)
                known = (candidates, history.indptr, history.indices, p, q)
                return bpr_kernels.bpr_stratum(
                    dealt[0][part], dealt[1][part], *known, rate, float(self.regularization), int(seeds[at])
                )

            loss = 0.0
            with ThreadPoolExecutor(thread_count()) as pool:
                for turn in range(blocks):  # strata of one turn share no user and no item
                    side_by_side = [block * blocks + (block + turn) % blocks for block in range(blocks)]
                    loss += sum(pool.map(stratum, side_by_side))
            return float(loss / history.nnz)

        def publish() -> None:
            self.private["user_vectors"] = p
            self.shared["item_vectors"], self.shared["item_bias"] = q[:, :-1].copy(), q[:, -1].copy()

        def validate(valid: Dataset) -> float:
            publish()
            return validation_score(self._score, job.train, valid)

        run_epochs(job, self, state={"user": p, "item": q}, step=step, validate=validate)
        publish()

    def _score(self, users: Array) -> Array:
        scores = super()._score(users)
        scores += self.shared["item_bias"]
        return scores
