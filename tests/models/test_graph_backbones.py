"""GAT, GraphSAGE and the debiased graph against slow oracles that loop over nodes or write everything out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from veilrec.models import (
    Adjacency,
    DebiasedAdjacency,
    GATBackbone,
    GraphSAGEBackbone,
    LightGCNBackbone,
    propagate,
    propagate_mean,
)

USERS, ITEMS = 12, 9


def matrix() -> sp.csr_matrix:
    found = np.random.default_rng(3).random((USERS, ITEMS)) < 0.3
    found[0] = False  # somebody without a neighbour
    return sp.csr_matrix(found.astype(np.float32))


def around() -> list[list[int]]:
    r = matrix().toarray()
    users = [[USERS + int(i) for i in np.flatnonzero(row)] for row in r]
    return users + [[int(u) for u in np.flatnonzero(column)] for column in r.T]


def randoms(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gat_oracle(net: GATBackbone, heads: int) -> torch.Tensor:
    """Equations 1 to 5 of the paper, node by node."""
    h, parts = net.embedding, [net.embedding]
    for weight, source, target in zip(net.weight, net.source, net.target, strict=True):
        rows = []
        for i, near in enumerate(around()):
            out = []
            for head in range(heads):
                block = slice(head * 8 // heads, (head + 1) * 8 // heads)
                wh = h @ weight[:, block]
                a = torch.cat([target[block, head], source[block, head]])
                members = [i, *near]
                logits = torch.stack(
                    [
                        torch.nn.functional.leaky_relu(a @ torch.cat([wh[i], wh[j]]), negative_slope=0.2)
                        for j in members
                    ]
                )
                alpha = torch.softmax(logits, dim=0)
                out.append(sum(alpha[place] * wh[j] for place, j in enumerate(members)))
            rows.append(torch.cat(out))
        h = torch.nn.functional.elu(torch.stack(rows))
        parts.append(torch.nn.functional.normalize(h, dim=1))
    return torch.cat(parts, dim=1)


def sage_oracle(net: GraphSAGEBackbone) -> torch.Tensor:
    """Algorithm 1 with the mean aggregator, node by node."""
    h, parts = net.embedding, [net.embedding]
    for own, near_weight in zip(net.own, net.near, strict=True):
        rows = []
        for i, near in enumerate(around()):
            mean = h[near].mean(0) if near else torch.zeros_like(h[i])
            both = torch.cat([own, near_weight])
            rows.append(torch.relu(torch.cat([h[i], mean]) @ both))
        h = torch.nn.functional.normalize(torch.stack(rows), dim=1)
        parts.append(h)
    return torch.cat(parts, dim=1)


def same_values_and_gradients(net: torch.nn.Module, oracle: torch.Tensor) -> None:
    found = torch.cat(net())
    torch.testing.assert_close(found, oracle, rtol=1e-4, atol=1e-5)
    weight = torch.randn(found.shape, generator=randoms(5))
    parameters = list(net.parameters())
    wanted = torch.autograd.grad((oracle * weight).sum(), parameters)
    got = torch.autograd.grad((found * weight).sum(), parameters)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("heads", [1, 2])
def test_gat_equals_the_paper_node_by_node(heads: int) -> None:
    net = GATBackbone(Adjacency(matrix()), 8, layers=2, heads=heads, generator=randoms(1))
    same_values_and_gradients(net, gat_oracle(net, heads))


def test_graphsage_equals_the_paper_node_by_node() -> None:
    net = GraphSAGEBackbone(Adjacency(matrix()), 8, layers=2, generator=randoms(1))
    same_values_and_gradients(net, sage_oracle(net))


def test_the_comparison_can_fail() -> None:
    net = GraphSAGEBackbone(Adjacency(matrix()), 8, layers=2, generator=randoms(1))
    oracle = sage_oracle(net)
    net.root = torch.ones_like(net.root)  # the symmetric product instead of the mean
    with pytest.raises(AssertionError):
        same_values_and_gradients(net, oracle)


def test_heads_must_fit() -> None:
    with pytest.raises(ValueError, match="embedding_size must be a multiple of heads, 3, got 8"):
        GATBackbone(Adjacency(matrix()), 8, layers=1, heads=3, generator=randoms(1))


# -- the debiased graph ------------------------------------------------------------------------------------

P1, P0 = 0.9, 0.1


def dense(r: np.ndarray, p1: float, p0: float) -> np.ndarray:
    """Everything written out: the unbiased cells, their row sums floored, the symmetric operator."""
    b = (r - p0) / (p1 - p0)
    floor = [max(1.0, math.sqrt(p0 * (1 - p0) * n) / (p1 - p0)) for n in (r.shape[1], r.shape[0])]
    users = np.maximum(b.sum(1), floor[0])
    items = np.maximum(b.sum(0), floor[1])
    normal = b / np.sqrt(users)[:, None] / np.sqrt(items)[None, :]
    n_users, n_items = r.shape
    return np.block([[np.zeros((n_users, n_users)), normal], [normal.T, np.zeros((n_items, n_items))]])


def test_the_debiased_product_and_its_gradient_equal_the_dense_ones() -> None:
    graph = DebiasedAdjacency(matrix(), P1, P0)
    big = torch.tensor(dense(matrix().toarray(), P1, P0), dtype=torch.float32)
    vectors = torch.randn(USERS + ITEMS, 70, generator=randoms(2), requires_grad=True)
    torch.testing.assert_close(propagate(vectors, graph), big @ vectors, rtol=1e-4, atol=1e-5)
    mean = (vectors + big @ vectors + big @ (big @ vectors)) / 3
    found = propagate_mean(vectors, graph, 2)
    torch.testing.assert_close(found, mean, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad(mean.pow(2).sum(), vectors)[0]
    torch.testing.assert_close(
        torch.autograd.grad(found.pow(2).sum(), vectors)[0], wanted, rtol=1e-4, atol=1e-4
    )


def test_without_lies_it_is_the_plain_graph() -> None:
    vectors = torch.randn(USERS + ITEMS, 4, generator=randoms(2))
    plain, told = Adjacency(matrix()), DebiasedAdjacency(matrix(), 1.0, 0.0)
    torch.testing.assert_close(told.product(vectors), plain.product(vectors))
    net = LightGCNBackbone(told, 4, layers=2, generator=randoms(1))
    other = LightGCNBackbone(plain, 4, layers=2, generator=randoms(1))
    torch.testing.assert_close(torch.cat(net()), torch.cat(other()))


def unbiased(p1: float, p0: float, used: tuple[float, float]) -> float:
    """The mean over many reports of (told - p0) / (p1 - p0), at its worst cell, in standard errors."""
    truth, draws = matrix().toarray(), 4000
    random = np.random.default_rng(4)
    told = (random.random((draws, *truth.shape)) < np.where(truth > 0, p1, p0)).astype(float)
    cells = (told - used[1]) / (used[0] - used[1])
    error = np.abs(cells.mean(0) - truth) / (cells.std(0) / math.sqrt(draws))
    return float(error.max())


def test_cells_are_right_on_average() -> None:
    assert unbiased(P1, P0, (P1, P0)) < 4.5
    assert unbiased(P1, P0, (1.0, 0.0)) > 20  # the control: a report taken as it is


def test_bad_rates() -> None:
    with pytest.raises(ValueError, match=r"p0 must be from 0 to below p1, 0\.5, got 0\.5"):
        DebiasedAdjacency(matrix(), 0.5, 0.5)
