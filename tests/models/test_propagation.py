from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from veilrec.models import Adjacency, LightGCNBackbone, NGCFBackbone, gather_rows, propagate, propagate_mean


def matrix() -> sp.csr_matrix:
    found = sp.random(30, 40, 0.15, format="csr", random_state=0, dtype=np.float32)
    found.data[:] = 1
    return found


def dense_graph() -> torch.Tensor:
    r = matrix().toarray()
    big = np.block([[np.zeros((30, 30)), r], [r.T, np.zeros((40, 40))]])
    scale = 1 / np.sqrt(np.maximum(big.sum(1), 1))
    return torch.tensor(scale[:, None] * big * scale[None, :], dtype=torch.float32)


@pytest.mark.parametrize("width", [8, 64, 100])
@pytest.mark.parametrize("layers", [1, 3])
def test_mean_and_its_gradient_equal_the_dense_ones(width: int, layers: int) -> None:
    torch_random = torch.Generator().manual_seed(1)
    graph, dense = Adjacency(matrix()), dense_graph()
    vectors = torch.randn(70, width, generator=torch_random, requires_grad=True)
    weight = torch.randn(70, width, generator=torch_random)
    power, expected = vectors, vectors
    for _ in range(layers):
        power = dense @ power
        expected = expected + power
    expected = expected / (layers + 1)
    found = propagate_mean(vectors, graph, layers)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad((expected * weight).sum(), vectors)[0]
    torch.testing.assert_close(torch.autograd.grad((found * weight).sum(), vectors)[0], wanted)


def test_product_and_its_gradient() -> None:
    graph, dense = Adjacency(matrix()), dense_graph()
    vectors = torch.randn(70, 5, generator=torch.Generator().manual_seed(2), requires_grad=True)
    torch.testing.assert_close(propagate(vectors, graph), dense @ vectors)
    wanted = torch.autograd.grad((dense @ vectors).pow(2).sum(), vectors)[0]
    torch.testing.assert_close(
        torch.autograd.grad(propagate(vectors, graph).pow(2).sum(), vectors)[0], wanted
    )


def test_gather_rows_and_its_gradient() -> None:
    weights = sp.random(7, 9, 0.4, format="csr", random_state=1, dtype=np.float32)
    vectors = torch.randn(9, 3, generator=torch.Generator().manual_seed(2), requires_grad=True)
    dense = torch.from_numpy(weights.toarray())
    torch.testing.assert_close(gather_rows(weights, vectors), dense @ vectors)
    wanted = torch.autograd.grad((dense @ vectors).pow(2).sum(), vectors)[0]
    torch.testing.assert_close(
        torch.autograd.grad(gather_rows(weights, vectors).pow(2).sum(), vectors)[0], wanted
    )


def test_isolated_nodes_stay_finite() -> None:
    graph = Adjacency(sp.csr_matrix((3, 2), dtype=np.float32))
    assert torch.isfinite(propagate_mean(torch.ones(5, 4), graph, 2)).all()


def test_lightgcn_forward_is_the_mean_of_layers() -> None:
    graph = Adjacency(matrix())
    backbone = LightGCNBackbone(graph, 6, 2, torch.Generator().manual_seed(0))
    users, items = backbone()
    dense, start = dense_graph(), backbone.embedding.detach()
    expected = (start + dense @ start + dense @ dense @ start) / 3
    torch.testing.assert_close(torch.cat([users, items]), expected)


def test_ngcf_forward_follows_equation_7() -> None:
    graph, dense = Adjacency(matrix()), dense_graph()
    net = NGCFBackbone(graph, 6, 2, 0.0, torch.Generator().manual_seed(0))
    users, items = net()
    e, parts = net.embedding, [net.embedding]
    for layer in range(2):
        near = dense @ e
        mixed = (near + e) @ net.sum_weight[layer] + (near * e) @ net.product_weight[layer]
        e = torch.where(mixed > 0, mixed, 0.2 * mixed)
        parts.append(e / e.norm(dim=1, keepdim=True))
    torch.testing.assert_close(torch.cat([users, items]), torch.cat(parts, dim=1))


def test_ngcf_dropout_is_driven_by_its_generator() -> None:
    net = NGCFBackbone(Adjacency(matrix()), 6, 1, 0.5, torch.Generator().manual_seed(0))
    first, second, other = (net(torch.Generator().manual_seed(s))[0] for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(net()[0], net()[0])
