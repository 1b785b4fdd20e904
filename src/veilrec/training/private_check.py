"""Refusals: whatever lets one user's data into another user's gradient, or past the noise.

Clipping bounds what a user adds to the sum only if the user's gradient is a function of that user's data
and the parameters. Layers known to break this are refused by type; the rest is tried on the first users of
the first batch, where every pair of them is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from veilrec.core import check
from veilrec.training.private_trace import Leaves, Trace, known_terms, trace

_TRIED = 8
"""Users of the first batch that are tried."""


def refuse_layers(module: nn.Module) -> None:
    """Refuse layers that mix users or write what they saw into the module.

    >>> refuse_layers(nn.Sequential(nn.BatchNorm1d(3)))
    Traceback (most recent call last):
        ...
    ValueError: layer '0' must be free of statistics over users, got BatchNorm1d. ...
    """
    for name, layer in module.named_modules():
        kind = type(layer).__name__
        where = f"layer {name!r}"
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            good = isinstance(layer, nn.modules.instancenorm._InstanceNorm) and not layer.track_running_stats
            remedy = "It keeps a mean over users, which no clipping bounds. Use LayerNorm or GroupNorm."
            check(good, where, "free of statistics over users", kind, remedy)
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            remedy = (
                "It rewrites the rows a user looks up, without noise. Scale the rows in the forward pass."
            )
            check(layer.max_norm is None, where, "without max_norm", layer.max_norm, remedy)
            remedy = "It divides by counts over all users."
            check(not layer.scale_grad_by_freq, where, "without scale_grad_by_freq", True, remedy)
            check(not layer.sparse, where, "without sparse", True, "Noise falls on every row.")


def try_first_users(module: nn.Module, leaves: Leaves, batch: Sequence[Tensor]) -> bool:
    """Refuse a module that mixes users; say whether the notes of known layers give its whole gradient.

    >>> module = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    >>> try_first_users(module, dict(module.named_parameters()), (torch.ones(3, 2),))
    True
    """
    some = [tensor[:_TRIED].detach() for tensor in batch]
    some = [tensor.requires_grad_() if tensor.is_floating_point() else tensor for tensor in some]
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.random.fork_rng(devices=[]):  # a trial leaves no trace in the next draws
        state = torch.get_rng_state()
        together = trace(module, leaves, some)
        again = trace(module, leaves, some).losses
        steady = torch.equal(state, torch.get_rng_state())  # no dropout or the like
        singles = [trace(module, leaves, [t[i : i + 1] for t in some]) for i in range(len(some[0]))]
    for name, buffer in module.named_buffers():
        same = torch.equal(torch.nan_to_num(buffer), torch.nan_to_num(before[name]))
        remedy = "What the forward pass writes there is released without noise."
        check(same, f"buffer {name!r}", "left alone by the forward pass", "another value", remedy)
    if steady and torch.equal(together.losses.nan_to_num(), again.nan_to_num()):
        _check_values(together.losses.detach(), torch.cat([single.losses.detach() for single in singles]))
    _check_gradients(together, singles[0], some)
    return _notes_suffice(together, singles[0], leaves)


_REMEDY = (
    "Clipping a user's gradient does not bound what the user does to the others. Draw negatives for each "
    "user, and replace means over the batch by means over a user."
)


def _check_values(together: Tensor, alone: Tensor) -> None:
    room = 1e-4 if together.dtype == torch.float32 else 1e-8
    gap = (together - alone).abs() / (1 + alone.abs())
    worst = float(gap[alone.isfinite() & together.isfinite()].max()) if alone.isfinite().any() else 0.0
    got = f"a loss that changes by {worst:.1g} among others"
    check(worst <= room, "losses", "of one user each, the same alone and among others", got, _REMEDY)


def _check_gradients(together: Trace, alone: Trace, batch: Sequence[Tensor]) -> None:
    """Every user differs from every other in some bit of its number: so each pair is separated once."""
    users = len(together.losses)
    edges = [
        first.edge
        for first, second in zip(together.calls, alone.calls, strict=False)
        if first.edge and first.shape[:1] == (users,) and second.shape[:1] == (1,)
    ]
    places: list[Any] = [*edges, *(tensor for tensor in batch if tensor.requires_grad)]
    if not places or not together.losses.requires_grad:
        return
    number = torch.arange(users, device=together.losses.device)
    share = 1 + number / 7  # so that two users do not cancel
    for bit in range((users - 1).bit_length()):
        for side in (0, 1):
            chosen = (number >> bit) & 1 == side
            if not bool(chosen.any()):
                continue
            target = (together.losses * share)[chosen].sum()
            for back in torch.autograd.grad(target, places, retain_graph=True, allow_unused=True):
                foreign = back is not None and bool((back[~chosen].nan_to_num() != 0).any())
                got = "a loss with a gradient at another user's values"
                check(not foreign, "losses", "of one user each", got, _REMEDY)


def _notes_suffice(together: Trace, alone: Trace, leaves: Leaves) -> bool:
    """Structure first (a batch of one must look alike), then the sum against a plain backward pass."""
    if not together.losses.requires_grad or known_terms(alone, leaves) is None:
        return False
    trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    plain = torch.autograd.grad(
        together.losses.sum(), list(trained.values()), retain_graph=True, allow_unused=True
    )
    terms = known_terms(together, leaves)
    if terms is None:
        return False
    ones = torch.ones_like(together.losses.detach())
    for (name, leaf), wanted in zip(trained.items(), plain, strict=True):
        got = terms[name].total(ones) if name in terms else torch.zeros_like(leaf)
        gap = got - (torch.zeros_like(leaf) if wanted is None else wanted)
        if not float(gap.norm()) <= 1e-3 * float(got.norm()) + 1e-6:
            return False
    return True
