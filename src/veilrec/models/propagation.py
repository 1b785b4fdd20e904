"""The sparse product that graph models live on: the symmetrically normalised user-item graph times vectors.

A = D^-1/2 [[0, R], [R^T, 0]] D^-1/2 is symmetric, so the gradient of A X is A times the incoming gradient,
and the gradient of any polynomial in A is the same polynomial. Both are computed without a graph of
intermediate layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor


class Adjacency:
    """The normalised graph of users (first) and items (after them), in CSR for the embedding-bag product.

    >>> import scipy.sparse as sp
    >>> graph = Adjacency(sp.csr_matrix([[1.0, 1.0]]))
    >>> (graph.product(torch.eye(3)) ** 2).round(decimals=1).tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]
    """

    def __init__(self, matrix: sp.csr_matrix, device: str = "cpu") -> None:
        users, items = matrix.shape
        binary = sp.csr_matrix((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr), matrix.shape)
        graph = sp.block_array([[None, binary], [binary.T.tocsr(), None]], format="csr")
        graph.sort_indices()
        degree = np.diff(graph.indptr)
        scale = self._scale(degree, users, items)
        rows = np.repeat(scale, degree)
        self.shape, self.matrix = (users, items), binary
        self.pointer = torch.from_numpy(graph.indptr.astype(np.int32)).to(device)
        self.column = torch.from_numpy(graph.indices.astype(np.int32)).to(device)
        self.value = torch.from_numpy((rows * scale[graph.indices]).astype(np.float32)).to(device)

    def _scale(self, degree: Any, users: int, items: int) -> Any:
        """What row and column of each node are multiplied by: degree^-1/2."""
        return 1.0 / np.sqrt(np.maximum(degree, 1))

    @property
    def degree(self) -> Tensor:
        """How many neighbours each node has, at least 1."""
        return self.pointer.diff().clamp(min=1).float()

    def product(self, vectors: Tensor) -> Tensor:
        """A @ vectors, without a gradient."""
        if vectors.shape[1] > 64:  # the kernel is fastest up to 64 columns
            parts = [Adjacency.product(self, part.contiguous()) for part in torch.split(vectors, 64, dim=1)]
            return torch.cat(parts, dim=1)
        return F.embedding_bag(
            self.column,
            vectors,
            self.pointer,
            mode="sum",
            per_sample_weights=self.value,
            include_last_offset=True,
        )


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, graph: Adjacency) -> Tensor:
        ctx.graph = graph
        return graph.product(vectors.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.graph.product(gradient.contiguous()), None


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, graph: Adjacency, layers: int) -> Tensor:
        ctx.graph, ctx.layers = graph, layers
        return _mean(vectors.detach(), graph, layers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _mean(gradient.contiguous(), ctx.graph, ctx.layers), None, None


def _mean(vectors: Tensor, graph: Adjacency, layers: int) -> Tensor:
    total = vectors
    for _ in range(layers):  # Horner: X + A (X + A (X + ...)), one product a layer, nothing kept
        total = graph.product(total).add_(vectors)
    return total / (layers + 1)


def propagate(vectors: Tensor, graph: Adjacency) -> Tensor:
    """A @ vectors, with a gradient that is the same product.

    >>> import scipy.sparse as sp
    >>> vectors = torch.tensor([[1.0], [2.0]], requires_grad=True)  # a user and an item
    >>> near = propagate(vectors, Adjacency(sp.csr_matrix([[1.0]])))
    >>> near[0].backward()
    >>> near.tolist(), vectors.grad.tolist()
    ([[2.0], [1.0]], [[0.0], [1.0]])
    """
    result: Tensor = _Product.apply(vectors, graph)  # type: ignore[no-untyped-call]
    return result


def propagate_mean(vectors: Tensor, graph: Adjacency, layers: int) -> Tensor:
    """The mean of X, A X, ..., A^layers X as one linear operator whose backward is itself.

    >>> import scipy.sparse as sp
    >>> vectors = torch.tensor([[1.0], [2.0]])  # a user and an item
    >>> propagate_mean(vectors, Adjacency(sp.csr_matrix([[1.0]])), layers=1).tolist()
    [[1.5], [1.5]]
    """
    result: Tensor = _Mean.apply(vectors, graph, layers)  # type: ignore[no-untyped-call]
    return result


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrix: sp.csr_matrix) -> Tensor:
        ctx.matrix = matrix
        return _bag(matrix, vectors.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _bag(ctx.matrix.T.tocsr(), gradient.contiguous()), None


def _bag(matrix: sp.csr_matrix, vectors: Tensor) -> Tensor:
    pointer, column, value = (
        torch.from_numpy(part).to(vectors.device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return F.embedding_bag(
        column, vectors, pointer, mode="sum", per_sample_weights=value, include_last_offset=True
    )


def gather_rows(matrix: sp.csr_matrix, vectors: Tensor) -> Tensor:
    """matrix @ vectors for a constant float32 CSR matrix, deterministic in both directions.

    >>> import scipy.sparse as sp
    >>> gather_rows(sp.csr_matrix(np.array([[0.0, 2.0]], np.float32)), torch.tensor([[1.0], [3.0]])).tolist()
    [[6.0]]
    """
    result: Tensor = _Gather.apply(vectors, matrix)  # type: ignore[no-untyped-call]
    return result
