"""The synthetic world: people whose tastes follow from who they are, and what they did over a year.

Tastes are vectors. A user's is the sum of a part set by gender, age group and occupation and a part of
their own; it turns slowly over the user's life and jumps a little from session to session. Items belong to
groups that lie in the same space. Each event draws a group by the taste of its session and an item of the
group by popularity; a pair that was met before is drawn again. The constants are set so that the statistics
at the size of MovieLens-100K resemble that set's: docs/synthetic.md has the table.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import bar, check, check_count, check_non_negative, stream
from veilrec.data.dataset import Categorical, Dataset, Links
from veilrec.data.ids import Ids

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

GENDERS = ("F", "M")
AGE_GROUPS = ("under 18", "18-24", "25-34", "35-44", "45-49", "50-55", "56+")
# occupation: weight, typical age group, spread around it, odds of a man against a woman
OCCUPATIONS: dict[str, tuple[float, float, float, float]] = {
    "administrator": (8, 3, 2, 0.6),
    "artist": (3, 2, 2, 0.6),
    "doctor": (1, 3, 2, 2.0),
    "educator": (10, 4, 2, 0.9),
    "engineer": (7, 3, 2, 6.0),
    "entertainment": (2, 2, 2, 2.0),
    "executive": (3.5, 3, 2, 3.0),
    "healthcare": (2, 3, 2, 0.3),
    "homemaker": (1, 3, 2, 0.1),
    "lawyer": (1.5, 3, 2, 2.0),
    "librarian": (5.5, 4, 2, 0.4),
    "marketing": (3, 3, 2, 0.8),
    "none": (1, 1, 3, 0.6),
    "other": (11, 3, 3, 0.9),
    "programmer": (7, 2, 1.5, 4.0),
    "retired": (3, 6, 0.5, 4.0),
    "salesman": (1.5, 3, 2, 1.0),
    "scientist": (3.5, 3, 2, 4.0),
    "student": (30, 0.5, 0.7, 1.0),
    "technician": (3, 2, 2, 8.0),
    "writer": (5, 3, 2, 0.8),
}

_MEN = 0.71
_AGE_SHARES = (0.06, 0.20, 0.33, 0.20, 0.09, 0.07, 0.05)
_RATING_SHARES = (0.061, 0.114, 0.271, 0.342, 0.212)

_TASTE_SIZE = 8  # dimensions of taste
_OWN_TASTE = 0.7  # spread of the part of taste that attributes do not explain
_GENDER_TASTE, _AGE_TASTE, _OCCUPATION_TASTE = 0.35, 0.5, 0.4
_SLOW_DRIFT, _SESSION_DRIFT = 0.9, 0.9
_GROUP_SPREAD = 2.0
_ITEMS_PER_GROUP, _MOST_GROUPS = 16, 256
_POPULARITY_SPREAD, _GROUP_FAME, _FORGOTTEN = 1.2, 0.8, 2.5
_ACTIVITY_SPREAD, _ACTIVITY_FLOOR, _ACTIVITY_CAP = 1.1, 0.19, 0.45
_SESSION_LENGTH = 10
_USER_BIAS, _ITEM_BIAS, _AFFINITY, _RATING_NOISE = 0.42, 0.5, 0.3, 0.9
_QUALITY_FOLLOWS_POPULARITY = 0.5

_ROUNDS = 40  # redraws of repeated pairs before the exact, slower draw
_BLOCK_CELLS = 4_000_000
_DAY = 86_400
_FIRST_SECOND, _YEAR = 1_704_067_200, 366 * _DAY  # 2024, UTC
_CANDIDATES = 24  # people among whom a friend is chosen


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
    """A made-up data set with ratings, times, user attributes and friendships, from 50 to 10 million events.
    """
    check_count("users", users, 2)
    check_count("items", items, 2)
    check_count("interactions", interactions)
    check_non_negative("attribute_strength", attribute_strength)
    check_non_negative("drift", drift)
    check_non_negative("friends", friends)
    least, most = max(users, items), users * items // 2
    check(interactions >= least, "interactions", f"at least {least}, one for each user and item", interactions)
    check(interactions <= most, "interactions", f"at most {most}, half of all pairs", interactions)

    people = _people(users, stream(seed, "synthetic", "people"))
    taste = _tastes(people, attribute_strength, stream(seed, "synthetic", "tastes"))
    weight, group, centre = _catalogue(items, stream(seed, "synthetic", "items"))
    counts = _activity(users, items, interactions, stream(seed, "synthetic", "activity"))
    user = np.repeat(np.arange(users, dtype=np.int32), counts)
    first = np.concatenate([[0], np.cumsum(counts)])
    session = _sessions(user, first, stream(seed, "synthetic", "sessions"))
    opens = np.flatnonzero(np.diff(session, prepend=-1))
    moods = _moods(user[opens], opens, first, taste, drift, stream(seed, "synthetic", "drift"))
    item, liking = _draw(user, first, session, taste, moods, weight, group, centre, seed)
    return Dataset(
        user=user,
        item=item,
        users=_ids("u", users),
        items=_ids("i", items),
        rating=_ratings(user, item, liking, weight, stream(seed, "synthetic", "ratings")),
        time=_times(user, first, opens, stream(seed, "synthetic", "times")),
        attributes=people,
        links=_friendships(taste, friends, stream(seed, "synthetic", "friends")) if friends else None,
        rating_range=(1.0, 5.0),
        name=name,
    )


def _ids(letter: str, count: int) -> Ids:
    return Ids(pl.select(pl.format(letter + "{}", pl.int_range(1, count + 1))).to_series())


def _people(users: int, rng: np.random.Generator) -> dict[str, Categorical]:
    gender = (rng.random(users) < _MEN).astype(np.int32)
    age = np.searchsorted(np.cumsum(_AGE_SHARES)[:-1], rng.random(users), side="right").astype(np.int32)
    share, typical, spread, odds = np.array(list(OCCUPATIONS.values())).T
    ages = np.arange(len(AGE_GROUPS))[:, None]
    likely = share * np.exp(-(((ages - typical) / spread) ** 2) / 2) / spread
    table = np.stack([likely / (1 + odds) / (1 - _MEN), likely * odds / (1 + odds) / _MEN])
    cumulative = np.cumsum(table, axis=2)[gender, age]
    occupation = (rng.random(users)[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1).astype(np.int32)
    return {
        "gender": Categorical(gender, GENDERS),
        "age": Categorical(age, AGE_GROUPS),
        "occupation": Categorical(occupation, tuple(OCCUPATIONS)),
    }


def _tastes(people: dict[str, Categorical], strength: float, rng: np.random.Generator) -> Floats:
    """Users x taste: the shares of gender, age (neighbouring groups are alike), occupation, and their own."""
    gender = np.array([[-0.5], [0.5]]) * _direction(1, rng)
    angle = np.pi * np.arange(len(AGE_GROUPS))[:, None] / (len(AGE_GROUPS) - 1)
    age = np.cos(angle) * _direction(1, rng) + 0.5 * np.sin(angle) * _direction(1, rng)
    occupation = _direction(len(OCCUPATIONS), rng)
    shared = (
        _GENDER_TASTE * gender[people["gender"].codes]
        + _AGE_TASTE * age[people["age"].codes]
        + _OCCUPATION_TASTE * occupation[people["occupation"].codes]
    )
    own = rng.standard_normal(shared.shape)
    return strength * shared + _OWN_TASTE * own


def _direction(rows: int, rng: np.random.Generator) -> Floats:
    """Random rows of length sqrt(taste size): one unit per dimension, whatever the seed."""
    vectors = rng.standard_normal((rows, _TASTE_SIZE))
    return vectors * np.sqrt(_TASTE_SIZE / (vectors**2).sum(axis=1, keepdims=True))


def _catalogue(items: int, rng: np.random.Generator) -> tuple[Floats, Codes, Floats]:
    """Popularity and group of each item, and the groups' places in the space of tastes."""
    groups = min(max(items // _ITEMS_PER_GROUP, 4), _MOST_GROUPS)
    group = rng.integers(0, groups, items).astype(np.int32)
    centre = _GROUP_SPREAD * rng.standard_normal((groups, _TASTE_SIZE)) / np.sqrt(_TASTE_SIZE)
    fame = rng.standard_normal(groups)
    centre[:, 0] = _GROUP_SPREAD * fame / np.sqrt(_TASTE_SIZE)
    weight = np.exp(_POPULARITY_SPREAD * rng.standard_normal(items) + _GROUP_FAME * fame[group])
    weight *= rng.random(items) ** _FORGOTTEN
    return weight, group, centre


def _activity(users: int, items: int, interactions: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Events of each user: a floor plus a log-normal part, none above the cap, exactly the sum asked for."""
    mean = interactions / users
    floor = max(int(_ACTIVITY_FLOOR * mean), min(5, int(mean / 2)), 1)
    cap = min(max(_ACTIVITY_CAP * items, 2 * mean), 0.9 * items)
    cap = max(cap, mean + 1)
    part = np.exp(_ACTIVITY_SPREAD * rng.standard_normal(users))
    low, high = 0.0, 1.0
    def total(scale):
        return np.minimum(floor + scale * part, cap).sum()
    while total(high) < interactions:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) < interactions else (low, middle)
    exact = np.minimum(floor + high * part, cap)
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: interactions - counts.sum()]] += 1
    return counts


def _sessions(user: Codes, first, rng: np.random.Generator) -> Codes:
    starts = rng.random(len(user)) < 1 / _SESSION_LENGTH
    starts[first[:-1]] = True
    return (np.cumsum(starts) - 1).astype(np.int32)


def _moods(owner: Codes, opens, first, taste: Floats, drift: float, rng: np.random.Generator) -> Floats:
    """Sessions x taste: the user's taste, turned from one own direction to another, and a jump."""
    angle = (opens - first[owner]) / np.diff(first)[owner] * (np.pi)
    begin, end = rng.standard_normal((2, *taste.shape))
    moods = np.cos(angle)[:, None] * begin[owner]
    moods += np.sin(angle)[:, None] * end[owner]
    moods *= _SLOW_DRIFT
    moods += _SESSION_DRIFT * rng.standard_normal(moods.shape)
    moods *= drift
    moods += taste[owner]
    return moods


def _draw(user, first, session, taste, moods, weight, group, centre, seed):
    items, groups = len(weight), len(centre)
    order = np.argsort(group, kind="stable")
    mass = np.bincount(group, weight, minlength=groups)
    inside = np.cumsum(weight[order]); inside = np.concatenate([[0],inside])
    begin = np.searchsorted(group[order], np.arange(groups))
    within = group[order] + (inside[1:] - inside[begin][group[order]]) / mass[group[order]]
    item = np.full(len(user), -1, np.int32)
    liking = np.empty(len(user), np.float32)
    rng = stream(seed, "synthetic", "discover")
    item[rng.choice(len(user), items, replace=False)] = rng.permutation(items)
    users = len(first) - 1
    per_user = max(items, groups * len(moods) // users)
    step = max(1, min(512, _BLOCK_CELLS // per_user))
    with bar("drawing events", len(user)) as ticker:
        for u0 in range(0, users, step):
            u1 = min(u0 + step, users)
            a, b = first[u0], first[u1]
            rng = stream(seed, "synthetic", "draw", u0 // step)
            s0, s1 = session[a], session[b - 1] + 1
            logits = moods[s0:s1] @ centre.T
            cdf = np.cumsum(np.exp(logits) * mass, axis=1)
            cdf /= cdf[:, -1:]
            cdf += np.arange(s1 - s0)[:, None]
            cdf = cdf.ravel()
            row = (session[a:b] - s0).astype(np.int64)
            base = (user[a:b] - u0).astype(np.int64) * items
            chosen = item[a:b]
            holder = np.full((u1 - u0) * items, -1, np.int32)
            known = np.flatnonzero(chosen >= 0)
            holder[base[known] + chosen[known]] = known
            open_ = np.flatnonzero(chosen < 0)
            for _ in range(_ROUNDS):
                if not len(open_): break
                r = row[open_]
                g = np.searchsorted(cdf, r + rng.random(len(open_)), side="right") - r * groups
                np.minimum(g, groups - 1, out=g)
                place = np.searchsorted(within, g + rng.random(len(open_)), side="right")
                drawn = order[np.minimum(place, items - 1)]
                cell = base[open_] + drawn
                free = holder[cell] < 0
                holder[cell[free][::-1]] = open_[free][::-1]
                won = holder[cell] == open_
                chosen[open_[won]] = drawn[won]
                open_ = open_[~won]
            if len(open_):
                who, need = np.unique(user[a:b][open_] - u0, return_counts=True)
                score = (taste[u0 + who] @ centre.T)[:, group] + np.log(weight)
                score -= np.log(rng.standard_exponential(score.shape))
                score[holder.reshape(-1, items)[who] >= 0] = -np.inf
                ranked = np.argsort(-score, axis=1)
                chosen[open_] = ranked[np.repeat(np.arange(len(who)), need), np.arange(len(open_)) - np.repeat(np.cumsum(need) - need, need)]
                _draw.finished = getattr(_draw,'finished',0)+len(open_)
            liking[a:b] = logits[row, group[chosen]]
            ticker.advance(b - a)
    return item, liking


def _ratings(user, item, liking, weight, rng) -> NDArray[np.float32]:
    fame = np.log(weight); fame = (fame - fame.mean())/fame.std()
    q = _QUALITY_FOLLOWS_POPULARITY
    quality = q * fame + np.sqrt(1 - q * q) * rng.standard_normal(len(weight))
    score = _RATING_NOISE * rng.standard_normal(len(user))
    score += (_USER_BIAS * rng.standard_normal(user[-1] + 1))[user]
    score += (_ITEM_BIAS * quality)[item]
    score += _AFFINITY * liking
    cuts = np.quantile(score, np.cumsum(_RATING_SHARES)[:-1])
    return (1 + np.searchsorted(cuts, score, side="right")).astype(np.float32)


def _times(user, first, opens, rng):
    users = len(first) - 1
    join = rng.random(users)
    span = (1 - join) * rng.random(users) ** 2
    owner = user[opens]
    wait = rng.standard_exponential(len(opens))
    total = np.bincount(owner, wait, minlength=users)
    gap = 1 + 40 * rng.standard_exponential(len(user))
    gap[opens] += wait * (span / total * _YEAR)[owner]
    clock = np.cumsum(gap)
    clock += (join * _YEAR - (clock-gap)[first[:-1]])[user]
    return _FIRST_SECOND + clock.astype(np.int64)


def _friendships(taste: Floats, friends: float, rng: np.random.Generator) -> Links:
    users = len(taste)
    unit = taste / np.linalg.norm(taste, axis=1, keepdims=True)
    degree = rng.poisson(friends * 0.7 * rng.gamma(1, 1, users))
    degree = np.minimum(degree, users // 2)
    source = np.repeat(np.arange(users), degree)
    target = np.empty_like(source)
    for a in range(0, len(source), 50_000):
        s = source[a : a + 50_000]
        c = rng.integers(0, users, (len(s), _CANDIDATES))
        close = np.einsum("ld,lcd->lc", unit[s], unit[c])
        target[a : a + 50_000] = c[np.arange(len(s)), close.argmax(axis=1)]
    back = rng.random(len(source)) < 0.4
    s = np.concatenate([source, target[back]]); t = np.concatenate([target, source[back]])
    pair = np.unique((s * users + t)[s != t])
    return Links((pair // users).astype(np.int32), (pair % users).astype(np.int32))
