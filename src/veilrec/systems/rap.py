"""RAP: recommendation with attribute protection by an adversary in training (Beigi et al., WSDM 2020).

    repeat for each batch
    1.  an attacker, a recurrent network, reads for some users a few of their own items and the items that are
        recommended to them, in order, and learns to tell their attributes: it lowers its cross-entropy A
    2.  the recommender takes a step down  BPR loss - alpha A

No epsilon. The recommender learns to fool one attacker; nothing bounds another one, attributes are labels in
training, and interactions enter without noise. What is gained has to be measured with an attack of one's own,
and an attacker who reads a user's history is not hindered at all.

Sources. Only the abstract of the paper and the account in the GERAI paper were at hand: a Bayesian
personalised recommender that uses an RNN attacker, who infers attributes from a user's item list and
recommendations, to regularise itself. Chosen here. Which items are recommended is not differentiable: a
recommended item reaches the attacker as its vector times its share in the softmax over the list's scores, so
that the step of the recommender moves item vectors and the user's vector; own items reach it as plain vectors
that this step leaves alone. Lists are renewed once per epoch. A counts at most as the logarithm of the number
of classes, where the attacker knows nothing: without this bound it could be raised for ever. One network with
an output for each attribute reads for all; A is their mean. Attributes must be categorical; missing values
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from veilrec.core import DataError, check, check_count, check_non_negative, check_positive, stream, warn
from veilrec.data import Categorical, Dataset
from veilrec.data.profiles import LARGEST
from veilrec.metrics import rank_all
from veilrec.privacy import Claim, UnboundedEvent
from veilrec.systems.vectors import VectorRecommender
from veilrec.training import (
    STOPPING,
    Array,
    Job,
    NegativeSampler,
    descend,
    optimiser_state,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats

_LABELS = UnboundedEvent(
    reason="attributes are the attacker's labels, and its gradients reach the model without noise",
    label="labels of the attacker",
    neighbours="replace",
)
_PAIRS = UnboundedEvent(
    reason="interactions, which go with attributes, enter the loss without noise",
    label="interactions of the recommender",
    neighbours="replace",
)


@dataclass(eq=False)
class RAP(VectorRecommender):
    """BPR trained against a recurrent attacker of the users' attributes.

    ``attributes`` names those to protect; none: all categorical ones of 2 to 256 classes, and a warning names
    those that are too large. ``alpha`` weighs the attacker;
    ``list_size`` recommended and ``own_size`` own items of ``readers`` users are read for each batch.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = RAP(embedding_size=8, epochs=2).fit(data, progress=False)
    >>> model.facts["attributes"], model.guarantee.epsilon
    (['gender', 'age', 'occupation'], inf)
    """

    word: ClassVar[str] = "rap"
    summary: ClassVar[str] = "pairwise ranking against a recurrent attacker of attributes"
    protects: ClassVar[str] = "attributes, by experience only: no epsilon"
    uncovered: ClassVar[tuple[str, ...]] = (STOPPING,)
    bare: ClassVar[str] = "the model is trained on interactions as they are"
    not_covered: ClassVar[tuple[str, ...]] = (
        "everything: attributes and interactions enter training without noise; other attackers may succeed",
    )
    paper_claim: ClassVar[str] = (
        "it preserves the quality of recommendation and protects users against private-attribute inference"
    )

    attributes: tuple[str, ...] = ()
    alpha: float = 0.1
    list_size: int = 10
    own_size: int = 5
    readers: int = 64
    hidden: int = 32
    embedding_size: int = 32
    batch_size: int = 2048
    learning_rate: float = 0.01
    weight_decay: float = 1e-5
    epochs: int = 30
    patience: int = 3
    validate_every: int = 5

    def __post_init__(self) -> None:
        self.attributes = tuple(self.attributes)
        for name in ("list_size", "own_size", "readers", "hidden", "embedding_size", "batch_size"):
            check_count(name, getattr(self, name))
        for name in ("epochs", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_non_negative("alpha", self.alpha)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("weight_decay", self.weight_decay)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        seen, leaks = ("the model and all lists",), (_LABELS, _PAIRS)
        return (Claim("the attributes of a user", "attribute", "replace", "OX", seen, leaks),)

    def _check_data(self, public: Dataset) -> None:
        asked = attribute_names(public, self.attributes, self.word)
        single = [name for name in asked if len(public.attributes[name].categories) < 2]  # type: ignore[union-attr]
        refused = bool(single) and (bool(self.attributes) or len(single) == len(asked))
        remedy = "Nothing is to be told apart: leave it out, or declare its categories."
        check(not refused, "attributes", "of two classes or more", single, remedy)

    def _layout(self) -> Layout:
        size = self.embedding_size
        shared = {"item_vectors": floats("items", size), "item_bias": floats("items")}
        return Layout(shared, {"user_vectors": floats("users", size)})

    def _fit(self, job: Job) -> None:
        data = job.take_bare("interactions", _PAIRS)
        asked = attribute_names(job.train, self.attributes, self.word)
        every = [n for n, a in job.train.attributes.items() if isinstance(a, Categorical)]
        large = ", ".join(name for name in self.attributes or every if name not in asked)
        if large:
            words = f"rap leaves out attributes of more than {LARGEST} classes: {large}"
            warn(words)
        people = job.take_bare("attributes", _LABELS, asked)
        secrets = told_apart(people, asked, every=bool(self.attributes))
        labels = torch.from_numpy(np.stack([s.codes for s in secrets.values()], axis=1).astype(np.int64))
        history, names = data.matrix(), ("user", "item", "bias")
        owner = np.repeat(np.arange(data.n_users), np.diff(history.indptr))
        told = (labels.numpy() >= 0).any(axis=1)  # an attacker learns from people who have told something
        sampler, active = NegativeSampler(history), np.flatnonzero((np.diff(history.indptr) > 0) & told)
        remedy = "Its attacker has nothing to learn from: give the attributes of users who have interactions."
        check(len(active) > 0, "attributes", "known of a user with interactions", "none", remedy)
        generator = torch_stream(job.seed, self.word, "init")
        shapes = ((data.n_users, self.embedding_size), (data.n_items, self.embedding_size))
        start = [torch.randn(shape, generator=generator) * 0.1 for shape in shapes]
        model = dict(zip(names, map(nn.Parameter, [*start, torch.zeros(data.n_items, 1)]), strict=True))
        attacker = ListReader(
            self.embedding_size, self.hidden, [len(s.categories) for s in secrets.values()], generator
        )
        weights = dict(attacker.named_parameters())
        down = torch.optim.Adam(list(model.values()), lr=self.learning_rate, fused=True)
        attack = torch.optim.Adam(list(weights.values()), lr=self.learning_rate, fused=True)

        def score(users: Array) -> Array:
            with torch.no_grad():
                mine = model["user"][torch.from_numpy(users)]
                return (mine @ model["item"].T + model["bias"].T).numpy()

        def scores_of(users: Array, items: Tensor) -> Tensor:
            """By `F.embedding`: the gradient of plain indexing is added up in any order by threads."""
            mine = F.embedding(torch.from_numpy(users), model["user"])
            products = (F.embedding(items, model["item"]) * mine[:, None]).sum(dim=2)
            return products + F.embedding(items, model["bias"])[:, :, 0]

        def read(users: Array, lists: Array, own: Array) -> Tensor:
            """What the attacker sees: vectors of own items, then recommended ones by their share."""
            listed = torch.from_numpy(lists)
            vectors = F.embedding(listed, model["item"])
            logits = scores_of(users, listed)
            share = torch.softmax(logits, dim=1)[:, :, None] * listed.shape[1]
            return torch.cat([model["item"].detach()[torch.from_numpy(own)], vectors * share], dim=1)

        def step(epoch: int) -> float:
            random = stream(job.seed, self.word, "epoch", epoch)
            size = min(self.list_size, data.n_items)
            lists, _ = rank_all(score, np.arange(data.n_users), size, n_items=data.n_items, seen=history)
            order = random.permutation(len(owner))
            total, batches = 0.0, np.array_split(order, max(1, round(len(order) / self.batch_size)))
            for batch in batches:
                readers = random.choice(active, min(self.readers, len(active)), replace=False)
                lengths = np.diff(history.indptr)[readers, None]
                place = (random.random((len(readers), self.own_size)) * lengths).astype(np.int64)
                own = history.indices[history.indptr[readers, None] + place].astype(np.int64)
                listed = np.where(lists[readers] >= 0, lists[readers], own[:, :1])  # a list may be short
                if self.alpha:
                    seen = read(readers, listed, own)
                    descend(attacker.loss(seen.detach(), labels[readers]), attack, weights, 0.0)
                users, items = owner[batch], history.indices[batch].astype(np.int64)
                pair = torch.from_numpy(np.stack([items, sampler.draw(users, random)], axis=1))
                scores = scores_of(users, pair)
                loss = F.softplus(scores[:, 1] - scores[:, 0]).mean()
                if self.alpha:
                    seen = read(readers, listed, own)
                    loss = loss - self.alpha * attacker.loss(seen, labels[readers], bounded=True)
                total += descend(loss, down, model, self.weight_decay)
            return total / len(batches)

        def publish() -> None:
            found = {name: value.detach().numpy().copy() for name, value in model.items()}
            self.private["user_vectors"] = found["user"]
            self.shared["item_vectors"], self.shared["item_bias"] = found["item"], found["bias"][:, 0]

        def validate(valid: Dataset) -> float:
            return validation_score(score, data, valid)

        both = {**model, **{f"attacker.{name}": value for name, value in weights.items()}}
        state = {**both, **optimiser_state(down, model)}
        state |= {f"attacker.{name}": value for name, value in optimiser_state(attack, weights).items()}
        run_epochs(job, self, state=state, step=step, validate=validate, keep=names)
        self.facts["attributes"] = list(secrets)
        publish()

    def _score(self, users: Array) -> Array:
        return np.asarray(super()._score(users) + self.shared["item_bias"])


class ListReader(nn.Module):
    """The attacker: a gated recurrent network over a list of vectors, and an output for each attribute.

    >>> reader = ListReader(4, 3, [2, 5], torch.Generator().manual_seed(1))
    >>> float(reader.loss(torch.zeros(6, 7, 4), torch.zeros(6, 2, dtype=torch.long)).detach()) > 0
    True
    """

    def __init__(self, size: int, hidden: int, classes: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        self.cells = nn.GRU(size, hidden, batch_first=True)
        self.outputs = nn.ModuleList([nn.Linear(hidden, count) for count in classes])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-1 / math.sqrt(hidden), 1 / math.sqrt(hidden), generator=generator)

    def forward(self, lists: Tensor) -> list[Tensor]:
        last = self.cells(lists)[0][:, -1]
        return [output(last) for output in self.outputs]

    def loss(self, lists: Tensor, labels: Tensor, bounded: bool = False) -> Tensor:
        """The mean cross-entropy over attributes; ``bounded`` counts at most that of knowing nothing."""
        parts = []
        for column, logits in enumerate(self(lists)):
            wanted = labels[:, column]
            if not bool((wanted >= 0).any()):
                continue
            part = F.cross_entropy(logits, wanted, ignore_index=-1)
            parts.append(part.clamp(max=math.log(logits.shape[1])) if bounded else part)
        return torch.stack(parts).mean() if parts else lists.sum() * 0


def attribute_names(public: Dataset, wanted: Sequence[str], word: str) -> tuple[str, ...]:
    """The categorical attributes to ask for: those ``wanted``, or all that are not too large.

    >>> attribute_names(Dataset.from_arrays(["ann"], ["tea"], name="shop"), (), "rap")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: shop must have categorical attributes of its users, which rap is to \
