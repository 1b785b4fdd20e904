"""What the private item models have in common: bounded histories, noisy item counts, and one claim.

    1.  r_u: the user's items, or ``cap`` of them drawn at random (``cap_by="sample"``)
    2.  release c = sum_u b(r_u) + noise, where b scales a row to length min(1, sqrt(items / cap))
    3.  keep the ``popular_items`` items with the largest c; weigh each of them by c^-exponent
    4.  hand on the rows b(weighted r_u) of the kept items; the model adds its own noise to what it sums
    5.  a user's list is computed from what was released and the user's own history

Sensitivity. A row b(.) has length at most 1, whatever the user did and whatever the released weights are, so
a user who comes or goes moves c by at most 1 in L2 norm. Which items of a user are drawn depends on the seed,
the user's own id and the ids of the own items alone: it stays when somebody else leaves. The budget (in
squared signal to noise, in which Gaussian releases add up) goes by ``count_share`` to the counts and the
rest in equal parts to the model's own releases.

Joint DP (Kearns et al., ITCS 2014): step 5 is a function of a private release and one's own data, so what
all *other* people see is private; one's own list is not covered against somebody who sees it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check, check_choice, check_count, check_positive
from veilrec.data import Dataset, id_draws, mixed
from veilrec.privacy import Claim, GaussianEvent, check_lattice, default_delta, gaussian_multiplier
from veilrec.privacy.mechanisms import Gaussian
from veilrec.systems.item_knn import single_items
from veilrec.training import Array, Job, Recommender, release_once
from veilrec.training.layout import Layout, Spec, floats, places

COUNTS = "item counts"


@dataclass(eq=False)
class PrivateItems(Recommender, ABC):
    """Settings, claim and scoring of the user-level private item models; see the head of this file."""

    protects: ClassVar[str] = "a user's interactions, but for the own list"
    not_covered: ClassVar[tuple[str, ...]] = (
        "a user's own list against whoever sees it, since it is made from the user's own history",
        "the ids of users and items",
    )
    label: ClassVar[str]
    released: ClassVar[str]

    epsilon: float = 8.0
    delta: float | None = None
    count_share: float = 0.1
    popular_items: int | None = 1000
    exponent: float = 0.25
    cap: int = 1
    cap_by: str = "scale"

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.delta is not None:
            check(0 < self.delta < 1, "delta", "None or strictly between 0 and 1", self.delta)
        check(0 <= self.count_share <= 0.99, "count_share", "from 0 to 0.99", self.count_share)
        if self.popular_items is not None:
            check_count("popular_items", self.popular_items)
        good = isinstance(self.exponent, int | float) and 0 <= self.exponent <= 4
        check(good, "exponent", "from 0 to 4", self.exponent, "0.25 to 0.5 is usual.")
        unused = self.popular_items is None and self.exponent == 0
        remedy = "Without counts say popular_items=None and exponent=0."
        check(self.count_share > 0 or unused, "count_share", "above 0", self.count_share, remedy)
        check_count("cap", self.cap)
        check_choice("cap_by", self.cap_by, ["scale", "sample"])

    @abstractmethod
    def _score_kept(self, histories: sp.csr_matrix) -> Array:
        """Scores of the kept items (columns) for histories of kept items."""

    @property
    def _releases(self) -> int:
        """How often the model adds noise after the counts."""
        return 1

    def _numbers(self, items: int) -> int:
        """How many numbers one of the model's own releases has, if it keeps so many items."""
        return items * (items + 1) // 2

    def _check_data(self, public: Dataset) -> None:
        kept = min(public.n_items, self.popular_items or public.n_items)
        counts, own = self.mechanisms(public.public_users)
        for mechanism, numbers in ((counts, public.n_items), (own, self._numbers(kept))):
            if mechanism is not None:
                check_lattice(mechanism.noise_multiplier, numbers)

    def _layout(self) -> Layout:
        kept = {"counts": floats("items"), "kept": places("items", "kept", rising="strictly")}
        return Layout({**kept, **self._kept_layout()})

    @abstractmethod
    def _kept_layout(self) -> dict[str, Spec]:
        """What is kept beside the counts; the axis "kept" are the kept items."""

    # -- the budget -----------------------------------------------------------------------------------

    def mechanisms(self, n_users: int) -> tuple[Gaussian | None, Gaussian]:
        """The noise on the counts, if they are released, and that on each of the model's own releases."""
        delta = default_delta(n_users, self.delta)
        single = gaussian_multiplier(self.epsilon, delta)
        counts = Gaussian(single / math.sqrt(self.count_share)) if self.count_share else None
        return counts, Gaussian(single * math.sqrt(self._releases / (1 - self.count_share)))

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        counts, own = self.mechanisms(public.public_users)
        events = [own.event.named(self.label).times(self._releases)]
        if counts is not None:
            events.insert(0, counts.event.named(COUNTS))
        assert all(isinstance(event, GaussianEvent) for event in events)
        delta = default_delta(public.public_users, self.delta)
        released = (COUNTS, self.released) if counts is not None else (self.released,)
        secret = "all interactions of a user"
        return (Claim(secret, "user", "add-remove", "OF", released, tuple(events), delta),)

    # -- from histories to bounded rows ---------------------------------------------------------------

    def _choose_items(self, job: Job) -> None:
        """Steps 2 and 3."""
        n_items = job.train.n_items
        mechanism, _ = self.mechanisms(job.train.public_users)
        counts = np.zeros(n_items)
        if mechanism is not None:
            rows = bounded_rows(self._histories(job, COUNTS), np.ones(n_items), self.cap)
            counts = self._release(job, mechanism, COUNTS, lambda: np.asarray(rows.sum(axis=0)).ravel())
        most = min(self.popular_items or n_items, n_items)
        kept = np.sort(np.argsort(-counts, kind="stable")[:most])
        floor = 1.0 if mechanism is None else max(1.0, mechanism.sigma)
        weights = np.maximum(counts, floor)[kept] ** -self.exponent
        self.shared |= {"counts": counts.astype(np.float32), "kept": kept, "weights": weights}

    def _release(
        self, job: Job, mechanism: Gaussian, label: str, exact: Callable[[], Array], turn: int | None = None
    ) -> Array:
        """``exact()`` and noise, or what a stopped fit has released in this ``turn``."""
        kept = label if turn is None else f"{label} {turn}"
        return release_once(job, kept, lambda: mechanism.release(exact(), job.noise.child(kept), label))

    def _bounded(self, job: Job) -> sp.csr_matrix:
        """Step 4: rows of length at most 1 over the kept items, for the model's own release."""
        histories = self._histories(job, self.label)[:, self.shared["kept"]]
        return bounded_rows(histories, self.shared["weights"], self.cap)

    def _histories(self, job: Job, purpose: str) -> sp.csr_matrix:
        assert job.guard is not None
        data = job.guard.take("interactions", purpose)
        return data.matrix() if self.cap_by == "scale" else drawn_items(data, self.cap, job.seed)

    # -- step 5 ---------------------------------------------------------------------------------------

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        """Items that were not kept come last, by the noisy counts; so do all for who has none of the kept."""
        kept, counts = self.shared["kept"], self.shared["counts"]
        inside = histories[:, kept]
        scores = np.asarray(self._score_kept(inside), np.float32)
        scores = np.where(np.diff(inside.indptr)[:, None] > 0, scores, counts[kept])
        low, high = float(counts.min()), float(counts.max())
        place = (counts - low) / (high - low) if high > low else np.zeros_like(counts)
        lowest = scores.min(axis=1, keepdims=True)
        out = np.asarray(lowest - (2 - place) * np.maximum(1, np.abs(lowest)), np.float32)
        out[:, kept] = scores
        return out

    def _item_similarity(self, items: Array) -> Array:
        return self._score_histories(single_items(items, len(self.items)))


