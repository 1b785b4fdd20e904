"""What GERAI, its twins and the plain GCN share: profiles, the attention network, pairwise training."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from veilrec.core import check, check_count, check_non_negative, check_positive, stream, warn
from veilrec.data import (
    AS_NUMBERS,
    Dataset,
    Numeric,
    Profiles,
    are_numbers,
    check_edges,
    extremes_of,
    profiles,
    scheme_of,
)
from veilrec.models import AttentionGCN, Neighbourhoods
from veilrec.privacy import Noise
from veilrec.systems.vectors import unit_rows
from veilrec.training import (
    Array,
    Job,
    NegativeSampler,
    Progress,
    Recommender,
    descend,
    optimiser_state,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats

Loss = Callable[[Tensor, Tensor, int, int], Tensor]
"""Of h, the differences q, the epoch and the number of the batch in it."""
PAPER_BATCH = 64


@dataclass(eq=False)
class AttentionRecommender(Recommender):
    """Settings and training of the attention network; a subclass says what profiles and which loss.

    The paper sums the loss over batches of 64 and adds weight_decay |parameters|^2. Here the loss is a mean,
    so the penalty is weight_decay / 64, whatever the batch; larger batches are sooner done, and as good as
    five seeds can tell (``docs/results/gerai-batch.json``). ``age_edges`` turn a numeric attribute named age
    into groups.
    """

    embedding_size: int = 60
    epochs: int = 40
    batch_size: int = 2048
    learning_rate: float = 0.005
    weight_decay: float = 0.001
    normal_start: bool = False
    age_edges: tuple[float, ...] = (35.0, 46.0)
    patience: int = 5
    validate_every: int = 2

    _network: AttentionGCN | None = field(default=None, init=False, repr=False)
    scaling: ClassVar[Literal["public", "observed"]] = "observed"
    uses_numbers: ClassVar[bool] = True
    """Whether numeric attributes are part of the profile; if not, they are left out by name."""
    describes: ClassVar[tuple[str, ...]] = ("attributes", "rating_range", "numbers", "extremes")

    def __post_init__(self) -> None:
        self.age_edges = check_edges("age_edges", self.age_edges, or_none=True)
        for name in ("embedding_size", "epochs", "batch_size", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("weight_decay", self.weight_decay)

    @abstractmethod
    def _features(self, job: Job) -> Array:
        """What the network is told of each user, [users, width]."""

    @abstractmethod
    def _describe(self, people: Dataset, numbers: Profiles, noise: Noise) -> Array:
        """The same of new people, whose rating statistics are ``numbers``."""

    def _statistics(self, interactions: Dataset) -> Profiles:
        """What the ratings say of each user; what is needed to say it of a new one is remembered."""
        found = profiles(interactions, scaling=self.scaling, attributes=(), quiet=True)
        ends = extremes_of(interactions) if self.scaling == "observed" else None
        self.facts.setdefault("profile", {}).update(numbers=list(found.number_names), extremes=ends)
        return found

    def _profiles(self, attributes: Dataset) -> Profiles:
        """What the declared attributes say."""
        return user_profiles(attributes, self.age_edges, self.uses_numbers)

    def _report_of(self, people: Dataset, noise: Noise) -> Array:
        known = self.facts["profile"]
        found = profiles(people, scaling=self.scaling, attributes=(), extremes=known["extremes"], quiet=True)
        column = dict(zip(found.number_names, found.numbers.T))
        if not column.keys() >= set(known["numbers"]):
            say_left_out(found)
        blank = np.zeros(people.n_users)  # a statistic that cannot be had, for want of ratings
        numbers = np.stack([column.get(name, blank) for name in known["numbers"]], axis=1)
        whole = Profiles(numbers, np.zeros((people.n_users, 0), np.int64), tuple(known["numbers"]), (), ())
        return self._describe(people, whole, noise)

    # -- training -------------------------------------------------------------------------------------

    def _train(self, job: Job, data: Dataset, features: Array, loss_of: Loss) -> Progress:
        """Pairs (u, v, v') with v' drawn evenly from what u has not; ``loss_of(h, q_uv - q_uv', ...)``."""
        history = data.matrix()
        around, given = Neighbourhoods.of(history), torch.from_numpy(features)
        network = self._new_network(features.shape[1], torch_stream(job.seed, self.word, "init"))
        parameters = dict(network.named_parameters())
        optimiser = torch.optim.Adam(list(parameters.values()), lr=self.learning_rate, fused=True)
        sampler = NegativeSampler(history)
        users, items = data.user.astype(np.int64), data.item.astype(np.int64)
        # descend adds weight_decay / 2 |.|^2, the paper weight_decay |.|^2
        decay = 2 * self.weight_decay / PAPER_BATCH

        def step(epoch: int) -> float:
            random = stream(job.seed, self.word, "epoch", epoch)
            batches = in_batches(random.permutation(len(users)), self.batch_size)
            total = 0.0
            for number, batch in enumerate(batches):
                other = sampler.draw(users[batch], random)
                wanted = np.zeros(sum(history.shape), bool)  # a small batch needs few neighbourhoods
                for at in (users[batch], len(given) + items[batch], len(given) + other):
                    wanted[at] = True
                of_users, of_items = network(given, around, wanted)
                own = of_users[torch.from_numpy(users[batch])]
                liked, drawn = (of_items[torch.from_numpy(at)] for at in (items[batch], other))
                difference = network.pair(own, liked) - network.pair(own, drawn)  # q [pairs, d]
                loss = loss_of(network.h, difference, epoch, number)
                total += descend(loss, optimiser, parameters, decay)
            return total / len(batches)

        def publish() -> None:
            self._keep(network, given, around)

        def validate(valid: Dataset) -> float:
            publish()
            return validation_score(self._score, data, valid)

        state = {**parameters, **optimiser_state(optimiser, parameters)}
        at = run_epochs(job, self, state=state, step=step, validate=validate, keep=tuple(parameters))
        publish()
        return at

    def _new_network(self, width: int, generator: torch.Generator) -> AttentionGCN:
        return AttentionGCN(
            width, len(self.items), self.embedding_size, generator, normal_start=self.normal_start
        )

    def _keep(self, network: AttentionGCN, features: Tensor, around: Neighbourhoods) -> None:
        self._network = None
        self.shared |= {f"net.{name}": p.detach().numpy().copy() for name, p in network.named_parameters()}
        with torch.no_grad():
            of_users, of_items = network(features, around)
            self.private["user_side"] = network.pair_user(of_users).numpy().copy()
            self.shared["item_side"] = network.pair_item(of_items).numpy().copy()

    def _layout(self) -> Layout:
        d = self.embedding_size
        net = {"user_table": floats("width", d), "item_table": floats("items", d)}
        net |= {name: floats(d) for name in ("attend_out", "h")}
        layers = ("message.0", "message.2", "message.4", "attend_message", "out", "pair_item")
        net |= {f"{name}.weight": floats(d, d) for name in (*layers, "attend_own", "pair_user")}
        net |= {f"{name}.bias": floats(d) for name in layers}
        shared = {f"net.{name}": spec for name, spec in net.items()} | {"item_side": floats("items", d)}
        return Layout(shared, {"user_side": floats("users", d)})

    # -- serving --------------------------------------------------------------------------------------

    def _score(self, users: Array) -> Array:
        return self._compare(torch.from_numpy(self.private["user_side"][users]))

    def _compare(self, left: Tensor) -> Array:
        """s = h . min(1, relu(left + right)) of every user with every item, one user at a time."""
        right, h = (torch.from_numpy(self.shared[name]) for name in ("item_side", "net.h"))
        out = torch.empty(len(left), len(right))
        for row, own in enumerate(left):
            out[row] = torch.clamp(own + right, 0.0, 1.0) @ h
        return out.numpy()

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        """A new user of whom only the history is known: the rest of the profile is blank."""
        width = self.shared["net.user_table"].shape[0]
        return self._score_newcomers(histories, np.zeros((histories.shape[0], width), np.float32))

    def _score_newcomers(self, histories: sp.csr_matrix, reports: Array) -> Array:
        network, width = self._served(), self.shared["net.user_table"].shape[0]
        check(reports.shape[1:] == (width,), "reports", f"rows of {width} numbers", reports.shape)
        with torch.no_grad():
            given = torch.from_numpy(np.ascontiguousarray(reports, np.float32))
            of_users, _ = network(given, Neighbourhoods.of(histories))
            return self._compare(network.pair_user(of_users))

    def _served(self) -> AttentionGCN:
        if self._network is None:
            width = self.shared["net.user_table"].shape[0]
            self._network = self._new_network(width, torch.Generator())
            state = {
                n.removeprefix("net."): torch.from_numpy(a) for n, a in self.shared.items() if n[:4] == "net."
            }
            self._network.load_state_dict(state)
        return self._network

    def _item_similarity(self, items: Array) -> Array:
        unit = unit_rows(self.shared["item_side"])
        return np.asarray(unit[items] @ unit.T, dtype=np.float32)


def in_batches(order: Array, size: int) -> list[Array]:
    """The batches of a pass: as many as come nearest to ``size``, none larger than another by more than one.

    >>> [len(part) for part in in_batches(np.arange(900), 2048)], len(in_batches(np.arange(80_000), 2048))
    ([900], 39)
    """
    return np.array_split(order, max(1, round(len(order) / size)))


def say_left_out(*found: Profiles) -> None:
    """One warning for each thing that the profiles are without, at the line that called ``fit``.

    >>> say_left_out(Profiles(np.zeros((3, 0)), np.zeros((3, 0), int), (), (), ()))
    """
    for words in dict.fromkeys(words for part in found for words in part.left_out):
        warn(words)


def user_profiles(data: Dataset, age_edges: tuple[float, ...], numbers: bool = True) -> Profiles:
    """Profiles from the attributes alone; a numeric age falls into groups.

    Other numeric attributes are scaled by their declared range, or left out when ``numbers`` is False. What
    is left out is noted, for :func:`say_left_out`.

    >>> import veilrec as vr
    >>> user_profiles(vr.synthetic(users=60, items=40, interactions=900), (35, 46)).category_names
    ('gender', 'age', 'occupation')
    """
    grouped = isinstance(data.attributes.get("age"), Numeric) and bool(age_edges)
    bins = {"age": age_edges} if grouped else {}
    numeric = [name for name, a in data.attributes.items() if isinstance(a, Numeric) and name not in bins]
    unused = [] if numbers else numeric
    wanted = [name for name in data.attributes if name not in unused]
    found = profiles(data, statistics=False, attributes=wanted, bins=bins, quiet=True)
    words = []
    if unused:
        words = [f"numeric attributes are not used here, except for a grouped age: {', '.join(unused)}"]
    if age_edges and are_numbers(data.attributes.get("age")):
        words.append(
            f"age is {found.sizes[found.category_names.index('age')]} classes, not groups. {AS_NUMBERS}"
        )
    return replace(found, left_out=(*found.left_out, *words))


def plain(loss: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """A loss that does not care which batch it is.

    >>> plain(bpr_loss)(torch.ones(2), torch.zeros(3, 2), 0, 0).ndim
    0
    """
    return lambda h, difference, epoch, number: loss(h, difference)


def bpr_loss(h: Tensor, difference: Tensor) -> Tensor:
    """The mean of -log sigmoid(h . q).

    >>> round(bpr_loss(torch.ones(2), torch.zeros(3, 2)).item(), 6)
    0.693147
    """
    return F.softplus(-(difference @ h)).mean()


def taylor_loss(h: Tensor, difference: Tensor) -> Tensor:
    """Its Taylor polynomial of degree two: log 2 - x / 2 + x^2 / 8 with x = h . q.

    >>> round(taylor_loss(torch.ones(2), torch.zeros(3, 2)).item(), 6)
    0.693147
    """
    x = difference @ h
    return (math.log(2) - x / 2 + x**2 / 8).mean()


@dataclass(eq=False)
class GCN(AttentionRecommender):
    """The backbone of GERAI without any privacy: true profiles, exact pairwise loss.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GCN(epochs=3, embedding_size=8).fit(data, progress=False)
    >>> len(model.recommend(["u1"], k=5))
    5
    """

    word: ClassVar[str] = "gcn"
    summary: ClassVar[str] = "attention over neighbours, users known by their profiles"
    reads: ClassVar[tuple[str, ...]] = ("interactions", "attributes")

    def _features(self, job: Job) -> Array:
        self.facts["profile"] = scheme_of(job.train)
        found = self._statistics(job.train).beside(self._profiles(job.train))
        say_left_out(found)
        return found.dense()

    def _describe(self, people: Dataset, numbers: Profiles, noise: Noise) -> Array:
        return numbers.beside(self._profiles(people)).dense()

    def _fit(self, job: Job) -> None:
        self._train(job, job.train, self._features(job), plain(bpr_loss))
