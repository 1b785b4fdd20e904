"""The synthetic world: people whose tastes follow in part from who they are, and a year of what they did.

A taste is a vector: a part set by gender, age group and occupation, and a part of the user's own. It turns
slowly over the user's life and jumps from session to session; each event draws from the catalogue by the
taste of its session (synthetic_draw.py). The constants are set so that the statistics at the size of
MovieLens-100K resemble that set's: the table is in docs/synthetic.md.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import check, check_count, stream
from veilrec.data.dataset import Categorical, Dataset, Links
from veilrec.data.ids import Ids
from veilrec.data.synthetic_draw import Catalogue, draw_items

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_GENDERS = ("F", "M")
_MEN = 0.71
_AGE_GROUPS = ("under 18", "18-24", "25-34", "35-44", "45-49", "50-55", "56+")
_AGE_SHARES = (0.06, 0.20, 0.33, 0.20, 0.09, 0.07, 0.05)
# weight, typical age group (position above), spread around it, odds of a man
_OCCUPATIONS = {
    "administrator": (8, 3, 2, 0.6),
    "artist": (3, 2, 2, 0.6),
    "doctor": (1, 3, 2, 2),
    "educator": (10, 4, 2, 0.9),
    "engineer": (7, 3, 2, 6),
    "entertainment": (2, 2, 2, 2),
    "executive": (3.5, 3, 2, 3),
    "healthcare": (2, 3, 2, 0.3),
    "homemaker": (1, 3, 2, 0.1),
    "lawyer": (1.5, 3, 2, 2),
    "librarian": (5.5, 4, 2, 0.4),
    "marketing": (3, 3, 2, 0.8),
    "none": (1, 1, 3, 0.6),
    "other": (11, 3, 3, 0.9),
    "programmer": (7, 2, 1.5, 4),
    "retired": (3, 6, 0.5, 4),
    "salesman": (1.5, 3, 2, 1),
    "scientist": (3.5, 3, 2, 4),
    "student": (33, 0.5, 0.7, 1),
    "technician": (3, 2, 2, 8),
    "writer": (5, 3, 2, 0.8),
}

_TASTE_SIZE = 8
_OWN_TASTE, _GENDER_TASTE, _AGE_TASTE, _OCCUPATION_TASTE = 0.7, 0.46, 0.75, 0.25
_SLOW_DRIFT, _SESSION_DRIFT, _SESSION_LENGTH = 0.9, 1.0, 8
_ACTIVITY_POWER, _ACTIVITY_FLOOR, _ACTIVITY_CAP = 1.25, 0.19, 0.45  # floor: of the mean; cap: of the items
_RATING_SHARES = (0.061, 0.114, 0.271, 0.342, 0.212)
_USER_BIAS, _ITEM_BIAS, _LIKING, _RATING_NOISE, _QUALITY_OF_FAME = 0.4, 0.72, 0.35, 0.81, 0.8
_FIRST_SECOND, _YEAR, _PAUSE = 1_704_067_200, 366 * 86_400, 40  # 2024, UTC; seconds between two events
_CANDIDATES, _RETURNED, _LINK_BLOCK = 24, 0.4, 50_000


def synthetic(
    users: int = 600,
    items: int = 400,
    interactions: int = 20_000,
    *,
    seed: int = 0,
    attribute_strength: float = 1.0,
    drift: float = 1.0,
    friends: float = 8.0,
    name: str = "synthetic",
) -> Dataset:
    """A made-up data set with ratings, times, attributes and friendships; the same for the same seed.

    Exactly ``interactions`` distinct pairs; every user has some, every item at least one.
    ``attribute_strength`` is how much tastes follow gender, age group and occupation (0: not at all),
    ``drift`` how much they change over time (0: order says nothing), ``friends`` about how many directed
    links a user has (0: no links; a very small world has fewer).

    >>> data = synthetic(users=20, items=15, interactions=60)
    >>> data
    Dataset 'synthetic': 60 interactions of 20 users with 15 items with rating, time, gender, age, \
