"""Attribute inference, the result: every attacker beside its baselines, and the model's own leak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.attacks.attribute_metrics import METRICS, repeats_interval
from veilrec.attacks.attribute_targets import Target
from veilrec.core import check, check_choice
from veilrec.metrics import Interval, mean_interval

_HEADS = ("micro F1", "macro F1", "weighted F1", "balanced", "AUC")
_BASE = ("random guess", "majority class", "history")


@dataclass(frozen=True, eq=False)
class Outcome:
    """One attacker with one kind of input: ``values`` [repeats, metrics], and each user's share of hits.

    ``attacker`` is empty for the guesses that need none; ``k`` is None where no list is seen.

    >>> row = Outcome("gender", "svc", "list", 10, np.full((2, 5), 0.5), np.array([0.0, 1.0]), 0.25)
    >>> row.mean("auc"), row.interval("auc").high
    (0.5, 0.5)
    """

    target: str
    attacker: str
    sees: str
    k: int | None
    values: NDArray[np.float64]
    hits: NDArray[np.float64]
    test_over_train: float

    def metric(self, name: str) -> NDArray[np.float64]:
        """The values of one metric, a number per repeat."""
        check_choice("metric", name, METRICS)
        return self.values[:, METRICS.index(name)]

    def mean(self, name: str) -> float:
        """The mean over repeats."""
        return float(self.metric(name).mean())

    def interval(self, name: str) -> Interval | None:
        """95 % over repeats (other splits of the same users); None with one repeat."""
        return repeats_interval(self.metric(name), self.test_over_train)

    def users_interval(self) -> Interval:
        """Micro F1 with its 95 % interval over users (other users of the same kind)."""
        return mean_interval(self.hits)

    def minus(self, other: Outcome) -> Outcome:
        """The difference to another attack, repeat by repeat and user by user: both saw the same splits."""
        check(self.target == other.target, "other", f"an attack on {self.target!r}", other.target)
        values, hits = self.values - other.values, self.hits - other.hits
        return Outcome(self.target, self.attacker, self.sees, self.k, values, hits, self.test_over_train)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: each metric with its mean, interval and values."""
        metrics = {}
        for name in METRICS:
            found = self.interval(name)
            metrics[name] = {
                "mean": self.mean(name),
                "repeats": None if found is None else [found.low, found.high],
                "values": self.metric(name).tolist(),
            }
        over = self.users_interval()
        metrics["micro_f1"]["users"] = [over.low, over.high]
        about = {"target": self.target, "attacker": self.attacker, "sees": self.sees, "k": self.k}
        return {**about, "metrics": metrics}


@dataclass(frozen=True, eq=False)
class AttributeAttack:
    """What an attribute inference attack found; print it for the table.

    >>> import veilrec as vr
    >>> data = vr.synthetic(users=150, items=80, interactions=3000)
    >>> found = vr.attack(vr.Popularity().fit(data), data, "attribute", target="gender", attackers="bayes")
    >>> found.leak("gender", "bayes", metric="micro_f1").level
    0.95
    """

    model: str
    data: str
    targets: tuple[Target, ...]
    passed_over: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    settings: Mapping[str, Any]

    def outcome(self, target: str, attacker: str, sees: str, k: int | None = None) -> Outcome:
        """One row; ``k`` may be left out where only one list length was tried.

        ``sees`` is history, list, both or adaptive, one of the last three after "popular ", or "random guess"
        and "majority class" (whatever the attacker).
        """
        who = "" if sees in _BASE[:2] else attacker
        found = [
            row
            for row in self.outcomes
            if (row.target, row.attacker, row.sees) == (target, who, sees) and k in (None, row.k)
        ]
        wanted = (target, attacker, sees, k)
        check(len(found) == 1, "outcome", "one that was measured, with k if there are several", wanted)
        return found[0]

    def leak(
        self, target: str, attacker: str, sees: str | None = None, k: int | None = None, metric: str = "auc"
    ) -> Interval:
        """What the model's lists add to the history alone: the paired difference and its 95 % interval.

        ``sees`` is by default the first input that was tried. The interval is over repeats; with one repeat
        it is the one over users, of micro F1 only.
        """
        sees = sees or self.settings["inputs"][0]
        check(
            sees not in _BASE, "sees", "an input with a list", sees, "The history is what it is compared to."
        )
        row = self._difference(self.outcome(target, attacker, sees, k))
        found = row.interval(metric)
        if found is None:
            remedy = "Give repeats=2 or more."
            check(metric == "micro_f1", "metric", "'micro_f1' where there is one repeat", metric, remedy)
            return row.users_interval()
        return found

    def _difference(self, row: Outcome) -> Outcome:
        return row.minus(self.outcome(row.target, row.attacker, "history"))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: targets, every row with its metrics, and the leak of those that see a list."""
        rows = []
        for row in self.outcomes:
            plain = row.to_dict()
            if row.sees not in _BASE:
                plain["leak"] = self._difference(row).to_dict()["metrics"]
            rows.append(plain)
        return {
            "attack": "attribute",
            "model": self.model,
            "data": self.data,
            "settings": dict(self.settings),
            "targets": [
                {
                    "name": one.name,
                    "classes": dict(zip(one.classes, one.counts.tolist())),
                    "users": len(one.users),
                    "left_out_missing": one.missing,
                    "left_out_rare": one.rare,
                }
                for one in self.targets
            ],
            "passed_over": dict(self.passed_over),
            "rows": rows,
        }

    def __str__(self) -> str:
        lines = [f"Attribute inference against {self.model} on {self.data}"]
        for target in self.targets:
            lines += ["", _about(target), *_aligned(self._table(target))]
        repeats = self.settings["repeats"]
        over = f"{repeats} splits of the users (corrected for their overlap)" if repeats > 1 else "users"
        lines += [
            "",
            f"± is half of the 95 % interval over {over}.",
            "Leak: the difference to the same attacker who sees the history alone, on the same splits.",
            "A popular list is everybody's, less what was seen: what it adds is nothing that the model knew.",
        ]
        lines += [f"passed over: {why}" for why in self.passed_over.values()]
        return "\n".join(lines)

    def _table(self, target: Target) -> list[list[str]]:
        table = [["attacker", "sees", *_HEADS, "leak, micro F1", "leak, AUC"]]
        for row in sorted(
            (row for row in self.outcomes if row.target == target.name),
            key=lambda row: ("", *self.settings["attackers"]).index(row.attacker),
        ):
            sees = row.sees if row.k is None else f"{row.sees} @{row.k}"
            cells = [_cell(row, name) for name in METRICS]
            leaks = ["", ""]
            if row.sees not in _BASE:
                gap = self._difference(row)
                leaks = [_cell(gap, name, signed=True) for name in ("micro_f1", "auc")]
            table.append([row.attacker or "-", sees, *cells, *leaks])
        return table


def _about(target: Target) -> str:
    out = [f"{target.missing:,} without a value", f"{target.rare:,} in classes of fewer than 5"]
    kept = [words for words, count in zip(out, (target.missing, target.rare)) if count]
    without = f"; left out: {' and '.join(kept)}" if kept else ""
    return f"{target.name}: {len(target.classes)} classes, {len(target.users):,} users{without}"


def _cell(row: Outcome, name: str, signed: bool = False) -> str:
    mean = f"{row.mean(name):+.3f}" if signed else f"{row.mean(name):.3f}"
    found = row.interval(name)
    if found is None and name == "micro_f1":
        found = row.users_interval()
    return mean if found is None else f"{mean} ±{(found.high - found.low) / 2:.3f}"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in table
    ]
