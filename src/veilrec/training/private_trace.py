"""One forward pass with notes: which layer was called with what, and where its output sits in the graph.

From the notes of known layers (linear, embedding, layer norm) and the gradients of their outputs alone come
the terms of ``private_terms``: no gradient of a parameter is asked of autograd.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from veilrec.core import check
from veilrec.training.private_terms import Outer, Rows, Term, Whole

Leaves = Mapping[str, Tensor]


@dataclass
class Call:
    """One call of a layer; ``weights`` are its trainable tensors by attribute, as they were then.

    What went in is kept for layers with weights only.
    """

    layer: nn.Module
    given: Tensor | None
    version: int
    shape: torch.Size
    edge: GradientEdge | None
    weights: Mapping[str, Tensor]


@dataclass
class Trace:
    """The losses [B] of a batch and the calls that led to them.

    >>> module = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    >>> found = trace(module, dict(module.named_parameters()), (torch.ones(3, 2),))
    >>> found.losses.shape, [type(call.layer).__name__ for call in found.calls]
    (torch.Size([3]), ['Linear', 'Flatten'])
    """

    losses: Tensor
    calls: list[Call]


def trace(module: nn.Module, leaves: Leaves, batch: Sequence[Tensor]) -> Trace:
    """Run ``module`` with ``leaves`` in place of its parameters and note the calls of all layers."""
    calls: list[Call] = []

    def note(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if not isinstance(output, Tensor):
            return
        weights = {name: w for name, w in layer.named_parameters(recurse=False) if w.requires_grad}
        given = arguments[0].detach() if weights and arguments and isinstance(arguments[0], Tensor) else None
        edge = get_gradient_edge(output) if output.requires_grad else None
        version = -1 if given is None else given._version
        calls.append(Call(layer, given, version, output.shape, edge, weights))

    layers = [layer for layer in module.modules() if next(layer.children(), None) is None]
    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        with torch.enable_grad():
            losses = torch.func.functional_call(module, dict(leaves), tuple(batch))
    finally:
        for handle in handles:
            handle.remove()
    users = len(batch[0])
    good = isinstance(losses, Tensor) and losses.shape == (users,)
    got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
    remedy = "The module is called with a batch of users, also of one user, and gives a loss for each."
    check(good, "losses", f"of shape {(users,)}, one for each user", got, remedy)
    return Trace(losses, calls)


def known_terms(found: Trace, leaves: Leaves) -> dict[str, Term] | None:
    """The term of every trainable leaf; None unless every use of every leaf is a call of a known layer."""
    names = {id(leaf): name for name, leaf in leaves.items() if leaf.requires_grad}
    users = len(found.losses)
    calls = [call for call in found.calls if call.weights]
    used = Counter(id(weight) for call in calls for weight in call.weights.values())
    entered = Counter({leaf: n for leaf, n in uses(found.losses).items() if leaf in names})
    if entered != used:
        return None
    for call in calls:
        given = call.given
        if type(call.layer) not in _KNOWN or call.edge is None or given is None:
            return None
        if given._version != call.version or given.ndim < 1 or len(given) != users or call.shape[0] != users:
            return None
        if type(call.layer) in (nn.Linear, nn.LayerNorm) and given.ndim < 2:
            return None
    kinds = {(id(weight), type(call.layer)) for call in calls for weight in call.weights.values()}
    if len(kinds) != len(used):
        return None  # one tensor in two kinds of layers
    edges = [call.edge for call in calls if call.edge is not None]
    ones = torch.ones_like(found.losses)
    back = torch.autograd.grad(found.losses, edges, ones, allow_unused=True) if edges else ()
    with torch.no_grad():
        return _terms(calls, back, names, leaves)


def uses(losses: Tensor) -> Counter[int]:
    """How often each leaf enters the graph of the losses, by the leaf's ``id``.

    >>> weight = nn.Parameter(torch.ones(2))
    >>> uses((weight * weight).sum())[id(weight)]
    2
    """
    counted: Counter[int] = Counter()
    seen, waiting = set(), [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for after, _ in node.next_functions:
            variable = getattr(after, "variable", None)
            if variable is None:
                waiting.append(after)
            else:
                counted[id(variable)] += 1
    return counted


def table_call(layer: nn.Module, ids: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """A call of an embedding; the row of its padding learns nothing.

    >>> table_call(nn.Embedding(3, 1, padding_idx=0), torch.tensor([[0, 2]]), torch.ones(1, 2, 1))[1].tolist()
    [[[0.0], [1.0]]]
    """
    padding = layer.padding_idx
    if isinstance(padding, int):
        g = g.masked_fill((ids == padding).unsqueeze(-1), 0)
    return ids, g


_KNOWN = (nn.Linear, nn.Embedding, nn.LayerNorm)


def _terms(
    calls: Sequence[Call], back: Sequence[Tensor | None], names: Mapping[int, str], leaves: Leaves
) -> dict[str, Term]:
    outer: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    tables: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    whole: dict[str, Tensor] = {}
    for call, g in zip(calls, back, strict=True):
        if g is None or call.given is None:
            continue
        for attribute, weight in call.weights.items():
            name, given = names[id(weight)], call.given
            if isinstance(call.layer, nn.Embedding):
                tables[name].append(table_call(call.layer, given, g))
            elif isinstance(call.layer, nn.Linear) and attribute == "weight":
                outer[name].append((given, g))
            else:
                if isinstance(call.layer, nn.LayerNorm) and attribute == "weight":
                    shape = list(call.layer.normalized_shape)
                    part = g * F.layer_norm(given, shape, eps=call.layer.eps)
                else:
                    part = g
                part = part.reshape(len(g), -1, *weight.shape).sum(1)
                whole[name] = whole[name] + part if name in whole else part
    terms: dict[str, Term] = {name: Outer(parts) for name, parts in outer.items()}
    terms |= {name: Rows(len(leaves[name]), parts) for name, parts in tables.items()}
    terms |= {name: Whole(part) for name, part in whole.items()}
    return terms
