"""Graph backbones: they map nothing but their own parameters and the graph to user and item vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from veilrec.models.propagation import Adjacency, propagate, propagate_mean


def start_vectors(graph: Adjacency, size: int, generator: torch.Generator) -> Tensor:
    """Vectors of all nodes to begin with, from N(0, 0.01).

    >>> import scipy.sparse as sp
    >>> start_vectors(Adjacency(sp.csr_matrix([[1.0, 1.0]])), 4, torch.Generator()).shape
    torch.Size([3, 4])
    """
    start = torch.empty(sum(graph.shape), size).normal_(0, 0.1, generator=generator)
    return start.to(graph.value.device)


def xavier(rows: int, columns: int, generator: torch.Generator, device: torch.device) -> nn.Parameter:
    """Weights to begin with (Glorot and Bengio, AISTATS 2010).

    >>> bool((xavier(3, 3, torch.Generator(), torch.device("cpu")).abs() <= 1).all())
    True
    """
    bound = (6 / (rows + columns)) ** 0.5
    return nn.Parameter(torch.empty(rows, columns).uniform_(-bound, bound, generator=generator).to(device))


class LightGCNBackbone(nn.Module):
    """LightGCN (He et al., SIGIR 2020): no weights but the embeddings, no non-linearity.

    e^(l+1) = A e^(l); the final vector is the mean of e^(0), ..., e^(L).

    >>> import scipy.sparse as sp
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> users, items = LightGCNBackbone(graph, 4, layers=2, generator=torch.Generator())()
    >>> tuple(users.shape), tuple(items.shape)
    ((1, 4), (2, 4))
    """

    def __init__(
        self, graph: Adjacency, embedding_size: int, layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.graph, self.layers = graph, layers
        self.embedding = nn.Parameter(start_vectors(graph, embedding_size, generator))  # [nodes, size]

    def forward(self, dropout: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Final vectors of users [n_users, embedding_size] and items [n_items, embedding_size]."""
        final = propagate_mean(self.embedding, self.graph, self.layers)
        return final[: self.graph.shape[0]], final[self.graph.shape[0] :]


class NGCFBackbone(nn.Module):
    """NGCF (Wang et al., SIGIR 2019), equation 7: weights and interaction terms in every layer.

    e^(l+1) = LeakyReLU((A + I) e^(l) W1 + b1 + (A e^(l) * e^(l)) W2 + b2); message dropout, then
    L2-normalised; the final vector is the concatenation of all layers.

    >>> import scipy.sparse as sp
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> users, items = NGCFBackbone(graph, 4, layers=2, dropout=0.1, generator=torch.Generator())()
    >>> tuple(users.shape), tuple(items.shape)
    ((1, 12), (2, 12))
    """

    def __init__(
        self,
        graph: Adjacency,
        embedding_size: int,
        layers: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.graph, self.dropout = graph, dropout
        device, d = graph.value.device, embedding_size
        self.embedding = nn.Parameter(start_vectors(graph, d, generator))  # [users + items, d]
        self.sum_weight = nn.ParameterList(xavier(d, d, generator, device) for _ in range(layers))
        self.product_weight = nn.ParameterList(xavier(d, d, generator, device) for _ in range(layers))
        self.sum_bias = nn.ParameterList(nn.Parameter(torch.zeros(d, device=device)) for _ in range(layers))
        self.product_bias = nn.ParameterList(
            nn.Parameter(torch.zeros(d, device=device)) for _ in range(layers)
        )

    def forward(self, dropout: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Final vectors of users and items, each (layers + 1) * embedding_size wide."""
        vectors: Tensor = self.embedding
        parts: list[Tensor] = [vectors]
        for w1, b1, w2, b2 in zip(
            self.sum_weight, self.sum_bias, self.product_weight, self.product_bias, strict=True
        ):
            near = propagate(vectors, self.graph)  # [nodes, embedding_size]
            mixed = (near + vectors) @ w1 + b1 + (near * vectors) @ w2 + b2
            vectors = nn.functional.leaky_relu(mixed, negative_slope=0.2)
            if dropout is not None and self.dropout > 0:
                kept = torch.rand(vectors.shape, generator=dropout) >= self.dropout
                vectors = vectors * kept.to(vectors.device) / (1 - self.dropout)
            parts.append(nn.functional.normalize(vectors, dim=1))
        final = torch.cat(parts, dim=1)
        return final[: self.graph.shape[0]], final[self.graph.shape[0] :]
