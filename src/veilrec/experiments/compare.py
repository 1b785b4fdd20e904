"""Models x seeds on the same splits: means, intervals over users and over seeds, paired tests, one record.

Each (model, seed) is a cell, kept in the folder by a key over everything that decides its numbers. A
comparison that was stopped, or is asked again with one model more, computes only the missing cells.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from veilrec.core import DataError, check
from veilrec.data import Dataset
from veilrec.experiments.cells import Cell, cell_key, compute_cell, read_cell
from veilrec.experiments.config import make_model
from veilrec.experiments.records import new_record, write_record
from veilrec.experiments.sources import load_data, make_split
from veilrec.experiments.specs import NULL_MODEL, DataSpec, Entry, EvaluateSpec, Plan, SplitSpec
from veilrec.metrics import cohen_dz, holm, mean_interval, paired_t, seed_interval, sign_flip_test
from veilrec.training import Array, Recommender

LEVEL = 0.95
MANY = 100
"""From this number of users on, differences are tested by the paired t test; below, by sign flips."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`: the record, and the folder it lies in, if it was kept.

    >>> metrics = {"recall@20": {"mean": 0.1834}}
    >>> Comparison({"models": [{"label": "ease", "metrics": metrics}]}, None).mean("ease", "recall@20")
    0.1834
    """

    record: dict[str, Any]
    folder: Path | None

    def mean(self, label: str, metric: str) -> float:
        """The mean of a metric of one model."""
        row = next((row for row in self.record["models"] if row["label"] == label), None)
        check(row is not None, "label", "of a model that was compared", label)
        assert row is not None
        return float(row["metrics"][metric]["mean"])


def compare(
    models: Sequence[str | Recommender],
    data: str | Dataset = "synthetic",
    *,
    seeds: int | Sequence[int] = 1,
    k: Sequence[int] = (5, 10, 20),
    split: SplitSpec | None = None,
    protocol: Literal["full", "sampled", "one-positive"] = "full",
    reference: str = "first",
    null: bool = True,
    out: str | Path | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare models, named by word or given unfitted with settings, on a data set; ``null`` adds popularity.

    ``out`` keeps the record and the cells; without it nothing is kept.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900)
    >>> result = compare(["popularity"], data, k=[5], progress=False)
    >>> 0 < result.mean("popularity", "recall@5") < 1
    True
    """
    entries = [
        Entry(model, model) if isinstance(model, str) else Entry(model.word, model.word, model.settings())
        for model in models
    ]
    if null and all(entry.model != NULL_MODEL for entry in entries):
        entries.append(Entry(NULL_MODEL, NULL_MODEL))
    plan = Plan(
        models=tuple(entries),
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        data=DataSpec(data) if isinstance(data, str) else DataSpec(),
        split=split or SplitSpec(),
        evaluate=EvaluateSpec(tuple(k), protocol),
        reference=reference,
    )
    given = None if isinstance(data, str) else data
    if out is not None:
        return run_plan(plan, out, data=given, progress=progress)
    with tempfile.TemporaryDirectory() as folder:
        found = run_plan(plan, Path(folder) / "comparison", data=given, progress=progress)
        return Comparison(found.record, None)


