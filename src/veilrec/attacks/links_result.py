"""Link stealing, the result: every attacker beside those who see no model, as a table, JSON and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.attacks.links_knowledge import OWN
from veilrec.attacks.links_metrics import METRICS, RATES
from veilrec.core import check, check_choice
from veilrec.metrics import Interval

_HEADS = ("AUC", "precision", "TPR at 0.1 %", "AUC over null")
TITLES = {"links": "Link stealing from", "membership": "Membership inference on"}
_TASKS = {
    "links": "training edges against cells without any interaction",
    "membership": "training edges against as many held-out ones of the same users",
}


@dataclass(frozen=True, eq=False)
class LinkOutcome:
    """One attacker: its metrics, the same in resamples of the users, and its curve (TPR at ``RATES``).

    ``adversary`` is empty for those who see no model.

    >>> row = LinkOutcome("X", "score", "scores", "nothing", np.ones(3), np.ones((20, 3)), np.ones(41))
    >>> print(row.interval("auc"))
    1.0000 [1.0000, 1.0000]
    """

    adversary: str
    attacker: str
    sees: str
    knows: str
    values: NDArray[np.float64]
    draws: NDArray[np.float64]
    roc: NDArray[np.float64]

    def value(self, metric: str = "auc") -> float:
        """The metric over all cells."""
        check_choice("metric", metric, METRICS)
        return float(self.values[METRICS.index(metric)])

    def interval(self, metric: str = "auc", less: LinkOutcome | None = None) -> Interval:
        """The metric, or its difference to another attacker's, and 95 % of its resamples over users."""
        check_choice("metric", metric, METRICS)
        at = METRICS.index(metric)
        value, draws = self.values[at], self.draws[:, at]
        if less is not None:
            value, draws = value - less.values[at], draws - less.draws[:, at]
        low, high = np.nanquantile(draws, [0.025, 0.975])
        return Interval(float(value), float(low), float(high), 0.95)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: who it is, each metric with its interval, and the curve."""
        metrics = {}
        for name in METRICS:
            found = self.interval(name)
            metrics[name] = {"value": found.mean, "users": [found.low, found.high]}
        about = {"adversary": self.adversary, "attacker": self.attacker}
        return {**about, "sees": self.sees, "knows": self.knows, "metrics": metrics, "roc": self.roc.tolist()}


@dataclass(frozen=True, eq=False)
class LinkAttack:
    """What link stealing or membership inference found; print it for the table.

    >>> import veilrec as vr
    >>> parts = vr.split.holdout(vr.synthetic(users=90, items=60, interactions=1800))
    >>> found = vr.attack(vr.EASE().fit(parts.train, progress=False), parts, "links", attackers="score")
    >>> found.leak("X", "score").level
    0.95
    """

    kind: str
    model: str
    data: str
    outcomes: tuple[LinkOutcome, ...]
    not_applicable: Mapping[tuple[str, str], str]
    counts: Mapping[str, Any]
    settings: Mapping[str, Any]

    def outcome(self, adversary: str, attacker: str) -> LinkOutcome:
        """One row; ``adversary`` is "" for attackers who see no model."""
        found = [row for row in self.outcomes if (row.adversary, row.attacker) == (adversary, attacker)]
        why = self.not_applicable.get((adversary, attacker), "")
        check(len(found) == 1, "outcome", "one that was measured", (adversary, attacker), why)
        return found[0]

    def best(self, adversary: str, metric: str = "auc") -> LinkOutcome:
        """The strongest attacker of an adversary."""
        rows = [row for row in self.outcomes if row.adversary == adversary]
        check(len(rows) > 0, "adversary", "one who was tried", adversary)
        return max(rows, key=lambda row: row.value(metric))

    def null(self, row: LinkOutcome, metric: str = "auc") -> LinkOutcome:
        """The strongest attacker without a model who knows no more of people than the one of ``row``."""
        rows = [one for one in self.outcomes if not one.adversary and (row.knows == OWN or one.knows != OWN)]
        return max(rows, key=lambda one: one.value(metric))

    def leak(self, adversary: str, attacker: str, metric: str = "auc") -> Interval:
        """What the model adds: the difference to the strongest attacker who knows as much and sees no model.

        The interval is over users, paired: both are judged on the same resamples.
        """
        row = self.outcome(adversary, attacker)
        return row.interval(metric, less=self.null(row, metric))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: every row, and the leak of those who see a model."""
        rows = []
        for row in self.outcomes:
            plain = row.to_dict()
            if row.adversary:
                plain["null"] = self.null(row).attacker
                found = {name: self.leak(row.adversary, row.attacker, name) for name in METRICS}
                plain["leak"] = {name: [one.mean, one.low, one.high] for name, one in found.items()}
            rows.append(plain)
        return {
            "attack": self.kind,
            "model": self.model,
            "data": self.data,
            "settings": dict(self.settings),
            "counts": dict(self.counts),
            "roc_rates": RATES.tolist(),
            "not_applicable": [
                {"adversary": side, "attacker": word, "why": why}
                for (side, word), why in self.not_applicable.items()
            ],
            "rows": rows,
        }

    def __str__(self) -> str:
        count = self.counts
        lines = [
            f"{TITLES[self.kind]} {self.model} on {self.data}: {_TASKS[self.kind]}",
            f"{count['edges']:,} edges and {count['other_cells']:,} other cells of "
            f"{count['attacked_users']:,} users; true density {count['density']:.4f}",
            "",
            *_aligned(self._table()),
            "",
            "O: has the published model; X: and sees lists and scores of the attacked; S: and is the server.",
            "± is half of the 95 % interval over users. Precision: as many cells named as there are edges.",
            "Over null: the difference to the strongest attacker who knows as much and sees no model.",
        ]
        reasons: dict[str, list[str]] = {}
        for (side, word), why in self.not_applicable.items():
            reasons.setdefault(why, []).append(f"{word} ({side})")
        lines += [f"not applicable: {', '.join(words)}: {why}" for why, words in reasons.items()]
        return "\n".join(lines)

    def _table(self) -> list[list[str]]:
        table = [["", "attacker", "sees", "knows", *_HEADS]]
        for row in self.outcomes:
            cells = [_cell(row.interval(name)) for name in METRICS]
            gap = _cell(self.leak(row.adversary, row.attacker), "+") if row.adversary else ""
            table.append([row.adversary or "-", row.attacker, row.sees, row.knows, *cells, gap])
        return table

    def plot(self, path: str | Path) -> Path:
        """The curves of the strongest attackers, in a file ending in .png, .svg or .pdf."""
        from veilrec.attacks.links_plot import plot_links

        return plot_links(self, path)


def _cell(found: Interval, sign: str = "") -> str:
    return f"{found.mean:{sign}.3f} ±{(found.high - found.low) / 2:.3f}"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at < 4 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in table
    ]
