"""Attribute inference, the attackers: eight classifiers with fixed settings, from evidence to class scores.

Nothing is searched: an attacker has the same settings on all data. They were chosen once, on ML-100K,
for speed as much as strength. ``weighted`` rows are item rows times log(users / holders), scaled to length
one; ``reduced`` rows are their first 64 singular directions, fitted on the labelled users, each with unit
variance. The class with the highest score is guessed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilrec.attacks.attribute_inputs import Evidence
from veilrec.core import require, stream

Scores = NDArray[np.float64]
Pair = tuple[Any, Any]

DIRECTIONS, HIDDEN = 64, 100
MOST_KERNEL_USERS = 4_000
"""Gaussian process and SVC learn from at most so many labelled users, drawn at random."""


@dataclass(frozen=True, eq=False)
class Task:
    """One attack: evidence, who is labelled (``train``, with classes ``labels``), who is attacked (``test``).

    >>> seen = Evidence(sp.csr_matrix(np.eye(3, dtype=np.float32)))
    >>> task = Task(seen, np.array([0, 1]), np.array([2]), np.array([0, 1]), classes=2, seed=1)
    >>> task.items[0].shape
    (2, 2)
    """

    evidence: Evidence
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: int
    seed: int

    def generator(self, purpose: str) -> np.random.Generator:
        """Randomness for a purpose: the same for all evidence, so that differences are paired."""
        return stream(self.seed, purpose)

    def number(self, purpose: str) -> int:
        """A seed for scikit-learn."""
        return int(self.generator(purpose).integers(2**31))

    @cached_property
    def items(self) -> Pair:
        """Item rows as they are, without items that no labelled user has."""
        train = self.evidence.items[self.train]
        held = np.flatnonzero(train.getnnz(axis=0))
        return train[:, held], self.evidence.items[self.test][:, held]

    @cached_property
    def reports(self) -> Pair | None:
        """Reports, scaled by the labelled users' mean and deviation."""
        if self.evidence.reports is None:
            return None
        train, test = self.evidence.reports[self.train], self.evidence.reports[self.test]
        return _standard(train.astype(np.float64), test.astype(np.float64))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to learn from."""
        return self.items[0].shape[1] == 0 and self.reports is None

    @cached_property
    def weighted(self) -> Pair:
        """Item rows by rarity, of length one."""
        train, test = self.items
        rarity = np.log((len(self.train) + 1) / (train.getnnz(axis=0) + 1))
        return _unit(train @ sp.diags_array(rarity)), _unit(test @ sp.diags_array(rarity))

    @cached_property
    def reduced(self) -> Pair:
        """Few dense columns: singular directions of the weighted rows, and reports."""
        algebra = require("sklearn.utils.extmath", extra="attacks", purpose="this attacker")
        train, test = self.weighted
        blocks = [] if self.reports is None else [self.reports]
        rank = min(DIRECTIONS, *train.shape)
        if rank:
            _, _, axes = algebra.randomized_svd(train, rank, random_state=self.number("directions"))
            blocks.append(_standard(train @ axes.T, test @ axes.T))
        return tuple(np.concatenate(parts, axis=1) for parts in zip(*blocks))  # type: ignore[return-value]

    def beside_reports(self, rows: Pair) -> Pair:
        """Item rows and reports in one sparse matrix."""
        if self.reports is None:
            return rows
        parts = zip(rows, self.reports)
        return tuple(sp.csr_matrix(sp.hstack([items, more])) for items, more in parts)


def network(task: Task) -> Scores:
    """Two layers, 100 hidden units, on the plain multi-hot rows: the attacker of GERAI.

    Adam at rate 0.002 in batches of 64, ten times through the users, and at least 120 steps.

    >>> seen = Evidence(sp.csr_matrix(np.tile(np.eye(2, dtype=np.float32), (20, 1))))
    >>> task = Task(seen, np.arange(30), np.arange(30, 40), np.arange(30) % 2, classes=2, seed=1)
    >>> network(task).argmax(axis=1).tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """
    import torch

    rows, asked = task.beside_reports(task.items)
    generator = task.generator("network")
    width = rows.shape[1]

    def weights(inward: int, outward: int, scale: float) -> torch.Tensor:
        drawn = generator.normal(0, np.sqrt(scale / inward), (inward, outward)).astype(np.float32)
        return torch.from_numpy(drawn).requires_grad_()

    def dense(part: sp.csr_matrix) -> torch.Tensor:
        return torch.from_numpy(part.toarray().astype(np.float32, copy=False))

    first, second = weights(width, HIDDEN, 2.0), weights(HIDDEN, task.classes, 1.0)
    shift, bias = torch.zeros(HIDDEN, requires_grad=True), torch.zeros(task.classes, requires_grad=True)
    optimiser = torch.optim.Adam([first, shift, second, bias], lr=0.002)
    labels = torch.from_numpy(task.labels)

    def answer(part: torch.Tensor) -> torch.Tensor:
        return torch.relu(part @ first + shift) @ second + bias

    for _ in range(max(10, -(-120 * 64 // len(task.train)))):
        order = generator.permutation(len(task.train))
        for start in range(0, len(order), 64):
            batch = order[start : start + 64]
            loss = torch.nn.functional.cross_entropy(answer(dense(rows[batch])), labels[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    with torch.no_grad():
        blocks = [answer(dense(asked[at : at + 512])) for at in range(0, asked.shape[0], 512)]
        return torch.softmax(torch.cat(blocks).double(), dim=1).numpy()


def tree(task: Task) -> Scores:
    """A decision tree on the plain rows: depth 6, ten users in a leaf."""
    trees = _sklearn("tree")
    made = trees.DecisionTreeClassifier(max_depth=6, min_samples_leaf=10, random_state=task.number("tree"))
    return _chances(made, task, task.beside_reports(task.items))


def bayes(task: Task) -> Scores:
    """Multinomial naive Bayes on the weighted rows; a report counts as its positive and negative part."""
    found = task.weighted
    if task.reports is not None:
        halves = [[np.maximum(rows, 0), np.maximum(-rows, 0)] for rows in task.reports]
        found = tuple(sp.csr_matrix(sp.hstack([a, *b])) for a, b in zip(found, halves))
    return _chances(_sklearn("naive_bayes").MultinomialNB(alpha=0.1), task, found)


def neighbours(task: Task) -> Scores:
    """The 25 nearest labelled users by cosine of the reduced rows, nearer ones counting more."""
    made = _sklearn("neighbors").KNeighborsClassifier(
        min(25, len(task.train)), weights="distance", metric="cosine", algorithm="brute"
    )
    return _chances(made, task, task.reduced)


def gaussian_process(task: Task) -> Scores:
    """Gaussian process regression on class indicators, squared exponential kernel, on the reduced rows.

    Least-squares classification (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
    section 6.5): one linear system serves all classes. Length scale 1, noise variance 1.
    """
    rows, asked, labels = _some(task)
    told = np.eye(task.classes)[labels]
    prior = told.mean(axis=0)
    kernel = _nearness(rows, rows)
    kernel[np.diag_indices(len(rows))] += 1.0
    scores: Scores = prior + _nearness(asked, rows) @ np.linalg.solve(kernel, told - prior)
    return scores


def svc(task: Task) -> Scores:
    """A support vector classifier, radial kernel, C = 1, on the reduced rows."""
    rows, asked, labels = _some(task)
    value = _sklearn("svm").SVC(C=1.0).fit(rows, labels).decision_function(asked)
    return np.stack([-value, value], axis=1) if value.ndim == 1 else np.asarray(value)


def logistic(task: Task) -> Scores:
    """Logistic regression on the weighted rows, C = 10."""
    rows, asked = task.beside_reports(task.weighted)
    # The same problem in other units, in which the solver is faster.
    scale = 8.0
    made = _sklearn("linear_model").LogisticRegression(C=10 / scale**2, max_iter=60)
    return _chances(made, task, (rows * scale, asked * scale))


def boosting(task: Task) -> Scores:
    """Histogram gradient boosting on the reduced rows: 400 trees in all, 10 to 50 for a class."""
    rounds = int(np.clip(400 // task.classes, 10, 50))
    made = _sklearn("ensemble").HistGradientBoostingClassifier(
        max_iter=rounds,
        max_leaf_nodes=8,
        max_bins=63,
        early_stopping=False,
        random_state=task.number("boosting"),
    )
    return _chances(made, task, task.reduced)


ATTACKERS: dict[str, Callable[[Task], Scores]] = {
    "network": network,
    "tree": tree,
    "bayes": bayes,
    "knn": neighbours,
    "gp": gaussian_process,
    "svc": svc,
    "logistic": logistic,
    "boosting": boosting,
}


def guess(attacker: str, task: Task) -> Scores:
    """Scores [attacked users, classes] of an attacker; without any evidence, the shares of the classes.

    >>> task = Task(Evidence(sp.csr_matrix((3, 2), dtype=np.float32)), np.array([0, 1]), np.array([2]),
    ...             np.array([0, 0]), classes=2, seed=1)
    >>> guess("svc", task).tolist()
    [[1.0, 0.0]]
    """
    if task.empty:
        shares = np.bincount(task.labels, minlength=task.classes) / len(task.labels)
        return np.tile(shares, (len(task.test), 1))
    return ATTACKERS[attacker](task)


@contextmanager
def one_thread(attackers: Iterable[str]) -> Iterator[None]:
    """Small problems are fastest on one core, and sums then have one order.

    >>> with one_thread(["tree"]):
    ...     pass
    """
    import torch

    before = torch.get_num_threads()
    limits: AbstractContextManager[Any] = nullcontext()
    if set(attackers) - {"network"}:
        control = require("threadpoolctl", extra="attacks", purpose="this attack")
        limits = control.threadpool_limits(1)
    with limits:
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _sklearn(module: str) -> Any:
    return require(f"sklearn.{module}", extra="attacks", purpose="this attacker")


def _chances(made: Any, task: Task, rows: Pair) -> Scores:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=_sklearn("exceptions").ConvergenceWarning)
        made.fit(rows[0], task.labels)
    return np.asarray(made.predict_proba(rows[1]), np.float64)


def _some(task: Task) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    rows, asked = task.reduced
    labels = task.labels
    if len(rows) > MOST_KERNEL_USERS:
        # the first of each class stays, so that no class is lost
        first = np.unique(labels, return_index=True)[1]
        others = np.setdiff1d(np.arange(len(rows)), first)
        drawn = task.generator("kernel users").choice(others, MOST_KERNEL_USERS - len(first), replace=False)
        chosen = np.sort(np.concatenate([first, drawn]))
        rows, labels = rows[chosen], labels[chosen]
    return rows, asked, labels


def _nearness(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared exponential kernel in units where typical rows are a distance of about sqrt(2) apart."""
    gap = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    near: NDArray[np.float64] = np.exp(-np.maximum(gap, 0) / (2 * a.shape[1]))
    return near


def _unit(rows: Any) -> sp.csr_matrix:
    rows = sp.csr_matrix(rows, dtype=np.float64)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ rows)


def _standard(train: NDArray[Any], test: NDArray[Any]) -> Pair:
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread = np.where(spread > 1e-12, spread, 1)
    return (train - mean) / spread, (test - mean) / spread
