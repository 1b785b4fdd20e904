"""GAT (Velickovic et al., ICLR 2018) as a recommender: attention over the neighbours in the user-item graph.

Deviations from the paper, which classifies nodes with features: a vector per node to start from; start and
layers side by side; trained by the softmax of ``training/softmax.py``; no dropout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from veilrec.core import check, check_count
from veilrec.models import Adjacency, GATBackbone
from veilrec.systems.vectors import GraphRecommender
from veilrec.training.layout import Spec, floats


@dataclass(eq=False)
class GAT(GraphRecommender):
    """Final vectors: start and layers side by side; ``heads`` attentions of embedding_size / heads each.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> GAT(epochs=2, embedding_size=8, layers=1).fit(data, progress=False).shared["item_vectors"].shape[1]
    16
    """

    word: ClassVar[str] = "gat"
    summary: ClassVar[str] = "graph convolution that weighs neighbours by attention"

    layers: int = 2
    learning_rate: float = 0.005
    heads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("heads", self.heads)
        fits = self.embedding_size % self.heads == 0
        check(fits, "embedding_size", f"a multiple of heads, {self.heads}", self.embedding_size)

    def _network_layout(self) -> dict[str, Spec]:
        size = self.embedding_size
        found = {"embedding": floats("users+items", size)}
        for layer in range(self.layers):
            found |= {f"weight.{layer}": floats(size, size)}
            found |= {f"{end}.{layer}": floats(size, self.heads) for end in ("source", "target")}
        return found

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return GATBackbone(graph, self.embedding_size, self.layers, self.heads, generator)