occupation, links
    >>> data.fingerprint == synthetic(20, 15, 60).fingerprint != synthetic(20, 15, 60, seed=1).fingerprint
    True
    """
    check_count("users", users, 2)
    check_count("items", items, 2)
    check_count("interactions", interactions)
    knobs = {"attribute_strength": (attribute_strength, 10), "drift": (drift, 10), "friends": (friends, 1000)}
    for label, (value, limit) in knobs.items():
        check(isinstance(value, int | float) and 0 <= value <= limit, label, f"from 0 to {limit}", value)
    least, most = max(users, items), users * items // 2
    check(
        least <= interactions <= most,
        "interactions",
        f"from {least:,} (one per user and item) to {most:,} (half of all pairs)",
        interactions,
        "Give fewer users and items." if interactions < least else "Give more users or items.",
    )

    people = _people(users, stream(seed, "synthetic", "people"))
    taste = _tastes(people, attribute_strength, stream(seed, "synthetic", "tastes"))
    catalogue = Catalogue.random(items, _TASTE_SIZE, stream(seed, "synthetic", "items"))
    counts = _activity(users, items, interactions, stream(seed, "synthetic", "activity"))
    user = np.repeat(np.arange(users, dtype=np.int32), counts)
    first = np.concatenate([[0], np.cumsum(counts)])
    opens = _openings(first, stream(seed, "synthetic", "sessions"))
    session = np.repeat(np.arange(len(opens), dtype=np.int32), np.diff(opens, append=interactions))
    moods = _moods(user[opens], opens, first, taste, drift, stream(seed, "synthetic", "drift"))
    item, liking = draw_items(catalogue, first, session, moods, taste, seed=seed)
    return Dataset(
        user=user,
        item=item,
        users=_ids("u", users),
        items=_ids("i", items),
        rating=_ratings(user, item, liking, catalogue.weight, stream(seed, "synthetic", "ratings")),
        time=_times(user, first, opens, stream(seed, "synthetic", "times")),
        attributes=people,
        links=_links(taste, friends, stream(seed, "synthetic", "friends")) if friends > 0 else None,
        rating_range=(1.0, 5.0),
        name=name,
    )


def _ids(letter: str, count: int) -> Ids:
    return Ids(pl.select(pl.format(letter + "{}", pl.int_range(1, count + 1))).to_series())


def _people(users: int, rng: np.random.Generator) -> dict[str, Categorical]:
    gender = (rng.random(users) < _MEN).astype(np.int32)
    age = np.searchsorted(np.cumsum(_AGE_SHARES)[:-1], rng.random(users), side="right").astype(np.int32)
    share, typical, spread, odds = np.array(list(_OCCUPATIONS.values()), dtype=np.float64).T
    groups = np.arange(len(_AGE_GROUPS))[:, None]
    fits = share * np.exp(-(((groups - typical) / spread) ** 2) / 2) / spread
    steps = np.cumsum(np.stack([fits / (1 + odds), fits * odds / (1 + odds)]), axis=2)[gender, age]
    occupation = (rng.random((users, 1)) * steps[:, -1:] >= steps[:, :-1]).sum(axis=1).astype(np.int32)
    return {
        "gender": Categorical(gender, _GENDERS),
        "age": Categorical(age, _AGE_GROUPS),
        "occupation": Categorical(occupation, tuple(_OCCUPATIONS)),
    }


def _tastes(people: dict[str, Categorical], strength: float, rng: np.random.Generator) -> Floats:
    """Users x taste: what gender, age (neighbouring groups are alike) and occupation give, and their own."""
    axes, upper = np.linalg.qr(rng.standard_normal((_TASTE_SIZE, 3)))  # at right angles: they do not mix
    axes *= np.sign(np.diag(upper))  # the one QR factor that every library agrees on
    vectors = np.concatenate([axes.T, rng.standard_normal((len(_OCCUPATIONS), _TASTE_SIZE))])
    vectors *= np.sqrt(_TASTE_SIZE / (vectors**2).sum(axis=1, keepdims=True))  # the same length for any seed
    angle = np.pi * people["age"].codes[:, None] / (len(_AGE_GROUPS) - 1)
    shared = _GENDER_TASTE * (people["gender"].codes[:, None] - 0.5) * vectors[0]
    shared += _AGE_TASTE * (np.cos(angle) * vectors[1] + 0.5 * np.sin(angle) * vectors[2])
    shared += _OCCUPATION_TASTE * vectors[3 + people["occupation"].codes]
    return np.asarray(strength * shared + _OWN_TASTE * rng.standard_normal(shared.shape))


def _activity(users: int, items: int, interactions: int, rng: np.random.Generator) -> Places:
    """Events of each user: a floor plus a long-tailed part, none above the cap, exactly the sum asked for."""
    mean = interactions / users
    floor = max(1, min(5, int(mean / 2)), int(_ACTIVITY_FLOOR * mean))
    cap = max(min(max(_ACTIVITY_CAP * items, 2 * mean), 0.9 * items), mean + 1)
    part = rng.standard_exponential(users) ** _ACTIVITY_POWER
    low, high = 0.0, 1.0
    while np.minimum(floor + high * part, cap).sum() < interactions:
        high *= 2
    for _ in range(60):  # bisect the scale at which the capped counts add up
        middle = (low + high) / 2
        enough = np.minimum(floor + middle * part, cap).sum() >= interactions
        low, high = (low, middle) if enough else (middle, high)
    exact = np.minimum(floor + high * part, cap)
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: interactions - counts.sum()]] += 1
    return counts


def _openings(first: Places, rng: np.random.Generator) -> Places:
    """The events that open a session: each user's first, and any other by chance."""
    opening = rng.random(first[-1]) < 1 / _SESSION_LENGTH
    opening[first[:-1]] = True
    return np.flatnonzero(opening)


