"""The statement that travels with every model: what is kept from whom, at what epsilon, and what is not.

Epsilon is never an argument. A claim holds the events of the mechanisms that ran, and the accountant composes
them; a statement read from a file is composed again and refused when the file says another number.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from veilrec.core import check, check_choice, check_count
from veilrec.privacy import statement
from veilrec.privacy.accountant import epsilon_of
from veilrec.privacy.events import RELATIONS, Event, Neighbours, UnboundedEvent, check_budget
from veilrec.privacy.noise import Noise

Unit = Literal["user", "interaction", "attribute"]
UNITS: tuple[Unit, ...] = ("user", "interaction", "attribute")
ADVERSARIES = ("O", "X", "S", "F")


@dataclass(frozen=True)
class Claim:
    """One secret, from whom it is kept, and the events that were spent on it.

    ``unit`` and ``neighbours`` say what may differ between two data sets that look alike; ``adversaries``
    are letters (O outsider, X outsider who also sees the target's own lists, S server, F friends and other
    clients); ``released`` is what they see. ``per_user``: how many units one user has at most, when the unit
    is smaller than a user. ``restates``: the same draws seen from a smaller unit or by another adversary, so
    another claim pays for them.

    >>> from veilrec.privacy.events import GaussianEvent
    >>> steps = GaussianEvent(noise_multiplier=4.0, count=20, label="gradients")
    >>> claim = Claim("all data of a user", "user", "add-remove", "OF", ("item vectors",), (steps,), 1e-5)
    >>> round(claim.epsilon, 2)
    4.98
    """

    secret: str
    unit: Unit
    neighbours: Neighbours
    adversaries: str
    released: tuple[str, ...]
    events: tuple[Event, ...]
    delta: float = 0.0
    per_user: int = 1
    restates: bool = False

    def __post_init__(self) -> None:
        check(bool(self.secret), "secret", "named in words", self.secret)
        check_choice("unit", self.unit, UNITS)
        check_choice("neighbours", self.neighbours, RELATIONS)
        good = bool(self.adversaries) and set(self.adversaries) <= set(ADVERSARIES)
        check(good, "adversaries", "letters out of O, X, S, F", self.adversaries)
        check(bool(self.released), "released", "what the adversary sees", self.released)
        good = bool(self.events) and all(isinstance(event, Event) for event in self.events)
        check(good, "events", "the events of the mechanisms that ran", self.events)
        check_budget(1.0, self.delta)
        check_count("per_user", self.per_user)

    @cached_property
    def epsilon(self) -> float:
        """Composed over all events, for one unit."""
        return epsilon_of(self.events, self.delta, self.neighbours)

    @cached_property
    def user_epsilon(self) -> float:
        """The same for everything of a user that the claim is about."""
        return epsilon_of(self.events, self.delta, self.neighbours, group=self.per_user)

    @cached_property
    def parts(self) -> tuple[tuple[Event, float], ...]:
        """Each event with the epsilon it would cost alone: where the budget went.

        Alone the parts cost more than together, because composition is better than a sum.
        """
        return tuple((event, epsilon_of([event], self.delta, self.neighbours)) for event in self.events)

    def each(self, event: Event) -> float:
        """Epsilon of a single release out of an event that stands for many."""
        return epsilon_of([replace(event, count=1)], self.delta, self.neighbours)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; an infinite epsilon is null."""
        return {
            "secret": self.secret,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "adversaries": list(self.adversaries),
            "released": list(self.released),
            "events": [event.to_dict() for event in self.events],
            "delta": self.delta,
            "epsilon": _finite(self.epsilon),
            "per_user": self.per_user,
            "user_epsilon": _finite(self.user_epsilon),
            "restates": self.restates,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Claim:
        """The claim that ``to_dict`` wrote, composed again from its events."""
        claim = cls(
            value["secret"],
            value["unit"],
            value["neighbours"],
            "".join(value["adversaries"]),
            tuple(value["released"]),
            tuple(Event.from_dict(event) for event in value["events"]),
            value["delta"],
            value["per_user"],
            value["restates"],
        )
        for name in ("epsilon", "user_epsilon"):
            said = math.inf if value[name] is None else value[name]
            true = getattr(claim, name)
            remedy = f"Its events compose to {true:.6g}: the file was changed."
            check(_same(said, true), f"{name} of the statement", "what its events compose to", said, remedy)
        return claim


@dataclass(frozen=True)
class Guarantee:
    """What a fitted model promises about the people in its data, and what it does not.

    >>> print(Guarantee.none("ease", reads=("interactions",)))
    Privacy statement of ease
      protection: none. No mechanism ran, so no finite epsilon holds for anyone.
      read without noise: interactions
      not covered: everything released by the model: its parameters, scores and lists
    """

    model: str
    reads: tuple[str, ...]
    not_covered: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    grade: str = ""
    paper_claim: str = ""
    tuned: bool = False
    sums: str = ""
    """How sums over devices were made; all but "plain" and none are cryptography."""

    @classmethod
    def none(cls, model: str, *, reads: tuple[str, ...]) -> Guarantee:
        """The statement of a model that adds no noise."""
        return cls(model, reads, ("everything released by the model: its parameters, scores and lists",))

    @classmethod
    def of(
        cls,
        model: str,
        claims: Iterable[Claim],
        noise: Noise | Sequence[Noise],
        *,
        reads: tuple[str, ...] = (),
        not_covered: tuple[str, ...] = (),
        paper_claim: str = "",
        tuned: bool = False,
        sums: str = "",
    ) -> Guarantee:
        """A statement whose claims name every event that the noise sources have seen, and no other.

        A draw that no claim mentions, or a claim about a draw that never happened, is an error. A claim may
        speak of more releases than there were: a fit that stopped early has paid for all it might have made.
        It may not speak of fewer, and what is spent on one secret against one adversary is one claim: else
        each of two would state its half.

        >>> from veilrec.privacy.mechanisms import Laplace
        >>> noise = Noise.research(1)
        >>> _ = Laplace.for_budget(0.5).release([3.0], noise, "count")
        >>> drawn = tuple(noise.events)
        >>> claim = Claim("one interaction", "interaction", "add-remove", "OXSF", ("a count",), drawn)
        >>> Guarantee.of("counter", [claim], noise).epsilon
        0.5
        """
        claims = tuple(claims)
        sources = [noise] if isinstance(noise, Noise) else list(noise)
        drawn = _counts(event for source in sources for event in source.events)
        named: Counter[Event] = Counter()
        paid: Counter[Event] = Counter()
        for claim in claims:
            named |= _counts(claim.events)
            if not claim.restates:
                paid |= _counts(claim.events)
        missing = [statement.describe(event) for event, count in drawn.items() if paid[event] < count]
        check(not missing, "claims", "about every event that was drawn, as often as it was", missing)
        for source in sources:
            drawn |= _counts(source.slices)
        foreign = [statement.describe(event) for event in named if not drawn[event]]
        check(not foreign, "claims", "about events that were drawn, and no other", foreign)
        for claim in claims:
            said = _counts(claim.events)
            fewer = [statement.describe(event) for event, count in said.items() if count < drawn[event]]
            check(not fewer, "claims", "about every event as often as it was drawn", fewer)
        paying = [claim for claim in claims if not claim.restates]
        for one, other in itertools.combinations(paying, 2):
            parted = one.secret == other.secret and set(one.adversaries) & set(other.adversaries)
            check(not parted, "claims", "one for all that is spent on a secret", one.secret)
        safe = all(source.grade == "secure" and not source.in_floats for source in sources)
        noisy = any(not isinstance(event, UnboundedEvent) for one in sources for event in one.events)
        grade = ("secure" if safe else "research") if noisy else "none"
        return cls(model, reads, not_covered, claims, grade, paper_claim, tuned, sums)

    @property
    def epsilon(self) -> float:
        """The largest epsilon of the claims; infinite when there are none."""
        return max((claim.epsilon for claim in self.claims), default=math.inf)

    @property
    def simulated(self) -> tuple[str, ...]:
        """What a claim rests on that this process only plays.

        Only data that stay on devices can be kept from the server (S), and every fit plays the devices, so a
        statement with such a claim says who really holds the rows; its claims against other clients (F) rest
        on the same play. A statement that names F and not S is about a curator who has all rows and is
        trusted with them: nothing is played, and it says nothing here.

        >>> from veilrec.privacy.events import PureEvent
        >>> spent = (PureEvent(epsilon=1.0),)
        >>> def claim(who):
        ...     return Claim("one edge", "interaction", "replace", who, ("a report",), spent)
        >>> Guarantee("curator", (), (), (claim("OF"),)).simulated
        ()
        >>> Guarantee("devices", (), (), (claim("OF"), claim("S")), sums="masked").simulated
        ('simulated: whoever runs this process holds every row', 'simulated cryptography, not reviewed')
        """
        found = []
        if any("S" in claim.adversaries for claim in self.claims):
            found.append("simulated: whoever runs this process holds every row")
        if self.sums not in ("", "plain"):
            found.append("simulated cryptography, not reviewed")
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should not overlook."""
        found = []
        if self.grade == "research":
            found.append(
                "the noise is seeded or a floating-point formula: for research, not for a release. Fit with "
                "secure=True, and with mechanisms that have secure noise, before anything leaves the house."
            )
        if self.claims and 10 < self.epsilon < math.inf:
            found.append(f"epsilon {self.epsilon:.3g} is above 10: it bounds very little.")
        loose = max((claim.delta for claim in self.claims), default=0.0)
        if loose > 1e-5:
            found.append(f"delta {loose:.3g} is above 1e-5: so likely may the bound fail for somebody.")
        if self.tuned:
            found.append(
                "settings or epochs were chosen on private data, which is outside every epsilon above."
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON-ready values, as it stands in ``privacy.json``."""
        return {
            "model": self.model,
            "protection": statement.summary(self),
            "epsilon": _finite(self.epsilon),
            "claims": [claim.to_dict() for claim in self.claims],
            "noise": self.grade,
            "reads": list(self.reads),
            "not_covered": list(self.not_covered),
            "paper_claim": self.paper_claim,
            "tuned": self.tuned,
            "sums": self.sums,
            "simulated": list(self.simulated),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Guarantee:
        """The statement saved in ``privacy.json``, composed again.

        >>> statement = Guarantee.none("ease", reads=("interactions",))
        >>> Guarantee.from_dict(statement.to_dict()) == statement
        True
        """
        return cls(
            value["model"],
            tuple(value["reads"]),
            tuple(value["not_covered"]),
            tuple(Claim.from_dict(claim) for claim in value["claims"]),
            value["noise"],
            value["paper_claim"],
            value["tuned"],
            value.get("sums", ""),
        )

    def __str__(self) -> str:
        return statement.text(self)

    def to_markdown(self) -> str:
        """The statement as a Markdown page.

        >>> Guarantee.none("ease", reads=("interactions",)).to_markdown().splitlines()[0]
        '# Privacy statement of ease'
        """
        return statement.markdown(self)

    def plot(self, path: str | Path) -> Path:
        """A stacked bar for each claim: where its budget went.

        >>> Guarantee.none("ease", reads=()).plot("a.png")
        Traceback (most recent call last):
            ...
        ValueError: the statement must be one with a finite claim, got 'none'. There is no budget to draw.
        """
        from veilrec.privacy.pictures import plot_guarantee

        return plot_guarantee(self, path)


def _counts(events: Iterable[Event]) -> Counter[Event]:
    """How often each release was made, whether it was recorded at once or one by one."""
    found: Counter[Event] = Counter()
    for event in events:
        if isinstance(event, UnboundedEvent):  # once is as bad as often
            found[replace(event, count=1)] = 1
        else:
            found[replace(event, count=1)] += event.count
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _same(said: float, true: float) -> bool:
    return said == true or abs(said - true) <= 1e-6 * max(1.0, abs(true))
