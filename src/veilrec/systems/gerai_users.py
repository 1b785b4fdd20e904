"""GERAI-C/B: all interactions of a user are protected, by user-level private training of a one-sided network.

The network is GERAI's but for the side of the items, a message network of two layers instead of three, and
Xavier's start everywhere: fewer parameters, less noise.

Noisy counts of the items are released first: their logarithm is a fixed part of the score, so that the steps
need not spend themselves on what is popular.

The convolution over items' raters is dropped, z*_v = relu(W MLP(z_v) + b), so that a user's loss depends on
the user's own data and the shared parameters alone. Each step samples users by own coins, takes the mean
exact pairwise loss over some of a user's own pairs, clips its gradient over all parameters jointly, adds
noise to the sum and divides by a fixed number (``training/private.py``). A user's vector is computed from the
released parameters and the user's own history, and shown to that user only: joint differential privacy.

Which pairs count is drawn like the noise, not from the seed. All draws of a step come from one stream: with
coins that anybody can compute a user more or less would shift the pairs of all others, and the sum would move
by more than one gradient. With secret coins the others' pairs have the same distribution in both cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.core import check, check_count, check_positive
from veilrec.data import Dataset, Profiles, check_edges, scheme_of
from veilrec.privacy import (
    Claim,
    GaussianEvent,
    Noise,
    check_clip_norm,
    check_lattice,
    default_delta,
    gaussian_multiplier,
    smallest_noise,
)
from veilrec.privacy.events import check_budget, check_sampling_rate
from veilrec.privacy.mechanisms import Gaussian
from veilrec.systems.attention import say_left_out, user_profiles
from veilrec.systems.gerai import REPORTS, attribute_claims, unary_reports
from veilrec.systems.private_items import COUNTS, bounded_rows
from veilrec.systems.vectors import unit_rows
from veilrec.training import (
    STOPPING,
    Array,
    Job,
    NegativeSampler,
    PrivateTraining,
    Recommender,
    optimiser_state,
    release_once,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats

GRADIENTS = "gradients"


class UserTower(nn.Module):
    """One user's loss from the user's own rows: profile, history, liked and other items.

    >>> net = UserTower(features=3, items=5, embedding_size=4, generator=torch.Generator())
    >>> ids, on = torch.tensor([[0, 1]]), torch.ones(1, 2)
    >>> net(torch.ones(1, 3), ids, on, ids, ids + 2, on, torch.zeros(1, 2)).shape
    torch.Size([1])
    """

    def __init__(self, features: int, items: int, embedding_size: int, generator: torch.Generator) -> None:
        super().__init__()
        d = embedding_size
        self.profile = nn.Linear(features, d, bias=False)
        self.items = nn.Embedding(items, d)
        self.message = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.attend_message, self.attend_own = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.attend_out = nn.Linear(d, 1, bias=False)
        self.out = nn.Linear(d, d)
        self.pair_user, self.pair_item = nn.Linear(d, d, bias=False), nn.Linear(d, d)
        self.h = nn.Linear(d, 1, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                parameter.data.zero_()
        self.pair_item.bias.data.fill_(0.5)

    def user_side(self, profile: Tensor, history: Tensor, on: Tensor) -> Tensor:
        """Left half of q, [users, d]; ``on`` [users, most] marks what of ``history`` counts."""
        own = self.profile(profile).unsqueeze(1)  # [users, 1, d]
        nodes = torch.cat([own, self.items(history)], dim=1)  # itself and its items
        message = self.message(nodes)
        logit = self.attend_out(F.relu(self.attend_message(message) + self.attend_own(own))).squeeze(2)
        there = torch.cat([torch.ones_like(on[:, :1]), on], dim=1)
        weight = torch.softmax(logit.masked_fill(there == 0, -1e9), dim=1)
        mixed = (weight.unsqueeze(2) * message).sum(1)
        return torch.as_tensor(self.pair_user(F.relu(self.out(mixed))))

    def item_side(self, items: Tensor) -> Tensor:
        """Right half of q of these items, [..., d]."""
        return torch.as_tensor(self.pair_item(F.relu(self.out(self.message(self.items(items))))))

    def forward(
        self,
        profile: Tensor,
        history: Tensor,
        on: Tensor,
        liked: Tensor,
        other: Tensor,
        counts: Tensor,
        ahead: Tensor,
    ) -> Tensor:
        """The mean pairwise loss of each user, [users]; ``ahead``: by how much v is more popular than v'."""
        left = self.user_side(profile, history, on).unsqueeze(1)
        one, two = (torch.clamp(left + self.item_side(at), 0.0, 1.0) for at in (liked, other))
        gap = self.h(one - two).squeeze(2) + ahead
        return (F.softplus(-gap) * counts).sum(1) / counts.sum(1).clamp(min=1)


