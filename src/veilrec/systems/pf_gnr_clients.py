"""What a device computes in a round of PF-GNR: the gradient of its own loss in the vectors that it was sent.

The server sends device i its own vector z_i and the item vectors z_j. The loss sees them through the scores
r_ij = z_i . z_j only; so with c_ij = dL_i / dr_ij, which needs nothing but the device's own labels,

    dL_i / dz_i = sum_j c_ij z_j          dL_i / dz_j = c_ij z_i          for every item j.

These are what devices encrypt and an aggregator adds up: a decrypted *scalar* loss, as printed in the paper,
has no gradient, because the server does not know the labels. The server decrypts the sums, divides by the sum
of weights and pulls them back through its graph network (:func:`pull_back`); that is the gradient of the
central loss, to rounding.

The rows dL_i / dz_i of different devices are different rows: adding up mixes them with nothing, so the server
reads each of them, and c_ij is negative where i likes j. Nothing here adds noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.core import check_choice
from veilrec.training import Array, pair_scores


@dataclass(frozen=True, eq=False)
class ClientGradients:
    """Of some devices: losses, weights, c [devices, items], and the vectors they were sent.

    >>> c = torch.tensor([[-1.0, 1.0]])
    >>> found = ClientGradients(torch.ones(1), torch.ones(1), c, torch.tensor([[2.0]]), torch.eye(2)[:, :1])
    >>> found.users.tolist(), found.items(0).tolist(), found.item_sum().tolist()
    ([[-1.0]], [[-2.0], [2.0]], [[-2.0], [2.0]])
    """

    losses: Tensor
    weights: Tensor
    scores: Tensor
    sent_users: Tensor
    sent_items: Tensor

    @property
    def users(self) -> Tensor:
        """Each device's gradient in its own vector, [devices, embedding_size]."""
        return self.scores @ self.sent_items

    def items(self, device: int) -> Tensor:
        """One device's gradient in all item vectors, [items, embedding_size]: what it encrypts."""
        return torch.outer(self.scores[device], self.sent_users[device])

    def item_sum(self) -> Tensor:
        """The sum of ``items`` over the devices: what the server decrypts."""
        return self.scores.T @ self.sent_users


def client_gradients(
    users: Tensor,
    items: Tensor,
    labels: sp.csr_matrix,
    negatives: Array,
    *,
    loss: str = "softmax",
    temperature: float = 1.0,
) -> ClientGradients:
    """Every device's part of a round, for devices with the rows of ``labels`` (weights, devices x items).

    ``negatives`` is one item for each label with "bpr", drawn on the device, and a set of items that the
    server sends to all with "softmax". A device's loss is a sum: the server divides by the sum of weights.

    >>> liked = sp.csr_matrix(np.array([[1.0, 0.0]], np.float32))
    >>> client_gradients(torch.zeros(1, 2), torch.eye(2), liked, np.array([0, 1])).scores.tolist()
    [[-0.5, 0.5]]
    """
    check_choice("loss", loss, ["softmax", "bpr"])
    users, items = users.detach(), items.detach()
    weights = torch.from_numpy(np.asarray(labels.sum(axis=1), np.float32).ravel())
    if loss == "bpr":
        losses, c = pair_scores(users, items, labels, negatives)
        return ClientGradients(torch.from_numpy(losses), weights, torch.from_numpy(c.toarray()), users, items)
    liked = torch.from_numpy(labels.toarray())
    shared = torch.from_numpy(np.asarray(negatives))
    scores = users @ items.T / temperature  # r of the unit vectors, [devices, items]
    total = torch.logsumexp(scores[:, shared], dim=1)
    losses = weights * (total - np.log(len(shared))) - (liked * scores).sum(1)
    c = -liked
    c[:, shared] += weights[:, None] * torch.exp(scores[:, shared] - total[:, None])
    return ClientGradients(losses, weights, c / temperature, users, items)


def sent_vectors(backbone: nn.Module, loss: str = "softmax") -> tuple[Tensor, Tensor]:
    """The vectors as the loss takes them: of length 1 for the softmax, as they are for BPR.

    >>> from veilrec.models import Adjacency, LightGCNBackbone
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> users, items = sent_vectors(LightGCNBackbone(graph, 4, layers=1, generator=torch.Generator()))
    >>> users.norm(dim=1).detach().numpy().round(4).tolist()
    [1.0]
    """
    users, items = backbone()
    return (F.normalize(users, dim=1), F.normalize(items, dim=1)) if loss == "softmax" else (users, items)


def pull_back(
    sent: tuple[Tensor, Tensor], devices: Array, user_rows: Tensor, item_sum: Tensor, weight: float
) -> None:
    """The server's part: put the decrypted sums, divided by ``weight``, into the gradients of its parameters.

    >>> vector = nn.Parameter(torch.tensor([[3.0]]))
    >>> pull_back((vector, 2 * vector), np.array([0]), torch.tensor([[1.0]]), torch.tensor([[1.0]]), 2.0)
    >>> vector.grad.tolist()
    [[1.5]]
    """
    chosen = sent[0][torch.from_numpy(np.asarray(devices))]
    torch.autograd.backward([chosen, sent[1]], [user_rows / weight, item_sum / weight])
