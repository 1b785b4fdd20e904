"""GERAI: a graph recommender against attribute inference (Zhang et al., WWW 2021), certified and published.

``GERAI`` keeps the attributes: each is reported once, by unary encoding, and nothing else ever reads them.
``GERAIPaper`` does what the paper says: a profile report of 20-LDP (algorithms 1 and 2) and noise on the
coefficients of the pairwise loss (algorithm 3), with the ablations NL (true profiles) and NF (no such noise).
``gerai_users.py`` and ``gerai_functional.py`` have the twins that protect whole users.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from veilrec.core import DataError, check_choice, check_positive
from veilrec.data import Dataset, Profiles, profiles, scheme_of
from veilrec.privacy import Claim, Noise, UnboundedEvent, check_laplace_lattice
from veilrec.privacy.mechanisms import MixedPerturber, PaperFunctional, UnaryEncoding
from veilrec.systems.attention import (
    PAPER_BATCH,
    AttentionRecommender,
    bpr_loss,
    in_batches,
    plain,
    say_left_out,
    taylor_loss,
)
from veilrec.training import STOPPING, Array, Job, Recommender, release_once
from veilrec.training.layout import Layout, floats

REPORTS = "profile reports"
STATISTICS = "rating statistics of the profiles"
HOW_MANY = "how many items each user has, for the profiles"
TRAINING = "training on interactions"
LOSS = "noise on the loss"


def unary_reports(about: Profiles, epsilon: float, noise: Noise) -> Array:
    """One report per user and attribute, [users, categories of all attributes].

    A user whose value is unknown reports a random one, which reveals no more than a known one.

    >>> codes = np.array([[0], [1], [-1]])
    >>> about = Profiles(np.zeros((3, 0)), codes, (), ("gender",), (("F", "M"),))
    >>> noise = Noise.research(1)
    >>> unary_reports(about, 1.0, noise).shape, [event.label for event in noise.events]
    ((3, 2), ['profile reports: gender'])
    """
    columns = []
    for column, (name, size) in enumerate(zip(about.category_names, about.sizes)):
        codes = about.codes[:, column]
        known = np.where(codes < 0, noise.below(size, codes.shape), codes)
        mechanism = UnaryEncoding(epsilon, size)
        bits = mechanism.perturb(known, noise, f"{REPORTS}: {name}")
        columns.append((bits - mechanism.false) / (mechanism.truth - mechanism.false))
    return np.concatenate(columns, axis=1).astype(np.float32)


@dataclass(eq=False)
class GERAI(AttentionRecommender):
    """The certified twin for attributes (GERAI-C/A): each attribute is ``epsilon``-DP against anybody.

    Every user reports each sensitive attribute once by unary encoding with ``epsilon``; the recommender is
    trained on the reports, on rating statistics scaled by public ranges, and on the interactions. Whatever
    comes out, for as long as one likes, is post-processing of the reports. What the interactions themselves
    betray of a user's attributes is not hidden by this, nor by anything that hides attributes only.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GERAI(epsilon=1.0, epochs=2, embedding_size=8).fit(data, progress=False)
    >>> [(claim.secret, claim.epsilon) for claim in model.guarantee.claims][:2]
    [('all attributes of a user', 3.0), ('gender of a user', 1.0)]
    """

    word: ClassVar[str] = "gerai"
    summary: ClassVar[str] = "attention GCN that never sees an attribute, only reports of them"
    protects: ClassVar[str] = "attributes, from everybody"
    scaling: ClassVar[Literal["public", "observed"]] = "public"
    uses_numbers: ClassVar[bool] = False
    reports: ClassVar[tuple[str, ...]] = ("reports",)
    uncovered: ClassVar[tuple[str, ...]] = (STATISTICS, HOW_MANY, TRAINING, STOPPING)
    bare: ClassVar[str] = "the network is trained on interactions as they are"
    not_covered: ClassVar[tuple[str, ...]] = (
        "the interactions: model and lists depend on them without noise",
        "what a history or a list betrays of an attribute",
    )

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("epsilon", self.epsilon)

    @classmethod
    def paper(cls, **settings: object) -> GERAIPaper:
        """The system as published.

        >>> GERAI.paper().word
        'gerai-paper'
        """
        return GERAIPaper(**settings)  # type: ignore[arg-type]

    @classmethod
    def variants(cls) -> dict[str, type[Recommender]]:
        """The certified twins by what they protect.

        >>> sorted(GERAI.variants())
        ['attributes', 'functional', 'users']
        """
        from veilrec.systems.gerai_functional import GERAIFunctional
        from veilrec.systems.gerai_users import GERAIUsers

        return {"attributes": GERAI, "users": GERAIUsers, "functional": GERAIFunctional}

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        return attribute_claims(self._profiles(public), self.epsilon)

    def _layout(self) -> Layout:
        return super()._layout() | Layout({}, {"reports": floats("users", "told")})

    def _features(self, job: Job) -> Array:
        assert job.guard is not None
        about = self._profiles(job.guard.take("attributes", REPORTS))
        reports = release_once(
            job, REPORTS, lambda: unary_reports(about, self.epsilon, job.noise.child(REPORTS))
        )
        job.guard.close("attributes")
        self.private["reports"] = reports
        self.facts["profile"] = scheme_of(job.train)
        rated = job.train.rating is not None and job.train.rating_range is not None
        found = self._statistics(job.guard.take("interactions", STATISTICS if rated else HOW_MANY))
        say_left_out(found, about)
        return np.concatenate([found.numbers.astype(np.float32), reports], axis=1)

    def _describe(self, people: Dataset, numbers: Profiles, noise: Noise) -> Array:
        reports = unary_reports(self._profiles(people), self.epsilon, noise)
        return np.concatenate([numbers.numbers.astype(np.float32), reports], axis=1)

    def _fit(self, job: Job) -> None:
        features = self._features(job)
        assert job.guard is not None
        self._train(job, job.guard.take("interactions", TRAINING), features, plain(bpr_loss))


_RAW_PROFILES = UnboundedEvent(
    reason="profiles are read as they are", label="true profiles", neighbours="replace"
)
_RAW_GRADIENTS = UnboundedEvent(
    reason="interactions enter the gradients of all parameters but h without noise",
    label=TRAINING,
    neighbours="replace",
)
PRINTED: dict[str, Any] = {
    "embedding_size": 60,
    "batch_size": 64,
    "learning_rate": 0.005,
    "weight_decay": 0.01,
    "normal_start": True,
    "profile_epsilon": 20.0,
    "loss_epsilon": 0.4,
}
"""The paper's settings to the letter; docs/decisions/0003-gerai.md says what they come to."""