def bounded_rows(histories: sp.csr_matrix, weights: Array, cap: int) -> sp.csr_matrix:
    """Rows of weights[i] for each item i, scaled to length min(1, sqrt(items / cap)), in float64.

    >>> bounded_rows(sp.csr_matrix([[1.0, 1.0], [0.0, 1.0]]), np.ones(2), cap=2).toarray().round(3).tolist()
    [[0.707, 0.707], [0.0, 0.707]]
    """
    held = np.diff(histories.indptr)
    rows = np.repeat(np.arange(len(held)), held)
    values = np.asarray(weights, np.float64)[histories.indices]
    length = np.sqrt(np.bincount(rows, values**2, len(held)))
    scale = np.sqrt(np.minimum(1.0, held / cap)) / np.where(length > 0, length, 1.0)
    return sp.csr_matrix((values * scale[rows], histories.indices, histories.indptr), histories.shape)


def drawn_items(data: Dataset, most: int, seed: int) -> sp.csr_matrix:
    """At most ``most`` items of each user; which, depends on the seed and on the ids of user and items alone.

    >>> data = Dataset.from_arrays(["ann"] * 3 + ["bob"], ["tea", "mate", "rum", "tea"])
    >>> drawn_items(data, 2, seed=1).sum(axis=1).ravel().tolist()
    [[2.0, 1.0]]
    """
    histories = data.matrix()
    users, items = (id_draws(ids, seed, "drawn items") for ids in (data.users, data.items))
    held = np.diff(histories.indptr)
    rows = np.repeat(np.arange(len(held)), held)
    sequence = np.lexsort((mixed(users[rows] ^ mixed(items[histories.indices])), rows))
    place = np.empty(len(rows), np.int64)
    place[sequence] = np.arange(len(rows)) - np.repeat(histories.indptr[:-1], held)
    chosen = place < most
    out = sp.csr_matrix((histories.data[chosen], (rows[chosen], histories.indices[chosen])), histories.shape)
    out.sort_indices()
    return out
