"""Row recovery: every edge of every user from the sums that a server decrypts, in PF-GNR as published.

In a round the server sends device i its vector z_i, to all the vectors z_j of the items, and for the softmax
one set of other items. Among the sums that it decrypts are the rows dL_i / dz_i: rows of different devices
are different rows, so adding up mixes them with nothing. With a_ij the weight of a label, 0 where i has not
got j, and m_i the mean of the z_k of the other items, weighed by softmax(z_i . z_k / temperature),

    temperature dL_i / dz_i = sum_j a_ij (m_i - z_j).

All but a is the server's own, and a is the same in all rounds: each has as many equations for it as a vector
has numbers. Since no a is below 0, and most are 0, there need not be as many as there are items.

:func:`recover_edges` solves this exactly, one device after the other. :func:`label_weights` comes close to it
for many devices at once, and does not commit itself where there are too few equations; link stealing uses it.

A server that is given dL/de alone, the gradient in the start vectors, gets the rows by undoing its own
network (:func:`undo_spreading`). Neither works where no row of a user is sent, as in ``pf-gnr-sums``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import check, check_count, check_positive

Table = NDArray[Any]
_FLOOR = 1e-7
"""Of the largest eigenvalue: what is smaller is rounding."""


@dataclass(frozen=True, eq=False)
class Round:
    """What the server has of one round: the vectors that it sent, and the rows that it decrypted.

    ``others`` are codes of the items of the softmax; None: all.

    >>> Round(np.zeros((2, 3)), np.eye(4, 3), np.zeros((2, 3))).means(1.0).tolist()
    [[0.25, 0.25, 0.25], [0.25, 0.25, 0.25]]
    """

    users: Table  # z_i [devices, size]
    items: Table  # z_j [items, size]
    rows: Table  # dL_i / dz_i [devices, size]
    others: Table | None = None

    def __post_init__(self) -> None:
        fits = self.users.shape == self.rows.shape and self.items.shape[1:] == self.users.shape[1:]
        wanted = f"one for each sent vector, {self.users.shape}, as wide as items, {self.items.shape}"
        check(fits and self.users.ndim == 2, "rows", wanted, self.rows.shape)

    def means(self, temperature: float) -> Table:
        """m_i of every device."""
        items = np.asarray(self.items if self.others is None else self.items[self.others], np.float64)
        scores = self.users @ items.T / temperature
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(share @ items / share.sum(axis=1, keepdims=True))


def recover_edges(rounds: Sequence[Round], temperature: float = 1.0) -> sp.csr_matrix:
    """The edges of every device, devices x items, from rounds with the same devices in the same order.

    Least squares without negative numbers; an edge is what has more than half of the largest. ``temperature``
    is that of the softmax, which the server chose.

    >>> items = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> truth = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    >>> sent = Round(np.zeros((2, 2)), items, np.zeros((2, 2)))
    >>> rows = truth.sum(axis=1, keepdims=True) * sent.means(1.0) - truth @ items
    >>> recover_edges([Round(sent.users, items, rows)]).toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    devices, items = _check_rounds(rounds, temperature)
    means = [one.means(temperature) for one in rounds]
    found = np.zeros((devices, items))
    for device in range(devices):
        left = np.concatenate([mean[device][:, None] - one.items.T for mean, one in zip(means, rounds)])
        right = np.concatenate([temperature * one.rows[device] for one in rounds])
        found[device] = scipy.optimize.nnls(left, right.astype(np.float64))[0]
    largest = found.max(axis=1, initial=0, keepdims=True)
    return sp.csr_matrix(((found > largest / 2) & (largest > 0)).astype(np.float32))


