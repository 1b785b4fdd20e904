"""How long the synthetic world takes, and how much memory: `python -m benchmarks.synthetic_speed`.

Limit: 10 million interactions in 60 s on the clock and 6 GB, on two cores. Processor seconds are shown too: a
much larger clock means a busy machine. Each size runs in its own process; the record goes to
docs/results/synthetic-speed.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from veilrec.core import environment, write_json

COMMAND = "python -m benchmarks.synthetic_speed"
RECORD = Path(__file__).resolve().parents[1] / "docs/results/synthetic-speed.json"
SIZES = ((20, 15, 50), (943, 1_682, 100_000), (6_000, 3_700, 1_000_000), (70_000, 20_000, 10_000_000))
SECONDS, GIGABYTES = 60.0, 6.0  # at the largest size


def measure(users: int, items: int, interactions: int) -> dict[str, float | int | str]:
    """Seconds on the clock and of the processor, peak memory of this process, fingerprint of one world."""
    from veilrec.data import synthetic

    wall, processor = time.perf_counter(), time.process_time()
    data = synthetic(users, items, interactions)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gigabytes = peak / (2**30 if sys.platform == "darwin" else 2**20)
    return {
        "users": users,
        "items": items,
        "interactions": interactions,
        "seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "gigabytes": round(gigabytes, 2),
        "fingerprint": data.fingerprint,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, type=int, metavar=("USERS", "ITEMS", "INTERACTIONS"))
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return 0
    rows = []
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.synthetic_speed", "--one", *map(str, size)]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    good = rows[-1]["seconds"] <= SECONDS and rows[-1]["gigabytes"] <= GIGABYTES
    write_json(
        arguments.out, {"command": COMMAND, "environment": environment(), "within_limit": good, "rows": rows}
    )
    print(f"{'within' if good else 'beyond'} {SECONDS:g} s and {GIGABYTES:g} GB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
