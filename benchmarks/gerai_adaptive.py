"""The attacker who knows the mechanism, on GERAI and its twins, in docs/results/gerai-adaptive.json.

    VEILREC_DATA=folder OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/gerai_adaptive.py

The models of the GERAI tables (ML-100K, seed 0), attacked by the two-layer network and by boosting, who see
the history, the list, both mixed as in the paper ("both"), or both side by side with all that a user reports
("adaptive"; of GCN, which takes no reports, just both side by side). Means and 95 % intervals over five draws
of the labelled users. A fit takes some two minutes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from veilrec.attacks import attribute_attack
from veilrec.core import environment, write_json
from veilrec.experiments.gerai_tables import ROWS, STUDIES, TARGETS
from veilrec.experiments.tables import model_of

LABELS = ("GCN", "GERAI", "GERAI-C/A(1)", "GERAI-C/B(8)")
INPUTS = ("list", "both", "adaptive")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/gerai-adaptive.json"))
    chosen = parser.parse_args()
    study = STUDIES["ml-100k"]
    parts = study.split(0, os.environ["VEILREC_DATA"])
    rows = []
    for label in LABELS:
        model = model_of(ROWS[label], study)
        model.fit(parts.train, parts.valid, seed=0, secure=False)
        found = attribute_attack(
            model, parts, TARGETS, attackers=("network", "boosting"), inputs=INPUTS, k=10, progress=True
        )
        for one in found.outcomes:
            about = {"model": label, "target": one.target, "attacker": one.attacker, "sees": one.sees}
            for metric in ("micro_f1", "auc"):
                span = one.interval(metric)
                assert span is not None
                about[metric] = [round(value, 4) for value in (span.mean, span.low, span.high)]
            rows.append(about)
    record = {
        "command": "OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/gerai_adaptive.py",
        "data": "ml-100k",
        "data_fingerprint": parts.source_fingerprint,
        "seeds": 1,
        "rows": rows,
        "environment": environment(),
    }
    write_json(chosen.out, record)
