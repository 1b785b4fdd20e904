"""The private step: coins, noise, denominator, refusals, events and resume (soundness 6.5)."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from veilrec.core import stream
from veilrec.privacy import GaussianEvent, Noise, epsilon_of
from veilrec.training import PrivateTraining

USERS, RATE, Z, CLIP = 60, 0.3, 1.1, 0.5


class Taste(nn.Module):
    """The mean of a history through a linear layer, against liked and other items."""

    def __init__(self, items: int = 30, size: int = 4) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.items, self.tower = nn.Embedding(items, size), nn.Linear(size, size)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0, 0.5, generator=generator)

    def forward(self, history: Tensor, liked: Tensor, other: Tensor) -> Tensor:
        own = self.tower(self.items(history).mean(1))
        gap = ((self.items(liked) - self.items(other)) @ own.unsqueeze(2)).squeeze(2)
        return nn.functional.softplus(-gap).mean(1)


class Silent(nn.Module):
    """Parameters whose gradient is zero for every user."""

    def __init__(self, size: int = 50) -> None:
        super().__init__()
        self.tower = nn.Linear(size, size)
        nn.init.zeros_(self.tower.weight)
        nn.init.zeros_(self.tower.bias)

    def forward(self, x: Tensor) -> Tensor:
        return 0 * self.tower(x).sum(1)


ROWS = torch.from_numpy(stream(1, "rows").integers(0, 30, (USERS, 3, 5)))


def gather(users: np.ndarray) -> tuple[Tensor, ...]:
    return ROWS[users].unbind(1)


def training(module: nn.Module, noise: Noise, **changes: Any) -> PrivateTraining:
    settings: dict[str, Any] = {
        "users": USERS,
        "sampling_rate": RATE,
        "noise_multiplier": Z,
        "clip_norm": CLIP,
        "steps": 20,
    }
    return PrivateTraining(module, noise, **{**settings, **changes})


def gradients(module: nn.Module) -> np.ndarray:
    return torch.cat([p.grad.double().flatten() for p in module.parameters() if p.grad is not None]).numpy()


# -- (ii) noise ------------------------------------------------------------------------------------------


def noise_is_right(moves: np.ndarray, sigma: float, level: float) -> bool:
    """A two-sided chi-square test of the standard deviation, and Kolmogorov-Smirnov against the normal."""
    n = moves.size
    chance = stats.chi2(n).cdf(float(np.square(moves / sigma).sum()))
    return min(chance, 1 - chance) > level and stats.kstest(moves / sigma, "norm").pvalue > level


def moves_of(noise: Noise, steps: int, **changes: Any) -> np.ndarray:
    """How far SGD moves parameters whose gradients are zero, step by step."""
    module, rate = Silent(), 0.1
    optimiser = torch.optim.SGD(module.parameters(), lr=rate)
    run = training(module, noise, **changes)
    found = []
    for _ in range(steps):
        before = torch.cat([p.detach().clone().flatten() for p in module.parameters()])
        run.step(lambda users: torch.ones(len(users), 50))
        optimiser.step()
        found.append((torch.cat([p.detach().flatten() for p in module.parameters()]) - before) / rate)
    return torch.cat(found).double().numpy()


@pytest.mark.parametrize("grade", ["research", "secure"])
def test_zero_gradients_leave_exactly_the_noise(grade: str) -> None:
    secure = grade == "secure"
    noise = Noise.secure() if secure else Noise.research(4)
    sigma = Z * CLIP / (RATE * USERS)
    level = 1e-8 if secure else 1e-3
    assert noise_is_right(moves_of(noise, 4), sigma, level)
    # controls: half the noise, the variance for the deviation, another denominator
    for broken in (0.5 * sigma, sigma * Z * CLIP, sigma * 1.1):
        assert not noise_is_right(moves_of(Noise.research(5), 4), broken, level)
    assert not noise_is_right(moves_of(Noise.research(5), 4, noise_multiplier=Z / 2), sigma, level)


def test_noise_is_fresh_in_every_step_and_coordinate() -> None:
    steps = moves_of(Noise.research(7), 6).reshape(6, -1)
    together = np.corrcoef(steps)[~np.eye(6, dtype=bool)]
    assert np.abs(together).max() < 5 / math.sqrt(steps.shape[1])


@pytest.mark.parametrize("grade", ["research", "secure"])
def test_every_block_of_a_large_parameter_gets_its_noise(grade: str) -> None:
    """Noise is drawn in blocks of 65,536 coordinates; a parameter has many, and its last is not whole."""
    secure = grade == "secure"
    module = Silent(400)
    noise = Noise.secure() if secure else Noise.research(11)
    training(module, noise).step(lambda users: torch.ones(len(users), 400))
    drawn, sigma, level = gradients(module), Z * CLIP / (RATE * USERS), 1e-9 if secure else 1e-4
    silent = np.where(np.arange(len(drawn)) < 1 << 16, drawn, 0.0)  # the control: a fault that was there once
    blocks, other = (np.array_split(one, 16) for one in (drawn, silent))
    assert len(drawn) > 2 * (1 << 16)
    assert all(noise_is_right(block, sigma, level) for block in blocks)
    assert not all(noise_is_right(block, sigma, level) for block in other)
    together = np.corrcoef([block[:10_000] for block in blocks])[~np.eye(16, dtype=bool)]
    assert np.abs(together).max() < 7 / math.sqrt(10_000)  # no block repeats another


# -- (iv) coins ------------------------------------------------------------------------------------------


def coins_of(noise: Noise, steps: int, users: int = 40) -> np.ndarray:
    """Who took part, steps x users."""
    module = Silent(2)
    run = training(module, noise, users=users, steps=steps)
    taken = np.zeros((steps, users), bool)
    for step in range(steps):

        def mark(chosen: np.ndarray, step: int = step) -> Tensor:
            taken[step, chosen] = True
            return torch.ones(len(chosen), 2)

        run.step(mark)
    return taken


def coins_are_right(taken: np.ndarray, rate: float, level: float) -> bool:
    """Frequencies by user and by step are binomial, and pairs of users and of steps are independent."""
    steps, users = taken.shape
    chances = []
    for axis, n in ((0, steps), (1, users)):
        counts = taken.sum(axis)
        score = float(np.square(counts - n * rate).sum() / (n * rate * (1 - rate)))
        chance = stats.chi2(len(counts)).cdf(score)
        chances += [chance, 1 - chance]
    centred = (taken - rate) / math.sqrt(rate * (1 - rate))
    for left, right in ((centred[:, :-1], centred[:, 1:]), (centred[:-1], centred[1:])):
        score = float((left * right).sum()) / math.sqrt(left.size)
        chances.append(2 * stats.norm.sf(abs(score)))
    return min(chances) > level


@pytest.mark.parametrize("grade", ["research", "secure"])
def test_every_user_has_an_own_coin_in_every_step(grade: str) -> None:
    secure = grade == "secure"
    steps = 100 if secure else 300
    noise = Noise.secure() if secure else Noise.research(2)
    assert coins_are_right(coins_of(noise, steps), RATE, 1e-8 if secure else 1e-3)


def test_the_test_of_coins_rejects_shuffled_batches_and_shared_coins() -> None:
    random = stream(1, "broken")
    fixed_size = np.zeros((300, 40), bool)
    for row in fixed_size:
        row[random.permutation(40)[:12]] = True
    assert not coins_are_right(fixed_size, RATE, 1e-3)
    shared = np.repeat(random.random((300, 20)) < RATE, 2, axis=1)
    assert not coins_are_right(shared, RATE, 1e-3)
    same_every_step = np.repeat(random.random((1, 40)) < RATE, 300, axis=0)
    assert not coins_are_right(same_every_step, RATE, 1e-3)
    assert not coins_are_right(random.random((300, 40)) < RATE * 1.1, RATE, 1e-3)


class _Counted(Exception):
    """Who is drawn is known, and the step need not go on."""


@pytest.mark.parametrize("grade", ["research", "secure"])
@pytest.mark.parametrize("rate", [0.1, RATE])
def test_coins_fall_as_often_as_the_accountant_believes(grade: str, rate: float) -> None:
    """A million coins: three per cent more of them would be an epsilon larger than stated."""
    noise, users, drawn = Noise.secure() if grade == "secure" else Noise.research(6), 1_000_000, []
    run = training(Silent(2), noise, users=users, sampling_rate=rate)

    def count(chosen: np.ndarray) -> Tensor:
        drawn.append(len(chosen))
        raise _Counted

    with pytest.raises(_Counted):
        run.step(count)
    assert run.event.sampling_rate == rate
    assert stats.binomtest(drawn[0], users, rate).pvalue > 1e-8
    assert stats.binomtest(drawn[0], users, 1.03 * rate).pvalue < 1e-8  # the control


# -- (v) the denominator ---------------------------------------------------------------------------------


class Constant(nn.Module):
    """Every user's gradient is (1, 0), so the clipped sum is C x batch size in the first coordinate."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).squeeze(1)


