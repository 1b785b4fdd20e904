"""The gradients of single users through ``torch.func``, for modules with parts that the notes do not know.

Each user is run alone, so no layer can mix users. The gradient of an embedding table is taken through a
probe: zeros added to the rows that a user looked up, whose gradient is that of the rows. A table that is
also used in another way (tied to an output layer, say) is treated like any other parameter.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from veilrec.training.private_terms import Rows, Term, Whole
from veilrec.training.private_trace import Leaves, table_call, trace, uses

_AT_ONCE = 1 << 24
"""Numbers of users' gradients that may be held at a time."""


@dataclass
class _Probe:
    """One call of an embedding layer whose table is used by such layers alone."""

    layer: nn.Module
    table: str
    zeros: Tensor


def alone_terms(module: nn.Module, leaves: Leaves, batch: Sequence[Tensor]) -> Iterator[dict[str, Term]]:
    """The terms of the batch, in parts of so many users as memory allows, in order.

    >>> module = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    >>> (terms,) = alone_terms(module, dict(module.named_parameters()), (torch.ones(3, 2),))
    >>> terms["0.weight"].total(torch.ones(3)).tolist()
    [[3.0, 3.0]]
    """
    probes = _probes(module, leaves, [tensor[:1] for tensor in batch])
    tables = {probe.table for probe in probes}
    dense = {
        name: leaf.detach() for name, leaf in leaves.items() if leaf.requires_grad and name not in tables
    }
    fixed = {name: leaf.detach() for name, leaf in leaves.items() if name not in dense}
    size = max(1, _AT_ONCE // max(1, sum(leaf.numel() for leaf in dense.values())))

    def loss(dense: dict[str, Tensor], zeros: list[Tensor], *rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        looked_up: list[Tensor] = []

        def probe(layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
            looked_up.append(arguments[0])
            return output + zeros[len(looked_up) - 1]

        with _hooked(module, {p.layer for p in probes}, probe):
            one = tuple(row.unsqueeze(0) for row in rows)
            return functional_call(module, {**fixed, **dense}, one)[0], looked_up

    for start in range(0, len(batch[0]), size):
        rows = [tensor[start : start + size] for tensor in batch]
        (whole, back), ids = _each(loss, dense, [p.zeros for p in probes], rows)
        terms: dict[str, Term] = {name: Whole(gradients) for name, gradients in whole.items()}
        calls: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for one, seen, g in zip(probes, ids, back, strict=True):
            calls[one.table].append(table_call(one.layer, seen, g))
        yield terms | {name: Rows(len(leaves[name]), parts) for name, parts in calls.items()}


def _probes(module: nn.Module, leaves: Leaves, one: Sequence[Tensor]) -> list[_Probe]:
    found = trace(module, leaves, one)
    names = {id(leaf): name for name, leaf in leaves.items() if leaf.requires_grad}
    calls = [
        (call, id(call.weights["weight"]))
        for call in found.calls
        if type(call.layer) is nn.Embedding and call.weights and call.given is not None
    ]
    counted, looked_up = uses(found.losses), Counter(weight for _, weight in calls)
    alone = {w for w in looked_up if counted[w] == looked_up[w]}
    return [
        _Probe(call.layer, names[w], torch.zeros_like(leaves[names[w]][0]).expand(call.shape))
        for call, w in calls
        if w in alone
    ]


def _each(loss: Callable[..., Any], dense: dict[str, Tensor], zeros: list[Tensor], rows: list[Tensor]) -> Any:
    """The gradients of every user at once or, where torch has no batched form of an operation, one by one."""
    single = grad(loss, argnums=(0, 1), has_aux=True)
    dims = (None, None, *(0 for _ in rows))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        try:
            return vmap(single, in_dims=dims, randomness="different")(dense, zeros, *rows)
        except RuntimeError:  # an operation that vmap cannot do; an error of the module comes again
            found = [single(dense, zeros, *one) for one in zip(*rows, strict=True)]
    whole = {name: torch.stack([one[0][0][name] for one in found]) for name in dense}
    back = [torch.stack(parts) for parts in zip(*(one[0][1] for one in found), strict=True)]
    ids = [torch.stack(parts) for parts in zip(*(one[1] for one in found), strict=True)]
    return (whole, back), ids


@contextmanager
def _hooked(module: nn.Module, layers: set[nn.Module], probe: Callable[..., Tensor]) -> Iterator[None]:
    recurrent = [layer for layer in module.modules() if isinstance(layer, nn.GRU | nn.LSTM | nn.RNN)]
    handles = [layer.register_forward_hook(probe) for layer in layers]
    handles += [layer.register_forward_pre_hook(_first_state) for layer in recurrent]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _first_state(layer: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The zeros that a recurrent layer starts from, made from its input so that ``vmap`` can batch them."""
    if len(arguments) != 1 or not isinstance(arguments[0], Tensor) or arguments[0].ndim != 3:
        return None
    given = arguments[0]
    shape = (layer.num_layers * (1 + layer.bidirectional), given.shape[0 if layer.batch_first else 1])
    hidden = given.new_zeros(*shape, layer.proj_size or layer.hidden_size)
    if not isinstance(layer, nn.LSTM):
        return given, hidden
    return given, (hidden, given.new_zeros(*shape, layer.hidden_size))
