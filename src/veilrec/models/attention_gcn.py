"""The attention network of GERAI (Zhang et al., WWW 2021, equations 3 to 10): one hop, shared by both sides.

z_u = x_u E_U, z_v = row v of E_V; messages m = MLP(z); for a node i with neighbours k and itself
    a_ik = w2 . relu(W1 [m_k, z_i] + b1),   alpha = softmax over k,   z*_i = relu(W sum_k alpha_ik m_k + b);
q_uv = relu(W3 [z*_u, z*_v] + b3), cut to [0, 1];   s_uv = h . q_uv.
The scalar b2 of the paper is the same for all k and cancels in the softmax, so it is left out. W1 [m, z] is
computed as two products, once per node instead of once per edge (``attention_kernels.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from veilrec.core import in_threads

_BLOCK = 64


@dataclass(frozen=True)
class Neighbourhoods:
    """Around each node (users first, then items) itself and its neighbours: source[start[i]:start[i + 1]].

    ``reverse`` is the place of the edge in the other direction.

    >>> import scipy.sparse as sp
    >>> around = Neighbourhoods.of(sp.csr_matrix([[1.0, 1.0]]))
    >>> around.start.tolist(), around.source.tolist(), around.reverse.tolist()
    ([0, 3, 5, 7], [0, 1, 2, 0, 1, 0, 2], [0, 3, 5, 1, 4, 2, 6])
    """

    start: NDArray[np.int64]
    source: NDArray[np.int64]
    reverse: NDArray[np.int64]

    @classmethod
    def of(cls, history: Any) -> Neighbourhoods:
        """From users x items in CSR."""
        import scipy.sparse as sp

        graph = sp.csr_matrix(history)
        users, items = graph.shape
        pattern = sp.csr_matrix((np.ones(graph.nnz), graph.indices, graph.indptr), graph.shape)
        whole = sp.bmat([[sp.eye(users), pattern], [pattern.T, sp.eye(items)]], format="csr")
        whole.sort_indices()
        target = np.repeat(np.arange(users + items), np.diff(whole.indptr))
        # edges sorted by (target, source); the reverse one is found where (source, target) sorts to
        reverse = np.empty(whole.nnz, np.int64)
        reverse[np.lexsort((target, whole.indices))] = np.arange(whole.nnz)
        return cls(whole.indptr.astype(np.int64), whole.indices.astype(np.int64), reverse)


class _Attend(torch.autograd.Function):
    """Sum over each neighbourhood of softmax(w . relu(left + right)) times the message."""

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        right: Tensor,
        w: Tensor,
        message: Tensor,
        around: Neighbourhoods,
        wanted: NDArray[np.bool_],
    ) -> Tensor:
        from veilrec.models import attention_kernels

        arrays = [t.detach().contiguous().numpy() for t in (left, right, w, message)]
        weight = np.empty(len(around.source), np.float32)
        out = np.empty_like(arrays[3])
        ends = (wanted, around.start, around.source)
        in_threads(attention_kernels.forward, len(out), *ends, *arrays, weight, out, block=_BLOCK)
        ctx.arrays, ctx.weight, ctx.around, ctx.wanted = arrays, weight, around, wanted
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from veilrec.models import attention_kernels

        left, right, w, message = ctx.arrays
        around, weight, nodes = ctx.around, ctx.weight, len(message)
        gradient = gradients[0].contiguous().numpy()
        logits = np.empty_like(weight)
        d_right, w_rows, d_left, d_message = (np.empty_like(a) for a in (right, left, left, message))
        ends = (ctx.wanted & gradient.any(axis=1), around.start, around.source)
        given = (left, right, w, message, weight, gradient, logits, d_right, w_rows)
        in_threads(attention_kernels.backward_targets, nodes, *ends, *given, block=_BLOCK)
        given = (around.reverse, left, right, w, weight, gradient, logits, d_left, d_message)
        in_threads(attention_kernels.backward_sources, nodes, *ends, *given, block=_BLOCK)
        d_w = w_rows.sum(axis=0)
        return (*(torch.from_numpy(a) for a in (d_left, d_right, d_w, d_message)), None, None)


def attend(
    left: Tensor,
    right: Tensor,
    w: Tensor,
    message: Tensor,
    around: Neighbourhoods,
    wanted: NDArray[np.bool_] | None = None,
) -> Tensor:
    """Messages mixed over neighbourhoods by attention, with gradients; of the ``wanted`` nodes, or of all.

    >>> import scipy.sparse as sp
    >>> around = Neighbourhoods.of(sp.csr_matrix([[1.0]]))
    >>> zeros = torch.zeros(2, 3)
    >>> attend(zeros, zeros, torch.zeros(3), torch.eye(2, 3), around).tolist()   # equal weights
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
    >>> attend(zeros, zeros, torch.zeros(3), torch.eye(2, 3), around, np.array([True, False])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    nodes = np.ones(len(message), bool) if wanted is None else wanted
    found = _Attend.apply(left, right, w, message, around, nodes)  # type: ignore[no-untyped-call]
    assert isinstance(found, Tensor)
    return found


class AttentionGCN(nn.Module):
    """Features of users and ids of items in, vectors of both out; ``pair`` and ``scores`` compare them.

    >>> import scipy.sparse as sp
    >>> net = AttentionGCN(features=3, items=2, embedding_size=4, generator=torch.Generator())
    >>> users, items = net(torch.ones(1, 3), Neighbourhoods.of(sp.csr_matrix([[1.0, 1.0]])))
    >>> users.shape, net.scores(users, items).shape
    (torch.Size([1, 4]), torch.Size([1, 2]))
    """

    def __init__(
        self,
        features: int,
        items: int,
        embedding_size: int,
        generator: torch.Generator,
        *,
        normal_start: bool = False,
    ) -> None:
        super().__init__()
        d = embedding_size
        self.user_table = nn.Parameter(torch.empty(features, d))  # E_U
        self.item_table = nn.Parameter(torch.empty(items, d))  # E_V
        self.message = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.attend_message = nn.Linear(d, d)  # left half of W1, and b1
        self.attend_own = nn.Linear(d, d, bias=False)  # right half of W1
        self.attend_out = nn.Parameter(torch.empty(d))  # w2
        self.out = nn.Linear(d, d)  # W, b
        self.pair_user = nn.Linear(d, d, bias=False)  # left half of W3
        self.pair_item = nn.Linear(d, d)  # right half of W3, and b3
        self.h = nn.Parameter(torch.empty(d))
        for name, parameter in self.named_parameters():
            if normal_start:
                parameter.data.normal_(0, 1, generator=generator)
            elif parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            elif name in ("h", "attend_out"):
                parameter.data.uniform_(-1, 1, generator=generator).mul_((6 / (d + 1)) ** 0.5)
            else:
                parameter.data.zero_()
        if not normal_start:
            # items that start alike make users alike, and training waits long at the popularity of items
            self.item_table.data.normal_(0, 1, generator=generator)
            # q must start inside of (0, 1), where it has a gradient
            self.pair_item.bias.data.fill_(0.5)

    def forward(
        self, features: Tensor, around: Neighbourhoods, wanted: NDArray[np.bool_] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Final vectors z* of users [users, d] and items [items, d]; of the ``wanted`` nodes, if given."""
        own = torch.cat([features @ self.user_table, self.item_table])  # z [nodes, d]
        message = self.message(own)  # m [nodes, d]
        left, right = self.attend_message(message), self.attend_own(own)
        final = F.relu(self.out(attend(left, right, self.attend_out, message, around, wanted)))
        return final[: len(features)], final[len(features) :]

    def pair(self, users: Tensor, items: Tensor) -> Tensor:
        """q of aligned users and items, [pairs, d]."""
        return torch.clamp(self.pair_user(users) + self.pair_item(items), 0.0, 1.0)

    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """s of every user with every item, [users, items]."""
        right = self.pair_item(items)  # [items, d]
        out = [torch.clamp(left + right, 0.0, 1.0) @ self.h for left in self.pair_user(users)]
        return torch.stack(out) if out else torch.zeros(0, len(items))