def test_the_denominator_is_fixed() -> None:
    sizes, means = [], []
    for seed in range(12):
        module = Constant()
        run = training(module, Noise.research(seed), users=10, sampling_rate=0.2, noise_multiplier=1e-6)
        size = 0

        def mark(users: np.ndarray) -> Tensor:
            nonlocal size
            size = len(users)
            return torch.tensor([[1.0, 0.0]]).repeat(len(users), 1)

        run.step(mark)
        sizes.append(size)
        means.append(float(gradients(module)[0]))
    assert len(set(sizes)) > 2
    assert 0 in sizes  # an empty batch is a step like any other
    np.testing.assert_allclose(means, CLIP * np.array(sizes) / (0.2 * 10), atol=1e-4)


def test_the_denominator_is_that_of_the_declared_users() -> None:
    """Who leaves does not change what the others' sum is divided by."""
    found = []
    for users in (10, 9):
        module = Constant()
        run = training(
            module, Noise.research(1), users=users, declared=40, sampling_rate=1.0, noise_multiplier=1e-6
        )
        run.step(lambda chosen: torch.tensor([[1.0, 0.0]]).repeat(len(chosen), 1))
        found.append(float(gradients(module)[0]))
    np.testing.assert_allclose(found, [CLIP * 10 / 40, CLIP * 9 / 40], atol=1e-5)


