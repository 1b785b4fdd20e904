"""GraphSAGE with the mean aggregator (Hamilton, Ying and Leskovec, NeurIPS 2017) on the user-item graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.models.graph import start_vectors, xavier
from veilrec.models.propagation import Adjacency, propagate


class GraphSAGEBackbone(nn.Module):
    """Algorithm 1: h'_i = relu(W [h_i, mean of h_j over all j around i]), then L2-normalised.

    The whole neighbourhood is taken, where the paper samples from it. The final vector is the start and all
    layers side by side, as in NGCF: the paper's nodes have features, ours have only themselves.

    >>> import scipy.sparse as sp
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> users, items = GraphSAGEBackbone(graph, 4, layers=2, generator=torch.Generator())()
    >>> tuple(users.shape), tuple(items.shape)
    ((1, 12), (2, 12))
    """

    def __init__(
        self, graph: Adjacency, embedding_size: int, layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.graph = graph
        device, d = graph.value.device, embedding_size
        # D^-1 A = D^-1/2 (D^-1/2 A D^-1/2) D^1/2: the mean comes from the symmetric product
        self.root = graph.degree.sqrt()[:, None]  # [nodes, 1]
        self.embedding = nn.Parameter(start_vectors(graph, d, generator))  # [users + items, d]
        self.own = nn.ParameterList(xavier(d, d, generator, device) for _ in range(layers))  # halves of W
        self.near = nn.ParameterList(xavier(d, d, generator, device) for _ in range(layers))

    def forward(self, dropout: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Final vectors of users and items, each (layers + 1) * embedding_size wide."""
        vectors: Tensor = self.embedding
        parts = [vectors]
        for own, near in zip(self.own, self.near, strict=True):
            mean = propagate(vectors * self.root, self.graph) / self.root  # [nodes, d]
            vectors = F.normalize(F.relu(vectors @ own + mean @ near), dim=1)
            parts.append(vectors)
        final = torch.cat(parts, dim=1)
        return final[: self.graph.shape[0]], final[self.graph.shape[0] :]
