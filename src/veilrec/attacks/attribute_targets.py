"""Attribute inference, the secrets: which class each user is in, and who has to be left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError, check, check_choice
from veilrec.data import AS_NUMBERS, Categorical, Dataset, Numeric, are_numbers, check_edges

LEAST_USERS, MOST_CLASSES = 5, 100
"""A class with fewer users cannot be both learnt and tested; more classes than this are refused."""

Bins = Mapping[str, Sequence[float]]


@dataclass(frozen=True, eq=False)
class Target:
    """An attribute as classes: ``codes`` are positions in ``classes``, -1 for users who are left out.

    ``missing`` users have no value; ``rare`` users are alone, or nearly, with theirs (fewer than 5).

    >>> data = Dataset.from_arrays(range(12), range(12), attributes={
    ...     "age": Numeric(np.array([20] * 6 + [50] * 5 + [np.nan], np.float32))})
    >>> age = target_of(data, "age", {"age": [35]})
    >>> age.classes, age.counts.tolist(), age.missing
    (('under 35', '35 and over'), [6, 5], 1)
    """

    name: str
    codes: NDArray[np.int64]
    classes: tuple[str, ...]
    missing: int
    rare: int

    @property
    def users(self) -> NDArray[np.int64]:
        """The codes of the users who take part."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Users of each class."""
        return np.bincount(self.codes[self.users], minlength=len(self.classes))

    def split(self, labelled: float, generator: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
        """Users whose class the attacker knows, and those under attack: the same shares of each class."""
        wanted = (1 - labelled) * self.counts
        tested = np.clip(np.floor(wanted), 1, self.counts - 1).astype(np.int64)
        short = round((1 - labelled) * len(self.users)) - int(tested.sum())
        room = np.flatnonzero(tested < self.counts - 1)
        nearest = room[np.argsort((tested - wanted)[room], kind="stable")]
        tested[nearest[: max(0, short)]] += 1
        mixed = generator.permutation(self.users)
        attacked = [mixed[self.codes[mixed] == c][:n] for c, n in enumerate(tested)]
        test = np.sort(np.concatenate(attacked))
        return np.setdiff1d(self.users, test), test


def targets_of(
    data: Dataset, wanted: str | Iterable[str] | None, bins: Bins
) -> tuple[list[Target], dict[str, str]]:
    """The targets, and why others were passed over; None stands for every attribute that can be one.

    >>> from veilrec.data import synthetic
    >>> found, passed = targets_of(synthetic(), None, {})
    >>> [target.name for target in found], list(passed)
    (['gender', 'age', 'occupation'], [])
    """
    if not data.attributes:
        message = f"{data.name} has no user attributes to infer. Give users= with some to veilrec.read."
        raise DataError(message)
    for name in bins:
        check_choice("bins", name, data.attributes)
    if wanted is not None:
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        check(len(names) > 0, "target", "an attribute or more", names)
        return [target_of(data, name, bins) for name in dict.fromkeys(names)], {}
    found: list[Target] = []
    passed: dict[str, str] = {}
    for name in data.attributes:
        try:
            found.append(target_of(data, name, bins))
        except ValueError as error:
            passed[name] = str(error)
    if not found:
        raise ValueError(next(iter(passed.values())))
    return found, passed


def target_of(data: Dataset, name: str, bins: Bins) -> Target:
    """One attribute as a target; numbers need public ``bins``, the edges between their classes.

    Edges (35, 46) make three classes: below 35, from 35 to below 46, 46 and above.

    >>> from veilrec.data import synthetic
    >>> target_of(synthetic(), "gender", {}).classes
    ('F', 'M')
    """
    check_choice("target", name, data.attributes)
    attribute = data.attributes[name]
    if isinstance(attribute, Categorical):
        remedy = AS_NUMBERS if are_numbers(attribute) else "Only numbers have bins."
        check(name not in bins, "bins", "given for numeric attributes only", name, remedy)
        codes, classes = attribute.codes.astype(np.int64), attribute.categories
    else:
        codes, classes = _binned(name, attribute, bins)
    known = codes >= 0
    counts = np.bincount(codes[known], minlength=len(classes))
    kept = np.flatnonzero(counts >= LEAST_USERS)
    remedy = "Choose another attribute, or coarser classes."
    about = f"{name!r} with {int((counts > 0).sum()):,} classes among {int(known.sum()):,} users who have one"
    constraint = f"an attribute with at least two classes of {LEAST_USERS} users or more"
    _check_target(len(kept) >= 2, constraint, about, remedy)
    _check_target(
        len(kept) <= MOST_CLASSES, f"an attribute with at most {MOST_CLASSES} classes", about, remedy
    )
    place = np.full(len(classes) + 1, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return Target(
        name=name,
        codes=place[codes],
        classes=tuple(classes[c] for c in kept),
        missing=int((~known).sum()),
        rare=int(known.sum() - counts[kept].sum()),
    )


def _check_target(good: bool, constraint: str, about: str, remedy: str) -> None:
    if not good:
        raise ValueError(f"target must be {constraint}, got {about}. {remedy}")


def _binned(name: str, attribute: Numeric, bins: Bins) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    remedy = f"{name!r} is a number: give the public edges between its classes, such as 35,46."
    check(name in bins, "bins", f"given for {name!r}", bins.get(name), remedy)
    edges = check_edges("bins", bins[name])
    codes = np.digitize(attribute.values, edges).astype(np.int64)
    codes[attribute.missing] = -1
    middle = [f"{low:g} to under {high:g}" for low, high in pairwise(edges)]
    return codes, (f"under {edges[0]:g}", *middle, f"{edges[-1]:g} and over")