@pytest.mark.parametrize("grade", ["research", "secure"])
def test_an_empty_batch_is_pure_noise(grade: str) -> None:
    module = Taste()
    noise = Noise.secure() if grade == "secure" else Noise.research(1)
    run = training(module, noise, sampling_rate=1e-12)

    def never(users: np.ndarray) -> Tensor:
        raise AssertionError("nobody was drawn")

    run.step(never)
    sigma = Z * CLIP / (1e-12 * USERS)
    assert noise_is_right(gradients(module), sigma, 1e-8)
    assert run.taken == noise.events[0].count == 1


# -- (iii) the whole step --------------------------------------------------------------------------------


def reference_sum(module: Taste, users: np.ndarray, clip: float) -> np.ndarray:
    total = np.zeros(sum(p.numel() for p in module.parameters()))
    module = copy.deepcopy(module)
    for user in users:
        module.zero_grad()
        module(*gather(np.array([user]))).sum().backward()
        own = gradients(module)
        total += own * min(1, clip / float(np.linalg.norm(own)))
    return total


@pytest.mark.parametrize("grade", ["research", "secure"])
@pytest.mark.parametrize("at_once", [4, 1024])
def test_a_step_is_the_clipped_sum_of_the_drawn_users_over_qn(grade: str, at_once: int) -> None:
    module, drawn = Taste(), []
    noise = Noise.secure() if grade == "secure" else Noise.research(9)
    run = training(module, noise, noise_multiplier=1e-5, clip_norm=0.05, at_once=at_once)

    def noted(users: np.ndarray) -> tuple[Tensor, ...]:
        drawn.append(users)
        return gather(users)

    run.step(noted)
    wanted = reference_sum(module, drawn[0], 0.05) / (RATE * USERS)
    np.testing.assert_allclose(gradients(module), wanted, atol=1e-5 * 0.05 / RATE / USERS * 8 + 2e-7)


