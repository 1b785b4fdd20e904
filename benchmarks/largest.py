"""Every model at the largest size that it takes: seconds and peak memory, each in a process of its own.

    python benchmarks/largest.py             # all models
    python benchmarks/largest.py ease bpr    # some: the rest of the record stays

Where a model refuses more than so many items, or pairs, or numbers in messages, it is run at exactly that
limit. What the others hold grows with users, items and interactions, each for itself: they are run on 200,000
users, 50,000 items and a million interactions, where a table of users x items or of items x items would not
fit; some that take long on fewer users. It is about size, not about learning: one epoch, short vectors, large
batches. A process that dies or needs more than 8 GB fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import veilrec as vr
from veilrec.core import environment, write_json
from veilrec.systems import SYSTEMS
from veilrec.systems.device_sums import MOST_NUMBERS
from veilrec.systems.dp_gram import MOST_ITEMS
from veilrec.systems.dpae import MOST_CELLS
from veilrec.systems.reported_graph import MOST_FALSE

MOST_GB, SECONDS = 8.0, 1500
WIDE = (200_000, 50_000, 1_000_000)
SHORT = {"epochs": 1, "iterations": 1, "rounds": 1, "embedding_size": 8, "rank": 8, "batch_size": 250_000}


@dataclasses.dataclass(frozen=True)
class Case:
    """A size, settings, and the limit that it touches."""

    size: tuple[int, int, int] = WIDE  # users, items, interactions
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    limit: str = ""
    slow: bool = False  # for the record, not for the long tier

    def model(self, word: str) -> vr.Recommender:
        """The model with short vectors and the case's settings."""
        known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
        short = {name: value for name, value in SHORT.items() if name in known}
        return SYSTEMS[word](**{**short, **self.settings})


def special() -> dict[str, list[Case]]:
    """The models that refuse what is larger, at their limits, and those that take long."""
    ease = vr.EASE().max_items
    devices, size = 64, SHORT["embedding_size"]
    items = (MOST_NUMBERS // devices - 2) // size - devices
    masked = {"sums": "masked"}
    pairs = [
        Case((20_000, 4_000, 400_000), {"popular_items": None, "max_items": 4_000}, "4,000 items"),
        Case((20_000, MOST_ITEMS, 400_000), {"popular_items": None}, f"{MOST_ITEMS:,} items", slow=True),
    ]
    edges = f"{MOST_FALSE:,} added edges"
    few = WIDE[0] / 2 / MOST_FALSE * (1 + 1e-9)  # epsilon of the degrees: half a scale more for each user
    fewer = (4_000, WIDE[1], 80_000)  # the time of these two grows with users x items
    half = Case((WIDE[0] // 2, WIDE[1], WIDE[2] // 2))  # these take long and hold little
    return {
        "blurme": [Case(fewer)],
        "ease": [Case((20_000, ease, 400_000), {}, f"{ease:,} items")],
        "dp-als": [Case(WIDE, {"popular_items": None, "embedding_size": 32})],
        "dp-gram": pairs,
        "dp-spectral": [Case(WIDE, {"popular_items": None, "rank": 32})],
        "gerai-functional": pairs,
        "gerai-users": [half],
        "rap": [half],
        "dpae": [Case((1 << 12, MOST_CELLS >> 12, 200_000), {"sampling_rate": 1.0}, f"{MOST_CELLS:,} pairs")],
        "dprr": [Case(WIDE, {"epsilon": 10 * few}, edges)],
        "pf-gnr": [Case(WIDE, {}, edges)],  # thinned out to the limit
        "pf-gnr-paper": [
            Case(WIDE, {"epsilon": 10 * few}, edges),
            Case((devices, items, 200_000), {**masked, "batches": 1}, f"{MOST_NUMBERS:,} numbers"),
        ],
        "pf-gnr-sums": [
            Case(fewer, {"sampling_rate": 1.0}),
            Case(
                (devices, MOST_NUMBERS // devices // size, 200_000),
                {**masked, "sampling_rate": 1.0},
                f"{MOST_NUMBERS:,} numbers",
            ),
        ],
    }


def cases(word: str) -> list[Case]:
    """What is run of a model."""
    return special().get(word, [Case()])


def run(word: str, number: int) -> dict[str, Any]:
    """Fit and recommend in this process."""
    case = cases(word)[number]
    data = vr.synthetic(*case.size, friends=0.0)
    began, used = time.perf_counter(), time.process_time()
    model = case.model(word).fit(data, seed=1, progress=False)
    wall, processor = time.perf_counter() - began, time.process_time() - used
    some = data.users.take([0, 1, data.n_users - 1]).to_list()
    lists = model.recommend(some, k=10)
    assert len(lists) == 30, len(lists)
    assert lists["score"].is_finite().all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "settings": case.settings,
        "limit": case.limit,
        "fit_seconds": round(wall, 1),
        "fit_processor_seconds": round(processor, 1),
        "peak_gb": round(peak / 1e9, 2),
    }


def in_child(word: str, number: int, script: str | Path = __file__) -> dict[str, Any]:
    """``run`` in a process of its own; a sentence for one that dies, and for one that grows too large."""
    command = [sys.executable, str(script), word, "--here", str(number)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"{word} did not end in {SECONDS} seconds"}
    if done.returncode != 0:
        how = f"ended by signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
        return {"failed": f"{word}: {how}: {done.stderr[-1500:]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["peak_gb"] > MOST_GB:
        found["failed"] = f"{word} needed {found['peak_gb']} GB, more than {MOST_GB:g}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="model")
    parser.add_argument("--here", type=int, default=None, help="the number of a case, in this process")
    parser.add_argument("--out", type=Path, default=Path("docs/results/largest.json"))
    chosen = parser.parse_args()
    if chosen.here is not None:
        print(json.dumps(run(chosen.words[0], chosen.here)))
        return 0
    kept = json.loads(chosen.out.read_text(encoding="utf-8"))["models"] if chosen.out.exists() else {}
    failed = False
    for word in chosen.words or SYSTEMS:
        kept[word] = [in_child(word, number) for number in range(len(cases(word)))]
        print(word, kept[word], flush=True)
        failed |= any("failed" in one for one in kept[word])
        models = {name: kept[name] for name in SYSTEMS if name in kept}
        record = {"command": "python benchmarks/largest.py", "most_gb": MOST_GB, "models": models}
        write_json(chosen.out, {**record, "environment": environment()})
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
