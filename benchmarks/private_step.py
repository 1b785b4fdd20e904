"""A private training step on ML-1M against the same step without privacy, in one run.

    VEILREC_DATA=folder python benchmarks/private_step.py

The model is the user's side only: the mean of up to 64 items of a history through two linear layers, and a
score for up to 64 pairs of a liked and another item; the item table has 3,706 x 64 numbers. A step draws some
600 of the 6,040 users. Plain step: mean loss, backward, Adam. Private step: per-user gradients clipped
jointly, added up, noise, Adam. Both draw their users in the same way and take turns in alternating order; the
first steps, with the checks of the module, are timed apart. The script fails if the median private step in
research mode takes more than 3 times the median plain step, by the clock or by processor time. Secure noise
(from the operating system, the module in double precision) is reported beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import veilrec as vr
from veilrec.core import environment, stream, write_json
from veilrec.privacy import Noise
from veilrec.training import NegativeSampler, PrivateTraining, torch_stream

SIZE, WIDE, LENGTH, PER_STEP = 64, 128, 64, 600


class UserSide(nn.Module):
    """A user's loss from the user's own history and pairs."""

    def __init__(self, items: int) -> None:
        super().__init__()
        self.items = nn.Embedding(items, SIZE)
        self.tower = nn.Sequential(nn.Linear(SIZE, WIDE), nn.ReLU(), nn.Linear(WIDE, SIZE))
        generator = torch_stream(1, "init")
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0, 0.1, generator=generator)

    def forward(self, history: Tensor, liked: Tensor, other: Tensor, mask: Tensor) -> Tensor:
        """One loss per user: mean BPR loss over the user's pairs."""
        count = mask.sum(1, keepdim=True).clamp(min=1)
        own = self.tower((self.items(history) * mask.unsqueeze(2)).sum(1) / count)
        gap = ((self.items(liked) - self.items(other)) @ own.unsqueeze(2)).squeeze(2)
        return (nn.functional.softplus(-gap) * mask).sum(1) / count.squeeze(1)


def user_rows(data: vr.Dataset) -> list[Tensor]:
    """History, liked and other items of every user, padded to 64, and which places count."""
    matrix, random = data.matrix(), stream(1, "pairs")
    users = matrix.shape[0]
    history, liked, mask = (np.zeros((users, LENGTH), kind) for kind in (np.int64, np.int64, np.float32))
    for user in range(users):
        own = matrix.indices[matrix.indptr[user] : matrix.indptr[user + 1]]
        for part in (history, liked):
            chosen = random.permutation(own)[:LENGTH]
            part[user, : len(chosen)] = chosen
        mask[user, : min(len(own), LENGTH)] = 1
    owner = np.repeat(np.arange(users), LENGTH)
    other = NegativeSampler(matrix).draw(owner, random).reshape(users, LENGTH).astype(np.int64)
    return [torch.from_numpy(part) for part in (history, liked, other, mask)]


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processor


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("docs/results/private-step.json"))
    chosen = parser.parse_args()
    data = vr.load("ml-1m")
    rows = user_rows(data)
    people = len(rows[0])
    last = np.arange(PER_STEP)

    def gather(users: np.ndarray) -> list[Tensor]:
        global last
        last = users
        picked = torch.from_numpy(users)
        return [part[picked] for part in rows]

    modules = {name: UserSide(data.n_items) for name in ("plain", "private", "secure")}
    optimisers = {name: torch.optim.Adam(m.parameters(), lr=1e-3) for name, m in modules.items()}
    runs = {
        name: PrivateTraining(
            modules[name],
            noise,
            users=people,
            sampling_rate=PER_STEP / people,
            noise_multiplier=1.0,
            clip_norm=0.5,
            steps=chosen.rounds + 4,
        )
        for name, noise in (("private", Noise.research(1)), ("secure", Noise.secure()))
    }

    def private(name: str) -> None:
        runs[name].step(gather)
        optimisers[name].step()

    def plain() -> None:
        optimisers["plain"].zero_grad()
        modules["plain"](*gather(last)).mean().backward()
        optimisers["plain"].step()

    first = {name: timed(lambda name=name: private(name))[0] for name in runs}  # type: ignore[misc]
    for _ in range(3):
        for name in runs:
            private(name)
        plain()
    times: dict[str, list[tuple[float, float]]] = {"plain": [], "private": [], "secure": []}
    for number in range(chosen.rounds):
        last = np.flatnonzero(stream(1, "users", number).random(people) < PER_STEP / people)
        if number % 2:
            times["plain"].append(timed(plain))
        times["private"].append(timed(lambda: private("private")))
        if number % 2 == 0:
            times["plain"].append(timed(plain))
        if number % 6 == 0:
            times["secure"].append(timed(lambda: private("secure")))
    medians = {
        name: {
            "clock_ms": round(1e3 * statistics.median(one[0] for one in pairs), 2),
            "processor_ms": round(1e3 * statistics.median(one[1] for one in pairs), 2),
            "steps": len(pairs),
        }
        for name, pairs in times.items()
    }
    ratios = {
        name: {
            kind: round(medians[name][f"{kind}_ms"] / medians["plain"][f"{kind}_ms"], 2)
            for kind in ("clock", "processor")
        }
        for name in runs
    }
    good = max(ratios["private"].values()) <= 3
    record = {
        "command": f"python benchmarks/private_step.py --rounds {chosen.rounds}",
        "data_fingerprint": data.fingerprint,
        "seeds": 1,
        "parameters": sum(p.numel() for p in modules["plain"].parameters()),
        "users": people,
        "users_per_step": f"Poisson, {PER_STEP} on average",
        "rows_per_user": 3 * LENGTH,
        "median_step": medians,
        "first_step_with_checks_ms": {name: round(1e3 * seconds, 1) for name, seconds in first.items()},
        "ratio_to_plain": ratios,
        "limit": "research step at most 3 times the plain step, by the clock and by processor time",
        "within_limit": good,
        "environment": environment(),
    }
    write_json(chosen.out, record)
    print(medians)
    print(f"research {ratios['private']}, secure {ratios['secure']}")
    raise SystemExit(0 if good else 1)
