"""Settings of a paper's rivals, chosen on validation data alone, in docs/results/NAME-rivals.json.

    VEILREC_DATA=folder python benchmarks/rivals.py gerai
    VEILREC_DATA=folder python benchmarks/rivals.py pfgnr

The test part of the split is taken away before the first trial. Budgets and the weight of RAP's attacker are
not searched: they trade accuracy for privacy, and accuracy alone would choose none. What is chosen here is
written into the rows of ``veilrec reproduce`` by hand, rounded. A stopped search goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from veilrec.core import environment, write_json
from veilrec.experiments import SPACES, Choice, DataSpec, Experiment, Range, SplitSpec, tune

Search = tuple[int, dict[str, Any], dict[str, Any]]
"""Trials, what is searched, what is fixed."""

_EIGHT = {"epsilon": 8.0}
STUDIES: dict[str, tuple[str, SplitSpec, str, dict[str, Search]]] = {
    "gerai": (
        "ml-100k",
        SplitSpec("holdout", test=0.2, valid=0.08, joint=True),
        "ndcg@10",
        {
            "dpmf": (30, {**SPACES["dpmf"], "shrinkage": Range(0.01, 10.0, log=True)}, {}),
            "dpne": (30, {**SPACES["dpne"], "clip": Range(1.0, 10.0), "negatives": Choice((1.0, 5.0))}, {}),
            "blurme": (12, dict(SPACES["blurme"]), {}),
            "bpr": (12, dict(SPACES["bpr"]), {}),
            "dp-gram": (30, dict(SPACES["dp-gram"]), _EIGHT),
            "rap": (12, {name: about for name, about in SPACES["rap"].items() if name != "alpha"}, {}),
            "dpae": (12, dict(SPACES["dpae"]), {}),
            "gerai-users": (16, dict(SPACES["gerai-users"]), _EIGHT),
            "gerai-functional": (30, dict(SPACES["gerai-functional"]), _EIGHT),
        },
    ),
    "pfgnr": (
        "ml-1m",
        SplitSpec("holdout", test=0.1, valid=0.1, joint=True),
        "recall@20",
        {
            "gap": (16, dict(SPACES["gap"]), {"epsilon": 5.0}),
            "bpr": (8, dict(SPACES["bpr"]), {}),
        },
    ),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--work", type=Path, help="where trials are kept; runs/STUDY-rivals")
    parser.add_argument("--out", type=Path, help="docs/results/STUDY-rivals.json")
    parser.add_argument("--rows", nargs="*", help="some of the models")
    chosen = parser.parse_args()
    data, split, metric, searches = STUDIES[chosen.study]
    rows = chosen.rows or list(searches)
    if unknown := [word for word in rows if word not in searches]:
        parser.error(f"{chosen.study} does not search {', '.join(unknown)}; it has {', '.join(searches)}")
    work = chosen.work or Path(f"runs/{chosen.study}-rivals")
    record: dict[str, Any] = {
        "command": f"python benchmarks/rivals.py {chosen.study}",
        "split": f"{split.test:g} test, not read; {split.valid:g} validation; the rest train; seed 0",
        "metric": f"{metric} on the validation part, full ranking",
        "environment": environment(),
        "rows": {},
    }
    for word in rows:
        trials, space, fixed = searches[word]
        spec = Experiment(word, fixed, DataSpec(data), split)
        found = tune(spec, work / word, trials=trials, space=space, metric=metric, say=print).record
        record |= {"data": found["data"]}
        record["rows"][word] = {
            "best": found["best"],
            "trials": len(found["trials"]),
            "values": [round(trial["value"], 4) for trial in found["trials"]],
        }
        write_json(chosen.out or Path(f"docs/results/{chosen.study}-rivals.json"), record)
