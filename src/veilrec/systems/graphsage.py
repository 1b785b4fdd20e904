"""GraphSAGE (Hamilton, Ying and Leskovec, NeurIPS 2017), mean aggregator, as a recommender.

Deviations from the paper, whose nodes have features: a vector per node to start from; whole neighbourhoods
instead of samples; start and layers side by side; trained by the softmax of ``training/softmax.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from veilrec.models import Adjacency, GraphSAGEBackbone
from veilrec.systems.vectors import GraphRecommender
from veilrec.training.layout import Spec, floats


@dataclass(eq=False)
class GraphSAGE(GraphRecommender):
    """Final vectors: start and layers side by side, each layer from a node and the mean of its neighbours.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GraphSAGE(epochs=2, embedding_size=8, layers=1).fit(data, progress=False)
    >>> model.shared["item_vectors"].shape[1]
    16
    """

    word: ClassVar[str] = "graphsage"
    summary: ClassVar[str] = "graph convolution of each node and the mean of its neighbours"

    layers: int = 2
    learning_rate: float = 0.005

    def _network_layout(self) -> dict[str, Spec]:
        size = self.embedding_size
        found = {"embedding": floats("users+items", size)}
        for layer in range(self.layers):
            found |= {f"own.{layer}": floats(size, size), f"near.{layer}": floats(size, size)}
        return found

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return GraphSAGEBackbone(graph, self.embedding_size, self.layers, generator)
