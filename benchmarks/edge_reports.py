"""Reports of a whole graph by both encoders, with secure noise, in docs/results/edge-reports-gowalla.json.

    VEILREC_DATA=folder python benchmarks/edge_reports.py

Gowalla has 29,858 x 40,981 cells; none of the encoders writes them out. Each is run in a process of its own
at epsilon 5. The script fails if one takes more than 60 seconds or 2 GB more than the data.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import veilrec as vr
from veilrec.core import environment, write_json
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import TopDegreeEncoder
from veilrec.systems import PFGNR

SECONDS, GIGABYTES = 60.0, 2.0
ENCODERS = ("as published", "randomised response")


def encoded(which: str) -> dict[str, Any]:
    """Seconds, growth of memory, and the share of true edges among those reported."""
    data = vr.load("gowalla")
    history = data.matrix()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    published = which == ENCODERS[0]
    encoder: Any = TopDegreeEncoder(5.0, 0.9) if published else PFGNR(epsilon=5.0).encoder(*history.shape)
    began, used = time.perf_counter(), time.process_time()
    report = encoder.perturb(history, Noise.secure())
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    both = report.multiply(history).nnz
    return {
        "encoder": which,
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "gigabytes": round(grown, 2),
        "reported edges": int(report.nnz),
        "of them true": round(both / max(report.nnz, 1), 4),
        "data_fingerprint": data.fingerprint,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/edge-reports-gowalla.json"))
    chosen = parser.parse_args()
    rows = []
    for which in ENCODERS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(encoded, (which,)))
        print(rows[-1], flush=True)
    prints = {row.pop("data_fingerprint") for row in rows}
    record = {
        "command": "python benchmarks/edge_reports.py",
        "data": "gowalla",
        "data_fingerprint": prints.pop(),
        "seeds": "none: noise from the operating system",
        "epsilon": 5.0,
        "rows": rows,
        "limits": {"seconds": SECONDS, "gigabytes": GIGABYTES},
        "environment": environment(),
    }
    write_json(chosen.out, record)
    worst = [max(row[name] for row in rows) for name in ("seconds", "gigabytes")]
    raise SystemExit(0 if np.all(np.array(worst) <= (SECONDS, GIGABYTES)) else 1)
