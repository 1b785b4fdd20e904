"""The words of a statement: for a data-protection officer, as text and as Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from veilrec.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SkellamEvent,
    UnboundedEvent,
)

if TYPE_CHECKING:
    from veilrec.privacy.guarantee import Claim, Guarantee

WHO = {
    "O": "outsiders who see the released model and other people's lists",
    "X": "outsiders who also see the person's own lists",
    "S": "the server, if it keeps to the protocol and is curious",
    "F": "friends and other clients",
}
_RELATION = {
    ("user", "add-remove"): "the data with and without {secret} look alike",
    ("user", "replace"): "the data of one user could be those of any other",
    ("interaction", "add-remove"): "the data with and without one interaction look alike",
    ("interaction", "replace"): "one interaction could have been any other",
    ("attribute", "add-remove"): "the data with and without the attribute look alike",
    ("attribute", "replace"): "the attribute could have any other value",
}


def summary(guarantee: Guarantee) -> str:
    """One line: ``none``, or unit, epsilon and adversaries of each claim; of parts of a secret nothing.

    Claims that rest on devices which were only played, and noise that is only for research, are called so.
    """
    if not guarantee.claims:
        return "none"
    whole = {claim.secret for claim in guarantee.claims if not claim.restates}
    lines = [
        f"{claim.secret if claim.unit == 'attribute' else claim.unit}: "
        f"{_epsilon(claim.epsilon, claim.delta)} against {', '.join(claim.adversaries)}"
        for claim in guarantee.claims
        if claim.secret in whole
    ]
    lines += ["simulated"] * bool(guarantee.simulated) + ["research noise"] * (guarantee.grade == "research")
    return "; ".join(dict.fromkeys(lines))


def text(guarantee: Guarantee) -> str:
    """The statement for a terminal."""
    lines = [f"Privacy statement of {guarantee.model}"]
    if not guarantee.claims:
        lines.append("  protection: none. No mechanism ran, so no finite epsilon holds for anyone.")
    for claim in guarantee.claims:
        if claim.restates:
            lines.append(f"  from the same draws, {_restated(claim)}")
            continue
        lines.append(f"  secret: {claim.secret}")
        lines += [f"    {name}: {words}" for name, words in _facts(claim)]
        lines.append("    spent on:")
        lines += [f"      {words}" for words in _spent(claim)]
    lines += [f"  {name}: {words}" for name, words in _rest(guarantee)]
    return "\n".join(lines)


def markdown(guarantee: Guarantee) -> str:
    """The statement as a Markdown page."""
    lines = [f"# Privacy statement of {guarantee.model}", ""]
    if not guarantee.claims:
        lines += ["No mechanism ran, so no finite epsilon holds for anyone.", ""]
    for claim in guarantee.claims:
        if claim.restates:
            lines += [f"From the same draws, {_restated(claim)}.", ""]
            continue
        lines += [f"## {claim.secret[0].upper()}{claim.secret[1:]}", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {words} |" for name, words in _facts(claim)]
        lines += ["", "Spent on:", "", *(f"- {words}" for words in _spent(claim)), ""]
    lines += [f"- **{name}**: {words}" for name, words in _rest(guarantee)]
    return "\n".join(lines).rstrip() + "\n"


def describe(event: Event) -> str:
    """An event in words.

    >>> describe(PureEvent(epsilon=0.5, count=3, label="ages"))
    'ages: 3 releases, each pure epsilon 0.5'
    """
    name = f"{event.label}: " if event.label else ""
    times = "1 release, " if event.count == 1 else f"{event.count:,} releases, each "
    if isinstance(event, PureEvent):
        return f"{name}{times}pure epsilon {event.epsilon:g}"
    if isinstance(event, LaplaceEvent):
        return f"{name}{times}Laplace noise, {event.noise_multiplier:.4g} times the sensitivity"
    if isinstance(event, GaussianEvent):
        rate = "" if event.sampling_rate == 1 else f", each unit sampled at {event.sampling_rate:.4g}"
        return f"{name}{times}Gaussian noise, {event.noise_multiplier:.4g} times the sensitivity{rate}"
    if isinstance(event, SkellamEvent):
        rate = "" if event.sampling_rate == 1 else f", each unit sampled at {event.sampling_rate:.4g}"
        ratio = math.sqrt(event.variance) / event.l2
        return f"{name}{times}Skellam noise, {ratio:.4g} times the sensitivity{rate}"
    assert isinstance(event, UnboundedEvent)
    return f"{name}{times}no finite epsilon: {event.reason}"


def _facts(claim: Claim) -> list[tuple[str, str]]:
    facts = [
        ("means", _RELATION[claim.unit, claim.neighbours].format(secret=claim.secret)),
        ("kept from", "; ".join(f"{letter}: {WHO[letter]}" for letter in claim.adversaries)),
        ("they see", ", ".join(claim.released)),
        ("epsilon", _epsilon(claim.epsilon, claim.delta)),
        ("in words", _odds(claim.epsilon, claim.delta)),
    ]
    if claim.per_user > 1:
        words = f"{_epsilon(claim.user_epsilon, claim.delta)} for up to {claim.per_user:,} of them"
        facts.append(("for a whole user", words))
    return facts


def _restated(claim: Claim) -> str:
    """The same draws seen from a smaller unit or by somebody else, in one line."""
    who = ", ".join(claim.adversaries)
    return f"{claim.secret}: {_epsilon(claim.epsilon, claim.delta)} against {who}"


def _spent(claim: Claim) -> list[str]:
    return [f"{describe(event)} (alone: {_number(cost)})" for event, cost in claim.parts]


def _rest(guarantee: Guarantee) -> list[tuple[str, str]]:
    rows = []
    if guarantee.paper_claim:
        rows.append(("the paper claims", guarantee.paper_claim))
    if guarantee.reads:
        rows.append(("read without noise", ", ".join(guarantee.reads)))
    rows += [("how it was run", words) for words in guarantee.simulated]
    rows += [("not covered", thing) for thing in guarantee.not_covered]
    if guarantee.grade:
        rows.append(("noise", guarantee.grade))
    return rows + [("warning", words) for words in guarantee.warnings]


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"


def _epsilon(epsilon: float, delta: float) -> str:
    if not math.isfinite(epsilon):
        return "no finite guarantee"
    return f"epsilon {epsilon:.4g}" + (f" at delta {delta:.3g}" if delta else "")


def _odds(epsilon: float, delta: float) -> str:
    if not math.isfinite(epsilon):
        return "nothing bounds what can be learnt"
    factor = f"{math.exp(epsilon):,.3g}" if epsilon < 14 else f"10^{epsilon / math.log(10):.0f}"
    but = f", but for a chance of {delta:.3g}" if delta else ""
    return f"what is released changes the odds of any guess by a factor of at most {factor}{but}"
