"""A private step on ML-1M: ours against Opacus' ghost clipping, in one run.

    python -m venv peers && peers/bin/pip install opacus==1.6.0   # once, beside this project's environment
    VEILREC_DATA=folder python benchmarks/peers_opacus.py --peer-python peers/bin/python

Both sides train the same module on the same 600 users: an item table of 3,706 x 64, looked up once (Opacus'
ghost clipping takes no layer that is called twice), and two linear layers; once with 192 items per user and
128 hidden units, where rows cost most, once with 12 items and 1,024 units, where layers do. Opacus clips per
sample, so a sample is a user. Its modes "ghost" (norms first, then a second backward pass) and
"hooks" (a gradient per user) are both run; the faster one counts. First both sides compute the clipped mean
gradient without noise, and the two must agree. Then the processes take turns, one step each, with noise and
Adam. The script fails if our median step is slower than that of the peer, by the clock or by processor time,
or if our memory grows by more, from what is held after a step of a tiny module to the peak.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from private_step import PER_STEP, SIZE, user_rows

import veilrec as vr
from veilrec.core import environment, stream, write_json

CLIP, MULTIPLIER = 0.01, 1.0
SHAPES = {"rows": (64, 128), "layers": (4, 1024)}
"""Places per history and per side of the pairs, and hidden units."""

COMMON = """
import ctypes, gc, json, sys, time, warnings
import numpy as np, torch
from torch import nn
warnings.simplefilter("ignore")
folder, mode, size, wide, length, clip, multiplier, rounds = sys.argv[1:]
size, wide, length, rounds = int(size), int(wide), int(length), int(rounds)
clip, multiplier = float(clip), float(multiplier)
rows = np.load(folder + "/rows.npz")
start = [rows[f"start{number}"] for number in range(5)]
batch = torch.from_numpy(rows["ids"]), torch.from_numpy(rows["mask"])

class UserSide(nn.Module):
    def __init__(self, values):
        super().__init__()
        self.items = nn.Embedding(*values[0].shape)
        self.tower = nn.Sequential(nn.Linear(*values[1].T.shape), nn.ReLU(), nn.Linear(*values[3].T.shape))
        with torch.no_grad():
            for parameter, value in zip(self.parameters(), values, strict=True):
                parameter.copy_(torch.from_numpy(value))

    def forward(self, ids, mask):
        history, liked, other = self.items(ids).split(ids.shape[1] // 3, 1)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        own = self.tower((history * mask.unsqueeze(2)).sum(1) / count)
        gap = ((liked - other) @ own.unsqueeze(2)).squeeze(2)
        return (nn.functional.softplus(-gap) * mask).sum(1) / count.squeeze(1)

def memory(word):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(word + ":"))

def serve(make, about):
    tiny = [np.ones(s, np.float32) for s in ((5, 2), (3, 2), (3,), (2, 3), (2,))]
    small = make(tiny, (torch.ones(4, 6, dtype=torch.long), torch.ones(4, 2)), multiplier, 2)[1]
    small(); small()  # whatever is imported or set up at the first step is there now
    del small
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts anew
    before = memory("VmRSS")
    step = make(start, batch, multiplier, rounds + 3)[1]
    step(); step(); step()
    print("READY", flush=True)
    for _ in range(rounds):
        sys.stdin.readline()
        clock, processor = time.perf_counter(), time.process_time()
        step()
        print("TOOK", time.perf_counter() - clock, time.process_time() - processor, flush=True)
    about |= {"grew_mib": round(memory("VmHWM") - before, 1), "before_mib": round(before, 1)}
    module, step = make(start, batch, 0.0, 1)
    step()
    np.save(f"{folder}/{mode}.npy", np.concatenate([p.grad.numpy().ravel() for p in module.parameters()]))
    print("DONE " + json.dumps(about), flush=True)
"""

OURS = """
from veilrec.privacy import Noise
from veilrec.training import PrivateTraining

def make(values, batch, multiplier, steps):
    module = UserSide(values)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    run = PrivateTraining(module, Noise.research(1), users=len(batch[0]), sampling_rate=1.0,
                          noise_multiplier=multiplier or 1e-12, clip_norm=clip, steps=steps)
    def step():
        run.step(lambda users: batch)
        optimiser.step()
    return module, step

serve(make, {})
"""

PEER = """
import opacus
from opacus import PrivacyEngine

class Mean:
    reduction = "mean"
    def __call__(self, losses):
        return losses if self.reduction == "none" else losses.mean()

