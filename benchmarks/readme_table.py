"""The table of numbers in the README, made from the records in docs/results.

    python benchmarks/readme_table.py --write

A test fails when the README and the records disagree.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- numbers: made by benchmarks/readme_table.py -->", "<!-- end of numbers -->"
STUDIES = {
    "gowalla-lightgcn": "Gowalla (given split), LightGCN",
    "gowalla-gf-cf": "Gowalla (given split), GF-CF",
    "gowalla-popularity": "Gowalla (given split), popularity",
    "ml-1m-ease": "ML-1M 80/10/10, EASE",
    "ml-1m-lightgcn": "ML-1M 80/10/10, LightGCN",
    "ml-1m-popularity": "ML-1M 80/10/10, popularity",
}


def record(name: str) -> dict[str, Any] | None:
    """A record of docs/results, if there is one."""
    path = ROOT / "docs" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def figure(metric: dict[str, Any]) -> str:
    """Mean and half the width of the interval."""
    low, high = metric["interval"]
    return f"{metric['mean']:.4f} ± {(high - low) / 2:.4f}"


def table() -> str:
    """The block between the marks."""
    lines = ["| data and model | Recall@20 | NDCG@20 | published |", "|---|---|---|---|"]
    for name, label in STUDIES.items():
        found = record(f"accuracy-{name}")
        if found is not None:
            metrics = found["test"]["metrics"]
            cells = [
                label,
                figure(metrics["recall@20"]),
                figure(metrics["ndcg@20"]),
                found["published"] or "-",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Full ranking, test part, one seed, mean ± half of the 95 % interval over users.", ""]
    speed, recbole, implicit = (record(n) for n in ("lightgcn-speed", "peers-recbole", "peers-implicit"))
    lines += ["| speed, measured side by side on two cores | |", "|---|---|"]
    if speed is not None:
        bound = "at least " if speed["ratio_is"] != "exact" else ""
        time = f"{speed['ours']['seconds']:.0f} s of training, {bound}{speed['ratio']:.0f} times faster"
        lines.append(f"| LightGCN to Recall@20 0.175 on Gowalla | {time} than the textbook loop |")
    if recbole is not None:
        equal, usual = recbole["equal_work"], recbole["as_it_comes"]
        words = f"{equal['ratio']:.0f} times faster than RecBole's at equal work (same loss, same "
        words += (
            f"{equal['steps_per_epoch']} steps), {equal['processor_ratio']:.0f} times by processor time; "
        )
        words += f"{usual['ratio']:.0f} and {usual['processor_ratio']:.0f} times as each comes, ours in "
        lines.append(f"| LightGCN epoch on ML-1M | {words}{usual['steps_per_epoch']} steps |")
    if implicit is not None:
        for kind, label in (("als", "iALS"), ("bpr", "BPR")):
            mine, theirs = implicit["ours"][kind], implicit["implicit"]["best"][kind]
            both = f"{mine['seconds']:.1f} s at {mine['test']:.4f}; implicit {theirs['seconds']:.1f} s"
            lines.append(f"| {label} fit on ML-1M, Recall@20 | {both} at {theirs['test']:.4f} |")
    for name, label, text in OTHERS:
        found = record(name)
        if found is not None:
            lines.append(f"| {label} | {text(found)} |")
    return "\n".join([START, *lines, END])


def paillier(found: dict[str, Any]) -> str:
    """Both ratios, the one at equal work first."""
    beside = found["beside_python_paillier"]
    (wall, used), (usual, usual_used) = (
        (beside[name]["time_ratio"], beside[name]["processor_time_ratio"])
        for name in ("equal_work", "as_it_comes")
    )
    return (
        f"{wall:.0f} times faster than python-paillier packed alike, {used:.0f} times by processor "
        f"time; {usual:.0f} and {usual_used:.0f} times as it comes, which is value by value"
    )


OTHERS = [
    ("secure-sum", "Paillier sum of 10,000 values from 50 clients", paillier),
    (
        "scaling",
        "LightGCN epoch at 0.1 / 1 / 10 million interactions",
        lambda r: " / ".join(f"{row['seconds_per_epoch']:.2f}" for row in r["sizes"]) + " s",
    ),
    (
        "synthetic-speed",
        "10 million synthetic interactions",
        lambda r: f"{r['rows'][-1]['seconds']:.0f} s, {r['rows'][-1]['gigabytes']:.1f} GB",
    ),
]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table into the README")
    block = table()
    if parser.parse_args().write:
        readme = ROOT / "README.md"
        text = readme.read_text(encoding="utf-8")
        before, rest = text.split(START)
        readme.write_text(before + block + rest.split(END)[1], encoding="utf-8")
    print(block)
