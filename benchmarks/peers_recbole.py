"""A LightGCN epoch on ML-1M: ours against RecBole's, in one run, at equal work and as each comes.

    python -m venv peers && peers/bin/pip install torch recbole      # once, beside this project's environment
    VEILREC_DATA=folder python benchmarks/peers_recbole.py --peer-python peers/bin/python

Same training rows, 64 dimensions, 3 layers. RecBole draws one negative for each interaction, in batches of
2,048: some 391 steps an epoch, each of which spreads all vectors over the whole graph. At equal work ours
does the same: pairwise loss, one negative for each interaction, as many steps. As it comes ours is a softmax
over shared negatives in 8 steps: an epoch passes every interaction once as well, but is far less work, so
that figure says little about the code. Ours at equal work and RecBole take turns. The script fails if ours is
not at least 5 times faster at equal work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import veilrec as vr
from veilrec.core import environment, write_json

PEER = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np, torch
names = {"float": float, "int": int, "bool": bool, "object": object, "float_": np.float64, "bool8": np.bool_}
for old, new in {**names, "complex_": np.complex128, "unicode_": np.str_}.items():
    if old not in np.__dict__:
        setattr(np, old, new)
import scipy.sparse as sp
if not hasattr(sp.dok_matrix, "_update"):
    def _update(self, entries):
        for key, value in entries.items():
            self[key] = value
    sp.dok_matrix._update = _update
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import LightGCN
from recbole.trainer import Trainer
import recbole
folder = sys.argv[1]
sys.argv = sys.argv[:1]
config = Config(model="LightGCN", dataset="peer", config_dict={
    "data_path": folder, "load_col": {"inter": ["user_id", "item_id"]}, "embedding_size": 64, "n_layers": 3,
    "train_batch_size": 2048, "use_gpu": False, "show_progress": False, "state": "ERROR", "seed": 1,
    "reproducibility": True, "checkpoint_dir": folder,
    "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "order": "RO", "group_by": "user", "mode": "full"}})
dataset = create_dataset(config)
train, _, _ = data_preparation(config, dataset)
model = LightGCN(config, train.dataset).to("cpu")
trainer = Trainer(config, model)
began = time.perf_counter()
trainer._train_epoch(train, 0)
seconds = time.perf_counter() - began
found = {"seconds": seconds, "steps": len(train), "version": recbole.__version__, "rows": len(dataset)}
print("PEER " + json.dumps(found))
"""


def our_epochs(model: vr.LightGCN, split: vr.Split) -> list[float]:
    """Seconds of each epoch but the first, which compiles."""
    model.fit(split.train, seed=1)
    log = [entry["seconds"] for entry in model.facts["log"]]
    return [after - before for before, after in pairwise(log)]


def their_epoch(python: str, split: vr.Split) -> dict[str, Any]:
    """One epoch of RecBole in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "peer"
        target.mkdir()
        frame = split.train.frame().select("user", "item")
        frame.columns = ["user_id:token", "item_id:token"]
        frame.write_csv(target / "peer.inter", separator="\t")
        script = Path(folder) / "peer.py"
        script.write_text(PEER)
        command = [python, str(script), folder]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("PEER ")), None)
    if line is None:
        raise SystemExit(f"RecBole did not run:\n{done.stderr[-3000:]}")
    return dict(json.loads(line.removeprefix("PEER ")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment that has RecBole")
    parser.add_argument("--turns", type=int, default=2, help="epochs of each, one after the other")
    parser.add_argument("--out", type=Path, default=Path("docs/results/peers-recbole.json"))
    chosen = parser.parse_args()
    split = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1, joint=True)
    usual = our_epochs(vr.LightGCN(epochs=5), split)
    equal, theirs = [], []
    for _ in range(chosen.turns):
        theirs.append(their_epoch(chosen.peer_python, split))
        steps = theirs[0]["steps"]
        equal += our_epochs(vr.LightGCN(epochs=2, loss="bpr", batches=steps, norm_power=1.0), split)
        print("RecBole", theirs[-1]["seconds"], "ours", equal[-1], flush=True)
    peer = statistics.median(one["seconds"] for one in theirs)
    medians = {"equal_work": statistics.median(equal), "as_it_comes": statistics.median(usual)}
    ratio = {name: round(peer / mine, 1) for name, mine in medians.items()}
    record = {
        "command": f"python benchmarks/peers_recbole.py --peer-python PEER --turns {chosen.turns}",
        "data_fingerprint": split.source_fingerprint,
        "rows": len(split.train),
        "recbole": {
            "version": theirs[0]["version"],
            "rows": theirs[0]["rows"],
            "steps_per_epoch": steps,
            "seconds_per_epoch": [one["seconds"] for one in theirs],
        },
        "equal_work": {
            "ours": "loss='bpr', one negative for each interaction, as many steps as RecBole",
            "steps_per_epoch": steps,
            "seconds_per_epoch": equal,
            "milliseconds_per_step": {
                "ours": round(1e3 * medians["equal_work"] / steps, 2),
                "recbole": round(1e3 * peer / steps, 2),
            },
            "ratio": ratio["equal_work"],
            "limit": "at least 5 times faster",
        },
        "as_it_comes": {
            "ours": "the default: softmax over shared negatives",
            "steps_per_epoch": vr.LightGCN().batches,
            "seconds_per_epoch": usual,
            "ratio": ratio["as_it_comes"],
        },
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(f"RecBole {peer:.1f} s", medians, ratio)
    raise SystemExit(0 if ratio["equal_work"] >= 5 else 1)
