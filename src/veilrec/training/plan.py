"""What a statement is composed from: class and settings of the model, and its *plan*.

The plan has what is public of the data and what happened in the fit: how many users are declared, which
attributes with which categories, by what grade of noise, what was looked at without noise, and draws that no
setting foretells. It is saved with the model and composed again when the model is read, so that every line of
``privacy.json`` follows from something. Nothing in it is a function of what a claim protects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from veilrec.core import check
from veilrec.data import Attribute, Categorical, Dataset, Ids, Numeric
from veilrec.privacy import Claim, Event, Guarantee, Noise, UnboundedEvent, known_noise
from veilrec.training.parsing import (
    Parser,
    is_list,
    is_scheme,
    is_span,
    is_text,
    is_texts,
    is_whole,
    is_yes_or_no,
)

if TYPE_CHECKING:
    from veilrec.training.recommender import Recommender

GRADES = ("secure", "research")
_MOST_EVENTS = 1000


@dataclass(frozen=True)
class Plan:
    """Public facts of the data, and what of the fit stands in the statement.

    ``users`` is the declared number; ``rated`` whether there are ratings; ``shaped`` as in
    :class:`~veilrec.data.Dataset`; ``noise`` the source, ``in_floats`` whether a formula drew from it;
    ``looked`` the purposes without noise; ``listed`` the attributes whose categories were read off the data;
    ``beyond`` what was drawn beyond the claims that settings foretell.

    >>> plan = Plan.of(Dataset.from_arrays(["ann", "bob"], ["tea", "mate"]))
    >>> plan.users, plan.public(Ids(["tea", "mate"])).public_users
    (2, 2)
    """

    users: int
    attributes: Mapping[str, Mapping[str, Any]]
    rated: bool
    rating_range: tuple[float, float] | None
    shaped: tuple[str, ...]
    noise: str = "secure"
    in_floats: bool = False
    looked: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    tuned: bool = False
    beyond: tuple[Event, ...] = ()

    @classmethod
    def of(cls, public: Dataset) -> Plan:
        """What is public of a data set."""
        return cls(
            users=public.public_users,
            attributes={name: _outline(one) for name, one in public.attributes.items()},
            rated=public.rating is not None,
            rating_range=None if public.rating_range is None else tuple(map(float, public.rating_range)),  # type: ignore[arg-type]
            shaped=public.shaped,
        )

    def public(self, items: Ids) -> Dataset:
        """A data set that is nothing but these facts: it has room for nobody."""
        none = np.zeros(0, np.int32)
        return Dataset(
            none,
            none,
            Ids([]),
            items,
            rating=none.astype(np.float32) if self.rated else None,
            rating_range=self.rating_range,
            attributes={name: _blank(about) for name, about in self.attributes.items()},
            shaped=self.shaped,
            declared_users=self.users,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values.

        >>> Plan.of(Dataset.from_arrays(["ann"], ["tea"])).to_dict()["users"]
        1
        """
        plain = asdict(self) | {"beyond": [event.to_dict() for event in self.beyond]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    @classmethod
    def from_dict(cls, value: Any, parser: Parser) -> Plan:
        """The plan that ``to_dict`` wrote.

        >>> from pathlib import Path
        >>> plan = Plan.of(Dataset.from_arrays(["ann"], ["tea"]))
        >>> Plan.from_dict(plan.to_dict(), Parser(Path("shop.veil"))) == plan
        True
        """

        def is_span_or_none(found: Any) -> bool:
            return found is None or is_span(found)

        found = parser.fields(
            value,
            "plan",
            users=is_whole,
            attributes=is_scheme,
            rated=is_yes_or_no,
            rating_range=is_span_or_none,
            shaped=is_texts,
            noise=is_text,
            in_floats=is_yes_or_no,
            looked=is_texts,
            listed=is_texts,
            tuned=is_yes_or_no,
            beyond=is_list,
        )
        if not 1 <= found["users"] < 2**48:
            parser.refuse("users of the plan", "a number of people", repr(found["users"]))
        if found["noise"] not in GRADES:
            parser.refuse("noise of the plan", " or ".join(GRADES), repr(found["noise"]))
        span = found["rating_range"]
        lists = {name: tuple(found[name]) for name in ("shaped", "looked", "listed")}
        more = {"beyond": tuple(Event.from_dict(one) for one in found["beyond"])}
        return cls(**{**found, **lists, **more, "rating_range": None if span is None else tuple(span)})


def claims_of(model: Recommender, plan: Plan, items: Ids, known: Iterable[Event]) -> tuple[Claim, ...]:
    """The claims that class, settings and plan come to; noise is checked against ``known``, not searched."""
    after = Noise.secure()
    after.events.extend(plan.beyond)
    with known_noise(known):
        return (*model._claims(plan.public(items)), *model._claims_after(after))


def compose(model: Recommender, plan: Plan, claims: tuple[Claim, ...]) -> Guarantee:
    """The statement of a private model with these claims."""
    listed = ", ".join(plan.listed)
    words = [f"the list of categories of {listed}, read off the data: declare it (categories=)"]
    figures = f"that there are {plan.users:,} users, and the list of {len(model.items):,} items"
    figures += ": public figures, held fixed when a user comes or goes"
    secure = plan.noise == "secure" and not plan.in_floats and not model.in_floats
    noisy = any(not isinstance(event, UnboundedEvent) for claim in claims for event in claim.events)
    return Guarantee(
        model.word,
        tuple(purpose for purpose in model.uncovered if purpose in plan.looked),
        (
            *model._not_covered(),
            *(words if listed else ()),
            *plan.shaped,
            *((figures,) if any(claim.unit == "user" for claim in claims) else ()),
            "metrics on test data",
        ),
        claims,
        ("secure" if secure else "research") if noisy else "none",
        model._paper_claim(),
        plan.tuned,
        model.settings().get("sums", ""),
    )


def beyond(drawn: Iterable[Event], claims: Iterable[Claim]) -> tuple[Event, ...]:
    """What was drawn and no claim foretold, each with how often.

    >>> from veilrec.privacy import PureEvent
    >>> beyond([PureEvent(epsilon=1.0), PureEvent(epsilon=1.0)], [])
    (PureEvent(count=2, neighbours='add-remove', label='', epsilon=1.0),)
    """
    foretold = {replace(event, count=1) for claim in claims for event in claim.events}
    found: dict[Event, int] = {}
    for event in drawn:
        single = replace(event, count=1)
        if single not in foretold:
            found[single] = found.get(single, 0) + event.count
    return tuple(replace(event, count=count) for event, count in found.items())


def foretelling(model: Recommender, public: Dataset, claims: tuple[Claim, ...]) -> Plan:
    """The smallest plan from which the claims follow; none is an error, before anything is spent.

    What the claims do not need (attributes, ratings) is left out: a plan is published with its model.
    """
    whole = Plan.of(public)
    lean = replace(whole, attributes={}, rated=False, rating_range=None)
    with known_noise(event for claim in claims for event in claim.events):
        for plan in (lean, whole):
            try:
                again = model._claims(plan.public(public.items))
            except ValueError:  # no claims without attributes, say
                continue
            if _same([_plain(claim) for claim in again], [_plain(claim) for claim in claims]):
                return plan
    remedy = "A claim may depend on the settings and on what is public of the data, and on nothing else."
    raise ValueError(
        f"claims must be those that the plan gives, got {[claim.secret for claim in claims]}. {remedy}"
    )


def check_stated(model: Recommender, stated: Any, plan: Plan | None) -> Guarantee | None:
    """The statement in a file, if it is what class, settings and plan come to, in every field.

    Numbers may differ by one part in a million, which is how well machines agree.
    """
    if plan is None:
        expected = Guarantee.none(model.word, reads=model.reads).to_dict()
        _compare(stated, {**expected})
        return None
    strange = sorted(set(plan.looked) - set(model.uncovered))
    check(not strange, "looked of the plan", "purposes of the model", strange, _CHANGED)
    profile = model.facts.get("profile", {}).get("attributes", {})
    same = not plan.attributes or not profile or _undeclared(plan.attributes) == _undeclared(profile)
    check(same, "profile of the facts", "that of the plan", "another", _CHANGED)
    given = stated["claims"]
    events = [Event.from_dict(event) for claim in given for event in claim["events"]]
    check(len(events) <= _MOST_EVENTS, "events of privacy.json", f"at most {_MOST_EVENTS}", len(events))
    expected_claims = claims_of(model, plan, model.items, events)
    check(bool(expected_claims), "claims", "some, for a private model", "none")
    ours = compose(model, plan, expected_claims)
    for place, (claim, other) in enumerate(zip(ours.claims, given, strict=False)):
        _compare(other, _plain(claim), f"claims {place + 1}, ", ("epsilon", "user_epsilon"))
    check(len(given) == len(ours.claims), "claims", f"{len(ours.claims)}", len(given), _CHANGED)
    found = Guarantee.from_dict(stated)  # its epsilons are composed here, from events that were checked
    whole = found.to_dict()
    for name in ("model", "noise", "reads", "not_covered", "paper_claim", "tuned", "sums"):
        _compare({name: stated[name]}, {name: _told(ours)[name]})
    _compare(stated, whole)
    return found


_CHANGED = "The file was changed, or another version wrote it."


def _told(guarantee: Guarantee) -> dict[str, Any]:
    """The fields of a statement that need no accountant."""
    return {
        "model": guarantee.model,
        "noise": guarantee.grade,
        "reads": list(guarantee.reads),
        "not_covered": list(guarantee.not_covered),
        "paper_claim": guarantee.paper_claim,
        "tuned": guarantee.tuned,
        "sums": guarantee.sums,
    }


def _plain(claim: Claim) -> dict[str, Any]:
    """A claim as JSON without its epsilons."""
    return {
        "secret": claim.secret,
        "unit": claim.unit,
        "neighbours": claim.neighbours,
        "adversaries": list(claim.adversaries),
        "released": list(claim.released),
        "events": [event.to_dict() for event in claim.events],
        "delta": claim.delta,
        "per_user": claim.per_user,
        "restates": claim.restates,
    }


def _compare(stated: Any, true: Mapping[str, Any], of: str = "", but: tuple[str, ...] = ()) -> None:
    """Refuse the first field that differs, by name."""
    check(isinstance(stated, dict), f"{of}privacy.json", "names and values", stated)
    for name in (*true, *(name for name in stated if name not in true)):
        if name in but:
            continue
        what = f"{of}{name} of privacy.json"
        good = name in true and name in stated and _same(stated[name], true[name])
        got, wanted = stated.get(name, "nothing"), true.get(name, "nothing")
        if not good:
            words = f"what settings and plan come to ({_short(wanted)})"
            raise ValueError(f"{what} must be {words}, got {_short(got)}. {_CHANGED}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, float) or isinstance(one, float):
        numbers = not isinstance(one, bool) and not isinstance(other, bool)
        if not numbers or not isinstance(one, int | float) or not isinstance(other, int | float):
            return False
        return math.isclose(one, other, rel_tol=1e-6)
    if isinstance(other, dict) and isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in other)
    if isinstance(other, list) and isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _undeclared(scheme: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A scheme of attributes without who has declared it."""
    return {
        name: {key: value for key, value in about.items() if key != "declared"}
        for name, about in scheme.items()
    }


def _outline(attribute: Attribute) -> dict[str, Any]:
    if isinstance(attribute, Categorical):
        return {"categories": list(attribute.categories), "declared": attribute.declared}
    return {"low": attribute.low, "high": attribute.high}


def _blank(about: Mapping[str, Any]) -> Attribute:
    if "categories" in about:
        named = tuple(about["categories"])
        return Categorical(np.zeros(0, np.int32), named, bool(about.get("declared", True)))
    return Numeric(np.zeros(0, np.float32), about["low"], about["high"])