class Loud(Taste):
    """A loss that is multiplied: a user with weight 0 is as good as absent."""

    def forward(self, history: Tensor, liked: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        return super().forward(history, liked, other) * weight[:, 0]


@pytest.mark.parametrize("way", ["notes", "alone"])
def test_with_pinned_noise_a_user_moves_a_step_by_at_most_the_clip(way: str) -> None:
    def gradient(weights: Tensor) -> tuple[np.ndarray, list[int]]:
        module, drawn = Loud(), []
        if way == "alone":
            module.extra = nn.Parameter(torch.zeros(()))
        run = training(module, Noise.research(3))

        def noted(users: np.ndarray) -> list[Tensor]:
            drawn.extend(users.tolist())
            return [*gather(users), weights[users]]

        run.step(noted)
        return gradients(module), drawn

    weights = torch.full((USERS, 1), 1000.0)
    whole, drawn = gradient(weights)
    assert 0 < len(drawn) < USERS
    for user in (drawn[0], drawn[-1], next(u for u in range(USERS) if u not in drawn)):
        less = weights.clone()
        less[user] = 0
        moved = float(np.linalg.norm(whole - gradient(less)[0])) * RATE * USERS
        assert moved <= CLIP * (1 + 1e-5)  # .grad is in single precision
        assert moved > 0.99 * CLIP or user not in drawn
        assert moved == 0 or user in drawn


def test_a_step_leaves_global_generators_alone() -> None:
    module = Taste()
    before = torch.get_rng_state()
    training(module, Noise.research(1)).step(gather)
    assert torch.equal(before, torch.get_rng_state())


def test_losses_without_a_gradient_leave_noise() -> None:
    class Dead(Constant):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(1)

    module = Dead()
    training(module, Noise.research(1)).step(lambda users: torch.ones(len(users), 2))
    assert np.abs(gradients(module)).max() > 0


def test_frozen_parameters_are_left_alone() -> None:
    module = Taste()
    module.items.weight.requires_grad_(False)
    training(module, Noise.research(1)).step(gather)
    assert module.items.weight.grad is None
    assert module.tower.weight.grad is not None


# -- (vi) refusals ---------------------------------------------------------------------------------------


class Mixing(Taste):
    """Losses that depend on other users, in the way ``how``."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, history: Tensor, liked: Tensor, other: Tensor) -> Tensor:
        rows = self.items(history).mean(1)
        if self.how == "centred":
            rows = rows - rows.mean(0)
        own = self.tower(rows)
        if self.how == "in-batch negatives":
            scores = own @ self.items(liked).mean(1).T
            return torch.logsumexp(scores, 1) - scores.diagonal()
        if self.how == "earlier users":
            own = own.cumsum(0)
        if self.how == "a gradient without a value":  # no loss changes by it, and every gradient does
            own = own + (own.mean(0) - own.mean(0).detach())
        if self.how == "behind dropout":  # where losses differ from pass to pass, their values tell nothing
            own = nn.functional.dropout(own, 0.1) - own.mean(0)
        losses = (own * self.items(liked).mean(1)).sum(1)
        if self.how == "mean over the batch":
            return losses / len(losses)
        if self.how == "counts of items":
            return losses / torch.bincount(liked.flatten(), minlength=30)[liked[:, 0]]
        if self.how == "a weight without gradient":
            return losses * losses.detach().mean()
        if self.how == "shifted":
            return losses.roll(1)
        if self.how == "a buffer":
            self.seen += history.sum()
        return losses


@pytest.mark.parametrize(
    "how",
    [
        "centred",
        "in-batch negatives",
        "earlier users",
        "mean over the batch",
        "counts of items",
        "a weight without gradient",
        "shifted",
        "a buffer",
        "a gradient without a value",
        "behind dropout",
    ],
)
def test_losses_that_mix_users_are_refused_and_nothing_is_spent(how: str) -> None:
    noise = Noise.research(1)
    run = training(Mixing(how), noise)
    with pytest.raises(ValueError, match=r"of one user each|left alone by the forward pass"):
        run.step(gather)
    assert (noise.events, run.taken) == ([], 0)
    training(Mixing("nothing"), noise).step(gather)  # the same module without the flaw is accepted


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm2d(4),
        nn.SyncBatchNorm(4),
        nn.InstanceNorm1d(4, track_running_stats=True),
        nn.Embedding(4, 2, max_norm=1.0),
        nn.Embedding(4, 2, scale_grad_by_freq=True),
        nn.EmbeddingBag(4, 2, max_norm=1.0),
        nn.Embedding(4, 2, sparse=True),
    ],
    ids=lambda layer: str(layer)[:40],
)
def test_layers_that_mix_users_are_refused(layer: nn.Module) -> None:
    with pytest.raises(ValueError, match="layer '1' must be"):
        training(nn.Sequential(nn.Linear(4, 4), layer), Noise.research(1))


def test_layers_that_keep_to_one_user_are_not() -> None:
    good = [nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4), nn.Dropout(0.1)]
    training(nn.Sequential(nn.Linear(4, 4), *good), Noise.research(1))


def test_dropout_passes_the_trial() -> None:
    class Dropped(Taste):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, history: Tensor, liked: Tensor, other: Tensor) -> Tensor:
            return (self.dropout(self.tower(self.items(history).mean(1))) * self.items(liked).mean(1)).sum(1)

    for seed in range(20):  # whatever the masks
        training(Dropped(), Noise.research(seed)).step(gather)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"users": 0}, "users must be"),
        ({"sampling_rate": 0.0}, "sampling_rate must be"),
        ({"sampling_rate": 1.1}, "sampling_rate must be"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier must be"),
        ({"clip_norm": float("inf")}, "clip_norm must be"),
        ({"clip_norm": 1e-40}, "clip_norm must be large enough"),
        ({"steps": 0}, "steps must be"),
        ({"at_once": 0}, "at_once must be"),
    ],
)
def test_bad_settings(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        training(Taste(), Noise.research(1), **changes)


def test_bad_batches_spend_nothing() -> None:
    noise = Noise.research(1)
    run = training(Taste(), noise)
    for bad, words in (
        (lambda users: (), "batch must be"),
        (lambda users: ROWS.unbind(1), r"batch\[0\] must be a tensor whose first dimension"),
        (lambda users: [1, 2], r"batch\[0\] must be a tensor"),
    ):
        with pytest.raises(ValueError, match=words):
            run.step(bad)
    wrong = training(nn.Linear(5, 2), noise)
    with pytest.raises(ValueError, match="losses must be of shape"):
        wrong.step(lambda users: torch.ones(len(users), 5))
    frozen = Taste().requires_grad_(False)
    with pytest.raises(ValueError, match="module must be something that can be trained"):
        training(frozen, noise)
    assert noise.events == []


# -- users that cannot be measured -----------------------------------------------------------------------


def test_gradients_that_are_not_finite_are_left_out_with_a_warning() -> None:
    class Broken(Constant):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(x).squeeze(1) / x[:, 1]

    values = torch.ones(USERS, 2)
    values[:30, 1] = 0
    module = Broken()
    run = training(module, Noise.research(1), sampling_rate=1.0, noise_multiplier=1e-9)
    with pytest.warns(RuntimeWarning, match="not finite and were left out"):
        run.step(lambda users: values[users])
    assert run.dropped == 30
    assert np.linalg.norm(gradients(module)) == pytest.approx(CLIP * 30 / USERS, rel=1e-4)


# -- events, steps, resume -------------------------------------------------------------------------------


def test_the_event_is_known_beforehand_and_grows_with_the_steps() -> None:
    noise = Noise.research(1)
    run = training(Taste(), noise, steps=3, label="tower")
    whole = GaussianEvent(noise_multiplier=Z, sampling_rate=RATE, count=3, label="tower")
    assert (run.event, noise.events) == (whole, [])
    noise.record(GaussianEvent(noise_multiplier=9.0))  # somebody else's release stays as it is
    for count in (1, 2, 3):
        run.step(gather)
        assert [event.count for event in noise.events] == [1, count]
    with pytest.raises(ValueError, match="steps must be at most 3 in this run, got 4"):
        run.step(gather)
    assert noise.events[1] == whole
    assert run.left == 0


def test_a_budget_is_kept_and_not_wasted() -> None:
    run = PrivateTraining.for_budget(
        Taste(), Noise.research(1), 2.0, 1e-5, users=USERS, sampling_rate=0.25, clip_norm=1.0, steps=10
    )
    assert 1.99 < epsilon_of([run.event], 1e-5) <= 2.0


def trained(steps: int, stop: int | None, seed: int = 6) -> tuple[np.ndarray, Noise]:
    """Adam for ``steps``; with ``stop``, in two processes' worth of objects."""

    def begin(saved: dict[str, Any] | None) -> tuple[Any, ...]:
        module = Taste()
        optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
        noise = Noise.research(seed, "fit")
        run = training(module, noise)
        if saved is not None:
            module.load_state_dict(saved["module"])
            optimiser.load_state_dict(saved["optimiser"])
            run.resume_at(saved["taken"])
        return module, optimiser, noise, run

    module, optimiser, noise, run = begin(None)
    for step in range(steps):
        if step == stop:
            saved = {"module": module.state_dict(), "optimiser": optimiser.state_dict(), "taken": run.taken}
            module, optimiser, noise, run = begin(copy.deepcopy(saved))
            assert noise.events[0].count == stop  # paid before the resume, and known at once
        run.step(gather)
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in module.parameters()]).numpy(), noise


