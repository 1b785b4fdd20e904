"""A table or figure of a paper, computed anew: its figures beside ours, and which of its orderings hold.

A *cell* is one model with one seed on one data set, measured in every way the paper's tables ask for. Cells
are kept in a folder and not computed again, so that a table can be stopped, continued, and share its cells
with the other tables of its paper.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from veilrec.core import check_choice, check_count, environment, track, write_json
from veilrec.data import Split
from veilrec.experiments.config import make_model
from veilrec.metrics import paired_t
from veilrec.training import Recommender

Figures = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A line of a table: the model that we fit for it, its settings, and whether the paper has it.

    >>> Row("gerai-paper", {"ablation": "NL"}).in_paper
    True
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    in_paper: bool = True


@dataclass(frozen=True)
class Column:
    """A column of figures: its head, where its values lie in a cell (``path``), what the paper prints.

    >>> Column("hit@5", ("sampled", "hit@5"), {"BPR": 0.348}).paper["BPR"]
    0.348
    """

    head: str
    path: tuple[str, ...]
    paper: Mapping[str, float] = field(default_factory=dict)
    data: str = ""
    """Which data; of a table with one data set that one."""
    relative: str = ""
    """A row by whose value of the same seed all are divided."""
    optional: bool = False
    """Whether a row may lack it: an adversary who sees nothing, say."""

    @property
    def group(self) -> str:
        """What it has in common with its neighbours: the word before @ or a comma."""
        return self.head.split("@")[0].split(",")[0]


@dataclass(frozen=True)
class Study:
    """One data set of a paper: its split for a seed, what is measured of a model, how many seeds.

    ``settings`` are those that models (by their words) have on this data whatever the row.
    """

    split: Callable[[int, str | Path | None], Split]
    measure: Callable[[Recommender, Split, int], Figures]
    seeds: int = 5
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperTable:
    """A table: rows by their labels, columns, and the row whose place among the others is the paper's point.

    ``sweep`` makes it a figure: for each panel the labels of its points, by their value.
    """

    title: str
    studies: Mapping[str, Study]
    rows: Mapping[str, Row]
    columns: tuple[Column, ...]
    subject: str = ""
    seeds: int | None = None
    sweep: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    note: str = ""

    def on(self, names: Sequence[str]) -> PaperTable:
        """The part of the table that is about some of its data sets."""
        first = next(iter(self.studies))
        columns = tuple(column for column in self.columns if (column.data or first) in names)
        return replace(self, studies={name: self.studies[name] for name in names}, columns=columns)


def reproduce_table(
    name: str,
    table: PaperTable,
    out: str | Path,
    *,
    seeds: int | None = None,
    data: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    rows: Sequence[str] | None = None,
    progress: bool = True,
    command: str | None = None,
) -> dict[str, Any]:
    """Compute what is missing of a table and return its record; ``out`` keeps the cells.

    ``data`` and ``rows`` choose some of its data sets and rows.
    """
    if seeds is not None:
        check_count("seeds", seeds)
    labels = tuple(table.rows) if rows is None else tuple(rows)
    for label in labels:
        check_choice("row", label, table.rows)
    for word in data or ():
        check_choice("data", word, table.studies)
    table = table.on(tuple(table.studies) if data is None else tuple(data))
    wanted = {word: seeds or table.seeds or study.seeds for word, study in table.studies.items()}
    cells: dict[tuple[str, str], list[Figures]] = {}
    prints: dict[str, str] = {}
    todo = [(word, seed) for word, count in wanted.items() for seed in range(count)]
    for word, seed, label in track([(*one, label) for one in todo for label in labels], name, show=progress):
        study = table.studies[word]
        if label == labels[0]:
            split = study.split(seed, data_dir)
            prints[word] = split.source_fingerprint
        found = _cell(Path(out), table.rows[label], seed, split, study)
        cells.setdefault((word, label), []).append(found)
    lines = [_row(label, cells, table) for label in labels]
    first = {label: next(found[0] for (_, own), found in cells.items() if own == label) for label in labels}
    return {
        "table": name,
        "title": table.title,
        "note": table.note,
        "command": command or f"python -m veilrec.cli reproduce {name}",
        "data": list(prints),
        "data_fingerprint": prints,
        "seeds": wanted,
        "columns": [column.head for column in table.columns],
        "rows": lines,
        "subject": table.subject,
        "orderings": orderings(lines, table),
        "sweep": {
            words: {str(at): label for at, label in some.items()} for words, some in table.sweep.items()
        },
        "settings": {
            word: {label: model_of(table.rows[label], study).settings() for label in labels}
            for word, study in table.studies.items()
        },
        "fits": [
            {
                "data": word,
                "row": label,
                "seconds": [c["seconds"] for c in some],
                "epochs": [c["epochs"] for c in some],
            }
            for (word, label), some in cells.items()
        ],
        "statements": {label: first[label]["protection"] for label in labels},
        "environment": environment(),
    }


def orderings(lines: list[dict[str, Any]], table: PaperTable) -> list[dict[str, Any]]:
    """The paper's subject against each other row, for each group of columns: its difference and ours.

    Ours "holds" if it has the paper's sign and a paired t-test over seeds finds it (p < 0.05), "does not" if
    the test finds the other sign, and is "open" otherwise.
    """
    by_label = {line["label"]: line["figures"] for line in lines}
    found: list[dict[str, Any]] = []
    if table.subject not in by_label:
        return found
    groups: dict[str, list[int]] = {}
    for place, column in enumerate(table.columns):
        if column.paper:
            groups.setdefault(column.group, []).append(place)
    for group, places in groups.items():
        for label, figures in by_label.items():
            printed = [table.columns[at].paper for at in places]
            if label == table.subject or any(label not in p or table.subject not in p for p in printed):
                continue
            theirs = float(np.mean([p[table.subject] - p[label] for p in printed]))
            ours = np.mean([by_label[table.subject][at]["values"] for at in places], axis=0)
            other = np.mean([figures[at]["values"] for at in places], axis=0)
            gap = float(np.mean(ours - other))
            sure = len(ours) > 1 and not np.allclose(ours, other) and paired_t(ours, other).p_value < 0.05
            verdict = "open" if not sure else "holds" if gap * theirs > 0 else "does not"
            found.append({"what": group, "against": label, "paper": theirs, "ours": gap, "verdict": verdict})
    return found


def _row(label: str, cells: Mapping[tuple[str, str], list[Figures]], table: PaperTable) -> dict[str, Any]:
    figures: list[dict[str, Any]] = []
    only = next(iter(table.studies))
    for column in table.columns:
        here = column.data or only
        values = [_found(cell, column) for cell in cells[here, label]]
        if column.relative:
            base = [_found(cell, column) for cell in cells[here, column.relative]]
            values = [value / other for value, other in zip(values, base)]
        if any(value is None for value in values):
            figures.append({"mean": None, "sd": None, "paper": None, "gap": None, "values": []})
            continue
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        printed = column.paper.get(label)
        mean = float(np.mean(values))
        gap = None if printed is None else mean - printed
        figures.append({"mean": mean, "sd": spread, "paper": printed, "gap": gap, "values": values})
    return {"label": label, "model": table.rows[label].model, "figures": figures}


def _found(cell: Mapping[str, Any], column: Column) -> Any:
    here: Any = cell
    for word in column.path:
        if column.optional and word not in here:
            return None
        here = here[word]
    return float(here)


def model_of(row: Row, study: Study) -> Recommender:
    """The model of a row, not fitted, with the settings of the study and, over them, its own.

    >>> import veilrec as vr
    >>> study = Study(lambda seed, data_dir: vr.split.holdout(vr.synthetic()), lambda model, split, seed: {},
    ...     settings={"lightgcn": {"layers": 2, "epochs": 9}})
    >>> model = model_of(Row("lightgcn", {"epochs": 3}), study)
    >>> model.settings()["layers"], model.settings()["epochs"]
    (2, 3)
    """
    return make_model(row.model, {**study.settings.get(row.model, {}), **row.settings})


def _cell(folder: Path, row: Row, seed: int, split: Split, study: Study) -> Figures:
    """One model with one seed, computed or read back; its name tells settings, data and version."""
    from veilrec import __version__

    model = model_of(row, study)
    about = [__version__, row.model, model.settings(), split.source_fingerprint, split.fingerprint, seed]
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
    file = folder / "cells" / f"{row.model}-{seed}-{key}.json"
    if file.exists():
        kept: Figures = json.loads(file.read_text(encoding="utf-8"))
        return kept
    started = time.process_time()
    model.fit(split.train, split.valid, seed=seed, progress=False, secure=False)
    cell = {
        "model": row.model,
        "settings": model.settings(),
        "seed": seed,
        "seconds": model.facts["seconds"],
        "processor_seconds": round(time.process_time() - started, 3),
        "epochs": model.facts.get("epochs"),
        "protection": model.guarantee.to_dict()["protection"],
        **study.measure(model, split, seed),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, cell)
    return cell
