"""NeuMF (He et al., WWW 2017): matrix factorisation beside a small network, fused at the end."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BLOCK = 256
"""Items at a time in ``all_items``, so that what is between the layers stays in the cache."""


class NeuMFBackbone(nn.Module):
    """logit_ui = h . [p_u * q_i ; MLP(p'_u, q'_i)].

    The first layer of the network acts on a concatenation, so it is the sum of a user part and an item
    part; both are computed once per user and item, and only the rest once per pair.

    >>> network = NeuMFBackbone(2, 3, embedding_size=4, hidden=(4, 2), generator=torch.Generator())
    >>> every = network.all_items(torch.tensor([1]))  # the same logits as of the pairs one by one
    >>> torch.allclose(network(torch.tensor([1]), torch.tensor([[0, 1, 2]])), every, atol=1e-6)
    True
    """

    def __init__(
        self, users: int, items: int, embedding_size: int, hidden: tuple[int, ...], generator: torch.Generator
    ) -> None:
        super().__init__()

        def normal(rows: int, columns: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, columns).normal_(0, scale, generator=generator))

        self.user_gmf = normal(users, embedding_size, 0.05)
        self.item_gmf = normal(items, embedding_size, 0.05)
        self.user_mlp = normal(users, embedding_size, 0.05)
        self.item_mlp = normal(items, embedding_size, 0.05)
        self.item_bias = nn.Parameter(torch.zeros(items))
        sizes = (2 * embedding_size, *hidden)
        self.weight = nn.ParameterList(normal(a, b, (2 / a) ** 0.5) for a, b in pairwise(sizes))
        self.bias = nn.ParameterList(nn.Parameter(torch.zeros(b)) for b in hidden)
        self.head_gmf = nn.Parameter(torch.ones(embedding_size))
        self.head_mlp = normal(hidden[-1], 1, (1 / hidden[-1]) ** 0.5)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits [users, items] of every given user with every item of that user: items is [users, c]."""
        d = self.user_mlp.shape[1]
        own = (
            F.embedding(users, self.user_gmf) * self.head_gmf
        )  # [u, d]; embedding has a deterministic gradient
        gmf = own.unsqueeze(1) @ F.embedding(items, self.item_gmf).transpose(1, 2)  # [u, 1, c]
        from_user = F.embedding(users, self.user_mlp) @ self.weight[0][:d]  # [u, h]
        from_item = F.embedding(items, self.item_mlp) @ self.weight[0][d:]  # [u, c, h]
        bias = F.embedding(items, self.item_bias.unsqueeze(1)).squeeze(-1)  # [u, c]
        return gmf.squeeze(1) + self._tower(from_user.unsqueeze(1) + from_item) + bias

    def all_items(self, users: Tensor) -> Tensor:
        """Logits [users, n_items] of every given user with every item."""
        d = self.user_mlp.shape[1]
        gmf = (self.user_gmf[users] * self.head_gmf) @ self.item_gmf.T
        from_user = (self.user_mlp[users] @ self.weight[0][:d]).unsqueeze(1)
        from_item = self.item_mlp @ self.weight[0][d:]
        towers = [self._tower(from_user + part) for part in torch.split(from_item, _BLOCK)]
        return gmf + torch.cat(towers, dim=1) + self.item_bias

    def _tower(self, first: Tensor) -> Tensor:
        hidden = torch.relu(first + self.bias[0])  # [u, c, h]
        for weight, bias in zip(self.weight[1:], self.bias[1:], strict=True):
            hidden = torch.relu(hidden @ weight + bias)
        return (hidden @ self.head_mlp).squeeze(-1)
