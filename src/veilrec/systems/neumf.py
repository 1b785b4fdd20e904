"""NeuMF (He et al., WWW 2017): matrix factorisation and a small network, trained on clicks and non-clicks.

Deviations from the paper: both halves are trained together from the start (no pre-training), item bias added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from veilrec.core import check_count, check_non_negative, check_positive, stream
from veilrec.data import Dataset
from veilrec.models import NeuMFBackbone
from veilrec.systems.vectors import unit_rows
from veilrec.training import (
    Array,
    Job,
    NegativeSampler,
    Recommender,
    descend,
    optimiser_state,
    pick_device,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class NeuMF(Recommender):
    """Binary cross-entropy over every training pair and ``negatives`` sampled pairs of the same user.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> NeuMF(epochs=2, embedding_size=8).fit(data, progress=False).scores().shape
    (60, 40)
    """

    word: ClassVar[str] = "neumf"
    summary: ClassVar[str] = "matrix factorisation beside a small neural network"

    embedding_size: int = 32
    hidden: tuple[int, ...] = (32, 16, 8)
    epochs: int = 30
    batch_size: int = 4096
    negatives: int = 4
    learning_rate: float = 0.003
    weight_decay: float = 1e-6
    patience: int = 4
    validate_every: int = 2

    _ready: NeuMFBackbone | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.hidden = tuple(self.hidden)
        for size in self.hidden:
            check_count("hidden", size)
        for name in ("embedding_size", "epochs", "batch_size", "negatives", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("weight_decay", self.weight_decay)

    def _network(self, generator: torch.Generator) -> NeuMFBackbone:
        self._ready = None
        users, items = self.history.shape
        return NeuMFBackbone(users, items, self.embedding_size, self.hidden, generator)

    def _layout(self) -> Layout:
        size, sizes = self.embedding_size, (2 * self.embedding_size, *self.hidden)
        shared = {
            "item_gmf": floats("items", size),
            "item_mlp": floats("items", size),
            "item_bias": floats("items"),
            "head_gmf": floats(size),
            "head_mlp": floats(sizes[-1], 1),
        }
        for layer, (left, right) in enumerate(pairwise(sizes)):
            shared |= {f"weight.{layer}": floats(left, right), f"bias.{layer}": floats(right)}
        return Layout(shared, {"user_gmf": floats("users", size), "user_mlp": floats("users", size)})

    def _fit(self, job: Job) -> None:
        device = pick_device(job.device)
        network = self._network(torch_stream(job.seed, self.word, "init")).to(device)
        parameters = dict(network.named_parameters())
        optimiser = torch.optim.Adam(list(parameters.values()), lr=self.learning_rate, fused=True)
        sampler = NegativeSampler(self.history)
        owner = np.repeat(np.arange(self.history.shape[0]), np.diff(self.history.indptr))
        item = self.history.indices

        def step(epoch: int) -> float:
            random = stream(job.seed, self.word, "epoch", epoch)
            order = random.permutation(len(owner))
            batches = np.array_split(order, max(1, round(len(order) / self.batch_size)))
            total = 0.0
            for batch in batches:
                users = owner[batch]
                drawn = sampler.draw(np.repeat(users[:, None], self.negatives, axis=1), random)
                columns = np.concatenate([item[batch][:, None], drawn], axis=1)  # [b, 1 + negatives]
                logits = network(torch.from_numpy(users).to(device), torch.from_numpy(columns).to(device))
                target = torch.zeros_like(logits)
                target[:, 0] = 1
                loss = F.binary_cross_entropy_with_logits(logits, target)
                total += descend(loss, optimiser, parameters, self.weight_decay)
            return total / len(batches)

        def validate(valid: Dataset) -> float:
            self._keep(network)
            return validation_score(self._score, job.train, valid)

        state = {**parameters, **optimiser_state(optimiser, parameters)}
        run_epochs(job, self, state=state, step=step, validate=validate, keep=tuple(parameters))
        self._keep(network)

    def _keep(self, network: NeuMFBackbone) -> None:
        self._ready = None
        for name, value in network.state_dict().items():
            place = self.private if name.startswith("user_") else self.shared
            place[name] = value.detach().cpu().numpy().copy()

    def _score(self, users: Array) -> Array:
        if self._ready is None:
            self._ready = self._network(torch.Generator())
            state = {name: torch.from_numpy(value) for name, value in {**self.shared, **self.private}.items()}
            self._ready.load_state_dict(state)
        with torch.no_grad():
            parts = [self._ready.all_items(part) for part in torch.split(torch.from_numpy(users), 32)]
        return torch.cat(parts).numpy()

    def _item_similarity(self, items: Array) -> Array:
        vectors = np.concatenate([self.shared["item_gmf"], self.shared["item_mlp"]], axis=1)
        unit = unit_rows(vectors)
        return np.asarray(unit[items] @ unit.T, dtype=np.float32)
