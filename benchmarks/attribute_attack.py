"""Cost of the attribute inference attack on ML-100K: 943 users, 3 attributes, 8 attackers, 5 repeats.

    python benchmarks/attribute_attack.py --out docs/results/attribute-attack-speed.json

One kind of input (both, K = 10) with everything that always stands beside it: the history alone and popular
lists. That is 3 x 8 x 5 x 3 = 360 trained attackers; the script fails if they take more than 4 minutes. The
data are read from the folder in VEILREC_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

import veilrec as vr
from veilrec.attacks import ATTACKERS, AttributeAttack, Outcome
from veilrec.attacks.attribute_metrics import METRICS
from veilrec.core import environment, write_json

LIMIT = 240.0


def row_of(found: AttributeAttack, row: Outcome) -> dict[str, object]:
    """Means, and for those who see a list the leak: mean, low and high end."""
    about = {"target": row.target, "attacker": row.attacker, "sees": row.sees, "k": row.k}
    about |= {name: round(row.mean(name), 4) for name in METRICS}
    if row.k is not None:
        for name in ("micro_f1", "auc"):
            leak = found.leak(row.target, row.attacker, row.sees, row.k, name)
            about[f"leak_{name}"] = [round(value, 4) for value in (leak.mean, leak.low, leak.high)]
    return about


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/attribute-attack-speed.json"))
    chosen = parser.parse_args()
    parts = vr.split.holdout(
        vr.load("ml-100k", data_dir=os.environ["VEILREC_DATA"]), test=0.2, seed=0, joint=True
    )
    model = vr.EASE().fit(parts.train, seed=0)
    spent: dict[str, float] = {}

    def timed(word: str, attacker):
        def run(task):
            began = time.perf_counter()
            try:
                return attacker(task)
            finally:
                spent[word] = spent.get(word, 0.0) + time.perf_counter() - began

        return run

    for word, attacker in list(ATTACKERS.items()):
        ATTACKERS[word] = timed(word, attacker)
    began, used = time.perf_counter(), time.process_time()
    found = vr.attack(
        model,
        parts,
        "attribute",
        target=["gender", "age", "occupation"],
        bins={"age": (35, 46)},
        inputs="both",
        k=10,
        repeats=5,
        progress=True,
    )
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    print(found)
    record = {
        "command": "python benchmarks/attribute_attack.py",
        "data": "ml-100k",
        "model": "ease",
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "seconds_by_attacker": {word: round(value, 2) for word, value in spent.items()},
        "trained_attackers": 5 * sum(row.attacker != "" for row in found.outcomes),
        "limit": f"at most {LIMIT:g} seconds",
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "settings": dict(found.settings),
        "rows": [row_of(found, row) for row in found.outcomes],
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(f"{seconds:.1f} s, of processor time {processor:.1f} s")
    raise SystemExit(0 if seconds <= LIMIT else 1)