def make(values, batch, multiplier, steps):
    module, criterion = UserSide(values), Mean()
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*batch), batch_size=len(batch[0]))
    made = PrivacyEngine(accountant="rdp").make_private(
        module=module, optimizer=optimiser, criterion=criterion, data_loader=loader,
        noise_multiplier=multiplier, max_grad_norm=clip, poisson_sampling=False, grad_sample_mode=mode)
    module, optimiser = made[0], made[1]
    if len(made) == 4:
        criterion = made[2]
    def step():
        optimiser.zero_grad()
        criterion(module(*batch)).backward()
        optimiser.step()
    return module, step

serve(make, {"version": opacus.__version__, "torch": torch.__version__})
"""


class Child:
    """One side in a process of its own that steps when told to."""

    def __init__(
        self, python: str, mode: str, source: str, folder: str, shape: tuple[int, int], rounds: int
    ) -> None:
        script = Path(folder) / f"{mode}.py"
        script.write_text(COMMON + source)
        length, wide = shape
        sizes = [str(x) for x in (SIZE, wide, length, CLIP, MULTIPLIER, rounds)]
        self.process = subprocess.Popen(
            [python, str(script), folder, mode, *sizes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        )
        self.times: list[tuple[float, float]] = []
        self._line("READY")

    def step(self) -> None:
        """One step, timed by the child."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        clock, processor = self._line("TOOK").split()
        self.times.append((float(clock), float(processor)))

    def result(self) -> dict[str, Any]:
        """Medians in milliseconds, and what the child says about itself."""
        about = json.loads(self._line("DONE"))
        self.process.wait()
        clock, processor = (round(1e3 * statistics.median(side), 2) for side in zip(*self.times, strict=True))
        return {"clock_ms": clock, "processor_ms": processor, "steps": len(self.times), **about}

    def _line(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise SystemExit(f"{self.process.args} ended early; install opacus in the peer's environment.")


def write_rows(data: vr.Dataset, folder: str, shape: tuple[int, int]) -> None:
    """The batch and the start of the parameters, the same for both sides."""
    length, wide = shape
    history, liked, other, mask = (part[:PER_STEP, :length].numpy() for part in user_rows(data))
    random = stream(1, "start")
    shapes = [(data.n_items, SIZE), (wide, SIZE), (wide,), (SIZE, wide), (SIZE,)]
    start = {f"start{n}": random.normal(0, 0.1, s).astype(np.float32) for n, s in enumerate(shapes)}
    ids = np.concatenate([history, liked, other], axis=1)
    np.savez(Path(folder) / "rows.npz", ids=ids, mask=mask, items=data.n_items, **start)


def compare(data: vr.Dataset, peer: str, shape: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Both sides in turns on one shape of the module."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(data, folder, shape)
        sides = {"ours": Child(sys.executable, "ours", OURS, folder, shape, rounds)}
        for mode in ("ghost", "hooks"):
            sides[mode] = Child(peer, mode, PEER, folder, shape, rounds)
        for number in range(rounds):
            for name in list(sides) if number % 2 else list(sides)[::-1]:
                sides[name].step()
        found = {name: side.result() for name, side in sides.items()}
        ours, theirs = (np.load(Path(folder) / f"{name}.npy") for name in ("ours", "ghost"))
    fastest = min(("ghost", "hooks"), key=lambda mode: found[mode]["clock_ms"])
    ratios = {
        kind: round(found["ours"][kind] / found[fastest][kind], 3)
        for kind in ("clock_ms", "processor_ms", "grew_mib")
    }
    gap = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    return {
        "rows_per_user": 3 * shape[0],
        "hidden_units": shape[1],
        "ours": found["ours"],
        "opacus": {mode: found[mode] for mode in ("ghost", "hooks")},
        "fastest_mode": fastest,
        "ratio_to_fastest": ratios,
        "relative_gap_of_clipped_gradients": gap,
        "within_limit": max(ratios.values()) <= 1 and gap < 1e-3,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", required=True, help="interpreter of an environment that has opacus")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("docs/results/peers-opacus.json"))
    chosen = parser.parse_args()
    data = vr.load("ml-1m")
    found = {name: compare(data, chosen.peer_python, shape, chosen.rounds) for name, shape in SHAPES.items()}
    good = all(one["within_limit"] for one in found.values())
    record = {
        "command": f"python benchmarks/peers_opacus.py --peer-python PEER --rounds {chosen.rounds}",
        "data_fingerprint": data.fingerprint,
        "seeds": 1,
        "users": PER_STEP,
        "limit": "time and growth of memory at most those of the peer's fastest mode",
        "shapes": found,
        "within_limit": good,
        "environment": environment(),
    }
    write_json(chosen.out, record)
    for name, one in found.items():
        print(name, one["ours"], one["opacus"])
        print(f"ratios to {one['fastest_mode']}: {one['ratio_to_fastest']}")
    raise SystemExit(0 if good else 1)
