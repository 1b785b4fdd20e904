"""Cost of a LightGCN epoch at 0.1, 1 and 10 million interactions of the synthetic world.

    python benchmarks/scaling.py --out docs/results/scaling.json

Linear growth means that the time per epoch and interaction stays the same; the script fails if it more than
doubles from one size to the next. Small sizes carry fixed costs, so the first step may come out below one.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from itertools import pairwise
from pathlib import Path

import veilrec as vr
from veilrec.core import environment, write_json

SIZES = ((2_000, 1_500, 100_000), (12_000, 6_000, 1_000_000), (70_000, 20_000, 10_000_000))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/scaling.json"))
    chosen = parser.parse_args()
    rows = []
    for users, items, interactions in SIZES:
        data = vr.synthetic(users, items, interactions, seed=1)
        model = vr.LightGCN(epochs=4).fit(data, seed=1)
        log = [0.0, *(entry["seconds"] for entry in model.facts["log"])]
        seconds = statistics.median(after - before for before, after in pairwise(log[1:]))
        sizes = {"interactions": interactions, "users": users, "items": items}
        rows.append({**sizes, "seconds_per_epoch": seconds})
        print(rows[-1], flush=True)
    growth = [
        (b["seconds_per_epoch"] / a["seconds_per_epoch"]) / (b["interactions"] / a["interactions"])
        for a, b in pairwise(rows)
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    record = {
        "command": "python benchmarks/scaling.py",
        "sizes": rows,
        "growth_over_linear": [round(value, 3) for value in growth],
        "peak_gib": round(peak, 2),
        "limit": "growth over linear at most 2",
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print("growth over linear:", record["growth_over_linear"], "peak GiB:", record["peak_gib"])
    raise SystemExit(0 if max(growth) <= 2 else 1)
