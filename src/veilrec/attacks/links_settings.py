"""Link stealing, the settings: what both attacks can be told, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from veilrec.attacks.links_attackers import LINK_ATTACKERS
from veilrec.attacks.links_cells import Cells
from veilrec.attacks.links_knowledge import Linkable
from veilrec.attacks.links_learn import LEARNERS
from veilrec.core import DataError, check, check_choice, check_count, check_fraction
from veilrec.data import Dataset, Split

ADVERSARIES = ("O", "X", "S")
LEAST_CELLS, LEAST_RESAMPLES = 100, 20


@dataclass(frozen=True)
class Settings:
    """The settings of :func:`veilrec.attacks.link_attack`, checked.

    >>> Settings.of(adversaries="X", attackers="score").adversaries
    ('X',)
    """

    adversaries: tuple[str, ...]
    attackers: tuple[str, ...]
    known: float
    own: float
    users: int
    cells: int
    k: int
    resamples: int
    seed: int
    leave_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        adversaries: str | Iterable[str] | None = None,
        attackers: str | Iterable[str] | None = None,
        known: float = 0.5,
        own: float = 0.5,
        users: int = 2_000,
        cells: int = 200_000,
        k: int = 50,
        resamples: int = 200,
        seed: int = 0,
        leave_out: str | Iterable[str] = (),
    ) -> Settings:
        """Words looked up, numbers checked."""
        check_fraction("known", known)
        check_fraction("own", own)
        check_count("users", users)
        check_count("cells", cells, LEAST_CELLS)
        check_count("k", k)
        check_count("resamples", resamples, LEAST_RESAMPLES)
        check_count("seed", seed, 0)
        sides = _words("adversaries", adversaries, ADVERSARIES)
        known_words = [*LINK_ATTACKERS, *LEARNERS]
        out = _words("leave_out", leave_out, known_words) if leave_out else ()
        chosen = _words("attackers", attackers, known_words)
        chosen = tuple(word for word in chosen if word not in out)
        check(bool(chosen), "attackers", "more than those of leave_out", out)
        return cls(sides, chosen, known, own, users, cells, k, resamples, seed, out)


def held_out(data: Dataset | Split) -> sp.csr_matrix:
    """Edges that are true and were not trained on; of data that are no split, none.

    >>> from veilrec.data import split
    >>> held_out(split.holdout(Dataset.from_arrays([1] * 5, range(5)))).nnz
    1
    """
    if isinstance(data, Dataset):
        return sp.csr_matrix((data.n_users, data.n_items), dtype=np.float32)
    held = data.test.matrix() if data.valid is None else data.test.matrix().maximum(data.valid.matrix())
    held = sp.csr_matrix(held - held.multiply(data.train.matrix()))
    held.eliminate_zeros()
    return held


def check_same(model: Linkable, train: Dataset) -> None:
    """The data must be what the model was fitted on; a shareable model knows no users.

    >>> import veilrec as vr
    >>> data = vr.synthetic(20, 15, 90)
    >>> check_same(vr.Popularity().fit(data), data)
    """
    remedy = "Give the data it was fitted on."
    check(model.items == train.items, "data", "with the items of the model", train.name, remedy)
    known = len(model.users) == 0 or model.users == train.users
    check(known, "data", "with the users of the model", train.name, remedy)
    if len(train) == 0:
        raise DataError(f"{train.name} must have training edges to steal, got 0. {remedy}")


def check_cells(kind: str, cells: Cells, name: str) -> None:
    """There must be edges and other cells.

    >>> one = np.zeros(1, np.int64)
    >>> check_cells("links", Cells(one, one, one == 0, one + 1.0), "toy")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: toy must have users with secret edges and with free cells, got none. ...
    """
    if cells.truth.any() and not cells.truth.all():
        return
    if kind == "membership":
        raise DataError(
            f"{name} must have users with training edges and held-out ones, got none. Give a split whose "
            "test part is of the same users."
        )
    raise DataError(
        f"{name} must have users with secret edges and with free cells, got none. Give data with more items "
        "or interactions."
    )


def _words(name: str, given: str | Iterable[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    if given is None:
        return tuple(known)
    words = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
    check(len(words) > 0, name, "one or more", words)
    for word in words:
        check_choice(name, word, known)
    return words