def label_weights(rounds: Sequence[Round], temperature: float = 1.0, steps: int = 60) -> Table:
    """The weights a_ij, devices x items: least squares without negative numbers, after so many ``steps``.

    Projected gradients with momentum, for all devices at once. Side by side, the rounds give a device the
    equations A a = b with A = m 1' - Z', Z the vectors of the items. These are turned so that Z'Z = 1; then
    AA' is 1 + n mm' - mh' - hm', with n items and h = Z'1, and its inverse is written down. Divided by it the
    problem is as well posed as it can be: a step has length 1, and most edges stand out after a few. Where
    the solution is not unique, because a device has more items than the equations can tell, the weight is
    spread over what might be; an exact solver would name a few at random.

    >>> random, truth, log = np.random.default_rng(1), np.eye(2, 5), []
    >>> for _ in range(3):
    ...     sent = Round(random.normal(size=(2, 3)), random.normal(size=(5, 3)), np.zeros((2, 3)))
    ...     log.append(Round(sent.users, sent.items, sent.means(1.0) - truth @ sent.items))
    >>> np.allclose(label_weights(log), truth, atol=0.01)
    True
    """
    devices, items = _check_rounds(rounds, temperature)
    check_count("steps", steps)
    table = np.concatenate([one.items for one in rounds], axis=1).astype(np.float64)
    values, directions = np.linalg.eigh(table.T @ table)
    turn = directions / np.sqrt(np.maximum(values, 0) + max(_FLOOR * values.max(), 1e-300))
    mean = np.concatenate([one.means(temperature) for one in rounds], axis=1) @ turn
    right = np.concatenate([temperature * one.rows for one in rounds], axis=1) @ turn
    table = table @ turn
    both = np.stack([mean, np.broadcast_to(table.sum(axis=0), mean.shape)], axis=1)  # m and h
    inner = np.linalg.inv(both @ both.transpose(0, 2, 1) + np.array([[0.0, -1.0], [-1.0, -items]]))
    table = table.astype(np.float32)
    found = np.zeros((devices, items), np.float32)
    ahead, pace = found, np.ones(devices)
    for _ in range(steps):
        left = right - mean * ahead.sum(axis=1, dtype=np.float64)[:, None] + ahead @ table
        left -= (both.transpose(0, 2, 1) @ (inner @ (both @ left[:, :, None])))[:, :, 0]  # by Woodbury
        new = ahead - left.astype(np.float32) @ table.T
        new += np.einsum("ue,ue->u", mean, left).astype(np.float32)[:, None]
        np.maximum(new, 0, out=new)
        move = new - found
        pace[np.einsum("ui,ui->u", ahead - new, move) > 0] = 1  # it went too far: start anew from here
        later = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = new + ((pace - 1) / later).astype(np.float32)[:, None] * move
        found, pace = new, later
    return found


def _check_rounds(rounds: Sequence[Round], temperature: float) -> tuple[int, int]:
    """How many devices and items there are."""
    check(len(rounds) > 0, "rounds", "one or more", rounds)
    shapes = {(len(one.users), len(one.items)) for one in rounds}
    check(len(shapes) == 1, "rounds", "all of the same devices and items", sorted(shapes))
    check_positive("temperature", temperature)
    return shapes.pop()


def undo_spreading(gradient: Table, start: Table, spread: Table, users: int) -> Table:
    """dL/dz of the ``users``, who are the first nodes, from dL/de, for z = ``spread`` e with e the ``start``.

    The server built the symmetric ``spread``, [nodes, nodes], and inverts it. LightGCN's loses one direction,
    in a connected graph. That part follows from sum_u dL/dz_u z_u' = sum_i z_i dL/dz_i', which is true of any
    loss of scores.

    >>> spread = np.array([[0.5, 0.5], [0.5, 0.5]])  # one user, one item; 1, -1 is lost
    >>> undo_spreading(np.array([[1.0], [1.0]]), np.array([[1.0], [3.0]]), spread, users=1).round(6).tolist()
    [[1.0]]
    """
    values, vectors = np.linalg.eigh(np.asarray(spread, np.float64))
    kept = np.abs(values) > 1e-9 * np.abs(values).max()
    check(int((~kept).sum()) <= 1, "spread", "of a connected graph", f"{(~kept).sum()} lost directions")
    basis, lost = vectors[:, kept], vectors[:, ~kept].sum(axis=1)  # zeros, if nothing is lost
    moved = basis @ ((basis.T @ gradient) / values[kept, None])  # dL/dz but for what is lost
    final = spread @ np.asarray(start, np.float64)
    missing = moved[:users].T @ final[:users] - final[users:].T @ moved[users:]  # 0, if nothing is lost
    one = np.eye(final.shape[1])
    system = np.einsum("ac,b->abc", one, lost[:users] @ final[:users])
    system = system - np.einsum("a,bc->abc", lost[users:] @ final[users:], one)
    share = np.linalg.lstsq(system.reshape(missing.size, -1), -missing.ravel(), rcond=None)[0]
    return np.asarray((moved + np.outer(lost, share))[:users])
