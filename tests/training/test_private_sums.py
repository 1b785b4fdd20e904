"""Clipped sums: every way of computing them against one user at a time with a plain backward pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from veilrec.training import private_func
from veilrec.training.private_check import try_first_users
from veilrec.training.private_sum import add_clipped, as_leaves
from veilrec.training.private_terms import Outer
from veilrec.training.private_trace import known_terms, trace

CLIP = 0.7


def fixed(module: nn.Module, scale: float = 0.5) -> nn.Module:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale, generator=generator)
    return module


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ids(*shape: int, below: int, seed: int = 1) -> Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


class Tower(nn.Module):
    """An embedding and an MLP; five items of six, so ids repeat within a user."""

    def __init__(self, inplace: bool = False, padding: int | None = None) -> None:
        super().__init__()
        self.items = nn.Embedding(6, 4, padding_idx=padding)
        self.mlp = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace), nn.Linear(5, 4))

    def forward(self, history: Tensor, target: Tensor) -> Tensor:
        own = self.mlp(self.items(history).mean(1))
        return (self.items(target) @ own.unsqueeze(2)).squeeze(2).square().sum(1)


class Normed(nn.Module):
    """Layer norm and linear layers over positions: both ways to square a linear layer occur."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, width), nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.last(F.gelu(self.norm(self.first(x))))).sum((1, 2))


class Twice(nn.Module):
    """One layer called twice, and its weight shared with another layer that has its own bias."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(torch.tanh(self.one(x))))).square().sum((1, 2))


class TiedTable(nn.Module):
    """A table that is looked up and also multiplied: seen by no hook."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.tower = nn.Embedding(6, 4), nn.Linear(4, 4)

    def forward(self, history: Tensor, target: Tensor) -> Tensor:
        scores = self.tower(self.items(history).mean(1)) @ self.items.weight.T
        return torch.logsumexp(scores, 1) - scores.gather(1, target).mean(1)


class Recurrent(nn.Module):
    """A GRU over looked-up rows, with attention and a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.positions = nn.Embedding(6, 4), nn.Embedding(5, 4)
        self.gru = nn.GRU(4, 4, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, history: Tensor, target: Tensor) -> Tensor:
        x, _ = self.gru(self.items(history) + self.positions(torch.arange(history.shape[1])))
        x, _ = self.attention(x, x, x, need_weights=False)
        return ((x.mean(1) * self.scale).unsqueeze(1) * self.items(target)).sum((1, 2)).square()


class Loops(nn.Module):
    """Control flow that depends on values, which vmap cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.scale = nn.Embedding(6, 4), nn.Parameter(torch.ones(4))

    def forward(self, history: Tensor) -> Tensor:
        rows = self.items(history) * self.scale
        return torch.stack([row.square().sum() * (2 if row.detach().sum().item() > 0 else 3) for row in rows])


