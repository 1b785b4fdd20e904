"""The `DataGuard`: the only way from a private system to its users' data, and a log of every look.

A system with claims is fitted on a job whose ``train`` is empty of facts: it has the ids of users and items,
the names, categories and declared ranges of the attributes, and nothing else. What it needs it asks of the
guard, and says what for. Afterwards every look must be answered for: its purpose is the label of an event
that was drawn, or one of the ``uncovered`` purposes that the statement names. A part that is no longer needed
can be closed, and a later look raises. A label answers for as many looks as it has releases, whatever the
parts: a second look needs a second release. One release that needs two parts takes them in one look.
Validation data are a part like any other.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

import numpy as np

from veilrec.core import check, check_choice
from veilrec.data import Attribute, Categorical, Dataset, Numeric
from veilrec.privacy import Event

PARTS = ("interactions", "attributes", "links", "validation")
STOPPING = "early stopping on validation data"
"""The purpose of what validation reads: of that part alone."""
SEEN = "training interactions, to leave them out of the lists that validation judges"
"""The purpose of a look at the interactions beside validation."""


class Closed(RuntimeError):
    """Data were asked for after the system had declared that it needs them no more."""


class DataGuard:
    """Hands out parts of a data set and remembers what for.

    >>> import veilrec as vr
    >>> guard = DataGuard(vr.synthetic(users=60, items=40, interactions=900))
    >>> len(guard.take("interactions", "gradients")), guard.looks
    (900, (('interactions', 'gradients'),))
    >>> guard.unanswered([], uncovered=["gradients"])
    []
    >>> guard.close("attributes")
    >>> guard.take("attributes", "reports")
    Traceback (most recent call last):
        ...
    veilrec.training.guard.Closed: attributes are closed: the system said that it needs them no more.
    """

    def __init__(self, data: Dataset, valid: Dataset | None = None) -> None:
        self._data, self._valid = data, valid
        self._closed: set[str] = set()
        self._shown: set[str] = set()
        self._looks: list[tuple[str, str]] = []

    @property
    def looks(self) -> tuple[tuple[str, str], ...]:
        """What was looked at and what for, in the order of the looks.

        >>> DataGuard(Dataset.from_arrays(["ann"], ["tea"])).looks
        ()
        """
        return tuple(self._looks)

    @property
    def public(self) -> Dataset:
        """The data set without its facts: ids, no interaction or link, every attribute unknown."""
        return strip(self._data, keep=())

    def take(self, part: str, purpose: str, only: Iterable[str] | None = None) -> Dataset:
        """The data set with one of its parts, for a named purpose; ``only`` some of the attributes.

        Parts that one release needs together are named in one look: "attributes, interactions".
        """
        parts = tuple(part.split(", "))
        for one in parts:
            check_choice("part", one, PARTS)
            if one in self._closed:
                raise Closed(f"{one} are closed: the system said that it needs them no more.")
        check(bool(purpose), "purpose", "named", purpose)
        check((part == "validation") == (purpose == STOPPING), "purpose", "that of its part", purpose)
        if part == "validation":
            check(self._valid is not None, "part", "one that the fit was given", part)
        self._looks.append((part, purpose))
        if part == "validation" and self._valid is not None:  # of it, interactions and nothing else are open
            return strip(self._valid, keep=("interactions",))
        found = strip(self._data, keep=parts)
        if "attributes" in parts:
            chosen = {n: a for n, a in found.attributes.items() if only is None or n in set(only)}
            self._shown |= chosen.keys()
            found = dataclasses.replace(found, attributes=chosen)
        return found

    def close(self, part: str) -> None:
        """No more looks at a part."""
        check_choice("part", part, PARTS)
        self._closed.add(part)

    def read_off(self, published: Iterable[str] = ()) -> list[str]:
        """Attributes that were looked at or are ``published``, and whose categories were read off the data.

        >>> found = {"job": Categorical(np.array([0], np.int32), ("astronaut",), declared=False)}
        >>> people = dataclasses.replace(Dataset.from_arrays(["ann"], ["tea"]), attributes=found)
        >>> guard = DataGuard(people)
        >>> _ = guard.take("attributes", "reports")
        >>> guard.read_off()
        ['job']
        """
        named = self._shown | set(published)
        found = ((name, a) for name, a in self._data.attributes.items() if name in named)
        return [name for name, a in found if isinstance(a, Categorical) and not a.declared]

    def unanswered(self, drawn: Iterable[Event], uncovered: Iterable[str] = ()) -> list[tuple[str, str]]:
        """The looks for which no release answers, and which are not for an ``uncovered`` purpose.

        "reports" is answered by a release labelled "reports: gender" too.

        >>> from veilrec.privacy import PureEvent
        >>> guard = DataGuard(Dataset.from_arrays(["ann"], ["tea"]))
        >>> _ = [guard.take("interactions", "counts") for _ in range(2)]
        >>> guard.unanswered([PureEvent(epsilon=1.0, label="counts")])
        [('interactions', 'counts')]
        """
        releases: Counter[str] = Counter()
        for event in drawn:
            releases[event.label] += event.count
        for label, count in list(releases.items()):
            first = label.split(":")[0]
            releases[first] = max(releases[first], count)
        seen: Counter[str] = Counter()
        found = []
        for part, purpose in self._looks:
            seen[purpose] += 1
            if purpose not in set(uncovered) and seen[purpose] > releases[purpose]:
                found.append((part, purpose))
        return found


def strip(data: Dataset, keep: tuple[str, ...]) -> Dataset:
    """The data set with only the parts in ``keep``; ids stay, and what is declared of the attributes.

    >>> import veilrec as vr
    >>> bare = strip(vr.synthetic(users=60, items=40, interactions=900), keep=())
    >>> len(bare), bare.n_users, bare.attributes["gender"].categories, bare.attributes["gender"].missing.all()
    (0, 60, ('F', 'M'), np.True_)
    """
    if "interactions" not in keep:
        data = data.take(np.empty(0, np.int64), name=data.name)
    if "attributes" not in keep:
        blank = {name: _blank(attribute) for name, attribute in data.attributes.items()}
        data = dataclasses.replace(data, attributes=blank)
    if "links" not in keep:
        data = dataclasses.replace(data, links=None)
    return dataclasses.replace(data, origin="")  # a hash of everything, and so a fact


def _blank(attribute: Attribute) -> Attribute:
    if isinstance(attribute, Categorical):
        return dataclasses.replace(attribute, codes=np.full_like(attribute.codes, -1))
    return Numeric(np.full_like(attribute.values, np.nan), attribute.low, attribute.high)
