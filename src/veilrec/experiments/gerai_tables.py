"""The tables of the GERAI paper (Zhang et al., WWW 2021) on ML-100K: its figures beside ours.

A *cell* is one model with one seed: fitted on 80 % of each user's items (a tenth of them carved off for early
stopping), judged by both protocols at K = 5 ... 30, and attacked. Cells are kept in a folder and not computed
again, so that a table can be stopped, continued, and share its cells with the other tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veilrec.attacks import attribute_attack
from veilrec.core import check_choice, check_count, environment, track, write_json
from veilrec.data import Numeric, Split, load
from veilrec.data import split as splits
from veilrec.experiments.config import make_model
from veilrec.experiments.gerai_paper import (
    PAPER_ABLATION,
    PAPER_ATTACKERS,
    PAPER_F1,
    PAPER_HIT,
    PAPER_NDCG,
)
from veilrec.training import evaluate

LENGTHS = (5, 10, 15, 20, 25, 30)
TARGETS = ("age", "gender", "occupation")
BINS = {"age": (35.0, 46.0)}
OTHERS = ("tree", "bayes", "knn", "gp")


@dataclass(frozen=True)
class Row:
    """A line of a table: its label, the model that we fit for it, and whether the paper has it.

    >>> ROWS["GERAI"].model
    'gerai-paper'
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    in_paper: bool = True


ROWS: dict[str, Row] = {
    "BPR": Row("bpr"),
    "GCN": Row("gcn"),
    "BlurMe": Row("blurme"),
    "DPAE": Row("dpae"),
    "DPNE": Row("dpne"),
    "DPMF": Row("dpmf"),
    "RAP": Row("rap"),
    "GERAI": Row("gerai-paper"),
    "GERAI-NL": Row("gerai-paper", {"ablation": "NL"}),
    "GERAI-NF": Row("gerai-paper", {"ablation": "NF"}),
    "GERAI-C/A, 1 per attribute": Row("gerai", {"epsilon": 1.0}, in_paper=False),
    "GERAI-C/B, epsilon 8": Row("gerai-users", {"epsilon": 8.0}, in_paper=False),
    "DP-Gram, epsilon 8": Row("dp-gram", {"epsilon": 8.0}, in_paper=False),
    "popularity": Row("popularity", in_paper=False),
}
_MAIN = [label for label in ROWS if label not in ("GERAI-NL", "GERAI-NF")]
_ABLATION = ["GCN", "GERAI-NL", "GERAI-NF", "GERAI", "GERAI-C/A, 1 per attribute", "popularity"]


