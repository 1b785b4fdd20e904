"""DPMF: matrix factorisation by objective perturbation (Hua, Xia and Zhong, IJCAI 2015).

    1.  every user has a vector u_a of length at most 1, which stays on the device
    2.  for every item j draw b_j with density proportional to exp(-epsilon |b_j| / (2 range))
    3.  release v_j = argmin_v  sum_a (r_aj - u_a . v)^2 + (lambda / 2) |v|^2 + b_j . v
    4.  every user fits a vector p_a to the released v_j and the own row r_a, and scores p_a . v_j

What the guarantee really is. With vectors u_a that do *not* depend on the interactions, one interaction more
or less moves the gradient of one item's objective by 2 range |u_a| <= 2 range, and the Hessian not at all, so
all item vectors together are epsilon-DP for one interaction; step 4 is the user's own business (joint DP,
which says nothing about a user's own list). A factorisation, however, fits the u_a to the very ratings that
are to be hidden. One interaction then moves u_a, with it the Hessian of every item, and the ratio of the two
densities of v grows without limit in |v|: no finite pure epsilon. Rounds of steps 1 to 3 would also have to
be composed.

``user_vectors`` chooses. "fitted" is the factorisation: its statement has no finite epsilon. "public"
enforces the condition: the u_a are random vectors that anybody may know, drawn from seed and id alone, so the
item vectors are a noisy sketch of the interactions (the range finder of Halko, Martinsson and Tropp, SIAM
Review 2011), and epsilon is finite. Half of their squared length is one coordinate that all have in common,
in which an item's popularity shows. In the Hessian sum_a u_a u_a^T is what it is on average for the declared
number of users, so that it stays when a user comes or goes.

Sources. Only the abstract of the paper and accounts of it by others were at hand, not its text: how it argues
about the u_a could not be checked, and the statement is about what is done here. Chosen here: every cell of
the matrix counts, 1 for an interaction and 0 for none, range 1, so that the existence of an interaction is
the secret (hiding the rating alone would still show that there is one); "fitted" u_a come from alternating
ridge regressions, each divided by its length; the minimum is solved exactly and once; b_j is drawn whole,
where the abstract has users draw small pieces of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check_choice, check_count, check_positive, stream
from veilrec.data import Dataset, Ids, id_normals
from veilrec.privacy import Claim, Event, Noise, UnboundedEvent
from veilrec.privacy.mechanisms import ObjectivePerturbation
from veilrec.systems.vectors import VectorRecommender, unit_rows
from veilrec.training import Array, Job, release_once
from veilrec.training.layout import Layout, floats

_LABEL = "item vectors"
_OWN = "a user's interactions for the user's own vector and list"
_LEAK = UnboundedEvent(
    reason="the user vectors that the objective takes as constants are fitted to the same interactions "
    "without noise: one interaction changes every item's Hessian, and the ratio of densities has no bound",
    label="user vectors in the objective",
)


@dataclass(eq=False)
class DPMF(VectorRecommender):
    """Item vectors by a perturbed objective, one release; user vectors on the user's side.

    ``epsilon`` is for one interaction. ``user_vectors`` is "fitted" (by ``iterations`` alternating ridge
    regressions) or "public" (finite epsilon).
    ``regularization`` is lambda; ``shrinkage`` is the ridge of a user's own fit, as a share of the mean
    eigenvalue of the item vectors' Gram matrix.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> DPMF(embedding_size=8).fit(data, progress=False).guarantee.epsilon
    inf
    >>> DPMF(embedding_size=8, user_vectors="public").fit(data, progress=False).guarantee.epsilon
    1.0
    """

    word: ClassVar[str] = "dpmf"
    summary: ClassVar[str] = "matrix factorisation with a noisy objective for the item vectors"
    protects: ClassVar[str] = "single interactions, if user_vectors='public'"
    in_floats: ClassVar[bool] = True
    uncovered: ClassVar[tuple[str, ...]] = (_OWN,)
    not_covered: ClassVar[tuple[str, ...]] = (
        "a user's own list against whoever sees it, since it is made from the user's own interactions",
        "the ids of users and items",
    )
    paper_claim: ClassVar[str] = "the final item profiles satisfy differential privacy"

    embedding_size: int = 16
    epsilon: float = 1.0
    user_vectors: str = "fitted"
    iterations: int = 10
    regularization: float = 10.0
    shrinkage: float = 0.5

    def __post_init__(self) -> None:
        check_count("embedding_size", self.embedding_size)
        check_count("iterations", self.iterations)
        check_choice("user_vectors", self.user_vectors, ["fitted", "public"])
        for name in ("epsilon", "regularization", "shrinkage"):
            check_positive(name, getattr(self, name))

    def _mechanism(self) -> ObjectivePerturbation:
        """An interaction adds -2 u_a . v to one item's objective: a gradient of at most 2, no curvature."""
        return ObjectivePerturbation(self.epsilon, self.regularization, lipschitz=2.0, smoothness=0.0)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        events: tuple[Event, ...] = (self._mechanism().event.named(_LABEL),)
        if self.user_vectors == "fitted":
            events += (_LEAK,)
        about = ("one interaction of a user", "interaction", "add-remove", "OF", ("all item vectors",))
        return (Claim(*about, events, per_user=public.n_items),)  # type: ignore[arg-type]

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout({"item_vectors": floats("items", size)}, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        if self.user_vectors == "fitted":
            u = self._fitted_users(job.take_bare("interactions", _LEAK).matrix(), job.seed)
            gram = None
        else:
            u = public_vectors(job.train.users, self.embedding_size, job.seed)
            gram = job.train.public_users * mean_square(self.embedding_size)
        rows = job.guard.take("interactions", _LABEL).matrix()
        v = released_ridge(job, rows, u, self._mechanism(), _LABEL, gram)
        self.shared["item_vectors"] = v.astype(np.float32)
        own = job.guard.take("interactions", _OWN).matrix()
        self.private["user_vectors"] = self._own_vectors(own)

    def _fitted_users(self, rows: sp.csr_matrix, seed: int) -> Array:
        """Step 1 by an ordinary factorisation, each user's vector divided by its length."""
        v = stream(seed, self.word, "items").standard_normal((rows.shape[1], self.embedding_size))
        for _ in range(self.iterations):
            u = ridge(rows, v, self.regularization)
            v = ridge(rows.T, u, self.regularization)
        return unit_rows(u)

    def _own_vectors(self, rows: sp.csr_matrix) -> Array:
        """Step 4: what a device does with the released item vectors and the own row."""
        v = self.shared["item_vectors"].astype(np.float64)
        mean = max(float(np.square(v).sum()) / v.shape[1], 1e-12)
        return ridge(rows, v, self.shrinkage * mean).astype(np.float32)

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        return np.asarray(self._own_vectors(histories) @ self.shared["item_vectors"].T)


def public_vectors(users: Ids, size: int, seed: int) -> Array:
    """Vectors of length 1, each drawn from seed and id alone; the first coordinate is common to all.

    >>> np.square(public_vectors(Ids(["ann", "bob"]), 4, seed=1)).sum(axis=1).round(6).tolist()
    [1.0, 1.0]
    """
    if size == 1:
        return np.ones((len(users), 1))
    directions = unit_rows(id_normals(users, size - 1, seed, "dpmf", "public users"))
    return np.asarray(np.concatenate([np.ones((len(users), 1)), directions], axis=1) * np.sqrt(0.5))


def mean_square(size: int) -> Array:
    """The mean of u u^T over the vectors that :func:`public_vectors` draws.

    >>> mean_square(3).diagonal().tolist()
    [0.5, 0.25, 0.25]
    """
    if size == 1:
        return np.ones((1, 1))
    return np.diag([0.5, *[0.5 / (size - 1)] * (size - 1)])


def ridge(rows: sp.spmatrix, design: Array, penalty: float) -> Array:
    """For every row r the w that minimises |r - design w|^2 + penalty |w|^2.

    >>> ridge(sp.csr_matrix([[2.0, 0.0]]), np.array([[1.0], [0.0]]), 1.0).tolist()
    [[1.0]]
    """
    gram = design.T @ design + penalty * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(gram, (rows @ design).T).T)


