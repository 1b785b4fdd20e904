"""BlurMe: profiles blurred with items typical of another class (Weinsberg et al., RecSys 2012), then BPR.

    1.  a classifier of the attribute is learnt from profiles: its weights order the items of each class by
        how typical they are
    2.  every user adds to the own profile items that are typical of *another* class, ``extra`` of them for
        each item that is really there: the best of the list ("greedy"), drawn in proportion to the weights
        ("sampled") or drawn evenly from the list ("random")
    3.  the recommender is trained on the blurred profiles and takes the added items for real ones

No epsilon. What is added is a fixed or barely random function of profile and attribute, nothing bounds what
the result tells, and simple pictures of the data can show that the method was used and on which items
(Strucks, Slokom and Larson, RMSE 2019). A leak besides: the lists of step 1 are learnt from profiles and
attributes of people. ``typical`` takes public lists instead, and then nobody's attribute leaves the device
except through the additions. Nothing is done for the interactions themselves.

Sources. Only the abstracts of the paper and of its revisit were at hand: that a recommender infers gender
from ratings with the help of users who share theirs, and that ratings added to a profile hide it. Our
reading: the classifier is ridge logistic regression, on the 0/1 profile divided by its length; the three
ways to choose items; 10 %; with more than two classes each user draws the other class at random. Here the
lists are learnt from all users with a known attribute. Additions carry no rating, since only interactions are
used. The recommender does not list added items, since it takes them for known: they score below all others.
A user whose attribute is missing adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from veilrec.core import DataError, check_choice, check_count, check_non_negative, check_positive, stream
from veilrec.data import Categorical, Dataset
from veilrec.privacy import Claim, UnboundedEvent
from veilrec.systems.bpr import BPR
from veilrec.systems.vectors import VectorRecommender
from veilrec.training import STOPPING, Array, Job
from veilrec.training.layout import Layout, floats, places

_OF_LISTS = UnboundedEvent(
    reason="the lists are learnt from profiles and attributes without noise",
    label="typical items",
    neighbours="replace",
)
_OF_PROFILES = UnboundedEvent(
    reason="true profiles are only added to, by a rule that anybody may know, and then used without noise",
    label="blurred profiles",
    neighbours="replace",
)
_CELLS = 1 << 22


@dataclass(eq=False)
class BlurMe(VectorRecommender):
    """BPR on profiles to which items typical of another class of ``attribute`` were added.

    ``extra`` is how many items are added per item of the profile; ``strategy`` is "greedy", "sampled" or
    "random"; ``typical`` maps each class to public item ids, most typical first, and None learns them from
    the data with ridge ``penalty``. The other settings are those of BPR.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = BlurMe(embedding_size=8, epochs=3).fit(data, progress=False)
    >>> model.facts["added"], model.guarantee.epsilon
    (89, inf)
    """

    word: ClassVar[str] = "blurme"
    summary: ClassVar[str] = "profiles blurred with items of another class, then pairwise ranking"
    protects: ClassVar[str] = "an attribute, by experience only: no epsilon"
    uncovered: ClassVar[tuple[str, ...]] = (STOPPING,)
    bare: ClassVar[str] = "items are added to profiles, and nothing of them is hidden"
    not_covered: ClassVar[tuple[str, ...]] = (
        "everything: interactions enter the model without noise, and the attribute is blurred, not hidden",
    )
    paper_claim: ClassVar[str] = (
        "adding ratings obfuscates gender with an insignificant effect on the recommendations to that user"
    )

    attribute: str = "gender"
    extra: float = 0.1
    strategy: str = "sampled"
    typical: dict[str, list[str]] | None = None
    penalty: float = 1.0
    embedding_size: int = 64
    learning_rate: float = 0.08
    regularization: float = 0.005
    epochs: int = 60
    patience: int = 3
    validate_every: int = 5

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, ["greedy", "sampled", "random"])
        check_non_negative("extra", self.extra)
        check_positive("penalty", self.penalty)
        for name in ("embedding_size", "epochs", "patience", "validate_every"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("regularization", self.regularization)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        leaks = (_OF_PROFILES, _OF_LISTS) if self.typical is None else (_OF_PROFILES,)
        secret = f"the {self.attribute} of a user"
        return (Claim(secret, "attribute", "replace", "OXSF", ("the model and all lists",), leaks),)

    def _check_data(self, public: Dataset) -> None:
        known = public.attributes.get(self.attribute)
        classes = need_attribute(known, self.attribute, public.name, self.word)
        if self.typical is not None:
            listed_weights(self.typical, classes, public)

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout(
            {"item_vectors": floats("items", size), "item_bias": floats("items")},
            {
                "user_vectors": floats("users", size),
                "added_user": places("users", "entries", rising="weakly"),
                "added_item": places("items", "entries"),
            },
        )

    def _fit(self, job: Job) -> None:
        known = job.take_bare("attributes", _OF_PROFILES, [self.attribute]).attributes.get(self.attribute)
        classes = checked_classes(known, self.attribute, job.train.name, self.word)
        data = job.take_bare("interactions", _OF_PROFILES)
        if self.typical is None:
            profiles = job.take_bare("interactions", _OF_LISTS).matrix()
            weights = class_weights(profiles, classes.codes, len(classes.categories), self.penalty)
        else:
            weights = listed_weights(self.typical, classes, data)
        added = self._additions(data.matrix(), classes.codes, weights, job.seed)
        blurred = Dataset.from_codes(
            np.concatenate([data.user, added.row]),
            np.concatenate([data.item, added.col]),
            data.users,
            data.items,
            name=f"{data.name} blurred",
        )
        wanted = BPR().settings()
        inner = BPR(**{name: value for name, value in self.settings().items() if name in wanted})
        more = {
            "seed": job.seed,
            "device": job.device,
            "checkpoint": None if job.checkpoint is None else job.checkpoint / "blurred",
            "progress": job.progress,
        }
        inner.fit(blurred, job.validation(), **more)  # type: ignore[arg-type]
        job.log.extend(inner.facts["log"])
        self.shared, self.private = dict(inner.shared), dict(inner.private)
        self.private |= {"added_user": added.row, "added_item": added.col}
        self.facts |= {"epochs": inner.facts["epochs"], "added": added.nnz}

    def _additions(self, profiles: sp.csr_matrix, codes: Array, weights: Array, seed: int) -> sp.coo_matrix:
        """Which items each user adds, users x items."""
        rng = stream(seed, self.word, "additions")
        counts = np.rint(self.extra * np.diff(profiles.indptr)).astype(np.int64)
        counts[codes < 0] = 0
        other = (codes + rng.integers(1, len(weights), size=len(codes))) % len(weights)
        rows, columns, at_once = [], [], max(1, _CELLS // profiles.shape[1])
        for first in range(0, len(codes), at_once):
            part = slice(first, first + at_once)
            weight = weights[other[part]]
            noise = rng.gumbel(size=weight.shape)  # the largest of log w + Gumbel is a draw by weight
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn = {"greedy": weight, "sampled": np.log(weight) + noise, "random": noise}[self.strategy]
            key = np.where((weight > 0) & (profiles[part].toarray() == 0), drawn, -np.inf)
            best = np.argsort(-key, axis=1, kind="stable")[:, : max(int(counts[part].max()), 1)]
            wanted = np.arange(best.shape[1]) < counts[part, None]
            wanted &= np.isfinite(np.take_along_axis(key, best, axis=1))
            rows.append(np.nonzero(wanted)[0] + first)
            columns.append(best[wanted])
        row, column = (np.concatenate(parts).astype(np.int32) for parts in (rows, columns))
        return sp.coo_matrix((np.ones(len(row), np.float32), (row, column)), shape=profiles.shape)

    def _score(self, users: Array) -> Array:
        scores = super()._score(users) + self.shared["item_bias"]
        owner, item = self.private["added_user"], self.private["added_item"]
        first, last = np.searchsorted(owner, users), np.searchsorted(owner, users, side="right")
        row = np.repeat(np.arange(len(users)), last - first)
        spans = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
        place = np.concatenate([np.arange(0), *spans])
        scores[row, item[place]] -= np.ptp(scores, axis=1)[row] + 1
        return np.asarray(scores)


def need_attribute(known: object, attribute: str, data: str, word: str) -> Categorical:
    """The attribute, if it has two classes or more.

    >>> need_attribute(None, "gender", "shop", "blurme")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: shop must have the categorical attribute 'gender', which blurme is to \
