"""The clipped gradients of a batch of users, added up: by notes where they suffice, else users run alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from veilrec.core import check
from veilrec.training.private_func import alone_terms
from veilrec.training.private_terms import Term
from veilrec.training.private_trace import Leaves, known_terms, trace

SLACK = 1e-5
"""The share of the clipping norm that is left to rounding."""


def add_clipped(
    sums: dict[str, Tensor],
    module: nn.Module,
    leaves: Leaves,
    batch: Sequence[Tensor],
    clip_norm: float,
    notes: bool,
) -> int:
    """Add the clipped gradients of the batch's users to ``sums``; how many users had none that was finite.

    ``notes``: try the notes of known layers first; where they do not suffice, users are run alone.

    >>> module = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(0))
    >>> sums = {}
    >>> leaves = dict(module.named_parameters())
    >>> add_clipped(sums, module, leaves, [torch.tensor([[30.0, 40.0], [0.0, 0.5]])], 1.0, True)
    0
    >>> [round(x, 3) for x in sums["0.weight"][0].tolist()]
    [0.6, 1.3]
    """
    dropped = 0
    for terms in _terms(module, leaves, batch, notes):
        with torch.no_grad():
            norm = torch.stack([term.squares() for term in terms.values()]).sum(0).sqrt()
            limit = clip_norm * (1 - SLACK)
            weights = torch.where(norm.isfinite(), limit / norm.clamp(min=limit), 0.0)
            dropped += int((~norm.isfinite()).sum())
            for name, term in terms.items():
                total = term.total(weights)
                sums[name] = sums[name].add_(total) if name in sums else total
    return dropped


def _terms(
    module: nn.Module, leaves: Leaves, batch: Sequence[Tensor], notes: bool
) -> Iterator[dict[str, Term]]:
    terms = known_terms(trace(module, leaves, batch), leaves) if notes else None
    if terms is None:
        yield from alone_terms(module, leaves, batch)
    elif terms:
        yield terms


def as_leaves(module: nn.Module, double: bool) -> dict[str, Tensor]:
    """Parameters and buffers as the pass sees them: leaves of their own, in double precision where asked.

    >>> as_leaves(nn.Linear(2, 1), double=True)["bias"].dtype
    torch.float64
    """
    found: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        leaf = parameter.detach().double() if double else parameter.detach()
        found[name] = leaf.requires_grad_(parameter.requires_grad)
    if double:
        found |= {name: b.double() for name, b in module.named_buffers() if b.is_floating_point()}
    return found


def as_batch(found: Tensor | Sequence[Tensor], users: int, double: bool) -> list[Tensor]:
    """What ``gather`` gave, checked: tensors that begin with the user.

    >>> as_batch(torch.ones(3, 2), 4, double=False)
    Traceback (most recent call last):
        ...
    ValueError: batch[0] must be a tensor whose first dimension is the 4 users, got (3, 2).
    """
    batch = [found] if isinstance(found, Tensor) else list(found)
    check(bool(batch), "batch", "one tensor or more", batch)
    for place, tensor in enumerate(batch):
        good = isinstance(tensor, Tensor) and tensor.ndim > 0 and len(tensor) == users
        got = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
        check(good, f"batch[{place}]", f"a tensor whose first dimension is the {users} users", got)
    return [t.double() if double and t.is_floating_point() else t for t in batch]
