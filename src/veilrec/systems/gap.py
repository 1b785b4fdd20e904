"""GAP (Sajadmanesh et al., USENIX Security 2023) for recommendation: noisy sums over neighbours, drawn once.

    1.  x^(0): public random vectors of length 1 for users and items, each from the seed and its id
    2.  for k = 1..hops: release S^(k) = A x^(k-1) + Gaussian noise, once, A the graph of users and items;
        x^(k) = the direction of S^(k) beside a share for the number of neighbours, of length 1 again
    3.  an item is f_i = x_i^(hops - 1); a user has s_u = S_u^(hops), the sum of f_i over the user's items,
        with noise
    4.  learn q_i = f_i W and p_u = s_u B / n_u by a softmax: log sum_j exp(p_u . q_j) - p_u . (s_u W) / n_u,
        less what the noise, which is in both factors of the product, adds to it: sigma^2 <B, W> / n_u^2
    5.  score p_u . q_i; a new user has the mean of f_i B over their items, which is p_u without noise

Guarantee. An edge adds one row of length 1 to the sum of its user and one to that of its item: an L2 distance
of sqrt(2) in each of the ``hops`` releases, composed by the accountant to (epsilon, delta) per edge. Step 4
reads no edge: because q is linear in f, the sum of q_i over a user's items *is* s_u W, and n_u, the number of
items, is the first coordinate of S_u^(1). So everything after step 2 is post-processing. A trusted curator
adds the noise.

Left open by the paper, which classifies nodes: there, labels are no edges and may be read; in recommendation
they are the edges, and a loss that reads them has no epsilon. The linear heads of step 4 are ours. So are the
random start (the paper encodes features of nodes, which do not exist here), the centring of S within users
and within items before taking directions, and that only the last hop is learnt from, where the paper takes
all: before it an item is known by a random vector, in which there is nothing to learn but who has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from veilrec.core import check_count, check_fraction, check_non_negative, check_positive, stream
from veilrec.data import Dataset, id_normals
from veilrec.privacy import Claim, check_lattice, default_delta, gaussian_multiplier
from veilrec.privacy.mechanisms import AggregationPerturbation
from veilrec.systems.reported_graph import OWN_LIST
from veilrec.systems.vectors import VectorRecommender, unit_rows
from veilrec.training import (
    SEEN,
    STOPPING,
    Array,
    Job,
    descend,
    optimiser_state,
    release_once,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats

SUMS = "sums over neighbours"


@dataclass(eq=False)
class GAP(VectorRecommender):
    """Aggregation perturbation with ``hops`` releases; ``epsilon`` at ``delta`` for one edge.

    ``delta`` None is 1e-5, or users^-1.1 if that is smaller.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GAP(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 4), model.guarantee.claims[0].adversaries
    (5.0, 'OF')
    """

    word: ClassVar[str] = "gap"
    summary: ClassVar[str] = "a small network on noisy sums over neighbours, drawn once by a curator"
    protects: ClassVar[str] = "single interactions, from all but a trusted curator"
    uncovered: ClassVar[tuple[str, ...]] = (STOPPING, SEEN)
    not_covered: ClassVar[tuple[str, ...]] = (OWN_LIST, "the ids of users and items")

    epsilon: float = 5.0
    delta: float | None = None
    embedding_size: int = 64
    hops: int = 2
    negatives: int = 2048
    epochs: int = 100
    learning_rate: float = 0.02
    weight_decay: float = 0.0
    patience: int = 5
    validate_every: int = 5

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.delta is not None:
            check_fraction("delta", self.delta)
        check_count("embedding_size", self.embedding_size, 3)
        for name in ("hops", "negatives", "epochs", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("weight_decay", self.weight_decay)

    # -- the budget -----------------------------------------------------------------------------------

    def _delta(self, users: int) -> float:
        return default_delta(users, self.delta)

    def mechanism(self, users: int) -> AggregationPerturbation:
        """The noise of one hop. A holds each edge twice, in the row of its user and in that of its item.

        >>> round(GAP().mechanism(6040).sensitivity ** 2, 9)
        2.0
        """
        z = gaussian_multiplier(self.epsilon, self._delta(users), count=self.hops)
        return AggregationPerturbation(z, unit="user", most_edges=2)

    def _check_data(self, public: Dataset) -> None:
        mechanism, nodes = self.mechanism(public.public_users), public.n_users + public.n_items
        check_lattice(mechanism.sigma / mechanism.sensitivity, nodes * self.embedding_size)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        event = self.mechanism(public.public_users).event.named(SUMS).times(self.hops)
        seen = ("vectors and scores, computed from noisy sums of all users and items",)
        about = ("one interaction of a user", "interaction", "add-remove", "OF", seen)
        delta, most = self._delta(public.public_users), public.n_items
        return (Claim(*about, (event,), delta, per_user=most),)  # type: ignore[arg-type]

    # -- steps 1 to 3 ---------------------------------------------------------------------------------

    def _release(self, job: Job) -> Array:
        """S^(1), x^(hops - 1) and S^(hops), [3, nodes, embedding_size]."""
        assert job.guard is not None
        history = job.guard.take("interactions", SUMS).matrix()
        users, size = history.shape[0], self.embedding_size
        graph = sp.block_array([[None, history], [history.T, None]], format="csr")
        about = size - 2, job.seed, self.word, "start"
        start = np.concatenate([id_normals(ids, *about) for ids in (job.train.users, job.train.items)])

        def draw() -> Array:
            mechanism, noise = self.mechanism(job.train.public_users), job.noise.child(SUMS)
            x = beside(start, np.zeros(len(start)))
            sums = first = mechanism.release(graph, x, noise, "hop 1", label=SUMS)
            for hop in range(2, self.hops + 1):
                x = spread(sums, first, users)
                sums = mechanism.release(graph, x, noise, f"hop {hop}", label=SUMS)
            return np.stack([first, x, sums]).astype(np.float32)

        return release_once(job, SUMS, draw)

    # -- step 4 ---------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        size = self.embedding_size
        shared = {"item_vectors": floats("items", size), "fold_in": floats("items", size)}
        return Layout(shared, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        seen = job.train if job.valid is None else job.guard.take("interactions", SEEN)
        first, x, sums = self._release(job)
        job.guard.close("interactions")
        users, n_items = job.train.n_users, job.train.n_items
        sigma = self.mechanism(job.train.public_users).sigma
        count = neighbours(first, floor=sigma)[:users]
        items = torch.from_numpy(x[users:])  # f_i
        liked = torch.from_numpy((sums[:users] / count[:, None]).astype(np.float32))  # s_u / n_u
        weight = torch.from_numpy((np.sqrt(count) / np.sqrt(count).sum()).astype(np.float32))
        heads = _Heads(self.embedding_size, torch_stream(job.seed, self.word, "init"))
        parameters = dict(heads.named_parameters())
        optimiser = torch.optim.Adam(list(parameters.values()), lr=self.learning_rate)
        state = {**parameters, **optimiser_state(optimiser, parameters)}
        pool = min(self.negatives, n_items)

        def step(epoch: int) -> float:
            drawn = stream(job.seed, self.word, "epoch", epoch).choice(n_items, pool, replace=False)
            p, q = heads(liked, items[torch.from_numpy(np.sort(drawn))])
            spread_out = (weight * torch.logsumexp(p @ q.T, dim=1)).sum()
            loss = spread_out - attraction(liked, heads.user, heads.item, weight, sigma / count)
            return descend(loss, optimiser, parameters, self.weight_decay)

        def final() -> tuple[Array, Array]:
            with torch.no_grad():
                p, q = heads(liked, items)
                return p.numpy(), q.numpy()

        def validate(valid: Dataset) -> float:
            p, q = final()
            return validation_score(lambda codes: p[codes] @ q.T, seen, valid)

        run_epochs(job, self, state=state, step=step, validate=validate, keep=tuple(parameters))
        self.private["user_vectors"], self.shared["item_vectors"] = final()
        self.shared["fold_in"] = (items @ heads.user).detach().numpy()

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        count = np.maximum(np.diff(histories.indptr), 1)[:, None]
        users = histories @ self.shared["fold_in"] / count
        return np.asarray(users @ self.shared["item_vectors"].T, dtype=np.float32)


class _Heads(nn.Module):
    """p_u and q_i: a matrix each, so that what they do to a sum is the sum of what they do."""

    def __init__(self, size: int, generator: torch.Generator) -> None:
        super().__init__()
        one, two = (nn.init.xavier_uniform_(torch.empty(size, size), generator=generator) for _ in range(2))
        self.user, self.item = nn.Parameter(one), nn.Parameter(two)  # B, W [features, embedding_size]

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        return users @ self.user, items @ self.item


def attraction(liked: Tensor, b: Tensor, w: Tensor, weight: Tensor, noise: Array) -> Tensor:
    """sum_u weight_u (liked_u B) . (liked_u W), less what noise of deviation ``noise`` in liked_u adds to it.

    >>> eye = torch.eye(2)
    >>> attraction(torch.tensor([[1.0, 2.0]]), eye, eye, torch.ones(1), np.array([0.5])).item()
    4.5
    """
    twice = float((weight.numpy() * np.square(noise)).sum())
    return (weight * ((liked @ b) * (liked @ w)).sum(1)).sum() - twice * (b * w).sum()


def beside(directions: Array, share: Array) -> Array:
    """Rows [1, share, direction of length 1], scaled to length 1: what is summed over neighbours.

    >>> beside(np.array([[3.0, 4.0]]), np.array([0.0])).round(3).tolist()
    [[0.707, 0.0, 0.424, 0.566]]
    """
    parts = [np.ones((len(directions), 1)), share[:, None], unit_rows(directions)]
    return unit_rows(np.concatenate(parts, axis=1))


def neighbours(sums: Array, floor: float) -> Array:
    """How many neighbours each node has, from the first release, in which each adds sqrt(1/2) to the first
    coordinate; at least ``floor`` and at least 1.

    >>> neighbours(np.array([[7.07, 0.0], [-1.0, 0.0]]), floor=2.0).round(1).tolist()
    [10.0, 2.0]
    """
    return np.asarray(np.maximum(sums[:, 0] * np.sqrt(2), max(floor, 1.0)))


def spread(sums: Array, first: Array, users: int) -> Array:
    """x^(k) from S^(k): directions, centred among users and among items, beside log counts from 0 to 1.

    >>> sums = np.array([[9.0, 0.0, 1.0, 0.0], [9.0, 0.0, 3.0, 2.0], [5.0, 0.0, 1.0, 1.0]])
    >>> np.square(spread(sums, sums, users=2)).sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    directions = sums[:, 2:].astype(np.float64)
    for kind in (slice(0, users), slice(users, None)):
        directions[kind] -= directions[kind].mean(axis=0)
    return beside(directions, np.log(neighbours(first, 1.0)) / np.log(len(sums) + 1))
