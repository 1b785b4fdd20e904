"""How good are the lists? One function for every model, and the score that early stopping uses.

The users of a table are those with something held out. What is masked is what the model could know: the
training part, and, when the test part is judged, the validation part too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from veilrec.core import DataError, check, check_choice, check_count
from veilrec.data import Dataset, Split
from veilrec.metrics import (
    coverage,
    evaluated_users,
    mae,
    mean_interval,
    one_positive_ranks,
    per_user,
    popularity,
    rank_all,
    ranking_metrics,
    rmse,
    sampled_ranks,
)
from veilrec.training.job import Array
from veilrec.training.recommender import Recommender

PROTOCOLS = ("full", "one-positive", "sampled")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of :func:`evaluate`: a value per user and metric, and figures of the whole.

    ``per_user["recall@20"][n]`` belongs to the user code ``users[n]``. Under "one-positive" and "sampled"
    every held-out interaction is a list of its own; a user's value is the mean over their lists, and the
    metric's name carries the protocol. "popularity@k" is the mean training count of the listed items.
    ``overall`` has the coverage and, for models that predict ratings, MAE and RMSE.

    >>> result = Evaluation("full", "test", np.arange(2), {"hit@1": np.array([1.0, 0.0])}, {}, 0.1)
    >>> result.mean()
    {'hit@1': 0.5}
    """

    protocol: str
    part: str
    users: Array
    per_user: dict[str, Array]
    overall: dict[str, float]
    seconds: float

    def mean(self) -> dict[str, float]:
        """Every metric averaged over users, and the figures of the whole."""
        return {name: float(values.mean()) for name, values in self.per_user.items()} | self.overall

    def interval(self, metric: str, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the mean over users."""
        check_choice("metric", metric, self.per_user)
        found = mean_interval(self.per_user[metric], level)
        return found.low, found.high

    def to_dict(self) -> dict[str, Any]:
        """Protocol, counts, and each metric's mean with its 95 % interval over two users or more."""
        means = self.mean()
        metrics: dict[str, Any] = {}
        for name, value in means.items():
            metrics[name] = {"mean": value}
            if name in self.per_user and len(self.users) > 1:
                metrics[name]["interval"] = list(self.interval(name))
        return {
            "protocol": self.protocol,
            "part": self.part,
            "users": len(self.users),
            "metrics": metrics,
            "seconds": round(self.seconds, 3),
        }


def evaluate(
    model: Recommender,
    split: Split,
    k: int | Sequence[int] = (5, 10, 20),
    *,
    part: str = "test",
    protocol: str = "full",
    seed: int = 0,
    progress: bool = True,
) -> Evaluation:
    """Judge ``model`` on the held-out ``part`` ("test" or "valid") of ``split``.

    ``protocol``: "full" ranks all items not seen (the default, and the one to quote); "one-positive" ranks
    each held-out item alone against all items the user never touched; "sampled" ranks it against 99 of
    them, drawn by ``seed`` (never to be compared with the others).

    >>> import veilrec as vr
    >>> parts = vr.split.holdout(vr.synthetic(users=60, items=40, interactions=900), test=0.2, seed=1)
    >>> result = vr.evaluate(vr.Popularity().fit(parts.train), parts, k=10, progress=False)
    >>> sorted(result.per_user)[:3]
    ['hit@10', 'map@10', 'mrr@10']
    """
    ks = (k,) if isinstance(k, int) else tuple(k)
    for value in ks:
        check_count("k", value)
    check_choice("part", part, ["test", "valid"])
    check_choice("protocol", protocol, PROTOCOLS)
    held = split.test if part == "test" else split.valid
    if held is None or len(held) == 0:
        raise DataError(
            f"the split must have a {part} part to evaluate on, got none. Split with {part}=0.1, say."
        )
    same = model.users == held.users and model.items == held.items
    check(same, "split", "of the data the model was fitted on", held.name, "Split the same data again.")
    began = time.perf_counter()
    seen = model.history
    if part == "test" and split.valid is not None:
        seen = _union(seen, split.valid.matrix())
    relevant = held.matrix()
    n_items = len(model.items)
    overall: dict[str, float] = {}
    if protocol == "full":
        users = evaluated_users(relevant)
        ranked, _ = rank_all(model.score_codes, users, max(ks), n_items=n_items, seen=seen, progress=progress)
        values = ranking_metrics(ranked, relevant[users], ks)
        counts = np.bincount(model.history.indices, minlength=n_items)
        for size in ks:
            values[f"popularity@{size}"] = popularity(ranked, counts, size)
            overall[f"coverage@{size}"] = coverage(ranked, n_items, size)
    else:
        if protocol == "sampled":
            lists = sampled_ranks(model.score_codes, relevant, seen, seed=seed, progress=progress)
        else:
            lists = one_positive_ranks(model.score_codes, relevant, seen, progress=progress)
        values = {}
        for name, by_list in lists.metrics(ks).items():
            users, values[name] = per_user(by_list, lists.user)
    if model.rates and held.rating is not None:
        predicted = predict_pairs(model.score_codes, held.user, held.item)
        overall |= {"mae": mae(predicted, held.rating), "rmse": rmse(predicted, held.rating)}
    return Evaluation(protocol, part, users, values, overall, time.perf_counter() - began)


def predict_pairs(score: Callable[[Array], Array], user: Array, item: Array, block: int = 256) -> Array:
    """The score of each (user, item) pair, codes given; scores a block of distinct users at a time.

    >>> table = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> predict_pairs(lambda users: table[users], np.array([1, 0, 1]), np.array([0, 1, 1])).tolist()
    [3.0, 2.0, 4.0]
    """
    distinct, place = np.unique(user, return_inverse=True)
    order = np.argsort(place, kind="stable")
    result = np.empty(len(user), np.float32)
    bounds = np.searchsorted(place[order], np.arange(0, len(distinct) + block, block))
    for index, first in enumerate(range(0, len(distinct), block)):
        rows = order[bounds[index] : bounds[index + 1]]
        scores = score(distinct[first : first + block].astype(np.int64))
        result[rows] = scores[place[rows] - first, item[rows]]
    return result


def validation_score(score: Callable[[Array], Array], train: Dataset, valid: Dataset, k: int = 20) -> float:
    """Mean Recall@k of full ranking on the validation part: what early stopping watches.

    >>> data = Dataset.from_arrays(["ann", "ann", "ann"], ["tea", "mate", "rum"])
    >>> train, valid = data.take(data.item == 0), data.take(data.item == 2)
    >>> table = np.array([[0.1, 0.2, 0.3]], np.float32)
    >>> validation_score(lambda users: table[users], train, valid, k=1)
    1.0
    """
    relevant = valid.matrix()
    users = evaluated_users(relevant)
    ranked, _ = rank_all(score, users, k, n_items=train.n_items, seen=train.matrix())
    return float(ranking_metrics(ranked, relevant[users], (k,))[f"recall@{k}"].mean())


def _union(a: sp.csr_matrix, b: sp.csr_matrix) -> sp.csr_matrix:
    both = (a + b).tocsr()
    both.data[:] = 1
    return both