def test_research_runs_are_repeatable_and_resume_to_the_same_bits() -> None:
    straight, noise = trained(7, None)
    again, _ = trained(7, None)
    resumed, later = trained(7, 4)
    other, _ = trained(7, None, seed=8)
    assert np.array_equal(straight, again)
    assert np.array_equal(straight, resumed)
    assert not np.array_equal(straight, other)
    assert noise.events == later.events
    assert noise.events[0].count == 7


def test_resume_never_goes_back_or_beyond() -> None:
    run = training(Taste(), Noise.research(1))
    run.resume_at(0)
    assert run.noise.events == []
    run.resume_at(20)
    assert [event.count for event in run.noise.events] == [20]  # paid for, whether or not another step comes
    with pytest.raises(ValueError, match="steps must be at most 20"):
        run.step(gather)
    for taken in (19, 21):
        with pytest.raises(ValueError, match="taken must be from 20 to 20"):
            run.resume_at(taken)


def test_secure_runs_are_not_repeatable() -> None:
    found = []
    for _ in range(2):
        module = Taste()
        training(module, Noise.secure()).step(gather)
        found.append(gradients(module))
    assert not np.array_equal(*found)


def test_secure_steps_run_in_double_precision() -> None:
    seen = []

    class Watched(Taste):
        def forward(self, history: Tensor, liked: Tensor, other: Tensor) -> Tensor:
            losses = super().forward(history, liked, other)
            seen.append(losses.dtype)
            return losses

    for noise, dtype in ((Noise.secure(), torch.float64), (Noise.research(1), torch.float32)):
        seen.clear()
        module = Watched()
        training(module, noise).step(gather)
        assert set(seen) == {dtype}
        assert module.tower.weight.grad.dtype == torch.float32


def test_secure_noise_falls_on_all_coordinates_at_once_on_the_lattice() -> None:
    calls = []

    class Spied(Noise):
        def add_gaussian(self, values: Any, sigma: float, sensitivity: float, *rest: Any) -> Any:
            out = super().add_gaussian(values, sigma, sensitivity, *rest)
            calls.append((values, sigma, sensitivity, rest, out.copy()))
            return out

    module = Taste().double()
    training(module, Spied.secure()).step(gather)
    size = sum(p.numel() for p in module.parameters())
    for values, sigma, sensitivity, rest, _ in calls:
        assert values.dtype == np.float64
        assert (sigma, sensitivity, rest) == (Z * CLIP, CLIP, (size,))  # the rounding of all counts
    released = np.concatenate([out for *_, out in calls])
    assert len(released) == size
    np.testing.assert_allclose(gradients(module), released / (RATE * USERS), rtol=1e-15)
