"""The synthetic world beside MovieLens-100K: `python -m benchmarks.synthetic_stats` (2 to 10 minutes).

Needs ml-100k in VEILREC_DATA and the packages of `pip install ".[test]"`. Writes
docs/results/synthetic-vs-ml-100k.json and the tables between the marks in docs/synthetic.md.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from veilrec.core import environment, stream, write_json, write_text
from veilrec.data import Categorical, Dataset, describe, synthetic
from veilrec.data.named import load
from veilrec.data.split import holdout

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "docs/results/synthetic-vs-ml-100k.json", ROOT / "docs/synthetic.md"
COMMAND = "VEILREC_DATA=<folder> python -m benchmarks.synthetic_stats"
SEEDS = (0, 1, 2, 3, 4)
K = 20
Stats = dict[str, float]


def counts(data: Dataset) -> Stats:
    """Popularity, activity and ratings."""
    info, per_item, per_user = describe(data), data.item_counts, data.user_counts
    assert data.rating is not None
    found = {
        "Gini of item popularity": info.gini,
        "share of events on the top 10 % of items": info.top_share["10%"],
        "share of users who met the top item": per_item.max() / data.n_users,
        "share of items met fewer than 5 times": (per_item < 5).mean(),
    }
    for label, level in (("least", 0), ("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75)):
        found[f"events per user, {label}"] = np.quantile(per_user, level)
    found |= {"events per user, 99 %": np.quantile(per_user, 0.99), "events per user, most": per_user.max()}
    for stars in range(1, 6):
        found[f"share of rating {stars}"] = (data.rating == stars).mean()
    user_mean = np.bincount(data.user, data.rating) / per_user
    often = per_item >= 20
    item_mean = np.bincount(data.item, data.rating, minlength=data.n_items)[often] / per_item[often]
    found["standard deviation of users' mean ratings"] = user_mean.std()
    found["standard deviation of items' mean ratings (20 events or more)"] = item_mean.std()
    return found


def prediction(data: Dataset, seed: int) -> Stats:
    """RMSE on the test part of 80/20: the mean, user and item biases, matrix factorisation on top (ALS)."""
    split = holdout(data, test=0.2, seed=seed, joint=True)
    train, test, size, rank, ridge = split.train, split.test, (data.n_users, data.n_items), 10, 8.0
    assert train.rating is not None
    assert test.rating is not None
    mean, user_bias, item_bias = train.rating.mean(), np.zeros(size[0]), np.zeros(size[1])
    per_user, per_item = train.user_counts + 5, train.item_counts + 5
    for _ in range(10):
        error = train.rating - mean - user_bias[train.user]
        item_bias = np.bincount(train.item, error, minlength=size[1]) / per_item
        error = train.rating - mean - item_bias[train.item]
        user_bias = np.bincount(train.user, error, minlength=size[0]) / per_user
    rest = train.rating - mean - user_bias[train.user] - item_bias[train.item]

    def solve(rows: NDArray[Any], columns: NDArray[Any], fixed: NDArray[Any], n: int) -> NDArray[Any]:
        outer = np.zeros((n, rank, rank))
        right = np.zeros((n, rank))
        np.add.at(outer, rows, fixed[columns][:, :, None] * fixed[columns][:, None, :])
        np.add.at(right, rows, fixed[columns] * rest[:, None])
        return np.linalg.solve(outer + ridge * np.eye(rank), right[:, :, None])[:, :, 0]

    items = 0.1 * stream(seed, "als").standard_normal((size[1], rank))
    for _ in range(10):
        users = solve(train.user, train.item, items, size[0])
        items = solve(train.item, train.user, users, size[1])
    biased = mean + user_bias[test.user] + item_bias[test.item]
    full = np.clip(biased + (users[test.user] * items[test.item]).sum(axis=1), 1, 5)

    def rmse(guess: Any) -> float:
        return float(np.sqrt(((test.rating - guess) ** 2).mean()))

    return {
        "RMSE, mean": rmse(mean),
        "RMSE, user and item biases": rmse(biased),
        "RMSE, matrix factorisation": rmse(full),
    }


def attributes(data: Dataset, seed: int) -> Stats:
    """Logistic regression on the 0/1 history, learnt from 80 % of the users, judged on the others."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    history, found = data.matrix(), {}
    order = stream(seed, "users").permutation(data.n_users)
    seen, unseen = np.split(order, [int(0.8 * data.n_users)])
    for label in ("gender", "age", "occupation"):
        attribute = data.attributes[label]
        if isinstance(attribute, Categorical):
            truth = np.digitize(attribute.codes, [2, 4]) if label == "age" else attribute.codes
        else:
            truth = np.digitize(attribute.values, [25, 45])
        model = LogisticRegression(C=0.03, max_iter=1000).fit(history[seen], truth[seen])
        name = "age in 3 groups" if label == "age" else label
        if label == "gender":
            found["gender, AUC"] = roc_auc_score(truth[unseen], model.decision_function(history[unseen]))
        found[f"{name}, micro-F1"] = (model.predict(history[unseen]) == truth[unseen]).mean()
        found[f"{name}, micro-F1 of the majority"] = (
            truth[unseen] == np.bincount(truth[seen]).argmax()
        ).mean()
    return found


