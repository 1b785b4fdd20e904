"""Link stealing, influence through a graph network: LinkTeller (Wu et al., IEEE S&P 2022) for the server.

A network that learns a vector per node takes no new histories, but its inputs can be perturbed all the same:
the influence of item j on user i is how far z_i, the user's final vector, moves with e_j, the item's start
vector, in the network as it was trained and over the graph that it runs on. Where devices report, that is the
report. In a plain network it is the true graph, and the attack says what somebody gets who may perturb items
and watch users, without being shown the graph.

LinkTeller perturbs by a small step, once per node, and takes the difference. Here it is the derivative:

    LightGCN       z = P e, P = (1 + A + ... + A^L) / (L + 1), so dz_i / de_j is P_ij times the identity:
                   exact from the graph alone, by L sparse products for a block of users at once.
    with weights   |d(v . z_i) / de_j| with one random v for everybody: the mean of its square over v is that
                   of |dz_i / de_j|. A backward pass for each user gives it for all items, exactly. Users
                   cannot share a pass: what they send back adds up in the same items.

Networks divide by the degrees of both ends. Times the root of both, which are public counts, an edge weighs
about the same anywhere; otherwise the strongest influences are between a user and an item that have few
edges, and these are lies in a noisy report. A path from an item to a user has an odd number of edges: with
two layers nothing but edges has influence, with three also what is near.

Cost on ML-1M, processor time: LightGCN 2 s for 2,000 users; with weights 0.05 s (GraphSAGE), 0.08 s (NGCF) or
0.4 s (GAT) for each user. ``users`` of the attack bounds it: so many are attacked, and as many labelled.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from veilrec.attacks.links_knowledge import Block, Codes, Knowledge, Rows
from veilrec.core import stream
from veilrec.models import Adjacency, LightGCNBackbone, propagate_mean


def network_influence(know: Knowledge) -> Rows:
    """How far each user's final vector moves with each item's start vector.

    >>> import veilrec as vr
    >>> data, nobody = vr.Dataset.from_arrays(["ann", "ann", "bob"], ["mate", "tea", "mate"]), np.arange(0)
    >>> network = LightGCNBackbone(Adjacency(data.matrix()), 4, layers=1, generator=torch.Generator())
    >>> seen = {"network": lambda: network}
    >>> know = Knowledge(seen, data, nobody, data.matrix()[:0], data.matrix(), nobody, 5, 0)
    >>> network_influence(know)(np.arange(2)).round(6).tolist()
    [[0.5, 0.5], [0.5, 0.0]]
    """
    network: nn.Module = know.part("network")()
    graph: Adjacency = network.graph  # type: ignore[assignment]
    moved = _linear(network) if isinstance(network, LightGCNBackbone) else _with_weights(network, know.seed)
    users = graph.shape[0]
    root = graph.degree.sqrt().numpy()
    return lambda codes: moved(codes) * root[codes, None] * root[users:]


def _linear(network: LightGCNBackbone) -> Rows:
    users, items = network.graph.shape

    def rows(codes: Codes) -> Block:
        chosen = torch.zeros(users + items, len(codes))
        chosen[torch.from_numpy(codes), torch.arange(len(codes))] = 1
        return propagate_mean(chosen, network.graph, network.layers)[users:].T.numpy()  # P is symmetric

    return rows


def _with_weights(network: nn.Module, seed: int) -> Rows:
    start: Tensor = network.get_parameter("embedding")
    final: Tensor = network()[0]  # [users, width]
    drawn = stream(seed, "links", "watched direction").standard_normal(final.shape[1])
    watched = torch.from_numpy(drawn).float()

    def influence(user: int) -> Block:
        (gradient,) = torch.autograd.grad(final[user] @ watched, start, retain_graph=True)
        return np.asarray(gradient[len(final) :].norm(dim=1))

    return lambda codes: np.stack([influence(int(user)) for user in codes])
