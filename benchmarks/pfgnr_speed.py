"""What PF-GNR costs beside the network that it wraps, on ML-1M, in docs/results/pfgnr-speed.json.

    VEILREC_DATA=folder python benchmarks/pfgnr_speed.py

One run, turn by turn: LightGCN, PF-GNR as published in one place, and PF-GNR trained over sums with the plain
backend, in which every device rounds its message and the server sees sums only. Fits of the same number of
epochs, by the processor's clock and by that on the wall; encryption is not in them (its cost per round:
secure-sum.json). A fit of one epoch of each form goes before, so that no kernel is compiled in a fit that
counts. Other work on the machine only adds time: the shortest fit of each form counts, and the kinder of the
two clocks. The script fails if the second takes more than 1.15 of the first, or the third more than 20
minutes.
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
from veilrec.training import evaluate

RATIO, MINUTES = 1.15, 20.0
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "LightGCN": ("lightgcn", {}),
    "PF-GNR(5)": ("pf-gnr-paper", {}),
    "PF-GNR(5) over plain sums": ("pf-gnr-paper", {"sums": "plain"}),
}


def fitted(form: str, split: vr.Split, epochs: int) -> dict[str, float]:
    """Seconds of one fit by both clocks, and what it reaches on test."""
    word, settings = FORMS[form]
    fixed = {"epochs": epochs, "patience": 1000}
    model = make_model(word, {**STUDIES["ml-1m"].settings[word], **fixed, **settings})
    began, used = time.perf_counter(), time.process_time()
    model.fit(split.train, split.valid, seed=0, secure=False)
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    recall = evaluate(model, split, 20, progress=False).mean()["recall@20"]
    return {"seconds": round(seconds, 1), "processor_seconds": round(processor, 1), "recall@20": recall}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="of the first two; the third is fitted once")
    parser.add_argument("--epochs", type=int, default=STUDIES["ml-1m"].settings["lightgcn"]["epochs"])
    parser.add_argument("--out", type=Path, default=Path("docs/results/pfgnr-speed.json"))
    chosen = parser.parse_args()
    study = STUDIES["ml-1m"]
    split = study.split(0, None)
    central, federated = list(FORMS)[:2], list(FORMS)[2]
    runs: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
    for form in FORMS:
        fitted(form, split, epochs=1)
    for repeat in range(chosen.repeats):
        for form in central if repeat % 2 else reversed(central):
            runs[form].append(fitted(form, split, chosen.epochs))
            print(form, runs[form][-1], flush=True)
    runs[federated].append(fitted(federated, split, chosen.epochs))
    print(federated, runs[federated][-1], flush=True)
    used = {
        clock: {form: min(run[clock] for run in runs[form]) for form in FORMS}
        for clock in ("processor_seconds", "seconds")
    }
    ratios = {clock: round(by[central[1]] / by[central[0]], 3) for clock, by in used.items()}
    ratio = min(ratios.values())
    minutes = max(run["seconds"] for run in runs[federated]) / 60
    record = {
        "command": f"python benchmarks/pfgnr_speed.py --repeats {chosen.repeats} --epochs {chosen.epochs}",
        "data": "ml-1m",
        "data_fingerprint": split.source_fingerprint,
        "seeds": 1,
        "settings": {**study.settings["pf-gnr-paper"], "epochs": chosen.epochs},
        "runs": runs,
        "shortest": used,
        "PF-GNR(5) to LightGCN": ratios,
        "limits": {"ratio at most": RATIO, "minutes over plain sums at most": MINUTES},
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(f"{ratios} times LightGCN; over plain sums {minutes:.1f} minutes")
    raise SystemExit(0 if ratio <= RATIO and minutes <= MINUTES else 1)
