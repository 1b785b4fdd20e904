"""Accuracy of the plain models on public data, settings chosen on validation, in
docs/results/accuracy-*.json.

    VEILREC_DATA=folder python benchmarks/accuracy.py gowalla-lightgcn

Each candidate (settings and number of epochs) is fitted on train and judged on validation; the best one is
fitted again on train + validation and judged once on test. Validation fits are kept beside the record and
not repeated when the script is started again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import veilrec as vr
from veilrec.core import environment, write_json
from veilrec.data import predefined_split
from veilrec.systems import SYSTEMS


def gowalla() -> vr.Split:
    """The given split; validation is the last tenth of each training list, as test follows training."""
    split = predefined_split("gowalla")
    assert split is not None
    return vr.split.carve_validation(split, 0.1, last=True)


def ml_1m() -> vr.Split:
    """All ratings as interactions, 80/10/10 at random per user."""
    return vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1, joint=True)


def _grid(word: str, base: dict[str, Any], **axes: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """The base and, one at a time, the other values of each axis."""
    cells = [dict(base)]
    for name, values in axes.items():
        cells += [{**base, name: value} for value in values if base.get(name) != value]
    return [(word, cell) for cell in cells]


STUDIES: dict[str, tuple[Callable[[], vr.Split], list[tuple[str, dict[str, Any]]], dict[str, float], str]] = {
    "gowalla-lightgcn": (
        gowalla,
        _grid(
            "lightgcn",
            {"epochs": 80, "temperature": 0.1, "norm_power": 0.4, "user_power": 0.5},
            epochs=[40],
            norm_power=[0.6],
        ),
        {"recall@20": 0.180, "ndcg@20": 0.152},
        "LightGCN paper: Recall@20 0.1830, NDCG@20 0.1554",
    ),
    "gowalla-gf-cf": (
        gowalla,
        [("gf-cf", {"alpha": alpha, "tilt": tilt}) for tilt in (0.0, 0.5) for alpha in (0.1, 0.3)],
        {"recall@20": 0.185},
        "GF-CF paper: Recall@20 0.1849, NDCG@20 0.1518",
    ),
    "gowalla-popularity": (gowalla, [("popularity", {})], {}, ""),
    "ml-1m-ease": (
        ml_1m,
        _grid("ease", {"regularization": 500.0}, regularization=[200.0, 1000.0]),
        {"recall@20": 0.295},
        "",
    ),
    "ml-1m-lightgcn": (
        ml_1m,
        _grid(
            "lightgcn",
            {"epochs": 120, "temperature": 0.15, "norm_power": 0.5, "batches": 4},
            epochs=[40],
            temperature=[0.1, 0.2],
            norm_power=[0.0],
        ),
        {"recall@20": 0.25},
        "",
    ),
    "ml-1m-popularity": (ml_1m, [("popularity", {})], {}, ""),
}


def _judge(word: str, settings: dict[str, Any], split: vr.Split, part: str) -> dict[str, Any]:
    model = SYSTEMS[word](**settings)
    began = time.perf_counter()
    model.fit(split.train, seed=1)
    fitted = time.perf_counter()
    result = vr.evaluate(model, split, k=20, part=part).to_dict()
    figures = {name: result["metrics"][name] for name in ("recall@20", "ndcg@20")}
    seconds = {"fit": round(fitted - began, 1), "evaluate": result["seconds"]}
    return {"settings": settings, "metrics": figures, "seconds": seconds}


def run(name: str, out: Path, recorded: Path | None = None, slack: float = 0.0) -> dict[str, Any]:
    """One study, from candidates to the test figure; ``recorded`` has settings that were chosen before."""
    make, cells, goals, published = STUDIES[name]
    split = make()
    assert split.valid is not None
    cache = out / f".accuracy-{name}.partial.json"
    tried = json.loads(cache.read_text()) if cache.exists() else []
    if recorded is not None:
        best = json.loads((recorded / f"accuracy-{name}.json").read_text())["test"]
    elif len(cells) > 1:
        for word, settings in cells[len(tried) :]:
            tried.append(_judge(word, settings, split, "valid"))
            write_json(cache, tried)
            print(name, "valid", json.dumps(tried[-1]), flush=True)
        best = max(tried, key=lambda cell: cell["metrics"]["recall@20"]["mean"])
    else:
        best = {"settings": cells[0][1]}
    word, settings = cells[0][0], dict(best["settings"])
    rows = np.flatnonzero(split.parts != 2)
    whole = split_source(split)
    final = dataclasses.replace(split, train=whole.take(rows, name=split.train.name), valid=None)
    test = _judge(word, settings, final, "test")
    record = {
        "study": name,
        "command": f"python benchmarks/accuracy.py {name}",
        "model": word,
        "data_fingerprint": split.source_fingerprint,
        "split": {"method": split.method, "settings": dict(split.settings), "fingerprint": split.fingerprint},
        "seeds": 1,
        "chosen_on": "validation recall@20" if tried else "an earlier record" if recorded else "nothing",
        "validation": tried,
        "test": test,
        "published": published,
        "goals": goals,
        "environment": environment(),
    }
    write_json(out / f"accuracy-{name}.json", record)
    cache.unlink(missing_ok=True)
    missed = {m: v for m, v in goals.items() if test["metrics"][m]["mean"] < v - slack}
    print(name, "test", json.dumps(test), "missed" if missed else "reached", missed or goals, flush=True)
    return {"record": record, "missed": missed}


def split_source(split: vr.Split) -> vr.Dataset:
    """The whole data set of a split, its rows in their old order."""
    assert split.valid is not None
    columns = {}
    for label in ("user", "item"):
        column = np.empty(len(split.parts), np.int32)
        for code, part in ((0, split.train), (1, split.valid), (2, split.test)):
            column[split.parts == code] = getattr(part, label)
        columns[label] = column
    return dataclasses.replace(split.train, **columns, rating=None, time=None, sensitive=None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="+", choices=[*STUDIES, "all"])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--recorded", type=Path, help="folder of earlier records: do not choose again")
    parser.add_argument("--slack", type=float, default=0.0, help="another machine may round differently")
    chosen = parser.parse_args()
    names = list(STUDIES) if "all" in chosen.studies else chosen.studies
    failed = [name for name in names if run(name, chosen.out, chosen.recorded, chosen.slack)["missed"]]
    raise SystemExit(1 if failed else 0)