def perturbed_ridge(
    rows: sp.csr_matrix,
    design: Array,
    mechanism: ObjectivePerturbation,
    noise: Noise,
    gram: Array | None = None,
) -> Array:
    """For every *column* c the minimiser of |c - design v|^2 + (lambda / 2) |v|^2 + b . v, exactly.

    ``gram`` is put in the place of design^T design, where it is known beforehand. It records no event: that
    is for :func:`released_ridge`.

    >>> mechanism, noise = ObjectivePerturbation(700.0, 2.0, lipschitz=2.0), Noise.research(1)
    >>> table = sp.csr_matrix([[1.0, 0.0], [1.0, 1.0]])
    >>> perturbed_ridge(table, np.ones((2, 1)), mechanism, noise).round(1).tolist()
    [[0.7], [0.3]]
    """
    columns, size = rows.shape[1], design.shape[1]
    direction = unit_rows(noise.normals((columns, size)))
    length = noise.exponentials((columns, size)).sum(axis=1) / mechanism.rate
    hessian = 2 * (design.T @ design if gram is None else gram) + mechanism.regularisation * np.eye(size)
    gradient = 2 * (rows.T @ design) - direction * length[:, None]
    return np.asarray(np.linalg.solve(hessian, gradient.T).T)


def released_ridge(
    job: Job,
    rows: sp.csr_matrix,
    design: Array,
    mechanism: ObjectivePerturbation,
    label: str,
    gram: Array | None = None,
) -> Array:
    """:func:`perturbed_ridge`, drawn once for a checkpoint folder: a fit that goes on reads it back.

    One event stands for all columns: one cell of ``rows`` is in the objective of one of them.

    >>> import veilrec as vr
    >>> job = Job(vr.synthetic(60, 40, 900), None, 0, "cpu", None, False)
    >>> one, mechanism = np.eye(3), ObjectivePerturbation(1.0, 2.0)
    >>> released_ridge(job, sp.csr_matrix(one), one, mechanism, "rows").shape
    (3, 3)
    >>> job.noise.events
    [PureEvent(count=1, neighbours='add-remove', label='rows', epsilon=1.0)]
    """
    noise = job.noise.child(label)
    found = release_once(job, label, lambda: perturbed_ridge(rows, design, mechanism, noise, gram))
    job.noise.record(mechanism.event.named(label), in_floats=True)
    return found