def _moods(
    owner: NDArray[np.int32],
    opens: Places,
    first: Places,
    taste: Floats,
    drift: float,
    rng: np.random.Generator,
) -> Floats:
    """Sessions x taste: the lasting taste, a turn from one direction over another to its opposite, a jump."""
    angle = np.pi * ((opens - first[owner]) / np.diff(first)[owner])[:, None]
    early, middle = rng.standard_normal((2, *taste.shape))
    moods = _SLOW_DRIFT * (np.cos(angle) * early[owner] + np.sin(angle) * middle[owner])
    moods += _SESSION_DRIFT * rng.standard_normal(moods.shape)
    return np.asarray(taste[owner] + drift * moods)


def _ratings(
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    liking: NDArray[np.float32],
    weight: Floats,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """1 to 5: generosity of the user, quality of the item, liking and noise, cut at fixed shares."""
    fame = np.log(weight)
    fame = (fame - fame.mean()) / fame.std()
    own = np.sqrt(1 - _QUALITY_OF_FAME**2) * rng.standard_normal(len(weight))
    score = _RATING_NOISE * rng.standard_normal(len(user))
    score += (_USER_BIAS * rng.standard_normal(user[-1] + 1))[user]
    score += (_ITEM_BIAS * (_QUALITY_OF_FAME * fame + own))[item]
    score += _LIKING * liking
    cuts = np.quantile(score, np.cumsum(_RATING_SHARES)[:-1])
    return (1 + np.searchsorted(cuts, score, side="right")).astype(np.float32)


def _times(user: NDArray[np.int32], first: Places, opens: Places, rng: np.random.Generator) -> Places:
    """Seconds: users join through the year, stay for a part of the rest, and come in sessions."""
    users, owner = len(first) - 1, user[opens]
    joined = rng.random(users)
    stay = (1 - joined) * rng.random(users) ** 2
    wait = rng.standard_exponential(len(opens))
    gap = 1 + _PAUSE * rng.standard_exponential(len(user))
    gap[opens] += wait * (_YEAR * stay / np.bincount(owner, wait))[owner]
    clock = np.cumsum(gap)
    clock += (_YEAR * joined - (clock - gap)[first[:-1]])[user]
    return _FIRST_SECOND + clock.astype(np.int64)


def _links(taste: Floats, friends: float, rng: np.random.Generator) -> Links:
    """Each link goes to the nearest in taste of some random people; some are returned."""
    users = len(taste)
    unit = taste / np.linalg.norm(taste, axis=1, keepdims=True)
    sociable = friends / (1 + _RETURNED) * rng.standard_exponential(users)
    source = np.repeat(np.arange(users), np.minimum(rng.poisson(sociable), users // 2))
    target = np.empty_like(source)
    for start in range(0, len(source), _LINK_BLOCK):
        block = source[start : start + _LINK_BLOCK]
        others = rng.integers(0, users - 1, (len(block), _CANDIDATES))
        others += others >= block[:, None]  # anybody but oneself
        nearness = np.einsum("lt,lct->lc", unit[block], unit[others])
        target[start : start + _LINK_BLOCK] = others[np.arange(len(block)), nearness.argmax(axis=1)]
    back = rng.random(len(source)) < _RETURNED
    pairs = np.unique(np.concatenate([source * users + target, (target * users + source)[back]]))
    return Links((pairs // users).astype(np.int32), (pairs % users).astype(np.int32))