class PositionsFirst(nn.Module):
    """A layer that sees [positions, users]: rows are not users, even where there are as many of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x.transpose(0, 1)).square().sum((0, 2))


pair = (ids(9, 5, below=6), ids(9, 3, below=6, seed=2))
MODELS = {
    "tower": (Tower(), pair, True),
    "in place": (Tower(inplace=True), pair, True),
    "padding": (Tower(padding=2), pair, True),
    "layer norm": (Normed(), (numbers(9, 7, 3),), True),
    "wide": (Normed(24), (numbers(9, 4, 3),), True),
    "twice": (Twice(), (numbers(9, 3, 4),), True),
    "tied table": (TiedTable(), pair, False),
    "recurrent": (Recurrent(), pair, False),
    "loops": (Loops(), (pair[0],), False),
    "positions first": (PositionsFirst(), (numbers(9, 8, 3),), False),  # 8 users are tried
}


def by_loop(
    module: nn.Module, batch: tuple[Tensor, ...], clip: float
) -> tuple[dict[str, Tensor], list[float]]:
    """One user at a time: plain backward, joint norm, clip, add; in double precision."""
    sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in module.named_parameters()}
    norms = []
    for user in range(len(batch[0])):
        module.zero_grad()
        module(*(tensor[user : user + 1] for tensor in batch)).sum().backward()
        gradients = {n: p.grad.double() for n, p in module.named_parameters() if p.grad is not None}
        norm = float(sum(g.square().sum() for g in gradients.values())) ** 0.5
        norms.append(norm)
        for name, gradient in gradients.items():
            sums[name] += gradient * min(1.0, clip / norm) if norm else gradient
    module.zero_grad()
    return sums, norms


def clipped(
    module: nn.Module, batch: tuple[Tensor, ...], clip: float = CLIP, *, notes: bool, double: bool = False
) -> dict[str, Tensor]:
    leaves = as_leaves(module, double)
    sums = {
        name: torch.zeros_like(leaves[name], requires_grad=False) for name, _ in module.named_parameters()
    }
    cast = [t.double() if double and t.is_floating_point() else t for t in batch]
    add_clipped(sums, module, leaves, cast, clip, notes)
    return sums


def norm_of(sums: dict[str, Tensor]) -> float:
    return float(sum(part.double().square().sum() for part in sums.values())) ** 0.5


@pytest.mark.parametrize(("name", "notes"), [(n, w) for n in MODELS for w in {MODELS[n][2], False}])
def test_the_sum_is_that_of_a_loop(name: str, notes: bool) -> None:
    module, batch, _ = MODELS[name]
    fixed(module)
    # A clip in the middle of the norms, so that some users are cut and others are not.
    clip = sorted(by_loop(module, batch, 1.0)[1])[4]
    wanted, norms = by_loop(module, batch, clip)
    assert min(norms) < clip < max(norms)
    got = clipped(module, batch, clip, notes=notes)
    for part, sum_ in wanted.items():
        torch.testing.assert_close(
            got[part].double(), sum_, rtol=1e-4, atol=2e-5 * clip, msg=f"{name} {part}"
        )
    broken, _ = by_loop(module, batch, 1.02 * clip)
    assert norm_of({n: broken[n] - got[n].double() for n in got}) > 1e-3 * clip  # the comparison can fail


@pytest.mark.parametrize("name", MODELS)
def test_the_fast_way_is_taken_where_it_holds(name: str) -> None:
    module, batch, fast = MODELS[name]
    assert try_first_users(fixed(module), as_leaves(module, False), batch) is fast


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("double", [True, False])
def test_no_user_exceeds_the_clip(name: str, double: bool) -> None:
    """Tests (i) and adjacency: one user alone, and one user more, at a clip that cuts everybody."""
    module, batch, fast = MODELS[name]
    fixed(module, scale=2.0 if name not in ("twice", "recurrent") else 0.8)
    clip = 1e-2
    for user in range(4):
        one = tuple(tensor[user : user + 1] for tensor in batch)
        assert by_loop(module, one, 1.0)[1][0] > clip
        norm = norm_of(clipped(module, one, clip, notes=fast, double=double))
        assert (1 - 1e-4) * clip < norm <= clip * (1 + 1e-6)
    without = clipped(module, tuple(tensor[1:] for tensor in batch), clip, notes=fast, double=double)
    more = clipped(module, batch, clip, notes=fast, double=double)
    moved = norm_of({n: more[n].double() - without[n].double() for n in more})
    assert moved <= clip * (1 + (1e-6 if not double else 0))


def test_a_use_that_no_hook_sees_is_noticed_whatever_its_value() -> None:
    module, batch, _ = MODELS["tied table"]
    leaves = as_leaves(fixed(module), False)
    assert known_terms(trace(module, leaves, batch), leaves) is None
    module, batch, _ = MODELS["tower"]
    leaves = as_leaves(fixed(module), False)
    assert known_terms(trace(module, leaves, batch), leaves) is not None


def test_users_in_small_parts_give_the_same_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    module, batch, _ = MODELS["recurrent"]
    fixed(module)
    whole = clipped(module, batch, notes=False)
    monkeypatch.setattr(private_func, "_AT_ONCE", 1000)  # fewer than two users' gradients and a bit
    parts = clipped(module, batch, notes=False)
    for part in whole:
        torch.testing.assert_close(parts[part], whole[part])


@pytest.mark.parametrize("name", MODELS)
def test_in_double_precision_company_hardly_matters(name: str) -> None:
    """The rounding of a user's gradient among others: far below the slack that is left for it."""
    module, batch, fast = MODELS[name]
    fixed(module)
    together = clipped(module, batch, notes=fast, double=True)
    for user in range(len(batch[0])):
        one = clipped(module, tuple(t[user : user + 1] for t in batch), notes=fast, double=True)
        together = {part: together[part] - one[part] for part in together}
    assert norm_of(together) < 1e-12 * CLIP