def ease(history: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    """The item-item weights of EASE."""
    inverse = np.linalg.inv(
        history.T @ history + np.float32(ridge) * np.eye(history.shape[1], dtype=np.float32)
    )
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


def recommendation(data: Dataset, seed: int, ridge: float) -> Stats:
    """Recall@20 of full ranking, mean over users, per-user 80/20."""
    split = holdout(data, test=0.2, seed=seed, joint=True)
    train, test = split.train.matrix().toarray(), split.test.matrix().toarray()
    together = train.T @ train
    norm = np.sqrt(np.maximum(np.diag(together), 1))
    cosine = together / np.outer(norm, norm)
    np.fill_diagonal(cosine, 0)

    def recall(scores: NDArray[Any]) -> float:
        top = np.argsort(-np.where(train > 0, -np.inf, scores), axis=1, kind="stable")[:, :K]
        hits, held = np.take_along_axis(test, top, axis=1).sum(axis=1), test.sum(axis=1)
        return float((hits[held > 0] / held[held > 0]).mean())

    return {
        "Recall@20, popularity": recall(np.broadcast_to(train.sum(axis=0), train.shape)),
        "Recall@20, item cosine": recall(train @ cosine),
        "Recall@20, EASE": recall(train @ ease(train, ridge)),
    }


def item_space(data: Dataset, size: int = 32) -> NDArray[np.float64]:
    """Unit item vectors: right singular vectors of the doubly normalised matrix, without the first."""
    start = stream(0, "svd").standard_normal(min(data.n_users, data.n_items))
    scaled = data.matrix().astype(np.float64)
    scaled = scaled.multiply(1 / np.sqrt(np.maximum(data.user_counts, 1))[:, None])
    scaled = scaled.multiply(1 / np.sqrt(np.maximum(data.item_counts, 1))[None, :]).tocsr()
    _, values, right = sla.svds(scaled, k=size, v0=start)
    vectors = right[np.argsort(-values)][1:].T
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def order(data: Dataset, seed: int, ridge: float) -> Stats:
    """Is the next item nearer than any own item; do the last five items say more than any five?"""
    rng, vectors = stream(seed, "order"), item_space(data)
    follows = np.flatnonzero(data.user[1:] == data.user[:-1])
    owner = data.user[follows]
    other = data.offsets[owner] + (rng.random(len(owner)) * data.user_counts[owner]).astype(np.int64)
    keep = other != follows
    here = vectors[data.item[follows]]
    last = data.offsets[1:] - 1
    before = np.delete(np.arange(len(data)), last)
    train = data.take(before).matrix().toarray()
    weights, held = ease(train, ridge), data.item[last]

    def hit(rows: NDArray[Any]) -> float:
        scores = np.where(train > 0, -np.inf, data.take(rows).matrix().toarray() @ weights)
        target = np.take_along_axis(scores, held[:, None], axis=1)
        return float(((scores > target).sum(axis=1) < K).mean())

    shuffled = before[np.lexsort((rng.random(len(before)), data.user[before]))]
    from_end = data.offsets[data.user[before] + 1] - 1 - before  # 1 is the last of the training part
    return {
        "cosine of an item and the next": float((here * vectors[data.item[follows + 1]]).sum(axis=1).mean()),
        "cosine of an item and a random own": float(
            (here * vectors[data.item[other]]).sum(axis=1)[keep].mean()
        ),
        "Hit@20 of the last event, EASE on the five before": hit(before[from_end <= 5]),
        "Hit@20 of the last event, EASE on any five": hit(shuffled[from_end <= 5]),
        "Hit@20 of the last event, EASE on all": hit(before),
    }


def friendships(data: Dataset, seed: int) -> Stats:
    """Cosine of two users' mean item vectors, linked and at random, and agreement in gender."""
    if data.links is None:
        return {}
    users = data.matrix() @ item_space(data)
    users /= np.linalg.norm(users, axis=1, keepdims=True)
    source, target = data.links.source, data.links.target
    other = stream(seed, "pairs").permutation(target)
    gender = data.attributes["gender"]
    assert isinstance(gender, Categorical)
    return {
        "links per user": len(source) / data.n_users,
        "cosine of linked users": float((users[source] * users[target]).sum(axis=1).mean()),
        "cosine of random users": float((users[source] * users[other]).sum(axis=1).mean()),
        "same gender, linked users": (gender.codes[source] == gender.codes[target]).mean(),
        "same gender, random users": (gender.codes[source] == gender.codes[other]).mean(),
    }


def column(label: str, make: Callable[[int], Dataset], ridge: float) -> dict[str, Any]:
    """Mean and standard deviation over the seeds (of the world, for synthetic data, and of the splits)."""
    runs, prints = [], []
    for seed in SEEDS:
        started, data = time.perf_counter(), make(seed)
        prints.append(data.fingerprint)
        parts = (
            counts(data),
            recommendation(data, seed, ridge),
            attributes(data, seed),
            order(data, seed, ridge),
        )
        runs.append({k: float(v) for part in parts for k, v in part.items()})
        runs[-1] |= {k: float(v) for k, v in (prediction(data, seed) | friendships(data, seed)).items()}
        print(f"{label}, seed {seed}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    table = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    return {
        "fingerprints": sorted(set(prints), key=prints.index),
        "ease_ridge": ridge,
        "mean": {key: round(float(values.mean()), 4) for key, values in table.items()},
        "standard_deviation": {key: round(float(values.std(ddof=1)), 4) for key, values in table.items()},
    }


def table(columns: dict[str, Any]) -> str:
    """The means as a Markdown table, a row for each statistic."""
    lines = [f"| statistic | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for key in columns["synthetic, same size"]["mean"]:
        cells = [column["mean"].get(key) for column in columns.values()]
        whole = key.startswith("events per user")
        shown = ["–" if cell is None else f"{cell:.0f}" if whole else f"{cell:.3f}" for cell in cells]
        lines.append(f"| {key} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    real = load("ml-100k")
    size = (real.n_users, real.n_items, len(real))
    columns = {
        "ML-100K": column("ML-100K", lambda seed: real, 400),
        "synthetic, same size": column("same size", lambda seed: synthetic(*size, seed=seed), 400),
        "no attribute effect": column(
            "no effect", lambda seed: synthetic(*size, seed=seed, attribute_strength=0), 400
        ),
        "no drift": column("no drift", lambda seed: synthetic(*size, seed=seed, drift=0), 400),
        "synthetic, default": column("default", lambda seed: synthetic(seed=seed), 100),
    }
    write_json(RECORD, {"command": COMMAND, "seeds": SEEDS, "environment": environment(), "columns": columns})
    head, rest = PAGE.read_text(encoding="utf-8").split("<!-- table -->\n")
    tail = rest.split("<!-- end of table -->\n")[1]
    write_text(PAGE, f"{head}<!-- table -->\n{table(columns)}\n<!-- end of table -->\n{tail}")
    print(json.dumps({name: column["mean"] for name, column in columns.items()}, indent=1))


if __name__ == "__main__":
    main()
