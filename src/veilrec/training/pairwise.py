"""The pairwise loss of BPR (Rendle et al., UAI 2009) for many users at once: one other item per liked item.

With r_ui = p_u . q_i, the loss of a liked item i and another item j of user u is -ln sigma(r_ui - r_uj).
It sees the vectors only through the scores, so all gradients follow from C = d loss / d scores, a sparse
matrix of users x items: C Q for the users, C^T P for the items. Row u of C needs nothing but what user u
likes and the vectors; so it can be computed where the labels are, on the user's device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from veilrec.models import gather_rows
from veilrec.training.job import Array

_PAIRS_AT_ONCE = 1 << 17


def pair_scores(
    users: Tensor, items: Tensor, positives: sp.csr_matrix, negatives: Array
) -> tuple[Array, sp.csr_matrix]:
    """The loss of each user, and C, the gradient of its sum with respect to all scores.

    ``positives`` holds weights, users x items; ``negatives`` one item for each of its entries.

    >>> liked = sp.csr_matrix(np.array([[1, 0]], np.float32))
    >>> loss, c = pair_scores(torch.zeros(1, 2), torch.eye(2), liked, np.array([1]))
    >>> loss.round(4).tolist(), c.toarray().tolist()  # ln 2, and half a step apart
    ([0.6931], [[-0.5, 0.5]])
    """
    rows = np.repeat(np.arange(positives.shape[0]), np.diff(positives.indptr))
    margin = np.empty(positives.nnz, np.float32)
    for start in range(0, positives.nnz, _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        u, i, j = (torch.from_numpy(codes[part]) for codes in (rows, positives.indices, negatives))
        margin[part] = ((items[i] - items[j]) * users[u]).sum(1).cpu().numpy()
    gap = torch.from_numpy(margin)
    weight = np.asarray(positives.data, np.float32)
    loss = np.bincount(rows, weight * F.softplus(-gap).numpy(), positives.shape[0])
    step = weight * torch.sigmoid(-gap).numpy()
    both = np.stack([positives.indices, negatives.astype(positives.indices.dtype)], axis=1).ravel()
    c = sp.csr_matrix((np.stack([-step, step], axis=1).ravel(), both, 2 * positives.indptr), positives.shape)
    return loss, c


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, positives: sp.csr_matrix, negatives: Array) -> Tensor:
        loss, c = pair_scores(users.detach(), items.detach(), positives, negatives)
        ctx.c = c
        ctx.save_for_backward(users, items)
        return torch.tensor(float(loss.sum()), device=users.device)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        users, items = ctx.saved_tensors
        to_users = gather_rows(ctx.c, items.detach())
        to_items = gather_rows(ctx.c.T.tocsr(), users.detach())
        return gradients[0] * to_users, gradients[0] * to_items, None, None


def bpr_loss(users: Tensor, items: Tensor, positives: sp.csr_matrix, negatives: Array) -> Tensor:
    """The weighted mean of -ln sigma(r_ui - r_uj) over all entries (u, i) of ``positives``.

    >>> liked = sp.csr_matrix(np.array([[1, 0]], np.float32))
    >>> round(bpr_loss(torch.ones(1, 1), torch.tensor([[2.0], [1.0]]), liked, np.array([1])).item(), 4)
    0.3133
    """
    total: Tensor = _Pairs.apply(users, items, positives, negatives)  # type: ignore[no-untyped-call]
    return total / max(float(positives.data.sum()), 1e-12)