@dataclass(eq=False)
class GERAIPaper(AttentionRecommender):
    """GERAI as published: ``profile_epsilon`` for the profile, ``loss_epsilon`` for the loss.

    ``ablation``: "NL" trains on true profiles, "NF" without noise on the loss. ``loss_noise``: "step" draws
    it afresh for every batch, as the text has it, "once" before training, as algorithm 3 has it; then the
    quadratic part is indefinite and h may run away. A larger batch stands for several of the paper's 64, each
    with its noise. The noise moves h only: every other parameter is trained with exact gradients, so no
    finite epsilon holds for the interactions, and the statement says so. Batch, start and penalty are not the
    paper's, with which it learns nothing: ``GERAIPaper(**PRINTED)`` has them.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = GERAIPaper(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> [(claim.secret, round(claim.epsilon, 2)) for claim in model.guarantee.claims][:3]
    [('the whole profile of a user', 20.0), ('all attributes of a user', 7.5), ('gender of a user', 2.5)]
    """

    word: ClassVar[str] = "gerai-paper"
    summary: ClassVar[str] = "attention GCN with perturbed profiles and a noisy loss, as published"
    protects: ClassVar[str] = "attributes weakly; interactions not"
    reports: ClassVar[tuple[str, ...]] = ("reports",)
    uncovered: ClassVar[tuple[str, ...]] = (TRAINING, STOPPING)
    not_covered: ClassVar[tuple[str, ...]] = (
        "the extremes by which profiles are scaled, read off the data",
        "the statistics of a profile, where the interactions that they follow from are seen (the server)",
    )

    profile_epsilon: float = 20.0
    loss_epsilon: float = 0.4
    ablation: Literal["", "NL", "NF"] = ""
    loss_noise: Literal["step", "once"] = "step"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("profile_epsilon", self.profile_epsilon)
        check_positive("loss_epsilon", self.loss_epsilon)
        if self.ablation != "NF":
            d = self.embedding_size
            check_laplace_lattice(1 / self.loss_epsilon, d + d * (d + 1) // 2)
        check_choice("ablation", self.ablation, ["", "NL", "NF"])
        check_choice("loss_noise", self.loss_noise, ["step", "once"])

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        secret = ("everything computed from the reports",)
        claims: list[Claim] = []
        if self.ablation == "NL":
            told = "the whole profile of a user"
            claims.append(Claim(told, "attribute", "replace", "OXSF", ("model", "lists"), (_RAW_PROFILES,)))
        else:
            about = self._profiles(public)
            mixed = self._perturber(profiles(public, attributes=(), quiet=True), about)
            whole = mixed.event.named(REPORTS)
            claims.append(
                Claim("the whole profile of a user", "attribute", "replace", "OXSF", secret, (whole,))
            )
            names = (*about.number_names, *about.category_names)
            sets = {"all attributes of a user": names} | {f"{name} of a user": (name,) for name in names}
            claims += [
                Claim(words, "attribute", "replace", "OXSF", secret, (mixed.event_of(*some),), restates=True)
                for words, some in sets.items()
                if some
            ]
        released = ("model", "lists")
        claims.append(Claim("one interaction", "interaction", "replace", "OX", released, (_RAW_GRADIENTS,)))
        return tuple(claims)

    def _paper_claim(self) -> str:
        profile = "" if self.ablation == "NL" else f"{self.profile_epsilon:g}-LDP for the profile"
        training = "" if self.ablation == "NF" else f"{self.loss_epsilon:g}-DP for training"
        return ", ".join(part for part in (profile, training) if part)

    def _perturber(self, numbers: Profiles, about: Profiles) -> MixedPerturber:
        names = numbers.number_names
        return MixedPerturber(
            len(names) + len(about.number_names),
            about.sizes,
            self.profile_epsilon,
            names=(*names, *about.number_names, *about.category_names),
        )

    def _layout(self) -> Layout:
        reports = {} if self.ablation == "NL" else {"reports": floats("users", "width")}
        return super()._layout() | Layout({}, reports)

    def _features(self, job: Job) -> Array:
        assert job.guard is not None
        self.facts["profile"] = scheme_of(job.train)
        if self.ablation == "NL":
            known = job.take_bare("attributes", _RAW_PROFILES)
            numbers = self._statistics(job.take_bare("interactions", _RAW_PROFILES))
            say_left_out(numbers, self._profiles(job.train))
            return self._describe(known, numbers, job.noise)
        people = job.guard.take("attributes, interactions", REPORTS)
        numbers = self._statistics(people)
        say_left_out(numbers, self._profiles(job.train))
        reports = release_once(
            job, REPORTS, lambda: self._describe(people, numbers, job.noise.child(REPORTS))
        )
        job.guard.close("attributes")
        self.private["reports"] = reports
        return reports

    def _describe(self, people: Dataset, numbers: Profiles, noise: Noise) -> Array:
        about = self._profiles(people)
        if self.ablation == "NL":
            return numbers.beside(about).dense()
        codes = np.where(about.codes < 0, 0, about.codes)
        for column, size in enumerate(about.sizes):  # an unknown value reports a random one
            blank = about.codes[:, column] < 0
            codes[blank, column] = noise.below(size, (int(blank.sum()),))
        values = np.concatenate([numbers.numbers, about.numbers], axis=1)
        mixed = self._perturber(numbers, about)
        reports = mixed.perturb(values, codes, noise, REPORTS)
        names = (*about.number_names, *about.category_names)
        if len(names) > 1:  # one alone is a slice of the report already
            noise.slices.append(mixed.event_of(*names))
        return reports.astype(np.float32)

    def _fit(self, job: Job) -> None:
        features = self._features(job)
        data = job.take_bare("interactions", _RAW_GRADIENTS)
        if self.ablation == "NF":
            self._train(job, data, features, plain(taylor_loss))
            return
        small, draws = paper_batches(len(data), self.batch_size)
        functional = PaperFunctional(
            self.loss_epsilon, self.embedding_size, len(data), small, self.loss_noise
        )
        d, passes = self.embedding_size, 0

        def draw(number: int, *names: str | int) -> Array:
            """The mean noise of the batches of 64 that a larger batch stands for, [1 + d, d]."""
            noise, total = job.noise.child("loss", *names), np.zeros((1 + d, d))
            for turn in range(1 if self.loss_noise == "once" else draws):
                known = number > 0 or turn > 0
                found = functional.perturb(np.zeros(d), np.zeros((d, d)), noise, LOSS, same_pass=known)
                total += np.concatenate([found[0][None], found[1]])
            return (total / (1 if self.loss_noise == "once" else draws)).astype(np.float32)

        once = release_once(job, LOSS, lambda: draw(0)) if self.loss_noise == "once" else None

        def noisy(h: Tensor, difference: Tensor, epoch: int, number: int) -> Tensor:
            """Equation 17: every coefficient of the polynomial in h gets its noise."""
            nonlocal passes
            if once is None and epoch > passes:  # passes of a fit that was stopped and goes on
                job.noise.record(functional.event.named(LOSS).times(epoch - passes))
                passes = epoch
            drawn = torch.from_numpy(draw(number, epoch, number) if once is None else once)
            passes = epoch + 1
            return taylor_loss(h, difference) + drawn[0] @ h + h @ drawn[1:] @ h

        at = self._train(job, data, features, noisy)
        if once is None and at.epoch > passes:  # a fit that had ended before has been paid for too
            job.noise.record(functional.event.named(LOSS).times(at.epoch - passes))

    def _claims_after(self, noise: Noise) -> tuple[Claim, ...]:
        """What the noise on the loss is worth: for h alone, if all other parameters were fixed."""
        passes = [event for event in noise.events if event.label == LOSS]
        if not passes:
            return ()
        drawn = (replace(passes[0], count=sum(event.count for event in passes)),)  # all are alike
        released, words = ("model", "lists"), "one pair of items, for h alone and all else fixed"
        return (
            Claim("one pair of items", "interaction", "replace", "OX", released, (*drawn, _RAW_GRADIENTS)),
            Claim(words, "interaction", "replace", "O", ("h",), drawn, restates=True),
        )


def paper_batches(records: int, batch_size: int) -> tuple[int, int]:
    """The pairs of one of the paper's batches, and how many of them every batch of a pass stands for.

    A batch gets the mean of as many draws of noise. The tail of a mean of k draws falls like that of one with
    a k-th of the scale, so the epsilon of one small batch holds if the k of them have no more pairs than the
    batch that they stand for.

    >>> paper_batches(80_000, 2048), paper_batches(900, 2048), paper_batches(100, 64)
    ((64, 32), (64, 14), (50, 1))
    """
    smallest = min(len(part) for part in in_batches(np.arange(records), batch_size))
    small = min(PAPER_BATCH, batch_size, smallest)
    draws = min(batch_size, smallest) // small
    assert draws * small <= smallest
    return small, draws


def attribute_claims(about: Profiles, epsilon: float) -> tuple[Claim, ...]:
    """All attributes together, and each of them.

    >>> about = Profiles(np.zeros((3, 0)), np.zeros((3, 1), int), (), ("gender",), (("F", "M"),))
    >>> [claim.epsilon for claim in attribute_claims(about, 0.5)]
    [0.5, 0.5]
    """
    if not about.category_names:
        remedy = "Read it with a table of users: users=, or veilrec data import ... --users people.csv."
        if about.left_out:
            words = "; ".join(about.left_out)
            remedy = f"Of those given, {words}. Add a column of two categories or more."
        raise DataError(f"the data must have a categorical attribute to protect, got none. {remedy}")
    seen = ("the reports, and everything computed from them: model, scores, lists",)
    events = {
        name: UnaryEncoding(epsilon, size).event.named(f"{REPORTS}: {name}")
        for name, size in zip(about.category_names, about.sizes)
    }
    whole = Claim("all attributes of a user", "attribute", "replace", "OXSF", seen, tuple(events.values()))
    each = [
        Claim(f"{name} of a user", "attribute", "replace", "OXSF", seen, (event,), restates=True)
        for name, event in events.items()
    ]
    return (whole, *each)
