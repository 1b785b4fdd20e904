"""NGCF (Wang et al., SIGIR 2019): graph convolution with weights and interaction terms in every layer.

Deviations from the paper: trained by the softmax of ``training/softmax.py`` instead of BPR; message dropout
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from veilrec.core import check
from veilrec.models import Adjacency, NGCFBackbone
from veilrec.systems.vectors import GraphRecommender
from veilrec.training.layout import Spec, floats


@dataclass(eq=False)
class NGCF(GraphRecommender):
    """Final vectors: all layers side by side, compared by the cosine.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> NGCF(epochs=2, embedding_size=8, layers=1).fit(data, progress=False).shared["item_vectors"].shape[1]
    16
    """

    word: ClassVar[str] = "ngcf"
    summary: ClassVar[str] = "graph convolution with weights and interaction terms"

    learning_rate: float = 0.005
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.dropout < 1, "dropout", "from 0 to below 1", self.dropout)

    def _network_layout(self) -> dict[str, Spec]:
        size = self.embedding_size
        found = {"embedding": floats("users+items", size)}
        for layer in range(self.layers):
            for name in ("sum", "product"):
                found |= {f"{name}_weight.{layer}": floats(size, size), f"{name}_bias.{layer}": floats(size)}
        return found

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return NGCFBackbone(graph, self.embedding_size, self.layers, self.dropout, generator)
