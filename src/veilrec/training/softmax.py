"""Training of models that end in one vector per user and per item, by a softmax over shared negatives.

A batch is a set of users with *all* their training items. With s_ui = cos(p_u, q_i) / temperature and a set
N of items drawn uniformly, shared by the whole batch, the loss of a positive (u, i) is

    log sum_{j in N} exp(s_uj)  -  s_ui

(sampled softmax; Wu et al., "On the effectiveness of sampled softmax loss for item recommendation", 2022).
The log-sum of a user serves all their positives, one dense product serves the batch, and the positives are
one sparse product. An epoch has a fixed number of batches, so its cost is that many propagations over the
graph plus users x negatives products: linear in the data. Each user weighs n_u^user_power, so that 1 is the
plain mean over interactions and 0 the mean over users.

The loss is linear in the labels. So labels told by randomised response are put right without bias
(:class:`Labels`): every cell of a row loses the same small weight, and the lies cancel on average. A model
whose ``loss`` is "bpr" is trained by the pairwise loss of ``pairwise.py`` instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from veilrec.core import check, stream, stream_seed
from veilrec.data import Dataset
from veilrec.models import gather_rows
from veilrec.training.evaluation import validation_score
from veilrec.training.job import Array, Job
from veilrec.training.loop import Iterative, run_epochs
from veilrec.training.pairwise import bpr_loss
from veilrec.training.sampling import NegativeSampler

_ROWS_AT_ONCE = 8192
"""Users whose logits are held in memory at a time."""


def pick_device(wanted: str) -> str:
    """The device to train on: "auto" is a GPU if there is one; anything else is taken as said.

    >>> pick_device("cpu")
    'cpu'
    """
    return ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted


def torch_stream(seed: int, *names: str | int) -> torch.Generator:
    """A torch generator for the purpose ``names``; see :func:`veilrec.core.stream`.

    >>> draw = torch.rand(3, generator=torch_stream(1, "init"))
    >>> torch.equal(draw, torch.rand(3, generator=torch_stream(1, "init")))
    True
    """
    return torch.Generator().manual_seed(stream_seed(seed, *names))


def optimiser_state(optimiser: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adam's moments and counters by name, created if the optimiser has not stepped yet.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> sorted(optimiser_state(torch.optim.Adam([weight]), {"weight": weight}))
    ['weight.exp_avg', 'weight.exp_avg_sq', 'weight.step']
    """
    state: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        slot = optimiser.state[parameter]
        if not slot:
            slot["step"] = torch.tensor(0.0)
            slot["exp_avg"] = torch.zeros_like(parameter)
            slot["exp_avg_sq"] = torch.zeros_like(parameter)
        state |= {f"{name}.{part}": slot[part] for part in ("step", "exp_avg", "exp_avg_sq")}
    return state


def descend(
    loss: Tensor, optimiser: torch.optim.Optimizer, parameters: Mapping[str, Tensor], weight_decay: float
) -> float:
    """One step down the gradient of ``loss`` plus weight_decay / 2 |parameters|^2; returns the loss.

    >>> weight = nn.Parameter(torch.tensor([2.0]))
    >>> descend((3 * weight).sum(), torch.optim.SGD([weight], lr=1.0), {"weight": weight}, weight_decay=0.5)
    6.0
    >>> weight.tolist()  # 2 - (3 + 0.5 * 2)
    [-2.0]
    """
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if weight_decay:
        for parameter in parameters.values():
            assert parameter.grad is not None
            parameter.grad.add_(parameter.detach(), alpha=weight_decay)
    optimiser.step()
    return loss.item()


@dataclass(frozen=True, eq=False)
class Labels:
    """Who likes what, as the loss is told: ``matrix`` holds ones, users x items.

    A true pair is told with probability ``truth``, any other with ``lie``; then a told pair weighs
    1 / (truth - lie), and every cell lie / (truth - lie) less, which is right on average.

    >>> told = Labels(sp.csr_matrix(np.ones((1, 4), np.float32)), truth=0.75, lie=0.25)
    >>> told.counts.tolist()  # (4 - 4 x 0.25) / 0.5
    [6.0]
    """

    matrix: sp.csr_matrix
    truth: float = 1.0
    lie: float = 0.0

    def __post_init__(self) -> None:
        good = 0 <= self.lie < self.truth <= 1
        check(good, "lie", f"from 0 to below truth, {self.truth!r}", self.lie)

    @property
    def counts(self) -> Array:
        """How many items each user likes, estimated without bias where labels lie."""
        told = np.diff(self.matrix.indptr)
        return np.asarray((told - self.lie * self.matrix.shape[1]) / (self.truth - self.lie))


