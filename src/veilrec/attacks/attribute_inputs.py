"""Attribute inference, the evidence: what the attacker sees of each user, as one row of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.core import check
from veilrec.data import Dataset, Ids
from veilrec.data.frames import to_polars
from veilrec.metrics import rank_all

INPUTS = ("history", "list", "both", "adaptive")


class Attackable(Protocol):
    """The public face that an attack uses; every fitted recommender has it.

    >>> import veilrec as vr
    >>> model: Attackable = vr.Popularity().fit(vr.synthetic(20, 15, 90))
    >>> len(model.users), sorted(model.view("X"))
    (20, ['probe', 'recommend', 'reports', 'scores', 'shared'])
    """

    @property
    def users(self) -> Ids:
        """The users it was fitted on."""

    def view(self, adversary: str = "X") -> dict[str, Any]:
        """What the adversary sees: ``recommend``, ``shared`` arrays and ``reports`` with a row per user."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows of users: multi-hot ``items``, and ``reports`` (numbers per user) where the model releases some.

    >>> Evidence(sp.csr_matrix(np.eye(2, 3, dtype=np.float32))).items.shape
    (2, 3)
    """

    items: sp.csr_matrix
    reports: NDArray[np.float32] | None = None


def evidence_of(
    kind: str, history: sp.csr_matrix, lists: sp.csr_matrix, reports: NDArray[np.float32] | None = None
) -> Evidence:
    """The attacker's input of one kind.

    What is the same for everybody tells nothing about anybody: items on every list, and columns of reports
    with one value, are left out. So a model that gives all users one list adds exactly nothing.

    >>> eye = sp.csr_matrix(np.eye(2, dtype=np.float32))
    >>> everywhere = sp.csr_matrix(np.ones((2, 2), np.float32))
    >>> evidence_of("both", eye, everywhere).items.toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    told = _telling(lists)
    if kind == "history":
        return Evidence(history)
    if kind == "list":
        return Evidence(told)
    if kind == "both":
        return Evidence(_tidy(history + told))
    beside = _tidy(sp.hstack([history, told]))
    if reports is not None:
        reports = reports[:, np.ptp(reports, axis=0) > 0]
    return Evidence(beside, reports if reports is not None and reports.shape[1] else None)


def lists_of(model: Attackable, data: Dataset, lengths: Iterable[int]) -> dict[int, sp.csr_matrix]:
    """The model's lists as multi-hot rows of the users of ``data``, for each length.

    A model without the owner's part knows no users and is asked by history: the attacker holds histories.

    >>> import veilrec as vr
    >>> data = vr.synthetic(20, 15, 90)
    >>> lists_of(vr.Popularity().fit(data), data, [3])[3].sum(axis=1).max()
    np.float32(3.0)
    """
    lengths, most = list(lengths), data.n_items
    recommend: Callable[..., Any] = model.view("X")["recommend"]
    known = data.users.values.to_list()
    remedy = "Give the data it was fitted on."
    if len(model.users):
        unknown = np.flatnonzero(model.users.codes(known) < 0)
        strangers = [known[i] for i in unknown[:1]]
        check(not strangers, "data", "of users that the model knows", strangers, remedy)
        frame = to_polars(recommend(known, k=min(max(lengths), most)))
    else:
        names, rows = data.items.values.to_list(), data.matrix()
        history = {user: [names[i] for i in rows[code].indices] for code, user in enumerate(known)}
        frame = to_polars(recommend(k=min(max(lengths), most), history=history))
    users, items = data.users.codes(frame["user"]), data.items.codes(frame["item"])
    check(bool((items >= 0).all()), "data", "with all items that the model recommends", data.name, remedy)
    rank = frame["rank"].to_numpy()
    return {k: _multi_hot(users[rank <= k], items[rank <= k], data) for k in lengths}


def popular_lists(data: Dataset, lengths: Iterable[int]) -> dict[int, sp.csr_matrix]:
    """The most popular items as everybody's list, without what the user has seen.

    >>> from veilrec.data import synthetic
    >>> popular_lists(synthetic(20, 15, 90), [2])[2].sum(axis=1).min()
    np.float32(2.0)
    """
    lengths = list(lengths)
    seen = data.matrix()
    fame = np.asarray(seen.sum(axis=0), np.float32).ravel()
    users = np.arange(data.n_users)
    most = min(max(lengths), data.n_items)
    ranked, _ = rank_all(
        lambda codes: np.tile(fame, (len(codes), 1)), users, most, n_items=data.n_items, seen=seen
    )
    found = {}
    for k in lengths:
        row, column = np.nonzero(ranked[:, :k] >= 0)
        found[k] = _multi_hot(row, ranked[row, column], data)
    return found


def reports_of(model: Attackable, data: Dataset) -> NDArray[np.float32] | None:
    """What the model releases about each user beside lists, as columns of numbers; None if nothing.

    >>> import veilrec as vr
    >>> data = vr.synthetic(20, 15, 90)
    >>> reports_of(vr.Popularity().fit(data), data) is None
    True
    """
    released = model.view("X").get("reports") or {}
    rows = model.users.codes(data.users.values)
    blocks = []
    for name, values in sorted(released.items()):
        if name.startswith("graph_"):  # a report of the history, which the attacker holds as it is
            continue
        array = np.asarray(values, np.float32)
        good = array.ndim >= 1 and len(array) == len(model.users)
        check(good, f"report {name}", f"an array with {len(model.users):,} rows, one per user", array.shape)
        blocks.append(array.reshape(len(array), -1)[rows])
    return np.concatenate(blocks, axis=1) if blocks else None


def _multi_hot(users: NDArray[Any], items: NDArray[Any], data: Dataset) -> sp.csr_matrix:
    ones = np.ones(len(users), np.float32)
    return _tidy(sp.csr_matrix((ones, (users, items)), shape=(data.n_users, data.n_items)))


def _telling(lists: sp.csr_matrix) -> sp.csr_matrix:
    """Without the items that are on every list."""
    same = lists.getnnz(axis=0) == lists.shape[0]
    return _tidy(lists @ sp.diags_array((~same).astype(np.float32)))


def _tidy(matrix: Any) -> sp.csr_matrix:
    rows = sp.csr_matrix(matrix, dtype=np.float32)
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows
