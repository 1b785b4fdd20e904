"""Which data these are, whatever is told beside them: budgets go by it."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from veilrec.data.draws import id_draws, mixed
from veilrec.data.ids import Ids

_CHUNK = 1 << 17  # rows that are sorted at once: few enough to stay in the cache


def identity_of(user: NDArray[np.int32], item: NDArray[np.int32], users: Ids, items: Ids) -> str:
    """A hash over the set of (user id, item id) pairs; without any pair, over the users' ids.

    ``user`` is sorted. The order of a user's rows, repeated pairs, ids that stand in no row and whether ids
    are numbers or their texts make no difference; nor does anything else that is known of a row or a person.
    The hashes of the pairs are added up: equal sets are found equal, and others differ but by chance (2^-64).
    Who wants them to differ need only change an id; nobody gains by making other data look the same.

    >>> one, two = Ids(["7", "9"]), Ids([7, 8, 9])
    >>> a = identity_of(np.array([0, 1, 1], np.int32), np.array([1, 0, 0], np.int32), one, one)
    >>> b = identity_of(np.array([0, 2], np.int32), np.array([2, 0], np.int32), two, two)
    >>> a == b
    True
    """
    people = id_draws(users, 0, "identity", "user")
    if not len(user):
        return _digest("users", len(people), int(people.sum()))
    things = id_draws(items, 0, "identity", "item")
    cuts = np.unique(np.searchsorted(user, user[::_CHUNK]))  # all rows of a user in one chunk
    count = total = 0
    for begin, end in zip(cuts, [*cuts[1:], len(user)]):
        pairs = np.sort(mixed(people[user[begin:end]] + things[item[begin:end]]))
        again = pairs[1:] == pairs[:-1]
        count += len(pairs) - int(again.sum())
        total += int(pairs.sum()) - int(pairs[1:][again].sum())
    return _digest("pairs", count, total)


def _digest(of: str, count: int, total: int) -> str:
    return hashlib.sha256(f"veilrec identity 1: {of} {count} {total % 2**64}".encode()).hexdigest()
