"""What one parameter contributes to each user's gradient: its squared norm, and the weighted sum over users.

A layer's gradient is a product of what went in (a) and what came back (g), so neither the norms nor the sum
need the gradients of single users in full (Goodfellow, "Efficient per-example gradient computations", 2015;
Lee and Kifer, 2021; Bu et al., "Differentially private optimization on large model at small cost", 2023).
B users, m positions of a user; every tensor begins with the user.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_AT_ONCE = 1 << 22
"""Numbers that a passing product may hold."""
_ROWS = 1 << 14
"""Rows of tables that are weighted at a time."""


class Term(Protocol):
    """The part of one parameter in the gradients of a batch of users."""

    def squares(self) -> Tensor:
        """The squared norm of each user's part, [B]."""

    def total(self, weights: Tensor) -> Tensor:
        """The sum over users of weight times part; a weight of 0 leaves a user out, NaN and all."""


class Whole:
    """The gradients themselves, [B, *shape]: for small parameters.

    >>> term = Whole(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    >>> term.squares().tolist(), term.total(torch.tensor([1.0, 2.0])).tolist()
    ([25.0, 1.0], [3.0, 6.0])
    """

    def __init__(self, gradients: Tensor) -> None:
        self.gradients = gradients

    def squares(self) -> Tensor:
        """The squared norm of each user's part."""
        return _squares(self.gradients.flatten(1))

    def total(self, weights: Tensor) -> Tensor:
        """The weighted sum."""
        kept, (gradients,) = _kept(weights, self.gradients)
        return (kept @ gradients.flatten(1)).reshape(self.gradients.shape[1:])


class Outer:
    """The weight [out, in] of a linear layer: the sum over positions of g a^T; a [B, m, in], g [B, m, out].

    >>> term = Outer([(torch.ones(1, 2, 3), torch.ones(1, 2, 1))])
    >>> round(term.squares().item(), 4), term.total(torch.ones(1)).tolist()
    (12.0, [[2.0, 2.0, 2.0]])
    """

    def __init__(self, calls: list[tuple[Tensor, Tensor]]) -> None:
        parts = [[x.reshape(len(x), -1, x.shape[-1]) for x in call] for call in calls]
        self.a, self.g = (
            side[0] if len(side) == 1 else torch.cat(side, 1) for side in zip(*parts, strict=True)
        )

    def squares(self) -> Tensor:
        """By the m x m products of positions, or from the gradient itself, whichever is less work."""
        users, m, into = self.a.shape
        out = self.g.shape[2]
        lengths = _squares(self.a) * _squares(self.g)  # [B, m]
        if m == 1:
            return lengths[:, 0]
        gram = m * (into + out) < into * out
        size = max(1, _AT_ONCE // (m * m if gram else into * out))
        found = []
        for a, g in zip(self.a.split(size), self.g.split(size), strict=True):
            if gram:
                found.append((a @ a.mT * (g @ g.mT)).sum((1, 2)))
            else:
                found.append(_squares((g.mT @ a).flatten(1)))
        squares = torch.cat(found) if users else lengths.sum(1)
        if gram:  # where positions cancel, the products lose digits: never report less than is there
            squares = squares + 8 * torch.finfo(squares.dtype).eps * lengths.sqrt().sum(1).square()
        return squares

    def total(self, weights: Tensor) -> Tensor:
        """One matrix product over all users and positions."""
        kept, (a, g) = _kept(weights, self.a, self.g)
        if a.shape[2] < g.shape[2]:  # the weight goes to the smaller side
            a = a * kept[:, None, None]
        else:
            g = g * kept[:, None, None]
        return g.flatten(0, 1).T @ a.flatten(0, 1)


class Rows:
    """A table [rows, d], of which a user touches the rows ``ids``; never users x table.

    Rows that a user touches several times are added up before they are squared.

    >>> term = Rows(3, [(torch.tensor([[1, 1, 2]]), torch.ones(1, 3, 1))])
    >>> term.squares().tolist(), term.total(torch.ones(1)).tolist()
    ([5.0], [[0.0], [2.0], [1.0]])
    """

    def __init__(self, rows: int, calls: list[tuple[Tensor, Tensor]]) -> None:
        self.rows = rows
        size, width = len(calls[0][0]), calls[0][1].shape[-1]
        owner = torch.arange(size, device=calls[0][0].device)[:, None] * rows
        keys = torch.cat([(owner + ids.reshape(size, -1)).flatten() for ids, _ in calls])
        places, inverse = torch.unique(keys, return_inverse=True)
        self.owner, self.id = places // rows, places % rows
        self.size = size
        self.sums = torch.zeros(len(places), width, dtype=calls[0][1].dtype, device=keys.device)
        start = 0
        for _, g in calls:
            flat = g.reshape(-1, width)
            _add_rows(self.sums, inverse[start : start + len(flat)], flat)
            start += len(flat)

    def squares(self) -> Tensor:
        """The squared norms of the touched rows, added up by user."""
        found = torch.zeros(self.size, dtype=self.sums.dtype, device=self.sums.device)
        return found.index_add_(0, self.owner, _squares(self.sums))

    def total(self, weights: Tensor) -> Tensor:
        """The whole table's gradient."""
        table = torch.zeros(self.rows, self.sums.shape[1], dtype=self.sums.dtype, device=self.sums.device)
        for start in range(0, len(self.sums), _ROWS):
            some = slice(start, start + _ROWS)
            kept, (ids, sums) = _kept(weights[self.owner[some]], self.id[some], self.sums[some])
            _add_rows(table, ids, sums * kept[:, None])
        return table


def _squares(x: Tensor) -> Tensor:
    """The squared lengths along the last dimension, without a squared copy."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return lengths.square()


def _add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    table.scatter_add_(0, ids[:, None].expand_as(rows), rows)


def _kept(weights: Tensor, *parts: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Weights and parts without those of weight 0: zero times NaN would be NaN."""
    if bool((weights != 0).all()):
        return weights, parts
    kept = weights != 0
    return weights[kept], tuple(part[kept] for part in parts)
