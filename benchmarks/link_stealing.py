"""What link stealing and membership inference get out of fourteen models on ML-100K, and what it costs.

    python benchmarks/link_stealing.py --out docs/results/link-stealing-ml-100k.json

Popularity, EASE, BPR, DP-Gram (epsilon 8 for everything of a user), the graph networks, PF-GNR and its twins,
and its private rivals, with the settings they come with, fitted once with seed 0 on 80 % of each user's
interactions, noise for research. All adversaries, all attackers; nothing is tuned. The script fails if an
attack takes more than a minute of processor time. The data are read from the folder in VEILREC_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

import veilrec as vr
from veilrec.attacks import LinkAttack
from veilrec.attacks.links_metrics import METRICS
from veilrec.core import environment, write_json
from veilrec.systems import SYSTEMS

MODELS = (
    *("popularity", "ease", "bpr", "dp-gram"),
    *("lightgcn", "ngcf", "gat", "graphsage"),
    *("pf-gnr-paper", "pf-gnr", "pf-gnr-sums", "lapgraph", "dprr", "gap"),
)
KINDS = ("links", "membership")
LIMIT = 60.0


def rows_of(found: LinkAttack) -> list[dict[str, object]]:
    """Each metric with its interval over users, and for those who see a model the leak in AUC."""
    rows = []
    for row in found.outcomes:
        about: dict[str, object] = {"adversary": row.adversary, "attacker": row.attacker}
        for name in METRICS:
            interval = row.interval(name)
            about[name] = [round(value, 4) for value in (interval.mean, interval.low, interval.high)]
        if row.adversary:
            leak = found.leak(row.adversary, row.attacker)
            about["leak_auc"] = [round(value, 4) for value in (leak.mean, leak.low, leak.high)]
            about["null"] = found.null(row).attacker
        rows.append(about)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/link-stealing-ml-100k.json"))
    parser.add_argument("--models", default=",".join(MODELS), help="words of models by comma, for a part")
    chosen = parser.parse_args()
    words = chosen.models.split(",")
    parts = vr.split.holdout(
        vr.load("ml-100k", data_dir=os.environ["VEILREC_DATA"]), test=0.2, seed=0, joint=True
    )
    attacks = []
    for word in words:
        model = SYSTEMS[word]().fit(parts.train, seed=0, secure=False)
        for kind in KINDS:
            began, used = time.perf_counter(), time.process_time()
            found = vr.attack(model, parts, kind, progress=True)
            seconds, processor = time.perf_counter() - began, time.process_time() - used
            print(f"{found}\n{seconds:.1f} s, of processor time {processor:.1f} s\n", flush=True)
            attacks.append(
                {
                    "model": word,
                    "attack": kind,
                    "protection": model.guarantee.to_dict()["protection"],
                    "seconds": round(seconds, 1),
                    "processor_seconds": round(processor, 1),
                    "counts": {name: round(value, 6) for name, value in found.counts.items()},
                    "not_applicable": {f"{s}: {a}": why for (s, a), why in found.not_applicable.items()},
                    "rows": rows_of(found),
                }
            )
    slowest = max(one["processor_seconds"] for one in attacks)
    record = {
        "command": "python benchmarks/link_stealing.py"
        + (f" --models {chosen.models}" if words != [*MODELS] else ""),
        "data": "ml-100k",
        "split": repr(parts),
        "limit": f"at most {LIMIT:g} seconds of processor time for an attack",
        "slowest_processor_seconds": slowest,
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "settings": dict(found.settings),
        "attacks": attacks,
        "environment": environment(),
    }
    write_json(chosen.out, record)
    raise SystemExit(0 if slowest <= LIMIT else 1)
