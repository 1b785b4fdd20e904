"""What the people of the synthetic world meet: a catalogue of items, and draws from it without repeats.

Nothing loops over users or events. Users are taken in blocks; within a block every open event draws at once,
repeated pairs draw again, and the few events still open after many rounds are settled by one exact draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from veilrec.core import bar, stream

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_ITEMS_PER_GROUP, _FEWEST_GROUPS, _MOST_GROUPS = 16, 4, 256
_GROUP_SPREAD = 1.95  # how far apart the groups lie in the space of tastes: what a personal model can find
_POPULARITY_SPREAD = 1.05  # of the items of one group
_GROUP_FAME = 0.7  # some groups are famous; the first dimension of taste is the appetite for fame
_FORGOTTEN = 2.6  # the power that makes the long flat end of the tail
_ROUNDS = 40
_BLOCK_USERS, _BLOCK_CELLS = 512, 2_000_000


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items by popularity ``weight`` and ``group``; ``centre`` is groups x taste."""

    weight: Floats
    group: NDArray[np.int32]
    centre: Floats

    @classmethod
    def random(cls, items: int, taste_size: int, rng: np.random.Generator) -> Catalogue:
        """A catalogue of ``items`` items, the same for the same generator.

        >>> len(Catalogue.random(40, 8, stream(0, "items")).weight)
        40
        """
        groups = min(max(items // _ITEMS_PER_GROUP, _FEWEST_GROUPS), _MOST_GROUPS)
        centre = rng.standard_normal((groups, taste_size))
        group = rng.integers(0, groups, items).astype(np.int32)
        fame = _POPULARITY_SPREAD * rng.standard_normal(items) + _GROUP_FAME * centre[group, 0]
        weight = np.exp(fame) * (1 - rng.random(items)) ** _FORGOTTEN
        return cls(weight, group, centre * (_GROUP_SPREAD / np.sqrt(taste_size)))

    @cached_property
    def shelf(self) -> Places:
        """The items in the order of their groups."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def mass(self) -> Floats:
        """The summed popularity of each group."""
        return np.asarray(np.bincount(self.group, self.weight, minlength=len(self.centre)), dtype=np.float64)

    @cached_property
    def item_shares(self) -> Floats:
        """Upper ends of the items' shares, in shelf order; those of group ``g`` fill ``g`` to ``g + 1``."""
        group = self.group[self.shelf]
        before = (np.cumsum(self.mass) - self.mass)[group]
        shares = (np.cumsum(self.weight[self.shelf]) - before) / self.mass[group]
        return np.asarray(group + np.clip(shares, 0, 1))

    def pull(self, tastes: Floats) -> Floats:
        """How much each group (column) attracts each taste (row), as a logarithm.

        Not ``@``: BLAS threads spin on such narrow products and doubled the time of the whole draw.
        """
        return np.asarray(np.einsum("st,tg->sg", tastes, np.ascontiguousarray(self.centre.T)))

    def group_shares(self, moods: Floats) -> Floats:
        """Upper ends of the groups' shares, flat; those of session ``s`` fill ``s`` to ``s + 1``."""
        pull = self.pull(moods)
        pull[:, self.mass == 0] = -np.inf  # a group without items
        pull -= pull.max(axis=1, keepdims=True)
        shares = np.cumsum(np.exp(pull, out=pull) * self.mass, axis=1)
        shares /= shares[:, -1:]
        shares += np.arange(len(shares))[:, None]
        return shares.ravel()


def draw_items(
    catalogue: Catalogue,
    first: Places,
    session: NDArray[np.int32],
    moods: Floats,
    taste: Floats,
    *,
    seed: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The item of each event and how much its user likes the item's group.

    Events ``first[u]:first[u + 1]`` are those of user ``u``; ``session`` is a row of ``moods`` (sessions x
    taste), which decides what is met. Liking follows the lasting ``taste`` (users x taste). No user meets an
    item twice, and every item is met at least once.

    >>> few = Catalogue.random(6, 2, stream(0, "items"))
    >>> one = np.zeros((1, 2))
    >>> item, _ = draw_items(few, np.array([0, 6]), np.zeros(6, np.int32), one, one, seed=0)
    >>> sorted(item.tolist())
    [0, 1, 2, 3, 4, 5]
    """
    n_users, n_items, n_events = len(taste), len(catalogue.weight), len(session)
    item = np.full(n_events, -1, dtype=np.int32)
    liking = np.empty(n_events, dtype=np.float32)
    rng = stream(seed, "synthetic", "discoveries")
    item[rng.choice(n_events, n_items, replace=False)] = rng.permutation(n_items)  # each item is met once

    cells = max(n_items, len(catalogue.centre) * len(moods) // n_users)  # per user, the larger of two tables
    step = max(1, min(_BLOCK_USERS, _BLOCK_CELLS // cells))
    with bar("drawing events", n_events) as ticker:
        for start in range(0, n_users, step):
            stop = min(start + step, n_users)
            rows = slice(int(first[start]), int(first[stop]))
            opening, closing = int(session[rows.start]), int(session[rows.stop - 1])
            user = np.repeat(np.arange(stop - start), np.diff(first[start : stop + 1]))
            lasting = catalogue.pull(taste[start:stop])
            shares = catalogue.group_shares(moods[opening : closing + 1])
            rng = stream(seed, "synthetic", "draw", start // step)
            _fill(item[rows], user, session[rows] - opening, shares, lasting, catalogue, rng)
            liking[rows] = lasting[user, catalogue.group[item[rows]]]
            ticker.advance(rows.stop - rows.start)
    return item, liking


def _fill(
    item: NDArray[np.int32],
    user: Places,
    session: NDArray[np.int32],
    shares: Floats,
    lasting: Floats,
    catalogue: Catalogue,
    rng: np.random.Generator,
) -> None:
    """Draw the items that are still -1, in place: a group by the session's mood, an item by popularity."""
    n_items, n_groups = len(catalogue.weight), len(catalogue.centre)
    holder = np.full(len(lasting) * n_items, -1, dtype=np.int32)  # the event that holds each pair
    known, left = np.flatnonzero(item >= 0), np.flatnonzero(item < 0)
    holder[user[known] * n_items + item[known]] = known
    for _ in range(_ROUNDS):
        if len(left) == 0:
            return
        visit = session[left].astype(np.int64)
        place = np.searchsorted(shares, visit + rng.random(len(left)), side="right")
        group = np.minimum(place - visit * n_groups, n_groups - 1)
        place = np.searchsorted(catalogue.item_shares, group + rng.random(len(left)), side="right")
        drawn = catalogue.shelf[np.minimum(place, n_items - 1)]
        pair = user[left] * n_items + drawn
        free = rng.permutation(np.flatnonzero(holder[pair] < 0))
        holder[pair[free]] = left[
            free
        ]  # of equal pairs the last write stays: any, so that order tells nothing
        won = holder[pair] == left
        item[left[won]] = drawn[won]
        left = left[~won]
    if len(left):
        item[left] = _settle(user[left], holder.reshape(-1, n_items) >= 0, lasting, catalogue, rng)


def _settle(
    user: Places, held: NDArray[np.bool_], lasting: Floats, catalogue: Catalogue, rng: np.random.Generator
) -> Places:
    """Items for events that kept hitting held pairs: an exact draw without repeats (Gumbel top-k)."""
    who, need = np.unique(user, return_counts=True)
    score = lasting[who][:, catalogue.group] + np.log(catalogue.weight)
    score -= np.log(rng.standard_exponential(score.shape))
    score[held[who]] = -np.inf
    ranked = np.argsort(-score, axis=1)
    nth = np.arange(len(user)) - np.repeat(np.cumsum(need) - need, need)
    found = np.empty(len(user), dtype=np.int64)
    found[np.lexsort((rng.random(len(user)), user))] = ranked[np.repeat(np.arange(len(who)), need), nth]
    return found
