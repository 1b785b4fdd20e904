"""Graph attention (Velickovic et al., ICLR 2018) on the user-item graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.core import check
from veilrec.models.attention_gcn import Neighbourhoods, attend
from veilrec.models.graph import start_vectors, xavier
from veilrec.models.propagation import Adjacency

_SLOPE = 0.2  # of the LeakyReLU, the paper's


class GATBackbone(nn.Module):
    """Equations 1 to 5: every node weighs its neighbours and itself.

    e_ij = LeakyReLU(a . [W h_i, W h_j]), alpha = softmax over j around i, h'_i = ELU(sum_j alpha_ij W h_j);
    ``heads`` of them side by side in each layer. The final vector is the start and all layers, L2-normalised,
    side by side, as in NGCF: the paper classifies nodes with features and has no such start. The paper's
    dropout is left out.

    >>> import scipy.sparse as sp
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> users, items = GATBackbone(graph, 4, layers=2, heads=2, generator=torch.Generator())()
    >>> tuple(users.shape), tuple(items.shape)
    ((1, 12), (2, 12))
    """

    def __init__(
        self, graph: Adjacency, embedding_size: int, layers: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        fits = embedding_size % heads == 0
        check(fits, "embedding_size", f"a multiple of heads, {heads}", embedding_size)
        self.graph, self.heads = graph, heads
        self.around = Neighbourhoods.of(graph.matrix)
        device, d = graph.value.device, embedding_size
        self.embedding = nn.Parameter(start_vectors(graph, d, generator))  # [users + items, d]
        self.weight = nn.ParameterList(
            xavier(d, d, generator, device) for _ in range(layers)
        )  # W of all heads
        # a, its halves: for the neighbour (source) and for the node itself (target), a column per head
        self.source = nn.ParameterList(xavier(d, heads, generator, device) for _ in range(layers))
        self.target = nn.ParameterList(xavier(d, heads, generator, device) for _ in range(layers))

    def forward(self, dropout: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Final vectors of users and items, each (layers + 1) * embedding_size wide."""
        vectors: Tensor = self.embedding
        parts = [vectors]
        for weight, source, target in zip(self.weight, self.source, self.target, strict=True):
            message = vectors @ weight  # [nodes, d], head after head
            wide = message.shape[1] // self.heads
            mixed = []
            for head, own in enumerate(message.split(wide, dim=1)):
                rows = slice(head * wide, (head + 1) * wide)
                mixed.append(self._attend(own, own @ source[rows, head], own @ target[rows, head]))
            vectors = F.elu(torch.cat(mixed, dim=1))
            parts.append(F.normalize(vectors, dim=1))
        final = torch.cat(parts, dim=1)
        return final[: self.graph.shape[0]], final[self.graph.shape[0] :]

    def _attend(self, message: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """LeakyReLU(x) = relu(x) - slope relu(-x): two hidden numbers for the compiled kernel, which is a
        program for the processor."""
        left, right = (torch.stack([part, -part], dim=1).cpu() for part in (source, target))
        found = attend(left, right, torch.tensor([1.0, -_SLOPE]), message.cpu(), self.around)
        return found.to(message.device)