def softmax_loss(
    users: Tensor,
    items: Tensor,
    positives: Any,
    negatives: Tensor,
    temperature: float,
    less: Array | None = None,
) -> Tensor:
    """The loss above for unit vectors; ``positives`` holds weights, users of the batch x items.

    ``less`` is taken from the weight of every cell, a number per user.

    >>> import scipy.sparse as sp
    >>> liked = sp.csr_matrix(np.array([[1, 0]], np.float32))  # one user, who has the first of two items
    >>> softmax_loss(torch.eye(2)[:1], torch.eye(2), liked, torch.tensor([1]), temperature=0.5).item()
    -2.0
    """
    weight = torch.from_numpy(np.asarray(positives.sum(axis=1), dtype=np.float32).ravel()).to(users.device)
    liked = gather_rows(positives, items)  # [users, embedding_size]
    if less is not None:
        base = torch.from_numpy(np.asarray(less, np.float32)).to(users.device)
        weight = weight - base * len(items)
        liked = liked - base[:, None] * items.sum(0)
    attraction = (users * liked).sum() / temperature
    others = items[negatives].T / temperature  # [embedding_size, negatives]

    def log_sum(part: Tensor) -> Tensor:
        return torch.logsumexp(part @ others, dim=1)

    if len(users) <= _ROWS_AT_ONCE:
        spread = log_sum(users)
    else:  # the logits of a part are computed again in the backward pass instead of being kept
        parts = torch.split(users, _ROWS_AT_ONCE)
        spread = torch.cat([checkpoint(log_sum, part, use_reentrant=False) for part in parts])
    repulsion = (weight * spread).sum() - weight.sum() * math.log(len(negatives))
    return (repulsion - attraction) / weight.sum()


class SoftmaxModel(Iterative, Protocol):
    """The settings that :func:`fit_softmax` reads from a model."""

    loss: str
    batches: int
    negatives: int
    temperature: float
    learning_rate: float
    weight_decay: float
    user_power: float


def fit_softmax(
    job: Job,
    model: SoftmaxModel,
    module: nn.Module,
    final: Callable[[], tuple[Array, Array]],
    labels: Labels | None = None,
    seen: Dataset | None = None,
) -> None:
    """Train ``module`` (its forward gives user and item vectors) in place and leave it at the best epoch.

    ``labels`` is what the loss learns from, ``seen`` what validation leaves out of the lists; both are the
    training data unless said. ``final`` gives the vectors as they will be scored; validation is Recall@20 of
    full ranking. The learning rate falls to zero along half a cosine over ``epochs``. The settings are the
    model's.

    >>> import veilrec as vr
    >>> from veilrec.models import Adjacency, LightGCNBackbone
    >>> data = vr.synthetic(users=60, items=40, interactions=900)
    >>> graph = Adjacency(data.matrix())
    >>> module = LightGCNBackbone(graph, embedding_size=4, layers=1, generator=torch_stream(0, "init"))
    >>> job = Job(data, None, seed=0, device="cpu", checkpoint=None, progress=False)
    >>> fit_softmax(job, vr.LightGCN(epochs=3), module, lambda: module())
    >>> [entry["epoch"] for entry in job.log]
    [1.0, 2.0, 3.0]
    """
    word, epochs, learning_rate = model.word, model.epochs, model.learning_rate
    labels = Labels(job.train.matrix()) if labels is None else labels
    told, span = np.diff(labels.matrix.indptr), labels.truth - labels.lie
    active = np.flatnonzero(labels.counts >= 1.0)  # who seems to like nothing teaches nothing
    share = (np.power(np.maximum(labels.counts, 1.0), model.user_power - 1.0) / span).astype(np.float32)
    sampler = NegativeSampler(labels.matrix) if model.loss == "bpr" else None
    parameters = dict(module.named_parameters())
    device = next(iter(parameters.values())).device
    optimiser = torch.optim.Adam(list(parameters.values()), lr=learning_rate, fused=True)
    state = {**parameters, **optimiser_state(optimiser, parameters)}
    batches = min(model.batches, len(active))  # none, where labels with noise have nobody left: no step then
    pool = min(model.negatives, job.train.n_items)

    def step(epoch: int) -> float:
        random = stream(job.seed, word, "epoch", epoch)
        dropout = torch_stream(job.seed, word, "dropout", epoch)
        total = 0.0
        for index, batch in enumerate(np.array_split(random.permutation(active), max(batches, 1))[:batches]):
            rate = 0.5 * learning_rate * (1 + math.cos(math.pi * (epoch + index / batches) / epochs))
            optimiser.param_groups[0]["lr"] = rate
            rows = labels.matrix[batch]
            rows.data = np.repeat(share[batch], told[batch])
            users, items = module(dropout)
            own = users[torch.from_numpy(batch).to(device)]
            if sampler is not None:  # one other item for each that is liked
                drawn = sampler.draw(np.repeat(batch, told[batch]), random)
                loss = bpr_loss(own, items, rows, drawn)
            else:
                drawn = np.sort(random.choice(job.train.n_items, pool, replace=False))
                loss = softmax_loss(
                    F.normalize(own, dim=1),
                    F.normalize(items, dim=1),
                    rows,
                    torch.from_numpy(drawn).to(device),
                    model.temperature,
                    labels.lie * share[batch] if labels.lie else None,
                )
            total += descend(loss, optimiser, parameters, model.weight_decay)
        return total / max(batches, 1)

    def validate(valid: Dataset) -> float:
        users, items = final()
        known = job.train if seen is None else seen
        return validation_score(lambda codes: users[codes] @ items.T, known, valid)

    run_epochs(job, model, state=state, step=step, validate=validate, keep=tuple(parameters))