protect, got none. Read the data with users=, a table of user attributes.
    """
    found = {n: len(a.categories) for n, a in public.attributes.items() if isinstance(a, Categorical)}
    for name in wanted:
        if name not in found:
            kinds = ", ".join(found) or "none"
            raise DataError(f"attributes must be categorical ones of {public.name} ({kinds}), got {name!r}.")
    if not found:
        raise DataError(
            f"{public.name} must have categorical attributes of its users, which {word} is to protect, got "
            "none. Read the data with users=, a table of user attributes."
        )
    large = {name: size for name, size in found.items() if size > LARGEST and name in (wanted or found)}
    words, remedy = f"of at most {LARGEST} classes", "Group its classes, or name other attributes."
    refused = bool(large) and (bool(wanted) or len(large) == len(found))
    check(not refused, "attributes", words, large, remedy)
    return tuple(name for name in wanted or found if name not in large)


def told_apart(people: Dataset, names: Sequence[str], every: bool) -> dict[str, Categorical]:
    """The attributes of which two classes are known, by name; ``every``: an error if one is not of them.

    >>> told_apart(Dataset.from_arrays(["ann"], ["tea"]), (), every=True)
    Traceback (most recent call last):
        ...
    ValueError: attributes must be of two known classes or more, got (). Nothing is to be told apart: \
choose other attributes, or give the values of more users.
    """
    found: dict[str, Categorical] = {}
    for name in names:
        attribute = people.attributes[name]
        assert isinstance(attribute, Categorical)
        if len(np.unique(attribute.codes[attribute.codes >= 0])) > 1:
            found[name] = attribute
    missing = tuple(name for name in names if name not in found)
    remedy = "Nothing is to be told apart: choose other attributes, or give the values of more users."
    good = bool(found) and not (every and missing)
    check(good, "attributes", "of two known classes or more", missing, remedy)
    return found
