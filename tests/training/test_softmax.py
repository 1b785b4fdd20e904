from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch

from veilrec.training import softmax_loss


def slow_loss(users, items, weights, negatives, temperature) -> float:
    total = 0.0
    for u in range(weights.shape[0]):
        for i in range(weights.shape[1]):
            if weights[u, i]:
                positive = float(users[u] @ items[i]) / temperature
                others = [math.exp(float(users[u] @ items[j]) / temperature) for j in negatives]
                total += weights[u, i] * (math.log(sum(others) / len(others)) - positive)
    return total / weights.sum()


def test_equals_the_obvious_sum_and_its_gradient() -> None:
    random = np.random.default_rng(0)
    users = torch.tensor(random.normal(size=(3, 4)), dtype=torch.float32, requires_grad=True)
    items = torch.tensor(random.normal(size=(6, 4)), dtype=torch.float32, requires_grad=True)
    weights = sp.random(3, 6, 0.5, format="csr", random_state=2, dtype=np.float32)
    negatives = torch.tensor([0, 2, 5])
    loss = softmax_loss(users, items, weights, negatives, 0.7)
    np.testing.assert_allclose(
        loss.item(), slow_loss(users.detach(), items.detach(), weights.toarray(), [0, 2, 5], 0.7), rtol=1e-5
    )
    loss.backward()
    for tensor in (users, items):
        flat, gradient = tensor.detach().clone(), tensor.grad
        for place in [(0, 0), (2, 3)]:
            moved = []
            for sign in (1, -1):
                changed = flat.clone()
                changed[place] += sign * 1e-2
                pair = (changed, items.detach()) if tensor is users else (users.detach(), changed)
                moved.append(slow_loss(*pair, weights.toarray(), [0, 2, 5], 0.7))
            np.testing.assert_allclose(
                gradient[place].item(), (moved[0] - moved[1]) / 2e-2, rtol=2e-2, atol=1e-4
            )


def test_long_batches_in_parts_give_the_same_loss_and_gradient(monkeypatch) -> None:
    from veilrec.training import softmax

    weights = sp.random(9, 6, 0.5, format="csr", random_state=2, dtype=np.float32)
    results = []
    for rows in (100, 4):
        monkeypatch.setattr(softmax, "_ROWS_AT_ONCE", rows)
        random = np.random.default_rng(0)
        users = torch.tensor(random.normal(size=(9, 4)), dtype=torch.float32, requires_grad=True)
        items = torch.tensor(random.normal(size=(6, 4)), dtype=torch.float32, requires_grad=True)
        loss = softmax_loss(users, items, weights, torch.tensor([1, 3]), 0.5)
        loss.backward()
        results.append((loss.detach(), users.grad, items.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
