"""Link stealing, the picture: how many edges are found for how many false ones, on logarithmic scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from veilrec.attacks.links_metrics import RATES
from veilrec.attacks.links_result import TITLES, LinkAttack
from veilrec.core import atomic_path, check, require

_COLOURS = {"": "#9aa0ac", "O": "#4454d6", "X": "#c0392b", "S": "#1b1d26"}


def plot_links(found: LinkAttack, path: str | Path) -> Path:
    """The curve of each adversary's strongest attacker and of the strongest who sees no model.

    The left end is what counts: who is sure of a few is more dangerous than who is right a little more often.

    >>> plot_links(LinkAttack("links", "m", "d", (), {}, {}, {}), "a.txt")
    Traceback (most recent call last):
        ...
    ValueError: path must be a name ending in one of .png, .svg, .pdf, got 'a.txt'.
    """
    path = Path(path)
    kinds = (".png", ".svg", ".pdf")
    check(path.suffix in kinds, "path", f"a name ending in one of {', '.join(kinds)}", path.name)
    figures = require("matplotlib.figure", extra="plots", purpose="the plot of an attack")
    figure = figures.Figure(figsize=(6.4, 4.4), dpi=160, layout="constrained")
    axis = figure.subplots()
    axis.plot(RATES, RATES, color=_COLOURS[""], linewidth=1, linestyle=":", label="random")
    for side, colour in _COLOURS.items():
        if not any(row.adversary == side for row in found.outcomes):
            continue
        row = found.best(side)
        words = f"{side or 'no model'}: {row.attacker}, AUC {row.value():.3f}"
        shape = "-" if side else "--"
        shown = np.maximum(row.roc, RATES[0])
        axis.plot(RATES, shown, color=colour, linestyle=shape, linewidth=1.8, label=words)
    axis.set(xscale="log", yscale="log", xlabel="false positive rate", ylabel="true positive rate")
    axis.set(xlim=(RATES[0], 1), ylim=(RATES[0], 1.05))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="lower right")
    axis.set_title(f"{TITLES[found.kind]} {found.model}, {found.data}", fontsize=10, loc="left")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
    return path
