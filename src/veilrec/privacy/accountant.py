"""One accountant: events in, epsilon out, for an explicit neighbouring relation.

- Gaussian releases without sampling compose exactly (``gaussian_profile``).
- Poisson-sampled ones go through the privacy loss distributions of dp-accounting, rounded pessimistically.
- Pure parts are added (basic composition). dp-accounting has no Laplace event under ``replace``, so Laplace
  joins the loss distribution only under ``add-remove``.
- Skellam has a proven Renyi bound only (``renyi``). What can be written as a Renyi curve is composed there;
  the rest is added at a split delta, and the smaller of the valid answers is given.

dp-accounting's loss distributions take a noise multiplier relative to what *one* record contributes and
double the distance themselves under ``replace``, its Renyi accountant does not. Only this module speaks to
either, and it translates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from veilrec.core import check, check_count
from veilrec.privacy.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    Neighbours,
    PureEvent,
    SkellamEvent,
    UnboundedEvent,
    UnsupportedEvent,
    check_budget,
)
from veilrec.privacy.gaussian_profile import gaussian_delta, gaussian_epsilon
from veilrec.privacy.renyi import renyi_epsilon

# The grid of the privacy loss; answers are rounded up to it, so it only costs a little tightness.
LOSS_STEP = 1e-3
# Loss distributions are cut at a tail of 1e-15: below this power of ten they answer infinity.
_SMALLEST_EXPONENT = -14.0
# Wider loss distributions, in steps of the grid, are not composed: gigabytes, for an epsilon of thousands.
_MOST_STEPS = 1e7
# Nor are more sampled releases than this: they are composed one by one where the distribution is small.
_MOST_RELEASES = 1_000_000


def epsilon_of(
    events: Iterable[Event], delta: float, neighbours: Neighbours = "add-remove", group: int = 1
) -> float:
    """The composed epsilon of the events at ``delta``; infinite when nothing finite holds.

    ``group``: for units that belong together (the interactions of one user, say): how many there are at most.

    >>> steps = GaussianEvent(noise_multiplier=1.29, sampling_rate=0.1, count=300)
    >>> round(epsilon_of([steps], 1e-5), 1)
    8.0
    >>> epsilon_of([PureEvent(epsilon=0.5, count=3)], 0.0)
    1.5
    """
    events = tuple(events)
    check_budget(1.0, delta)
    check_count("group", group)
    if group > 1:
        return _group_epsilon(events, delta, neighbours, group)
    return _epsilon(_translated(events, neighbours), float(delta), neighbours)


def delta_of(events: Iterable[Event], epsilon: float, neighbours: Neighbours = "add-remove") -> float:
    """The smallest delta, up to 1, at which the events are (epsilon, delta)-DP.

    >>> round(delta_of([GaussianEvent(noise_multiplier=1.0)], 1.0), 4)
    0.1269
    """
    check(epsilon >= 0, "epsilon", "0 or above", epsilon)
    parts = _translated(tuple(events), neighbours)
    if any(isinstance(event, UnboundedEvent) for event in parts):
        return 1.0
    pure = _pure_sum(parts)
    rest = tuple(event for event in parts if not isinstance(event, PureEvent))
    left = epsilon - pure
    if not rest:
        # An e-DP release is (epsilon, delta)-DP for delta = (e^e - e^epsilon) / (1 + e^e) and above.
        return 0.0 if left >= 0 else -math.expm1(epsilon - pure) / (1 + math.exp(-pure))
    if left < 0:
        return 1.0
    if all(isinstance(event, GaussianEvent) and event.sampling_rate == 1 for event in rest):
        return gaussian_delta(_mu(rest), left)
    if any(isinstance(event, SkellamEvent) for event in rest):
        return _searched_delta(rest, left, neighbours)
    return float(_loss(rest, neighbours).get_delta(left))


# -- translation to one relation --------------------------------------------------------------------------


def _translated(events: tuple[Event, ...], neighbours: Neighbours) -> tuple[Event, ...]:
    """The same events, their numbers as they are for ``neighbours``, labels dropped."""
    return tuple(_for_relation(event, neighbours) for event in events)


def _for_relation(event: Event, wanted: Neighbours) -> Event:
    if not isinstance(event, PureEvent | LaplaceEvent | GaussianEvent | SkellamEvent | UnboundedEvent):
        raise UnsupportedEvent(f"the accountant does not know the event {type(event).__name__}.")
    event = replace(event, label="")
    if isinstance(event, UnboundedEvent):
        return event
    if event.neighbours == wanted:
        return event
    if wanted == "add-remove":
        raise UnsupportedEvent(
            f"the event {event.kind} was proven for replacing a unit, which says nothing about adding or "
            "removing one. State it in a claim of its own."
        )
    # Replacing is removing and adding: twice the distance.
    if isinstance(event, PureEvent):
        return replace(event, neighbours=wanted, epsilon=2 * event.epsilon)
    if isinstance(event, SkellamEvent):
        if event.sampling_rate < 1:
            raise UnsupportedEvent("sampled Skellam noise has no proven bound for replacing a unit.")
        return replace(event, neighbours=wanted, l1=2 * event.l1, l2=2 * event.l2)
    assert isinstance(event, LaplaceEvent | GaussianEvent)
    return replace(event, neighbours=wanted, noise_multiplier=event.noise_multiplier / 2)


# -- composition ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _epsilon(parts: tuple[Event, ...], delta: float, neighbours: Neighbours) -> float:
    if any(isinstance(event, UnboundedEvent) for event in parts):
        return math.inf
    pure = _pure_sum(parts)
    rest = tuple(event for event in parts if not isinstance(event, PureEvent))
    if not rest:
        return pure
    laplace = tuple(event for event in rest if isinstance(event, LaplaceEvent))
    basic = sum(event.count / event.noise_multiplier for event in laplace)
    if delta == 0:
        return pure + basic if len(laplace) == len(rest) else math.inf
    skellam = tuple(event for event in rest if isinstance(event, SkellamEvent))
    gaussian = tuple(event for event in rest if isinstance(event, GaussianEvent))
    answers = [basic + _split(gaussian, skellam, delta, neighbours)]
    if laplace and neighbours == "add-remove":
        answers.append(_split((*laplace, *gaussian), skellam, delta, neighbours))
    return pure + min(answers)


def _split(
    through_loss: tuple[Event, ...], skellam: tuple[SkellamEvent, ...], delta: float, neighbours: Neighbours
) -> float:
    if not skellam:
        return _loss_epsilon(through_loss, delta, neighbours) if through_loss else 0.0
    if not through_loss:
        return renyi_epsilon(skellam, delta)
    halves = _loss_epsilon(through_loss, delta / 2, neighbours) + renyi_epsilon(skellam, delta / 2)
    whole_curve = [event for event in through_loss if isinstance(event, GaussianEvent)]
    plain = len(whole_curve) == len(through_loss) and all(e.sampling_rate == 1 for e in whole_curve)
    return min(halves, renyi_epsilon((*skellam, *whole_curve), delta)) if plain else halves


def _loss_epsilon(events: Sequence[Event], delta: float, neighbours: Neighbours) -> float:
    if all(isinstance(event, GaussianEvent) and event.sampling_rate == 1 for event in events):
        return gaussian_epsilon(_mu(events), delta)
    too_many = sum(event.count for event in events) > _MOST_RELEASES
    if too_many or _width(events) > _MOST_STEPS * LOSS_STEP:
        return math.inf
    found = float(_loss(events, neighbours).get_epsilon(delta))
    # A small answer needs a finer grid, and is cheap on it.
    return found if found > 2 else float(_loss(events, neighbours, LOSS_STEP / 10).get_epsilon(delta))


def _loss(events: Sequence[Event], neighbours: Neighbours, step: float = LOSS_STEP) -> Any:
    import dp_accounting as dp
    from dp_accounting import pld

    relation = {
        "add-remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": dp.NeighboringRelation.REPLACE_ONE,
    }[neighbours]
    accountant = pld.PLDAccountant(neighboring_relation=relation, value_discretization_interval=step)
    # Our multiplier is for the whole distance; under replace dp-accounting doubles what it is given.
    share = 2.0 if neighbours == "replace" else 1.0
    for event in events:
        if isinstance(event, LaplaceEvent):
            single: dp.DpEvent = dp.LaplaceDpEvent(event.noise_multiplier)
        else:
            assert isinstance(event, GaussianEvent)
            single = dp.GaussianDpEvent(share * event.noise_multiplier)
            if event.sampling_rate < 1:
                single = dp.PoissonSampledDpEvent(event.sampling_rate, single)
        accountant.compose(single, event.count)
    return accountant


def _width(events: Sequence[Event]) -> float:
    """About how far a composed loss reaches: its mean and ten deviations, and the reach of one release."""
    mean = variance = reach = 0.0
    for event in events:
        if isinstance(event, LaplaceEvent):
            b = event.noise_multiplier
            single, spread, far = 1 / b, 1 / b**2, 1 / b
        else:
            assert isinstance(event, GaussianEvent)
            z, q = event.noise_multiplier, event.sampling_rate
            far = 0.5 / z**2 + 10 / z
            if far > _MOST_STEPS * LOSS_STEP:
                return math.inf
            x = np.linspace(-10.0, 10.0, 2001) * z + np.array([[0.0], [1.0]])  # around either centre
            loss = np.logaddexp(
                math.log1p(-q) if q < 1 else -math.inf, math.log(q) + (2 * x - 1) / (2 * z**2)
            )
            weight = np.exp(-np.square(np.linspace(-10.0, 10.0, 2001)) / 2)
            weight /= weight.sum()
            share = np.array([1 - q, q])
            single = max(0.0, float(share @ (loss @ weight)))
            spread = float(share @ (np.square(loss) @ weight))
        mean, variance, reach = mean + event.count * single, variance + event.count * spread, reach + far
    return mean + 10 * math.sqrt(variance) + reach


def _mu(events: Sequence[Event]) -> float:
    parts = (e.count / e.noise_multiplier**2 for e in events if isinstance(e, GaussianEvent))
    return math.sqrt(math.fsum(parts))


def _pure_sum(events: Sequence[Event]) -> float:
    return math.fsum(e.count * e.epsilon for e in events if isinstance(e, PureEvent))


def _searched_delta(events: tuple[Event, ...], epsilon: float, neighbours: Neighbours) -> float:
    low, high = -300.0, 0.0  # log10 of delta
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _epsilon(events, 10**middle, neighbours) <= epsilon else (middle, high)
    return min(1.0, float(10**high))


# -- groups ------------------------------------------------------------------------------------------------


def _group_epsilon(events: tuple[Event, ...], delta: float, neighbours: Neighbours, size: int) -> float:
    """Epsilon for ``size`` units at once.

    Without sampling the distance is ``size`` times as long. With sampling the general rule is used: what is
    (e, d)-DP for one unit is (k e, d (e^(k e) - 1) / (e^e - 1))-DP for k.
    """
    if not any(getattr(event, "sampling_rate", 1.0) < 1 for event in events):
        return epsilon_of([_lengthened(event, size) for event in events], delta, neighbours)
    if delta == 0:
        return math.inf
    single = math.inf
    low, high = _SMALLEST_EXPONENT, math.log10(delta)
    for _ in range(30):
        middle = (low + high) / 2
        found = epsilon_of(events, 10**middle, neighbours)
        if found == 0 or middle * math.log(10) + _group_growth(found, size) <= math.log(delta):
            low, single = middle, found  # it fits: try a larger delta, for a smaller epsilon
        elif math.isinf(found):
            low = middle  # below what the loss distribution resolves
        else:
            high = middle
    return size * single


def _group_growth(epsilon: float, size: int) -> float:
    """log of (e^(k e) - 1) / (e^e - 1)."""
    return (size - 1) * epsilon + math.log(-math.expm1(-size * epsilon) / -math.expm1(-epsilon))


def _lengthened(event: Event, size: int) -> Event:
    if isinstance(event, PureEvent):
        return replace(event, epsilon=size * event.epsilon)
    if isinstance(event, GaussianEvent | LaplaceEvent):
        return replace(event, noise_multiplier=event.noise_multiplier / size)
    if isinstance(event, SkellamEvent):
        return replace(event, l1=size * event.l1, l2=size * event.l2)
    return event
