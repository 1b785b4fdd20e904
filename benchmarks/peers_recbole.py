"""A LightGCN epoch on ML-1M: ours against RecBole's, in one run.

    python -m venv peers && peers/bin/pip install torch recbole      # once, beside this project's environment
    VEILREC_DATA=folder python benchmarks/peers_recbole.py --peer-python peers/bin/python

Same training rows, 64 dimensions, 3 layers. An epoch passes every training interaction once: RecBole with
one drawn negative each in batches of 2,048, ours as a softmax over shared negatives. The script fails if
ours is not at least 5 times faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

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
folder, epochs = sys.argv[1], int(sys.argv[2])
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
seconds = []
for epoch in range(epochs):
    began = time.perf_counter()
    trainer._train_epoch(train, epoch)
    seconds.append(time.perf_counter() - began)
print("PEER " + json.dumps({"seconds": seconds, "version": recbole.__version__, "rows": len(dataset)}))
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment that has RecBole")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results/peers-recbole.json"))
    chosen = parser.parse_args()
    split = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1, joint=True)
    model = vr.LightGCN(epochs=chosen.epochs + 2).fit(split.train, seed=1)
    log = [0.0, *(entry["seconds"] for entry in model.facts["log"])]
    mine = [after - before for before, after in pairwise(log)]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "peer"
        target.mkdir()
        frame = split.train.frame().select("user", "item")
        frame.columns = ["user_id:token", "item_id:token"]
        frame.write_csv(target / "peer.inter", separator="\t")
        script = Path(folder) / "peer.py"
        script.write_text(PEER)
        done = subprocess.run(
            [chosen.peer_python, str(script), folder, str(chosen.epochs)],
            capture_output=True,
            text=True,
            cwd=folder,
            check=False,
        )
    line = next((line for line in done.stdout.splitlines() if line.startswith("PEER ")), None)
    if line is None:
        raise SystemExit(f"RecBole did not run:\n{done.stderr[-3000:]}")
    peer = json.loads(line.removeprefix("PEER "))
    ratio = statistics.median(peer["seconds"]) / statistics.median(mine[1:])
    record = {
        "command": f"python benchmarks/peers_recbole.py --peer-python PEER --epochs {chosen.epochs}",
        "data_fingerprint": split.source_fingerprint,
        "rows": len(split.train),
        "ours_seconds_per_epoch": mine[1:],
        "recbole": peer,
        "ratio": round(ratio, 1),
        "limit": "at least 5 times faster",
        "environment": environment(),
    }
    write_json(chosen.out, record)
    medians = statistics.median(mine[1:]), statistics.median(peer["seconds"])
    print(f"ours {medians[0]:.2f} s, RecBole {medians[1]:.1f} s: {ratio:.1f} times")
    raise SystemExit(0 if ratio >= 5 else 1)
