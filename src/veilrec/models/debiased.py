"""The graph as randomised response tells it, put right: a sparse part and a part of rank one.

An edge is told with probability p1, any other cell with p0. So (told - p0) / (p1 - p0) is right on average
in every cell, and its row sums are right on average as degrees. The p0 is in *every* cell: it is applied as
one sum over the vectors and never written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from veilrec.core import check
from veilrec.models.propagation import Adjacency


class DebiasedAdjacency(Adjacency):
    """D^-1/2 [[0, B], [B^T, 0]] D^-1/2 with B = (told - p0) / (p1 - p0), and D the row sums of the middle.

    A degree is floored at one standard deviation of what a node without edges would show by chance (and at
    1), which follows from p0, p1 and the size of the graph alone.

    >>> told = sp.csr_matrix([[1.0, 1.0, 0.0, 0.0]])
    >>> graph = DebiasedAdjacency(told, p1=0.75, p0=0.25)
    >>> graph.degrees.tolist()
    [2.0, 1.5, 1.5, 1.0, 1.0]
    >>> graph.product(torch.eye(5))[0].numpy().round(2).astype(float).round(2).tolist()
    [0.0, 0.87, 0.87, -0.35, -0.35]
    """

    def __init__(self, matrix: sp.csr_matrix, p1: float, p0: float, device: str = "cpu") -> None:
        check(0 <= p0 < p1 <= 1, "p0", f"from 0 to below p1, {p1!r}", p0)
        self.p1, self.p0 = p1, p0
        super().__init__(matrix, device)
        self.value = self.value / (p1 - p0)
        self.scale = torch.from_numpy(self.degrees**-0.5).float().to(device)[:, None]  # [nodes, 1]

    def _scale(self, degree: Any, users: int, items: int) -> Any:
        others = np.repeat([items, users], [users, items])  # the cells of a row
        span = self.p1 - self.p0
        chance = np.sqrt(self.p0 * (1 - self.p0) * others) / span
        self.degrees = np.maximum((degree - self.p0 * others) / span, np.maximum(chance, 1.0))
        return self.degrees**-0.5

    def product(self, vectors: Tensor) -> Tensor:
        """A @ vectors, without a gradient."""
        sparse = super().product(vectors)
        users, share = self.shape[0], self.p0 / (self.p1 - self.p0)
        scaled = self.scale * vectors
        sums = torch.stack([scaled[users:].sum(0), scaled[:users].sum(0)])  # of items, of users
        side = torch.repeat_interleave(sums, torch.tensor(self.shape, device=vectors.device), dim=0)
        return sparse - share * self.scale * side