def run_plan(
    plan: Plan,
    out: str | Path,
    *,
    data: Dataset | None = None,
    progress: bool = True,
    command: str | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Comparison:
    """Run every missing cell of ``plan`` and write ``record.json`` into ``out``; ``say`` hears of each cell.

    A seed decides the split (unless the plan fixes it) and the training; all models see the same splits. The
    value of a user is their mean over seeds. Differences to the reference are tested over users, and the
    p-values of one metric are corrected by Holm for the number of models. ``data`` replaces the plan's.

    >>> entries = (Entry("ease", "ease"), Entry("popularity", "popularity"))
    >>> plan = Plan(entries, seeds=(0, 1), data=DataSpec("synthetic:60,40,900"))
    >>> done = run_plan(plan, Path(tempfile.mkdtemp()) / "comparison", progress=False)
    >>> [row["label"] for row in done.record["models"]], len(list((done.folder / "cells").iterdir()))
    (['ease', 'popularity'], 4)
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise DataError("out must be a folder, got a file. Choose another name.", file=folder)
    if (folder / "run.json").exists():
        raise DataError("out must be a new folder or a comparison, got a run. Choose another.", file=folder)
    models = {entry.label: make_model(entry.model, entry.settings) for entry in plan.models}
    source = plan.data if data is None else None
    if data is None:
        data = load_data(plan.data)
    splits = [make_split(plan.split, data, seed, source) for seed in plan.seeds]
    grid = [(entry, seed, split) for seed, split in zip(plan.seeds, splits) for entry in plan.models]
    cells: dict[str, list[Cell]] = {entry.label: [] for entry in plan.models}
    for entry, seed, split in grid:
        model = models[entry.label]
        path = folder / "cells" / f"{entry.model}-{seed}-{cell_key(plan, model, split, seed)}.safetensors"
        say(f"{entry.label}, seed {seed}: {'kept' if path.exists() else 'fitting'}")
        if not path.exists():
            compute_cell(plan, entry, seed, split, path, progress)
        cells[entry.label].append(read_cell(path))
    record = new_record(
        "comparison",
        folder.name,
        data,
        splits[0],
        command,
        seeds=list(plan.seeds),
        reference=plan.reference,
        evaluation={"protocol": plan.evaluate.protocol, "part": "test", "k": list(plan.evaluate.k)},
        note=_note(plan),
        models=summarise(plan.models, cells, plan.reference),
    )
    write_record(folder, record)
    return Comparison(record, folder)


def summarise(
    entries: Sequence[Entry], cells: Mapping[str, Sequence[Cell]], reference: str
) -> list[dict[str, Any]]:
    """One row per model: of each metric the mean, intervals over users and seeds, and the test."""
    pooled = {entry.label: _pool(cells[entry.label]) for entry in entries}
    rows: list[dict[str, Any]] = []
    for entry in entries:
        mine = cells[entry.label]
        metrics: dict[str, Any] = {}
        for name, values in pooled[entry.label].items():
            over_users = mean_interval(values, LEVEL)
            over_seeds = seed_interval([cell.values[name] for cell in mine], LEVEL) if len(mine) > 1 else None
            metrics[name] = {
                "mean": over_users.mean,
                "users": [over_users.low, over_users.high],
                "seeds": None if over_seeds is None else [over_seeds.low, over_seeds.high],
                "test": None,
            }
        for name in mine[0].about["overall"]:
            metrics[name] = {"mean": float(np.mean([cell.about["overall"][name] for cell in mine]))}
        first = mine[0].about
        rows.append(
            {
                "label": entry.label,
                "model": entry.model,
                "settings": first["settings"],
                "protection": first["guarantee"]["protection"],
                "statement": first["statement"],
                "seconds": float(np.mean([cell.about["seconds"] for cell in mine])),
                "metrics": metrics,
            }
        )
    for name in pooled[entries[0].label]:
        _test(rows, pooled, name, reference)
    return rows


def _test(
    rows: list[dict[str, Any]], pooled: Mapping[str, Mapping[str, Array]], name: str, reference: str
) -> None:
    """Compare each model with the reference on one metric, in place."""
    against = reference
    if reference == "first":
        against = rows[0]["label"]
    elif reference == "best":
        against = max(rows, key=lambda row: row["metrics"][name]["mean"])["label"]
    others = [row for row in rows if row["label"] != against]
    if not others:
        return
    base = pooled[against][name]
    found = []
    for row in others:
        mine = pooled[row["label"]][name]
        found.append(paired_t(mine, base) if len(base) >= MANY else sign_flip_test(mine, base, seed=0))
    for row, test, adjusted in zip(others, found, holm([test.p_value for test in found])):
        mine = pooled[row["label"]][name]
        effect = cohen_dz(mine, base)
        row["metrics"][name]["test"] = {
            "against": against,
            "test": test.test,
            "p": float(adjusted),
            "p_raw": test.p_value,
            "difference": float((mine - base).mean()),
            "effect": effect if math.isfinite(effect) else None,
        }


def _pool(cells: Sequence[Cell]) -> dict[str, Array]:
    """Per metric the value of each user, by user code: the mean over seeds."""
    users = np.concatenate([cell.users for cell in cells])
    _, place = np.unique(users, return_inverse=True)
    times = np.bincount(place)
    return {
        name: np.bincount(place, weights=np.concatenate([cell.values[name] for cell in cells])) / times
        for name in cells[0].values
    }


def _note(plan: Plan) -> str:
    against = {"first": plan.models[0].label, "best": "the best model of each metric"}
    parts = [
        f"Intervals of {LEVEL:.0%} over users",
        f"differences to {against.get(plan.reference, plan.reference)}: p of a paired test over users, "
        "corrected by Holm over the models; d is Cohen's d_z",
        "one split per seed, shared by all models" if plan.split.seed is None else "one split for all seeds",
    ]
    if plan.evaluate.protocol != "full":
        way = plan.evaluate.protocol
        parts.append(f"protocol {way}, never to be compared with full ranking")
    return "; ".join(parts) + "."
