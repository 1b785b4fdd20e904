"""iALS and BPR on ML-1M: ours against the package implicit, in one run.

    python -m venv peers && peers/bin/pip install implicit      # once, beside this project's environment
    VEILREC_DATA=folder python benchmarks/peers_implicit.py --peer-python peers/bin/python

Both sides use 64 factors and two threads on the same 80/10/10 split. The peer's settings are the best of a
few on validation; ours are our defaults. Compilation is not timed (a tiny fit comes first). The script
fails if ours takes more than 1.5 times the peer's time or reaches a lower Recall@20 on test than the peer,
beyond 0.002 of noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import veilrec as vr
from veilrec.core import environment, write_json
from veilrec.training import validation_score

PEER = """
import json, sys, time
import numpy as np, scipy.sparse as sp
import implicit
from implicit.als import AlternatingLeastSquares as ALS
from implicit.bpr import BayesianPersonalizedRanking as BPR
folder = sys.argv[1]
train = sp.load_npz(folder + "/train.npz")
common = {"factors": 64, "num_threads": 2, "random_state": 1}
cells = [("als", ALS, {"alpha": a, "regularization": r, "iterations": 15})
         for a, r in ((5, 0.01), (5, 10), (3, 10))]
cells += [("bpr", BPR, {"learning_rate": l, "regularization": r, "iterations": n})
          for l, r, n in ((0.01, 0.01, 100), (0.01, 0.001, 100), (0.02, 0.01, 100), (0.05, 0.01, 50))]
rows = []
for number, (kind, model, settings) in enumerate(cells):
    fitted = model(**common, **settings)
    began = time.perf_counter()
    fitted.fit(train, show_progress=False)
    rows.append({"kind": kind, "settings": settings, "seconds": time.perf_counter() - began})
    np.save(folder + f"/users{number}.npy", fitted.user_factors)
    np.save(folder + f"/items{number}.npy", fitted.item_factors)
print("PEER " + json.dumps({"version": implicit.__version__, "rows": rows}))
"""


def scores_of(users: np.ndarray, items: np.ndarray) -> Any:
    """A scorer from two tables of vectors."""
    return lambda codes: np.ascontiguousarray(users[codes] @ items.T, dtype=np.float32)


def run_peer(python: str, split: vr.Split) -> dict[str, Any]:
    """The peer's best cell of each kind by validation, with its seconds and its Recall@20 on test."""
    assert split.valid is not None
    known = split.train.matrix() + split.valid.matrix()
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(Path(folder) / "train.npz", split.train.matrix())
        script = Path(folder) / "peer.py"
        script.write_text(PEER)
        environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        command = [python, str(script), folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        line = next((line for line in done.stdout.splitlines() if line.startswith("PEER ")), None)
        if line is None:
            raise SystemExit(
                f"implicit did not run; install it in the peer's environment.\n{done.stderr[-2000:]}"
            )
        answer = json.loads(line.removeprefix("PEER "))
        for number, row in enumerate(answer["rows"]):
            vectors = (np.load(Path(folder) / f"{side}{number}.npy") for side in ("users", "items"))
            score = scores_of(*vectors)
            row["valid"] = validation_score(score, split.train, split.valid)
            row["test"] = recall(score, known, split.test)
    best = {}
    for kind in ("als", "bpr"):
        best[kind] = max((row for row in answer["rows"] if row["kind"] == kind), key=lambda row: row["valid"])
    return {"version": answer["version"], "tried": answer["rows"], "best": best}


def recall(score: Any, known: sp.csr_matrix, test: vr.Dataset) -> float:
    """Mean Recall@20 on test with everything known masked."""
    from veilrec.metrics import evaluated_users, rank_all, ranking_metrics

    relevant = test.matrix()
    users = evaluated_users(relevant)
    ranked, _ = rank_all(score, users, 20, n_items=relevant.shape[1], seen=known)
    return float(ranking_metrics(ranked, relevant[users], (20,))["recall@20"].mean())


def run_ours(model: vr.Recommender, split: vr.Split) -> dict[str, Any]:
    """Seconds of our fit (no validation, all epochs) and Recall@20 on test."""
    type(model)(epochs=1).fit(vr.synthetic(users=80, items=70, interactions=1500), progress=False)  # compiles
    began = time.perf_counter()
    model.fit(split.train, seed=1, progress=False)
    seconds = time.perf_counter() - began
    test = vr.evaluate(model, split, k=20, progress=False).mean()["recall@20"]
    return {"settings": model.settings(), "seconds": seconds, "test": test}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peer-python", required=True, help="interpreter of an environment that has implicit"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/peers-implicit.json"))
    chosen = parser.parse_args()
    split = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1, joint=True)
    peer = run_peer(chosen.peer_python, split)
    mine = {"als": run_ours(vr.IALS(), split), "bpr": run_ours(vr.BPR(), split)}
    ratios = {kind: round(mine[kind]["seconds"] / peer["best"][kind]["seconds"], 3) for kind in mine}
    good = all(ratios[k] <= 1.5 and mine[k]["test"] >= peer["best"][k]["test"] - 0.002 for k in mine)
    record = {
        "command": "python benchmarks/peers_implicit.py --peer-python PEER",
        "data_fingerprint": split.source_fingerprint,
        "split_fingerprint": split.fingerprint,
        "seeds": 1,
        "ours": mine,
        "implicit": peer,
        "time_ratio": ratios,
        "limit": "time ratio at most 1.5 at equal or better recall@20",
        "within_limit": good,
        "environment": environment(),
    }
    write_json(chosen.out, record)
    for kind in mine:
        theirs = peer["best"][kind]
        print(f"{kind}: ours {mine[kind]['seconds']:.2f} s, {mine[kind]['test']:.4f}; ", end="")
        print(f"implicit {theirs['seconds']:.2f} s, {theirs['test']:.4f}; ratio {ratios[kind]}")
    raise SystemExit(0 if good else 1)