@dataclass(frozen=True)
class Column:
    """A column of figures: its head, and where its values lie in a cell (``path``) and in the paper."""

    head: str
    path: tuple[str, ...]
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperTable:
    """A table: which rows, which columns, and what each cell must have been asked."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]


def _ranking() -> tuple[Column, ...]:
    columns = []
    for name, printed in (("hit", PAPER_HIT), ("ndcg", PAPER_NDCG)):
        for place, k in enumerate(LENGTHS):
            figures = {label: row[place] for label, row in printed.items()}
            columns.append(Column(f"{name}@{k}", ("sampled", f"{name}@{k} (1+99 sampled)"), figures))
    columns += [Column(f"ndcg@{k}, full ranking", ("full", f"ndcg@{k}")) for k in (5, 10, 20)]
    return tuple(columns)


def _inference() -> tuple[Column, ...]:
    columns = []
    for target in TARGETS:
        for place, k in enumerate(LENGTHS):
            figures = {label: row[place] for label, row in PAPER_F1[target].items()}
            columns.append(Column(f"{target}, K={k}", ("f1", target, "network", f"both@{k}"), figures))
        nulls = ("history", "majority class", "random guess")
        columns += [Column(f"{target}, {name}", ("f1", target, "network", name)) for name in nulls]
    return tuple(columns)


def _ablation() -> tuple[Column, ...]:
    heads = [
        ("hit@5", ("sampled", "hit@5 (1+99 sampled)")),
        ("ndcg@5", ("sampled", "ndcg@5 (1+99 sampled)")),
        *((f"F1 {target}, K=5", ("f1", target, "network", "both@5")) for target in TARGETS),
    ]
    columns = [
        Column(head, path, {label: row[place] for label, row in PAPER_ABLATION.items()})
        for place, (head, path) in enumerate(heads)
    ]
    columns.append(Column("ndcg@10, full ranking", ("full", "ndcg@10")))
    return tuple(columns)


def _attackers() -> tuple[Column, ...]:
    columns = []
    for target in TARGETS:
        for place, attacker in enumerate(OTHERS):
            figures = {label: row[place] for label, row in PAPER_ATTACKERS[target].items()}
            columns.append(Column(f"{target}, {attacker}", ("f1", target, attacker, "both@5"), figures))
        columns.append(Column(f"{target}, majority class", ("f1", target, OTHERS[0], "majority class")))
    return tuple(columns)


GERAI_TABLES: dict[str, PaperTable] = {
    "gerai-table2": PaperTable("Attribute inference, micro F1 (lower is better)", tuple(_MAIN), _inference()),
    "gerai-table3": PaperTable("Recommendation, one item among 99 others", tuple(_MAIN), _ranking()),
    "gerai-table4": PaperTable("Ablation", tuple(_ABLATION), _ablation()),
    "gerai-table5": PaperTable("Other attackers, lists of 5, micro F1", tuple(_MAIN), _attackers()),
}


def reproduce(
    name: str,
    out: str | Path,
    *,
    seeds: int = 5,
    data_dir: str | Path | None = None,
    rows: tuple[str, ...] | None = None,
    progress: bool = True,
    command: str | None = None,
) -> dict[str, Any]:
    """Compute what is missing of a table and return its record; ``out`` keeps the cells.

    >>> reproduce("gerai-table9", "nowhere")
    Traceback (most recent call last):
        ...
    ValueError: table must be one of gerai-table2, ..., got 'gerai-table9'. Did you mean 'gerai-table...'?
    """
    check_choice("table", name, GERAI_TABLES)
    check_count("seeds", seeds)
    table = GERAI_TABLES[name]
    data = load("ml-100k", data_dir=data_dir)
    labels = table.rows if rows is None else rows
    cells: dict[str, list[dict[str, Any]]] = {}
    wanted = [(seed, label) for seed in range(seeds) for label in labels]
    for seed, label in track(wanted, name, show=progress):
        split = splits.carve_validation(splits.holdout(data, test=0.2, seed=seed), 0.1, seed=seed)
        cells.setdefault(label, []).append(_cell(Path(out), label, seed, split, table))
    return {
        "table": name,
        "title": table.title,
        "command": command or f"python -m veilrec.cli reproduce {name} --seeds {seeds}",
        "data": data.name,
        "data_fingerprint": data.fingerprint,
        "seeds": seeds,
        "columns": [column.head for column in table.columns],
        "rows": [_row(label, cells[label], table) for label in labels],
        "seconds": {label: [cell["seconds"] for cell in cells[label]] for label in labels},
        "statements": {label: cells[label][0]["protection"] for label in labels},
        "environment": environment(),
    }


def _row(label: str, cells: list[dict[str, Any]], table: PaperTable) -> dict[str, Any]:
    figures = []
    for column in table.columns:
        values = [_found(cell, column.path) for cell in cells]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        printed = column.paper.get(label)
        mean = float(np.mean(values))
        figures.append(
            {"mean": mean, "sd": spread, "paper": printed, "gap": None if printed is None else mean - printed}
        )
    return {"label": label, "model": ROWS[label].model, "figures": figures}


def _found(cell: Mapping[str, Any], path: tuple[str, ...]) -> float:
    here: Any = cell
    for word in path:
        here = here[word]
    return float(here)


def _cell(folder: Path, label: str, seed: int, split: Split, table: PaperTable) -> dict[str, Any]:
    """One model with one seed; parts that another table has already asked for are read back."""
    from veilrec import __version__

    file = folder / "cells" / f"{label.replace('/', '').replace(', ', '-').replace(' ', '-')}-{seed}.json"
    row = ROWS[label]
    model = make_model(row.model, row.settings)
    key = [__version__, model.settings(), split.source_fingerprint, split.fingerprint]
    cell: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if cell.get("key") != json.loads(json.dumps(key)):
        cell = {}  # other settings, data or version: not the same cell
    asked = {column.path[2] for column in table.columns if column.path[0] == "f1"}
    known = set(cell.get("f1", {}).get(TARGETS[0], {}))
    if cell and asked <= known:
        return cell
    missing = sorted((asked | ({"network"} if not cell else set())) - known)
    model.fit(split.train, split.valid, seed=seed, progress=False, secure=False)
    cell |= {
        "key": key,
        "label": label,
        "seed": seed,
        "seconds": model.facts["seconds"],
        "epochs": model.facts.get("epochs"),
    }
    cell["protection"] = model.guarantee.to_dict()["protection"]
    for protocol in ("full", "sampled"):
        judged = evaluate(model, split, LENGTHS, protocol=protocol, seed=seed, progress=False)
        cell[protocol] = judged.mean()
    lengths = LENGTHS if "network" in missing else (5,)
    bins = BINS if isinstance(split.train.attributes["age"], Numeric) else None
    found = attribute_attack(
        model, split, TARGETS, attackers=missing, inputs="both", k=lengths, bins=bins, repeats=1, seed=seed
    )
    for outcome in found.outcomes:
        places = cell.setdefault("f1", {}).setdefault(outcome.target, {})
        name = outcome.sees if outcome.k is None else f"{outcome.sees}@{outcome.k}"
        for attacker in [outcome.attacker] if outcome.attacker else missing:
            places.setdefault(attacker, {})[name] = outcome.mean("micro_f1")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, cell)
    return cell
