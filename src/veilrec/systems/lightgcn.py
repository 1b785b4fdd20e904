"""LightGCN (He et al., SIGIR 2020): embeddings smoothed over the user-item graph, and nothing else.

Graph, layers, mean over layers and size are the paper's. One deviation: a softmax over shared negatives
instead of BPR with one negative per positive (``training/softmax.py``), which reaches the published
accuracy in minutes on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from veilrec.models import Adjacency, LightGCNBackbone
from veilrec.systems.vectors import GraphRecommender, unit_rows
from veilrec.training import Array
from veilrec.training.layout import Layout, floats


@dataclass(eq=False)
class LightGCN(GraphRecommender):
    """Final vectors: the mean over l = 0..layers of A^l E, with A the symmetrically normalised graph.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = LightGCN(epochs=3, embedding_size=8).fit(data, progress=False)
    >>> len(model.recommend(k=5)) == 5 * data.n_users
    True
    """

    word: ClassVar[str] = "lightgcn"
    summary: ClassVar[str] = "embeddings smoothed over the user-item graph"

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return LightGCNBackbone(graph, self.embedding_size, self.layers, generator)

    def _layout(self) -> Layout:
        return super()._layout() | Layout({"fold_in": floats("items", "size")})

    def _finish(self, backbone: nn.Module, graph: Adjacency) -> None:
        """Keep Q_i = d_i^-1/2 (e_i^(0) + ... + e_i^(layers-1)), whose sum over items is a new user."""
        with torch.no_grad():
            vectors = backbone.get_parameter("embedding").detach()
            total = vectors.clone()
            for _ in range(self.layers - 1):
                vectors = graph.product(vectors)
                total += vectors
        degree = np.maximum(np.asarray(self.history.sum(axis=0)).ravel(), 1.0)
        table = total[graph.shape[0] :].cpu().numpy() / np.sqrt(degree)[:, None]
        self.shared["fold_in"] = table.astype(np.float32)

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        """A new user has no embedding of their own; the part of the mean from their items is left."""
        users = unit_rows(histories @ self.shared["fold_in"])
        return np.asarray(users @ self.shared["item_vectors"].T, dtype=np.float32)
