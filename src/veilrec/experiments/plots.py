"""A comparison as a picture: a dot with its interval for each model, one panel per metric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilrec.core import atomic_path, check, require
from veilrec.experiments.records import leading_metrics
from veilrec.experiments.specs import NULL_MODEL

_ACCENT, _QUIET, _INK, _SOFT, _RULE = "#4454d6", "#9096a8", "#1b1d26", "#5d6272", "#e4e6ee"


def plot_comparison(record: Mapping[str, Any], path: str | Path) -> Path:
    """Draw the leading metrics of a comparison's record; the name of ``path`` says PNG, SVG or PDF.

    The thick line is the interval over users, the thin one, where there are several seeds, over seeds.

    >>> plot_comparison({}, "picture.txt")
    Traceback (most recent call last):
        ...
    ValueError: path must be a name ending in one of .png, .svg, .pdf, got 'picture.txt'.
    """
    path = Path(path)
    kinds = (".png", ".svg", ".pdf")
    check(path.suffix in kinds, "path", f"a name ending in one of {', '.join(kinds)}", path.name)
    figures = require("matplotlib.figure", extra="plots", purpose="the plot of a comparison")
    rows = record["models"]
    names = leading_metrics(rows[0]["metrics"])
    across = min(2, len(names))
    down = -(-len(names) // across)
    size = (5.2 * across, down * (0.9 + 0.34 * len(rows)) + 0.5)
    figure = figures.Figure(figsize=size, dpi=160, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for panel, name in zip(panels, names):
        _panel(panel, rows, name)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    seeds = len(record["seeds"])
    also = f"; thin: over {seeds} seeds" if seeds > 1 else ""
    figure.suptitle(
        f"{record['data']['name']}: mean and 95 % interval over users{also}", fontsize=10, color=_SOFT
    )
    with atomic_path(path) as temporary:
        # a fixed date and fixed ids make the same record give the same file
        about = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[path.suffix]
        figure.savefig(temporary, format=path.suffix[1:], metadata=about)
    return path


def _panel(panel: Any, rows: list[dict[str, Any]], name: str) -> None:
    places = range(len(rows))
    for place, row in zip(places, rows):
        found = row["metrics"][name]
        colour = _QUIET if row["model"] == NULL_MODEL else _ACCENT
        if found["seeds"] is not None:
            panel.plot(found["seeds"], [place, place], color=colour, linewidth=1, zorder=2)
        panel.plot(found["users"], [place, place], color=colour, linewidth=4, alpha=0.4, zorder=3)
        panel.plot([found["mean"]], [place], "o", color=colour, markersize=6, zorder=4)
        note = f"{found['mean']:.4f}"
        offset = {"xytext": (0, 7), "textcoords": "offset points"}
        panel.annotate(note, (found["mean"], place), **offset, ha="center", fontsize=8, color=_INK)
    panel.set_title(name, loc="left", fontsize=10.5, fontweight="bold", color=_INK)
    panel.set_yticks(list(places), [row["label"] for row in rows])
    panel.set_ylim(len(rows) - 0.5, -0.7)
    panel.set_xlim(0, 1.06 * panel.get_xlim()[1])
    panel.locator_params(axis="x", nbins=5)
    panel.grid(axis="x", color=_RULE, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(length=0, labelsize=9, colors=_SOFT)
    for side in panel.spines.values():
        side.set_visible(False)