@dataclass(eq=False)
class GERAIUsers(Recommender):
    """The certified twin for users (GERAI-C/B): ``epsilon`` at ``delta`` for all interactions of a user.

    The attributes are reported once by unary encoding with ``attribute_epsilon`` each, against anybody; the
    interactions are protected against those who see the model and other people's lists. ``count_share`` of
    the budget (in squared signal to noise) goes to the item counts; 0 leaves them out. ``most_items``: how
    much of a history, and how many pairs, count in a step, drawn anew each time; a list is made from the
    first so many items of a history in the order of their codes, an arbitrary part of it, but always the
    same. All steps are run: the budget is spent anyway.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GERAIUsers(epochs=2, embedding_size=4).fit(data, progress=False)
    >>> round(model.guarantee.claims[0].epsilon, 2), model.guarantee.claims[0].adversaries
    (8.0, 'OF')
    """

    word: ClassVar[str] = "gerai-users"
    summary: ClassVar[str] = "one-sided attention GCN, private training at user level"
    protects: ClassVar[str] = "a user's interactions, from others; attributes, from all"
    reports: ClassVar[tuple[str, ...]] = ("reports",)
    describes: ClassVar[tuple[str, ...]] = ("attributes", "rating_range")
    uncovered: ClassVar[tuple[str, ...]] = (STOPPING,)
    not_covered: ClassVar[tuple[str, ...]] = (
        "a user's own list, which is computed from the user's own history: show it to that user only",
        "the ids of users and items",
    )

    epsilon: float = 8.0
    delta: float | None = None
    attribute_epsilon: float = 1.0
    count_share: float = 0.1
    embedding_size: int = 16
    epochs: int = 30
    sampling_rate: float = 0.1
    clip_norm: float = 0.5
    most_items: int = 64
    learning_rate: float = 0.01
    age_edges: tuple[float, ...] = (35.0, 46.0)
    patience: int = 1_000_000
    validate_every: int = 5

    _network: UserTower | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.age_edges = check_edges("age_edges", self.age_edges, or_none=True)
        check_budget(self.epsilon, 0.0 if self.delta is None else self.delta)
        for name in ("attribute_epsilon", "clip_norm", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_sampling_rate(self.sampling_rate)
        check_clip_norm(self.clip_norm)
        check(0 <= self.count_share <= 0.99, "count_share", "from 0 to 0.99", self.count_share)
        for name in ("embedding_size", "epochs", "most_items", "patience", "validate_every"):
            check_count(name, getattr(self, name))

    def _not_covered(self) -> tuple[str, ...]:
        told = self.shared["net.profile.weight"].shape[1] > 1
        shown = ("who is a user: a report is there",) if told else ()
        return (*shown, *self.not_covered)

    # -- the budget -----------------------------------------------------------------------------------

    @property
    def _steps(self) -> int:
        return self.epochs * self._steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        return max(1, round(1 / self.sampling_rate))

    def _counts(self, users: int) -> Gaussian:
        """The noise on the item counts, to which a user adds a row of length at most 1."""
        return Gaussian(
            gaussian_multiplier(self.epsilon, default_delta(users, self.delta)) / math.sqrt(self.count_share)
        )

    def _events(self, users: int) -> tuple[GaussianEvent, ...]:
        """The counts, if any, and the steps, with the least noise that keeps the budget."""
        counts = (self._counts(users).event.named(COUNTS),) if self.count_share else ()

        def with_noise(z: float) -> tuple[GaussianEvent, ...]:
            q, steps = self.sampling_rate, self._steps
            return (*counts, GaussianEvent(noise_multiplier=z, sampling_rate=q, count=steps, label=GRADIENTS))

        return with_noise(smallest_noise(with_noise, self.epsilon, default_delta(users, self.delta)))

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        released = ("all parameters of the network, with them the item vectors", COUNTS)
        events, delta = self._events(public.public_users), default_delta(public.public_users, self.delta)
        size, about = self.embedding_size, self._profiles(public)
        network = (public.n_items + sum(about.sizes) + 7 * size + 10) * size
        for event in events:  # refused before anything is spent
            check_lattice(event.noise_multiplier, public.n_items if event.label == COUNTS else network)
        training = Claim("all interactions of a user", "user", "add-remove", "OF", released, events, delta)
        return (training, *(attribute_claims(about, self.attribute_epsilon) if about.category_names else ()))

    # -- fitting --------------------------------------------------------------------------------------

    def _profiles(self, attributes: Dataset) -> Profiles:
        return user_profiles(attributes, self.age_edges, numbers=False)

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        reports = np.ones((job.train.n_users, 1), np.float32)  # a constant, for data without attributes
        known = self._profiles(job.train)
        say_left_out(known)
        if known.category_names:
            about = self._profiles(job.guard.take("attributes", REPORTS))
            drawn = release_once(
                job, REPORTS, lambda: unary_reports(about, self.attribute_epsilon, job.noise.child(REPORTS))
            )
            reports = np.concatenate([reports, drawn], axis=1)
        job.guard.close("attributes")
        self.facts["profile"] = scheme_of(job.train)
        data = job.guard.take("interactions", GRADIENTS)
        history = data.matrix()
        network = UserTower(
            reports.shape[1], data.n_items, self.embedding_size, torch_stream(job.seed, self.word, "init")
        )
        self.shared["popular"] = self._popular(job)
        training = self._training(network, job.noise.child(GRADIENTS), job.train)
        parameters = dict(network.named_parameters())
        optimiser = torch.optim.Adam(list(parameters.values()), lr=self.learning_rate)
        sampler = NegativeSampler(history)
        given = torch.from_numpy(reports)

        def step(epoch: int) -> float:
            training.resume_at(epoch * self._steps_per_epoch)
            for turn in range(self._steps_per_epoch):
                self._step(training, history, given, sampler, job.noise.child("pairs", epoch, turn))
                optimiser.step()
            return 0.0  # the loss itself would be a release

        def publish() -> None:
            self._keep(network, reports)

        def validate(valid: Dataset) -> float:
            publish()
            score = lambda users: self._compare(history[users], reports[users])  # noqa: E731
            return validation_score(score, data, valid)

        state = {**parameters, **optimiser_state(optimiser, parameters)}
        at = run_epochs(job, self, state=state, step=step, validate=validate, keep=tuple(parameters))
        training.resume_at(at.epoch * self._steps_per_epoch)  # a fit that had ended before is paid for too
        publish()

    def _training(self, network: UserTower, noise: Noise, public: Dataset) -> PrivateTraining:
        return PrivateTraining(
            network,
            noise,
            users=public.n_users,
            declared=public.public_users,
            sampling_rate=self.sampling_rate,
            noise_multiplier=self._events(public.public_users)[-1].noise_multiplier,
            clip_norm=self.clip_norm,
            steps=self._steps,
            label=GRADIENTS,
        )

    def _step(
        self,
        training: PrivateTraining,
        history: sp.csr_matrix,
        reports: Tensor,
        sampler: NegativeSampler,
        coins: Noise,
    ) -> None:
        """One release: the noisy clipped sum of gradients, over pairs that are drawn by ``coins``."""
        random = np.random.default_rng(coins.below(1 << 62, (2,)))
        training.step(partial(self._batch, history, reports, sampler, random))

    def _popular(self, job: Job) -> Array:
        """The logarithm of the released counts; of what is below the noise, that of the noise."""
        if not self.count_share:
            return np.zeros(job.train.n_items, np.float32)
        assert job.guard is not None
        mechanism = self._counts(job.train.public_users)
        rows = bounded_rows(job.guard.take("interactions", COUNTS).matrix(), np.ones(job.train.n_items), 1)
        exact = np.asarray(rows.sum(axis=0), np.float64).ravel()
        counts = release_once(job, COUNTS, lambda: mechanism.release(exact, job.noise.child(COUNTS), COUNTS))
        return np.asarray(np.log(np.maximum(counts, mechanism.sigma)), np.float32)

    def _batch(
        self,
        history: sp.csr_matrix,
        reports: Tensor,
        sampler: NegativeSampler,
        random: np.random.Generator,
        users: Array,
    ) -> tuple[Tensor, ...]:
        """At most ``most_items`` of each user's items, drawn anew; the same serve as pairs."""
        items, on = drawn_rows(history[users], self.most_items, random)
        other = sampler.draw(np.repeat(users[:, None], items.shape[1], axis=1), random)
        ahead = self.shared["popular"][items] - self.shared["popular"][other]
        tensors = (torch.from_numpy(a) for a in (items, on, items, other, on, ahead))
        return (reports[torch.from_numpy(users)], *tensors)

    def _keep(self, network: UserTower, reports: Array) -> None:
        self._network = None
        self.shared |= {f"net.{name}": p.detach().numpy().copy() for name, p in network.named_parameters()}
        self.private["reports"] = reports

    def _layout(self) -> Layout:
        d = self.embedding_size
        net = {"profile.weight": floats(d, "width"), "items.weight": floats("items", d)}
        layers = ("message.0", "message.2", "attend_message", "out", "pair_item")
        net |= {f"{name}.weight": floats(d, d) for name in (*layers, "attend_own", "pair_user")}
        net |= {f"{name}.bias": floats(d) for name in layers}
        net |= {f"{name}.weight": floats(1, d) for name in ("attend_out", "h")}
        shared = {f"net.{name}": spec for name, spec in net.items()} | {"popular": floats("items")}
        return Layout(shared, {"reports": floats("users", "width")})

    # -- serving --------------------------------------------------------------------------------------

    def _served(self) -> UserTower:
        if self._network is None:
            width = self.shared["net.profile.weight"].shape[1]
            self._network = UserTower(width, len(self.items), self.embedding_size, torch.Generator())
            kept = {name: torch.from_numpy(a) for name, a in self.shared.items() if name.startswith("net.")}
            self._network.load_state_dict({name.removeprefix("net."): a for name, a in kept.items()})
        return self._network

    def _score(self, users: Array) -> Array:
        return self._compare(self.history[users], self.private["reports"][users])

    def _report_of(self, people: Dataset, noise: Noise) -> Array:
        about = self._profiles(people)
        constant = np.ones((people.n_users, 1), np.float32)
        if not about.category_names:
            return constant
        return np.concatenate([constant, unary_reports(about, self.attribute_epsilon, noise)], axis=1)

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        blank = np.zeros((histories.shape[0], self.shared["net.profile.weight"].shape[1]), np.float32)
        blank[:, 0] = 1
        return self._compare(histories, blank)

    def _score_newcomers(self, histories: sp.csr_matrix, reports: Array) -> Array:
        width = self.shared["net.profile.weight"].shape[1]
        check(reports.shape[1:] == (width,), "reports", f"rows of {width} numbers", reports.shape)
        return self._compare(histories, np.ascontiguousarray(reports, np.float32))

    def _compare(self, histories: sp.csr_matrix, reports: Array) -> Array:
        """On the owner's device: released parameters and the first ``most_items`` of the history, by code."""
        network = self._served()
        items, on = drawn_rows(histories, self.most_items, None)
        with torch.no_grad():
            given = (torch.from_numpy(a) for a in (reports, items, on))
            left = network.user_side(*given)
            right = network.item_side(torch.arange(len(self.items)))
            out = torch.empty(len(left), len(right))
            for row, own in enumerate(left):
                out[row] = network.h(torch.clamp(own + right, 0.0, 1.0)).squeeze(1)
        return np.asarray(out.numpy() + self.shared["popular"])

    def _item_similarity(self, items: Array) -> Array:
        with torch.no_grad():
            unit = unit_rows(self._served().item_side(torch.arange(len(self.items))).numpy())
        return np.asarray(unit[items] @ unit.T, dtype=np.float32)


def drawn_rows(rows: sp.csr_matrix, most: int, random: np.random.Generator | None) -> tuple[Array, Array]:
    """At most ``most`` items of each row, at random or the first ones, [rows, most], and a mask.

    >>> ids, on = drawn_rows(sp.csr_matrix([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), 2, None)
    >>> ids.tolist(), on.tolist()
    ([[0, 2], [0, 0]], [[1.0, 1.0], [0.0, 0.0]])
    """
    counts = np.diff(rows.indptr)
    owner = np.repeat(np.arange(len(counts)), counts)
    key = np.zeros(len(owner)) if random is None else random.random(len(owner))
    order = np.lexsort((key, owner))
    place = np.arange(len(owner)) - np.repeat(rows.indptr[:-1], counts)
    width = max(1, min(most, int(counts.max(initial=0))))
    kept = place < width
    items = np.zeros((len(counts), width), np.int64)
    on = np.zeros((len(counts), width), np.float32)
    items[owner[kept], place[kept]] = rows.indices[order][kept]
    on[owner[kept], place[kept]] = 1
    return items, on
