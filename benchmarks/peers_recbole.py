"""A LightGCN epoch on ML-1M: ours against RecBole's, in one run, at equal work and as each comes.

    python -m venv peers && peers/bin/pip install torch recbole      # once, beside this project's environment
    VEILREC_DATA=folder python benchmarks/peers_recbole.py --peer-python peers/bin/python

Same training rows, 64 dimensions, 3 layers. RecBole draws one negative for each interaction, in batches of
2,048: some 391 steps an epoch, each of which spreads all vectors over the whole graph. At equal work ours
does the same: pairwise loss, one negative for each interaction, as many steps. As it comes ours is a softmax
over shared negatives in 8 steps: an epoch passes every interaction once as well, but is far less work, so
that figure says little about the code. RecBole and ours take turns; of RecBole's epoch some steps are timed
and scaled up, since all are alike. Seconds are those on the wall and those of the processor, which other
work does not stretch; ours have the preparation of a fit in them. The script fails if ours is not at least
5 times faster at equal work, by both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import veilrec as vr
from veilrec.core import environment, write_json

LEAST, KINDS = 5.0, ("seconds", "processor_seconds")
PEER = """
import json, sys, time, warnings
from itertools import islice
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
folder, part = sys.argv[1], int(sys.argv[2])
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
batches = iter(train)
trainer._train_epoch(islice(batches, 3), 0)  # warms up
began, used = time.perf_counter(), time.process_time()
trainer._train_epoch(islice(batches, part), 0)
wall, processor = time.perf_counter() - began, time.process_time() - used
times = len(train) / part
found = {"seconds": wall * times, "processor_seconds": processor * times}
found |= {"steps": len(train), "version": recbole.__version__, "rows": len(dataset)}
print("PEER " + json.dumps(found))
"""


def our_epoch(model: vr.LightGCN, split: vr.Split) -> dict[str, float]:
    """Seconds of an epoch: those of a whole fit over its epochs."""
    began, used = time.perf_counter(), time.process_time()
    model.fit(split.train, seed=1, progress=False)
    wall, processor = time.perf_counter() - began, time.process_time() - used
    return {"seconds": wall / model.epochs, "processor_seconds": processor / model.epochs}


def their_epoch(python: str, split: vr.Split, part: int) -> dict[str, Any]:
    """An epoch of RecBole in a process of its own: ``part`` of its steps, scaled up."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "peer"
        target.mkdir()
        frame = split.train.frame().select("user", "item")
        frame.columns = ["user_id:token", "item_id:token"]
        frame.write_csv(target / "peer.inter", separator="\t")
        script = Path(folder) / "peer.py"
        script.write_text(PEER)
        command = [python, str(script), folder, str(part)]
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
    parser.add_argument("--turns", type=int, default=3, help="of each, one after the other")
    parser.add_argument("--part", type=int, default=40, help="steps of RecBole's epoch that are timed")
    parser.add_argument("--out", type=Path, default=Path("docs/results/peers-recbole.json"))
    chosen = parser.parse_args()
    split = vr.split.holdout(vr.load("ml-1m"), test=0.1, valid=0.1, seed=1, joint=True)
    for loss in ("softmax", "bpr"):
        our_epoch(vr.LightGCN(epochs=1, loss=loss), split)  # compiles
    usual, equal, theirs = [], [], []
    for _ in range(chosen.turns):
        theirs.append(their_epoch(chosen.peer_python, split, chosen.part))
        steps = theirs[0]["steps"]
        equal.append(our_epoch(vr.LightGCN(epochs=1, loss="bpr", batches=steps, norm_power=1.0), split))
        usual.append(our_epoch(vr.LightGCN(epochs=20), split))
        print("RecBole", theirs[-1], "ours", equal[-1], usual[-1], flush=True)
    medians = {
        name: {kind: statistics.median(one[kind] for one in found) for kind in KINDS}
        for name, found in (("recbole", theirs), ("equal_work", equal), ("as_it_comes", usual))
    }

    def of_ours(name: str, found: list[dict[str, float]], steps: int) -> dict[str, Any]:
        peer, mine = medians["recbole"], medians[name]
        return {
            "steps_per_epoch": steps,
            "seconds_per_epoch": [one["seconds"] for one in found],
            "processor_seconds_per_epoch": [one["processor_seconds"] for one in found],
            "ratio": round(peer["seconds"] / mine["seconds"], 1),
            "processor_ratio": round(peer["processor_seconds"] / mine["processor_seconds"], 1),
        }

    how = f"--turns {chosen.turns} --part {chosen.part}"
    record = {
        "command": f"python benchmarks/peers_recbole.py --peer-python PEER {how}",
        "data_fingerprint": split.source_fingerprint,
        "rows": len(split.train),
        "recbole": {
            "version": theirs[0]["version"],
            "rows": theirs[0]["rows"],
            "steps_per_epoch": steps,
            "steps_timed_and_scaled_up": chosen.part,
            "seconds_per_epoch": [one["seconds"] for one in theirs],
            "processor_seconds_per_epoch": [one["processor_seconds"] for one in theirs],
        },
        "equal_work": {
            "ours": "loss='bpr', one negative for each interaction, as many steps as RecBole",
            **of_ours("equal_work", equal, steps),
            "milliseconds_per_step": {
                "ours": round(1e3 * medians["equal_work"]["seconds"] / steps, 2),
                "recbole": round(1e3 * medians["recbole"]["seconds"] / steps, 2),
            },
            "limit": f"at least {LEAST:g} times faster",
        },
        "as_it_comes": {
            "ours": "the default: softmax over shared negatives",
            **of_ours("as_it_comes", usual, vr.LightGCN().batches),
        },
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(json.dumps({name: record[name] for name in ("recbole", "equal_work", "as_it_comes")}, indent=1))
    found = record["equal_work"]
    raise SystemExit(0 if min(found["ratio"], found["processor_ratio"]) >= LEAST else 1)
