"""What attacks found, for the report page: the strongest attacker against each secret, and the gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from veilrec.studio.charts import Dot, dot_chart

_ADVERSARIES = {"O": "outsider with the model", "X": "sees lists and scores", "S": "the server"}


@dataclass(frozen=True)
class Leak:
    """The strongest attacker (by AUC) against one secret of one run, beside the same without the model."""

    run: str
    protection: str
    secret: str
    attacker: str
    sees: str
    auc: float
    null: str
    null_auc: float
    gain: float
    low: float | None
    high: float | None


def leaks(record: Mapping[str, Any]) -> list[Leak]:
    """The rows of an attack record (``attack*.json``).

    >>> leaks({"attack": "attribute", "name": "a", "protection": "none", "targets": [], "rows": []})
    []
    """
    with_model = [row for row in record["rows"] if "leak" in row and not row["sees"].startswith("popular ")]
    if record["attack"] == "attribute":
        keys = {row["target"]: row["target"] for row in with_model}
        best = {name: _strongest(with_model, "target", name, "mean") for name in keys}
        return [_attribute(record, row) for row in best.values()]
    sides = dict.fromkeys(row["adversary"] for row in with_model)
    return [_edge(record, _strongest(with_model, "adversary", side, "value")) for side in sides]


def leak_charts(found: Sequence[Leak]) -> list[Markup]:
    """For each secret a chart of what each run gives away."""
    charts = []
    for secret in dict.fromkeys(row.secret for row in found):
        dots = [Dot(row.run, row.gain, row.low, row.high) for row in found if row.secret == secret]
        if len(dots) > 1:
            charts.append(dot_chart(f"{secret}: AUC that the model adds", dots))
    return charts


def _strongest(rows: Sequence[Mapping[str, Any]], key: str, value: str, name: str) -> Mapping[str, Any]:
    return max((row for row in rows if row[key] == value), key=lambda row: row["metrics"]["auc"][name])


def _attribute(record: Mapping[str, Any], row: Mapping[str, Any]) -> Leak:
    gain, over = row["leak"]["auc"]["mean"], row["leak"]["auc"]["repeats"]
    low, high = over if over is not None else (None, None)
    sees = row["sees"] if row["k"] is None else f"{row['sees']} @{row['k']}"
    auc = row["metrics"]["auc"]["mean"]
    about = (record["name"], record["protection"], row["target"], row["attacker"], sees)
    return Leak(*about, auc, "the same with the history alone", auc - gain, gain, low, high)


def _edge(record: Mapping[str, Any], row: Mapping[str, Any]) -> Leak:
    gain, low, high = row["leak"]["auc"]
    what = "an interaction" if record["attack"] == "links" else "membership of an interaction"
    secret, auc = f"{what}, {row['adversary']}", row["metrics"]["auc"]["value"]
    sees = _ADVERSARIES.get(row["adversary"], row["adversary"])
    about = (record["name"], record["protection"], secret, row["attacker"], sees)
    return Leak(*about, auc, row["null"], auc - gain, gain, low, high)
