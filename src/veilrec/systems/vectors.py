"""What models with one vector per user and per item have in common: a score is an inner product."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.core import NotFitted, check_choice, check_count, check_non_negative, check_positive
from veilrec.data import Dataset
from veilrec.models import Adjacency, LightGCNBackbone
from veilrec.training import Array, Job, Labels, Recommender, fit_softmax, pick_device, torch_stream
from veilrec.training.layout import Layout, Spec, floats

NETWORK = "network."
"""Private arrays of this name are the trained parameters of a graph network."""

Scored = Callable[[Tensor, Tensor], tuple[Array, Array]]


def unit_rows(vectors: Array) -> Array:
    """Each row divided by its length; a zero row stays zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


@dataclass(eq=False)
class VectorRecommender(Recommender, ABC):
    """Scores p_u . q_i of ``private["user_vectors"]`` and ``shared["item_vectors"]``; cosine likeness."""

    def _score(self, users: Array) -> Array:
        rows = torch.from_numpy(self.private["user_vectors"][users])
        return (rows @ torch.from_numpy(self.shared["item_vectors"]).T).numpy()

    def _item_similarity(self, items: Array) -> Array:
        unit = unit_rows(self.shared["item_vectors"])
        return np.asarray(unit[items] @ unit.T, dtype=np.float32)


@dataclass(eq=False)
class GraphRecommender(VectorRecommender, ABC):
    """A graph backbone trained by the softmax over shared negatives (``training/softmax.py``).

    ``epochs`` is the length of the schedule; with validation data the best epoch is kept and the run stops
    after ``patience`` validations without a better one. An epoch passes all users in ``batches`` parts, each
    of which shares ``negatives`` items. A score is cos(p_u, q_i) |q_i|^norm_power: 0 ranks by the angle
    alone, 1 by the inner product, which favours popular items. ``loss`` is "softmax", or "bpr" with one
    other item for each liked one (``training/pairwise.py``), for which ``norm_power`` should be 1.
    """

    embedding_size: int = 64
    layers: int = 3
    epochs: int = 60
    batches: int = 8
    negatives: int = 2048
    temperature: float = 0.2
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    user_power: float = 0.5
    norm_power: float = 0.5
    patience: int = 5
    validate_every: int = 5
    loss: str = "softmax"

    def __post_init__(self) -> None:
        for name in (
            "embedding_size",
            "layers",
            "epochs",
            "batches",
            "negatives",
            "patience",
            "validate_every",
        ):
            check_count(name, getattr(self, name))
        check_positive("temperature", self.temperature)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("weight_decay", self.weight_decay)
        check_non_negative("user_power", self.user_power)
        check_non_negative("norm_power", self.norm_power)
        check_choice("loss", self.loss, ["softmax", "bpr"])

    @abstractmethod
    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        """The module whose forward gives user and item vectors."""

    def _scored(self, users: Tensor, items: Tensor) -> tuple[Array, Array]:
        """The vectors whose inner product is the score, from those of the backbone."""
        length = items.norm(dim=1, keepdim=True).clamp_(min=1e-12)
        scaled = items * length.pow(self.norm_power - 1)
        return F.normalize(users, dim=1).cpu().numpy(), scaled.cpu().numpy()

    def _finish(self, backbone: nn.Module, graph: Adjacency) -> None:
        """Whatever else the model keeps of its trained backbone: of a network with weights, all of it."""
        if not isinstance(backbone, LightGCNBackbone):
            kept = backbone.named_parameters()
            self.private |= {NETWORK + name: one.detach().cpu().numpy().copy() for name, one in kept}

    def _layout(self) -> Layout:
        vectors = {"user_vectors": floats("users", "size")}
        network = {NETWORK + name: spec for name, spec in self._network_layout().items()}
        return Layout({"item_vectors": floats("items", "size")}, {**vectors, **network})

    def _network_layout(self) -> dict[str, Spec]:
        """The trained parameters that a network with weights keeps."""
        return {}

    def _fit(self, job: Job) -> None:
        self._train(job, self._graph(self.history, job), Labels(self.history), job.train)

    def _graph(self, matrix: sp.csr_matrix, job: Job) -> Adjacency:
        return Adjacency(matrix, pick_device(job.device))

    def _train(
        self, job: Job, graph: Adjacency, labels: Labels, seen: Dataset, scored: Scored | None = None
    ) -> None:
        """Vectors that spread over ``graph`` learn ``labels``: two things, which need not be the same data.

        ``seen`` is left out of the lists by which validation judges. ``scored`` makes the vectors whose inner
        product is the score from those of the backbone.
        """
        backbone = self._backbone(graph, torch_stream(job.seed, self.word, "init"))

        def final() -> tuple[Array, Array]:
            with torch.no_grad():
                users, items = backbone()
                return (scored or self._scored)(users, items)

        fit_softmax(job, self, backbone, final, labels, seen)
        self.private["user_vectors"], self.shared["item_vectors"] = final()
        self._finish(backbone, graph)

    # -- what the server has -----------------------------------------------------------------------------

    def view(self, adversary: str = "X") -> dict[str, Any]:
        """What an adversary sees (:meth:`Recommender.view`); "S" has the ``network`` too.

        Called, it gives the backbone as it was trained, over the graph that it runs on; but LightGCN with
        vectors drawn anew, because what it does to them does not depend on them.

        >>> import veilrec as vr
        >>> model = vr.NGCF(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
        >>> users, _ = model.view("S")["network"]()()
        >>> np.allclose(unit_rows(users.detach().numpy()), model.private["user_vectors"], atol=1e-6)
        True
        """
        seen, graph = super().view(adversary), self._spread_over()
        if adversary == "S" and graph is not None:
            seen["network"] = partial(self._network, graph)
        return seen

    def _spread_over(self) -> sp.csr_matrix | None:
        """The graph that the network runs on, users x items, as far as it is the server's."""
        return None if self.is_private() else self._history

    def _operator(self, graph: sp.csr_matrix) -> Adjacency:
        """The graph as the network spreads vectors over it."""
        return Adjacency(graph)

    def _network(self, graph: sp.csr_matrix) -> nn.Module:
        network = self._backbone(self._operator(graph), torch.Generator())
        if isinstance(network, LightGCNBackbone):
            return network
        kept = {name: array for name, array in self.private.items() if name.startswith(NETWORK)}
        if not kept:
            raise NotFitted(f"this {self.word} was saved without its network. Fit it again.")
        state = {name.removeprefix(NETWORK): torch.from_numpy(array) for name, array in kept.items()}
        network.load_state_dict(state)
        return network
