from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import veilrec as vr
from veilrec.training import Labels, bpr_loss, pair_scores, softmax_loss


def case() -> tuple[torch.Tensor, torch.Tensor, sp.csr_matrix, np.ndarray]:
    random = np.random.default_rng(0)
    users = torch.tensor(random.normal(size=(5, 4)), dtype=torch.float32, requires_grad=True)
    items = torch.tensor(random.normal(size=(7, 4)), dtype=torch.float32, requires_grad=True)
    liked = sp.random(5, 7, 0.5, format="csr", random_state=2, dtype=np.float32)
    return users, items, liked, random.integers(0, 7, liked.nnz)


def slow(
    users: torch.Tensor, items: torch.Tensor, liked: sp.csr_matrix, negatives: np.ndarray
) -> torch.Tensor:
    total, place = torch.zeros(()), 0
    for u in range(liked.shape[0]):
        for entry in range(liked.indptr[u], liked.indptr[u + 1]):
            i, j = int(liked.indices[entry]), int(negatives[place])
            gap = users[u] @ items[i] - users[u] @ items[j]
            total = total - float(liked.data[entry]) * torch.log(torch.sigmoid(gap))
            place += 1
    return total / float(liked.data.sum())


@pytest.mark.parametrize("at_once", [3, 1000])
def test_loss_and_gradient_equal_the_obvious_sum(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from veilrec.training import pairwise

    monkeypatch.setattr(pairwise, "_PAIRS_AT_ONCE", at_once)
    users, items, liked, negatives = case()
    wanted = slow(users, items, liked, negatives)
    found = bpr_loss(users, items, liked, negatives)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(
        torch.autograd.grad(found, [users, items]), torch.autograd.grad(wanted, [users, items]), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_scores_are_all_that_the_loss_sees() -> None:
    users, items, liked, negatives = case()
    losses, c = pair_scores(users.detach(), items.detach(), liked, negatives)
    total = slow(users, items, liked, negatives) * float(liked.data.sum())
    assert losses.sum() == pytest.approx(total.item(), rel=1e-5)
    wanted = torch.autograd.grad(total, [users, items])
    np.testing.assert_allclose(c @ items.detach().numpy(), wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(c.T @ users.detach().numpy(), wanted[1], rtol=1e-4, atol=1e-5)


def test_lightgcn_learns_by_bpr() -> None:
    """Three tastes, equally popular: popularity finds one item in three."""
    random = np.random.default_rng(1)
    likes = random.random((90, 60)) < np.where(np.arange(90)[:, None] % 3 == np.arange(60) % 3, 0.5, 0.02)
    user, item = np.nonzero(likes)
    parts = vr.split.holdout(vr.Dataset.from_arrays(user, item), test=0.3, seed=1)
    settings = {"loss": "bpr", "norm_power": 1.0, "batches": 1, "learning_rate": 0.02}
    model = vr.LightGCN(epochs=40, embedding_size=8, layers=2, **settings).fit(parts.train, progress=False)
    null = vr.Popularity().fit(parts.train)
    ours, base = (vr.evaluate(m, parts, k=10, progress=False).mean()["recall@10"] for m in (model, null))
    assert ours > 2 * base
    with pytest.raises(ValueError, match="loss must be one of softmax, bpr, got 'bp'"):
        vr.LightGCN(loss="bp")


def mean_loss(told_by: tuple[float, float], used: tuple[float, float], draws: int = 1200) -> float:
    """How far the mean loss over many reports is from that of the truth, in standard errors."""
    random = np.random.default_rng(3)
    users, items = (torch.tensor(random.normal(size=(n, 3)), dtype=torch.float32) for n in (4, 8))
    truth = (random.random((4, 8)) < 0.4).astype(np.float32)
    negatives = torch.arange(8)

    def total(matrix: np.ndarray, lie: tuple[float, float]) -> float:
        labels = Labels(sp.csr_matrix(matrix), *lie)
        rows, span = labels.matrix.copy(), labels.truth - labels.lie
        rows.data = np.full(rows.nnz, 1 / span, np.float32)
        less = np.full(4, labels.lie / span, np.float32)
        loss = softmax_loss(users, items, rows, negatives, 1.0, less)
        return loss.item() * float(labels.counts.sum())  # the mean times its weight is linear in the labels

    exact = total(truth, (1.0, 0.0))
    chance = np.where(truth > 0, told_by[0], told_by[1])
    values = [total((random.random((4, 8)) < chance).astype(np.float32), used) for _ in range(draws)]
    return abs(float(np.mean(values)) - exact) / (float(np.std(values)) / math.sqrt(draws))


def test_lying_labels_give_the_right_loss_on_average() -> None:
    assert mean_loss((0.9, 0.1), (0.9, 0.1)) < 4
    assert mean_loss((0.9, 0.1), (1.0, 0.0)) > 5  # the control: reports taken as they are


def test_bad_labels() -> None:
    with pytest.raises(ValueError, match=r"lie must be from 0 to below truth, 0\.5, got 0\.5"):
        Labels(sp.csr_matrix((1, 1)), 0.5, 0.5)
