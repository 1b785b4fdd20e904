"""GERAI's network against its equations, node by node, and against itself where few nodes are wanted."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from veilrec.models import AttentionGCN, Neighbourhoods

USERS, ITEMS, WIDTH, SIZE = 7, 5, 4, 6


def history() -> sp.csr_matrix:
    found = np.random.default_rng(4).random((USERS, ITEMS)) < 0.4
    found[2] = False  # somebody without a history
    return sp.csr_matrix(found.astype(np.float32))


def network(seed: int = 1) -> AttentionGCN:
    return AttentionGCN(WIDTH, ITEMS, SIZE, torch.Generator().manual_seed(seed))


def profiles() -> torch.Tensor:
    return torch.randn(USERS, WIDTH, generator=torch.Generator().manual_seed(2))


def oracle(net: AttentionGCN) -> tuple[torch.Tensor, torch.Tensor]:
    """Equations 3 to 7, with W1 and the concatenation written out."""
    z = torch.cat([profiles() @ net.user_table, net.item_table])
    m = net.message(z)
    w1 = torch.cat([net.attend_message.weight, net.attend_own.weight], dim=1)
    r, final = history().toarray(), []
    for i in range(USERS + ITEMS):
        near = (
            [USERS + int(v) for v in np.flatnonzero(r[i])]
            if i < USERS
            else list(np.flatnonzero(r[:, i - USERS]))
        )
        around = [i, *near]
        hidden = [torch.relu(w1 @ torch.cat([m[k], z[i]]) + net.attend_message.bias) for k in around]
        alpha = torch.softmax(torch.stack([net.attend_out @ h for h in hidden]), dim=0)
        mixed = sum(alpha[place] * m[k] for place, k in enumerate(around))
        final.append(torch.relu(net.out(mixed)))
    rows = torch.stack(final)
    return rows[:USERS], rows[USERS:]


def loss(net: AttentionGCN, of_users: torch.Tensor, of_items: torch.Tensor) -> torch.Tensor:
    """Of a batch that needs users 0, 2, 5 and items 1, 4."""
    own, liked = of_users[[0, 2, 5]], of_items[[1, 4, 4]]
    return (net.pair(own, liked) @ net.h).square().sum()


def gradients(net: AttentionGCN, of_users: torch.Tensor, of_items: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss(net, of_users, of_items), list(net.parameters())))


def wanted(*nodes: int) -> np.ndarray:
    found = np.zeros(USERS + ITEMS, bool)
    found[list(nodes)] = True
    return found


def test_values_and_gradients_are_those_of_the_equations() -> None:
    net = network()
    ours, theirs = net(profiles(), Neighbourhoods.of(history())), oracle(net)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    for a, b in zip(gradients(net, *ours), gradients(net, *theirs), strict=True):
        assert torch.allclose(a, b, atol=1e-5, rtol=1e-4)


def test_a_batch_needs_only_its_own_neighbourhoods() -> None:
    net, around = network(), Neighbourhoods.of(history())
    whole = gradients(net, *net(profiles(), around))
    needed = (0, 2, 5, USERS + 1, USERS + 4)
    part = gradients(net, *net(profiles(), around, wanted(*needed)))
    assert all(torch.equal(a, b) for a, b in zip(whole, part, strict=True))


def test_a_forgotten_neighbourhood_is_noticed() -> None:
    net, around = network(), Neighbourhoods.of(history())
    whole = gradients(net, *net(profiles(), around))
    part = gradients(net, *net(profiles(), around, wanted(0, 2, 5, USERS + 1)))
    assert not all(torch.allclose(a, b, atol=1e-6) for a, b in zip(whole, part, strict=True))
