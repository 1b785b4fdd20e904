"""Link stealing, the evidence: what an attacker sees of the model and knows of people, and small tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.attacks.attribute_inputs import Attackable
from veilrec.core import stream
from veilrec.data import Dataset, Ids
from veilrec.data.frames import to_polars
from veilrec.metrics.rank import tile_rows

Codes = NDArray[np.int64]
Block = NDArray[Any]
Rows = Callable[[Codes], Block]
"""From user codes to suspicions [users, items]: the higher, the more likely a training edge."""

MOST_WATCHED = 2_000
"""Attackers that compare whole rows of scores look at no more than so many items, drawn at random."""


NOTHING, OTHERS, OWN = "nothing", "other users", "other users, half of theirs"
"""What an attacker must know of people, from less to more."""


class NotApplicable(Exception):
    """The attack has nothing to work on; the message says what is missing."""


class Linkable(Attackable, Protocol):
    """What link stealing needs beside :class:`Attackable`: the items, to know the columns by.

    >>> import veilrec as vr
    >>> model: Linkable = vr.Popularity().fit(vr.synthetic(20, 15, 90))
    >>> len(model.items)
    15
    """

    @property
    def items(self) -> Ids:
        """The items it can recommend."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """All that one attacker has: ``seen`` of the model, ``known`` edges of ``reference`` users, ``hints``.

    ``known`` has a row per reference user; ``hints`` one per user: the edges of attacked and labelled users
    that the attacker was given. ``asked`` are the users whose cells are asked, ``k`` the length of lists. Of
    ``data`` attackers use the ids and the users' numbers of interactions, which are public, and no more.

    >>> import veilrec as vr
    >>> data = vr.synthetic(20, 15, 90)
    >>> nobody = np.empty(0, np.int64)
    >>> Knowledge({}, data, nobody, data.matrix()[:0], data.matrix(), nobody, 5, 0).fame.sum()
    np.float32(0.0)
    """

    seen: Mapping[str, Any]
    data: Dataset
    reference: Codes
    known: sp.csr_matrix
    hints: sp.csr_matrix
    asked: Codes
    k: int
    seed: int

    @property
    def fame(self) -> NDArray[np.float32]:
        """How many reference users have each item."""
        return np.asarray(self.known.sum(axis=0), np.float32).ravel()

    def watched(self) -> Codes:
        """The items whose scores are compared."""
        n_items = self.data.n_items
        if n_items <= MOST_WATCHED:
            return np.arange(n_items)
        chosen = stream(self.seed, "links", "watched").choice(n_items, MOST_WATCHED, replace=False)
        return np.sort(chosen)

    def part(self, name: str) -> Any:
        """A part of the view, or a word about its absence."""
        if name not in self.seen:
            raise NotApplicable(f"this adversary sees no {name}")
        return self.seen[name]

    def lists(self, users: Codes) -> sp.csr_matrix:
        """The lists of these users, seen items left out: multi-hot rows in the order given."""
        ids = self.data.users.take(users)
        frame = to_polars(self.part("recommend")(ids, k=self.k))
        place = np.full(self.data.n_users, -1, np.int64)
        place[users] = np.arange(len(users))
        row, item = place[self.data.users.codes(frame["user"])], self.data.items.codes(frame["item"])
        ones = np.ones(len(row), np.float32)
        return sp.csr_matrix((ones, (row, item)), shape=(len(users), self.data.n_items))

    def arrays(self) -> dict[str, Block]:
        """All arrays of the view by name: shared, reported and the server's."""
        return {n: a for part in ("shared", "reports", "server") for n, a in self.seen.get(part, {}).items()}

    def vectors(self) -> tuple[Block, Block]:
        """A table ``..user..`` with a row per user, and one ``..item..`` of its width, its namesake first."""
        tables = {name: array for name, array in self.arrays().items() if array.ndim == 2}
        for name, users in tables.items():
            wanted = (self.data.n_items, users.shape[1])
            fit = [other for other, items in tables.items() if "item" in other and items.shape == wanted]
            if "user" in name and len(users) == self.data.n_users and fit:
                namesake = name.replace("user", "item")
                items = tables[namesake if namesake in fit else fit[0]]
                return np.asarray(users, np.float32), np.asarray(items, np.float32)
        raise NotApplicable("this adversary sees no pair of user and item vectors")


@dataclass(frozen=True)
class Attacker:
    """An attack with the adversaries it is listed for, what it looks at, and what it must know.

    >>> from veilrec.attacks import LINK_ATTACKERS
    >>> LINK_ATTACKERS["score"].adversaries, LINK_ATTACKERS["score"].sees
    ('X', 'scores')
    """

    adversaries: str
    sees: str
    knows: str
    prepare: Callable[[Knowledge], Rows]


def tiles(count: int, n_items: int) -> Iterator[slice]:
    """Slices of a number of rows, so that a block of scores stays small.

    >>> [(part.start, part.stop) for part in tiles(600, 1000)]
    [(0, 512), (512, 600)]
    """
    height = tile_rows(n_items)
    for start in range(0, count, height):
        yield slice(start, min(start + height, count))


def standard(block: Block) -> NDArray[np.float32]:
    """Each row with mean 0 and deviation 1; a row of one value is 0. An item scored -inf counts as the least.

    >>> standard(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, -np.inf]])).tolist()
    [[-1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    rows = np.array(block, np.float32)
    wild = np.isneginf(rows)
    if wild.any():
        least = np.where(wild, np.inf, rows).min(axis=1, keepdims=True)
        rows = np.where(wild, np.where(np.isinf(least), 0, least), rows)
    rows -= rows.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    spread = np.sqrt(np.einsum("ui,ui->u", rows, rows, dtype=np.float64) / rows.shape[1])
    tiny = 1e-6 * np.abs(rows).max(axis=1, initial=0) + 1e-30
    return np.asarray(rows / np.where(spread > tiny, spread, np.inf)[:, None], np.float32)


def unit(rows: Block) -> NDArray[np.float32]:
    """Each row divided by its length; a zero row stays zero.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), np.float32)