protect, got none. Read the data with users=, a table of user attributes.
    """
    if not isinstance(known, Categorical):
        raise DataError(_needed(data, attribute, word, "none" if known is None else "numbers"))
    if len(known.categories) < 2:
        raise DataError(_needed(data, attribute, word, f"{len(known.categories)} of its classes"))
    return known


def checked_classes(known: object, attribute: str, data: str, word: str) -> Categorical:
    """The same, if somebody has told of two classes or more.

    >>> checked_classes(Categorical(np.zeros(3, np.int32), ("F", "M")), "gender", "shop", "blurme")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: shop must have the categorical attribute 'gender', which blurme is to \
protect, got 1 of its classes. Read the data with users=, a table of user attributes.
    """
    found = need_attribute(known, attribute, data, word)
    present = np.unique(found.codes[found.codes >= 0])
    if len(present) < 2:
        raise DataError(_needed(data, attribute, word, f"{len(present)} of its classes"))
    return found


def _needed(data: str, attribute: str, word: str, got: str) -> str:
    need = f"{data} must have the categorical attribute {attribute!r}, which {word} is to protect, got {got}"
    return f"{need}. Read the data with users=, a table of user attributes."


def class_weights(profiles: sp.csr_matrix, codes: Array, classes: int, penalty: float) -> Array:
    """How typical each item is of each class [classes, items]: weights of ridge logistic regression.

    Of a class the mean of the other classes is taken off, so two classes have opposite weights.

    >>> profiles = sp.csr_matrix([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]], dtype=float)
    >>> class_weights(profiles, np.array([0, 0, 1, 1]), 2, penalty=0.1).round(1).tolist()
    [[2.8, -2.8, -0.0], [-2.8, 2.8, 0.0]]
    """
    told = codes >= 0
    x = profiles[told].astype(np.float64)
    x = sp.diags(1 / np.sqrt(np.maximum(np.asarray(x.sum(axis=1)).ravel(), 1))) @ x
    hot = np.eye(classes)[codes[told]]

    def loss(flat: Array) -> tuple[float, Array]:
        w = flat.reshape(classes, -1)
        logits = np.asarray(x @ w[:, 1:].T) + w[:, 0]
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        off = np.exp(log_p) - hot
        slope = np.concatenate([off.sum(axis=0)[:, None], np.asarray(x.T @ off).T], axis=1)
        slope[:, 1:] += penalty * w[:, 1:]
        return float(-(hot * log_p).sum() + penalty * np.square(w[:, 1:]).sum() / 2), slope.ravel()

    start = np.zeros(classes * (x.shape[1] + 1))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    w = found.reshape(classes, -1)[:, 1:]
    return np.asarray(w - (w.sum(axis=0) - w) / (classes - 1))


def listed_weights(typical: dict[str, list[str]], classes: Categorical, data: Dataset) -> Array:
    """Weights of public lists: n for the first of n items, 1 for the last, 0 for the others.

    >>> gender = Categorical(np.array([0], np.int32), ("F", "M"))
    >>> listed_weights({"F": ["tea"], "M": []}, gender, Dataset.from_arrays(["ann"], ["tea"])).tolist()
    [[1.0], [0.0]]
    """
    if set(typical) != set(classes.categories):
        raise DataError(
            f"typical must have a list for each of {', '.join(classes.categories)}, got {sorted(typical)}. "
            "Give an empty list to a class without typical items."
        )
    weights = np.zeros((len(classes.categories), data.n_items))
    for row, name in enumerate(classes.categories):
        codes = np.asarray(data.items.codes(list(typical[name])), dtype=np.int64)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown):
            raise DataError(
                f"typical must name items of the data, got {typical[name][int(unknown[0])]!r} for {name}."
            )
        weights[row, codes] = np.arange(len(codes), 0, -1)
    return weights
