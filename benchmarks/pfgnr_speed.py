"""What PF-GNR costs beside the network that it wraps, on ML-1M, in docs/results/pfgnr-speed.json.

    VEILREC_DATA=folder python benchmarks/pfgnr_speed.py

First one whole fit each: LightGCN, PF-GNR as published in one place, and PF-GNR trained over sums with the
plain backend, in which every device rounds its message and the server sees sums only. Encryption is not in
them (its cost per round: secure-sum.json). Whole fits on a machine that others share differ by a sixth from
one to the next, so the ratio is taken from short ones: LightGCN and PF-GNR turn by turn, ten epochs each
without validation. Other work only adds time, so the shortest start (the encoder and the graph) and the
shortest epochs of each form count, and the ratio is that of a start and as many epochs as the tables have.
The script fails if it is above 1.15, or if the fit over sums takes more than 20 minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import veilrec as vr
from veilrec.core import environment, write_json
from veilrec.experiments import make_model
from veilrec.experiments.pfgnr_tables import STUDIES
from veilrec.training import Recommender, evaluate

RATIO, MINUTES, SHORT = 1.15, 20.0, 10
STUDY = STUDIES["ml-1m"]
EPOCHS = STUDY.settings["lightgcn"]["epochs"]
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "LightGCN": ("lightgcn", {}),
    "PF-GNR(5)": ("pf-gnr-paper", {}),
    "PF-GNR(5) over plain sums": ("pf-gnr-paper", {"sums": "plain"}),
}


def fitted(form: str, split: vr.Split, epochs: int, valid: bool = True) -> tuple[Recommender, float, float]:
    """One fit, and its seconds by the clock and of the processor."""
    word, settings = FORMS[form]
    model = make_model(word, {**STUDY.settings[word], "epochs": epochs, "patience": 1000, **settings})
    began, used = time.perf_counter(), time.process_time()
    model.fit(split.train, split.valid if valid else None, seed=0, secure=False, progress=False)
    return model, time.perf_counter() - began, time.process_time() - used


def whole(form: str, split: vr.Split) -> dict[str, float]:
    """A fit of all epochs, and what it reaches on test."""
    model, seconds, processor = fitted(form, split, EPOCHS)
    recall = evaluate(model, split, 20, progress=False).mean()["recall@20"]
    return {"seconds": round(seconds, 1), "processor_seconds": round(processor, 1), "recall@20": recall}


def short(form: str, split: vr.Split) -> dict[str, float]:
    """Seconds of a short fit: until its epochs begin, with what comes after them, and of one epoch."""
    model, seconds, _ = fitted(form, split, SHORT, valid=False)
    inside = model.facts["log"][-1]["seconds"]
    return {"start": round(seconds - inside, 3), "epoch": round(inside / SHORT, 4)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30, help="short fits of each form")
    parser.add_argument("--out", type=Path, default=Path("docs/results/pfgnr-speed.json"))
    chosen = parser.parse_args()
    split = STUDY.split(0, None)
    for form in FORMS:
        fitted(form, split, 1)  # compiles what is to be compiled
    runs = {form: whole(form, split) for form in FORMS}
    print(runs, flush=True)
    plain, private, federated = FORMS
    turns: dict[str, list[dict[str, float]]] = {plain: [], private: []}
    for repeat in range(chosen.repeats):
        for form in (plain, private) if repeat % 2 else (private, plain):
            turns[form].append(short(form, split))
    shortest = {
        form: {part: min(one[part] for one in turns[form]) for part in turns[form][0]} for form in turns
    }
    cost = {form: one["start"] + EPOCHS * one["epoch"] for form, one in shortest.items()}
    ratio, minutes = round(cost[private] / cost[plain], 3), runs[federated]["seconds"] / 60
    record = {
        "command": f"python benchmarks/pfgnr_speed.py --repeats {chosen.repeats}",
        "data": "ml-1m",
        "data_fingerprint": split.source_fingerprint,
        "seeds": 1,
        "settings": dict(STUDY.settings["pf-gnr-paper"]),
        "whole fits": runs,
        "short fits": turns,
        "shortest": shortest,
        f"PF-GNR(5) to LightGCN, {EPOCHS} epochs": ratio,
        "limits": {"ratio at most": RATIO, "minutes over plain sums at most": MINUTES},
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(f"{shortest}: {ratio} times LightGCN; over plain sums {minutes:.1f} minutes")
    raise SystemExit(0 if ratio <= RATIO and minutes <= MINUTES else 1)
