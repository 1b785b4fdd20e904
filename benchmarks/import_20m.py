"""Import of a table with 20 million rows: at most 90 seconds and 4 GB on two cores.

    python benchmarks/import_20m.py --out import_20m.json

Writes a CSV (user, item, rating, time) into a temporary folder, imports it in a child process, and prints
the seconds of the import and the child's largest resident size. Exits 1 above the limits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from veilrec.core import environment, stream, write_json

SECONDS, GIGABYTES = 90, 4.0
_CHILD = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from veilrec.data.read import read
begin, worked = time.perf_counter(), time.process_time()
data = read(sys.argv[1])
seconds, cpu = time.perf_counter() - begin, time.process_time() - worked
size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
measured = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "gigabytes": round(size / 1e9, 3)}
print(json.dumps({**measured, "rows": len(data), "users": data.n_users, "items": data.n_items}))
"""


def write_table(path: Path, rows: int, seed: int) -> None:
    """A long-tailed table; a few pairs repeat, as in real ones."""
    rng = stream(seed, "import benchmark")
    frame = pl.DataFrame(
        {
            "user_id": rng.integers(1, 200_001, rows),
            "item_id": (rng.pareto(1.0, rows) * 500).astype(np.int64) % 50_000 + 1,
            "rating": rng.integers(1, 11, rows) / 2,
            "timestamp": rng.integers(1_000_000_000, 1_700_000_000, rows),
        }
    )
    frame.write_csv(path)


def main() -> int:
    """Run, print, and compare with the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="also write the result as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "events.csv"
        write_table(table, arguments.rows, arguments.seed)
        size = table.stat().st_size
        child = [sys.executable, "-c", _CHILD, str(table)]
        printed = subprocess.run(child, check=True, capture_output=True, text=True).stdout
    measured = json.loads(printed)
    good = measured["seconds"] <= SECONDS and measured["gigabytes"] <= GIGABYTES
    result = {
        "benchmark": "import_20m",
        "file_bytes": size,
        "rows_in_file": arguments.rows,
        **measured,
        "limits": {"seconds": SECONDS, "gigabytes": GIGABYTES},
        "passed": good,
        "environment": environment(),
    }
    print(json.dumps(result, indent=2))
    if arguments.out:
        write_json(
            arguments.out,
            {"command": "python benchmarks/import_20m.py --out docs/results/import-20m.json", **result},
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