def test_positions_that_cancel_do_not_slip_past_the_clip() -> None:
    """Large parts that cancel: the product of positions may lose digits, but never reports too little."""
    a = numbers(4, 2, 64) * 1000
    a[:, 1] = a[:, 0] + 1e-2 * numbers(4, 64, seed=3)
    g = numbers(4, 1, 64).expand(4, 2, 64) * torch.tensor([1.0, -1.0]).reshape(1, 2, 1)
    true = (g.double().mT @ a.double()).flatten(1).square().sum(1)
    plain = (a @ a.mT * (g @ g.mT)).sum((1, 2))
    assert (plain.double() < true * 0.9).any()  # what would happen without care
    assert (Outer([(a, g)]).squares().double() >= true * (1 - 1e-5)).all()


def test_a_user_that_is_not_finite_adds_nothing() -> None:
    for name, notes in (("layer norm", True), ("layer norm", False)):
        module, (x,), _ = MODELS[name]
        fixed(module)
        x = x.clone()
        rest = clipped(module, (torch.cat([x[:3], x[5:]]),), notes=notes)
        x[3], x[4] = float("nan"), float("inf")
        leaves = as_leaves(module, False)
        sums = {n: torch.zeros_like(leaf, requires_grad=False) for n, leaf in leaves.items()}
        assert add_clipped(sums, module, leaves, [x], CLIP, notes) == 2
        for part in sums:
            torch.testing.assert_close(sums[part], rest[part], rtol=1e-4, atol=1e-5)


class OneRow(nn.Module):
    """The gradient is a large multiple of one row, so its squares overflow in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(3, 2)

    def forward(self, history: Tensor, size: Tensor) -> Tensor:
        return self.items(history).sum((1, 2)) * size


def test_a_norm_too_large_to_measure_adds_nothing() -> None:
    batch = (torch.tensor([[0], [1]]), torch.tensor([1e25, 1.0]))
    sums = clipped(OneRow(), batch, notes=True)
    assert norm_of(sums) <= CLIP
    assert sums["items.weight"][0].abs().max() == 0


def test_a_user_without_examples_adds_nothing() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items, self.head = nn.Embedding(6, 4), nn.Linear(4, 1)

        def forward(self, history: Tensor, mask: Tensor) -> Tensor:
            scores = self.head(self.items(history)).squeeze(2).square() * mask
            return scores.sum(1) / mask.sum(1).clamp(min=1)

    module, mask = fixed(Masked()), torch.ones(9, 5)
    mask[2] = 0
    rows = [0, 1, *range(3, 9)]
    for notes in (True, False):
        whole = clipped(module, (pair[0], mask), notes=notes)
        rest = clipped(module, (pair[0][rows], mask[rows]), notes=notes)
        for part in whole:
            torch.testing.assert_close(whole[part], rest[part])


def test_as_the_clip_goes_to_nothing_data_does_not_matter() -> None:
    """Test (vii): at equal batch sizes the sum shrinks with the clip, whatever the data."""
    module = fixed(Tower())
    other = (ids(9, 5, below=6, seed=8), ids(9, 3, below=6, seed=9))
    for clip in (1e-3, 1e-9, 1e-18):
        for batch in (pair, other):
            assert norm_of(clipped(module, batch, clip, notes=True)) <= 9 * clip
