"""DPNE: network embedding by a perturbed factorisation (Xu et al., PAKDD 2018), on the user-item graph.

    1.  the graph gives a matrix: M_ui = log(vol / (d_u d_i b)) for an edge and 0 for none, cut to [0, clip]
        and divided by clip; d are degrees, vol is the sum of all of them
    2.  an ordinary factorisation M = C Y' gives each user a context vector, divided by its length
    3.  release for every item y_i = argmin_y  sum_u (M_ui - c_u . y)^2 + (lambda / 2) |y|^2 + b_i . y
    4.  release for every user x_u = argmin_x  sum_i (M_ui - y_i . x)^2 + (lambda / 2) |x|^2 + b_u . x, with
        all y_i divided by the length of the longest
    5.  score x_u . y_i; each b has density proportional to exp(-epsilon |b| / 4)

What the guarantee really is. Objective perturbation covers one entry of M that changes by at most 1 while
contexts of length at most 1 stay as they are: then a gradient moves by 2, and each of the two releases costs
epsilon / 2. But one edge changes two degrees, with them a whole row and a whole column of M, and the volume,
so every entry; and the contexts of step 2 are fitted to the same edges without noise. No finite epsilon
follows, and the statement says so. Enforcing the conditions (0/1 entries, contexts that know nothing) gives
``dpmf`` with ``user_vectors="public"``.

Sources. Only the abstract of the paper and notes on it were at hand, so its own proof could not be checked:
the statement is about what is done here. It factorises "some matrices derived from the adjacency matrix" to
which DeepWalk and LINE are equivalent, with a perturbed objective, and its neighbours are graphs that differ
in an edge. Chosen here: M is that of LINE as worked out by Qiu et al. (WSDM 2018), with b negative samples;
a bipartite graph has no edges among users or among items, so these blocks are left out; the budget is halved
between the two sides; minima are solved exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from veilrec.core import check_count, check_positive, stream
from veilrec.data import Dataset
from veilrec.privacy import Claim, UnboundedEvent
from veilrec.privacy.mechanisms import ObjectivePerturbation
from veilrec.systems.dpmf import released_ridge, ridge
from veilrec.systems.vectors import VectorRecommender, unit_rows
from veilrec.training import Array, Job
from veilrec.training.layout import Layout, floats

_ITEMS, _USERS = "item vectors", "user vectors"
_LEAK = UnboundedEvent(
    reason="one edge changes degrees, so whole rows and columns of the matrix move, and the contexts are "
    "fitted to the same edges without noise",
    label="degrees and contexts",
)


@dataclass(eq=False)
class DPNE(VectorRecommender):
    """Vectors of items and users by two perturbed factorisations of the graph's matrix.

    ``epsilon`` is what the noise alone would cost for one edge; what holds is in the statement. ``negatives``
    is b, ``clip`` the largest entry before scaling, ``iterations`` those of step 2 and
    ``regularization`` lambda.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = DPNE(embedding_size=8).fit(data, progress=False)
    >>> model.guarantee.epsilon, [event.kind for event in model.guarantee.claims[0].events]
    (inf, ['pure', 'pure', 'unbounded'])
    """

    word: ClassVar[str] = "dpne"
    summary: ClassVar[str] = "network embedding of the user-item graph with a noisy objective"
    protects: ClassVar[str] = "single interactions, by claim only: no epsilon"
    in_floats: ClassVar[bool] = True
    not_covered: ClassVar[tuple[str, ...]] = (
        "everything: the noise covers an edge only if contexts and degrees do not depend on it",
        "the ids of users and items",
    )
    paper_claim: ClassVar[str] = (
        "with a little noise on the objective the learned representations satisfy differential privacy"
    )

    embedding_size: int = 16
    epsilon: float = 10.0
    negatives: float = 1.0
    clip: float = 5.0
    iterations: int = 10
    regularization: float = 100.0

    def __post_init__(self) -> None:
        check_count("embedding_size", self.embedding_size)
        check_count("iterations", self.iterations)
        for name in ("epsilon", "negatives", "clip", "regularization"):
            check_positive(name, getattr(self, name))

    def _mechanism(self) -> ObjectivePerturbation:
        """Half of the budget: an entry of M adds -2 M_ui c . y, a gradient of at most 2."""
        return ObjectivePerturbation(self.epsilon / 2, self.regularization, lipschitz=2.0)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        event = self._mechanism().event
        events = (event.named(_ITEMS), event.named(_USERS), _LEAK)
        seen = ("vectors of all items and users, and all lists",)
        about = ("one interaction of a user", "interaction", "add-remove", "OXF", seen)
        return (Claim(*about, events, per_user=public.n_items),)  # type: ignore[arg-type]

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout({"item_vectors": floats("items", size)}, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        m = line_matrix(job.take_bare("interactions", _LEAK).matrix(), self.negatives, self.clip)
        contexts = self._contexts(m, job.seed)
        mechanism = self._mechanism()
        items = released_ridge(job, m, contexts, mechanism, _ITEMS)
        items = items / max(float(np.linalg.norm(items, axis=1).max()), 1e-12)
        users = released_ridge(job, m.T.tocsr(), items, mechanism, _USERS)
        self.shared["item_vectors"] = items.astype(np.float32)
        self.private["user_vectors"] = users.astype(np.float32)

    def _contexts(self, m: sp.csr_matrix, seed: int) -> Array:
        """Step 2: alternating ridge regressions."""
        items = stream(seed, self.word, "items").standard_normal((m.shape[1], self.embedding_size))
        for _ in range(self.iterations):
            users = ridge(m, items, 1e-3)
            items = ridge(m.T, users, 1e-3)
        return unit_rows(users)


def line_matrix(graph: sp.csr_matrix, negatives: float, clip: float) -> sp.csr_matrix:
    """M of step 1.

    >>> graph = sp.csr_matrix([[1.0, 1.0], [0.0, 1.0]])
    >>> line_matrix(graph, negatives=1.0, clip=2.0).toarray().round(3).tolist()
    [[0.549, 0.203], [0.0, 0.549]]
    """
    cells = graph.tocoo()
    user_degree, item_degree = (np.asarray(graph.sum(axis=axis)).ravel() for axis in (1, 0))
    volume = 2.0 * graph.sum()
    weight = np.log(volume / (user_degree[cells.row] * item_degree[cells.col] * negatives))
    entries = np.clip(weight, 0.0, clip) / clip
    return sp.csr_matrix((entries, (cells.row, cells.col)), shape=graph.shape)
