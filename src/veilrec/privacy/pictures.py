"""A statement as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from veilrec.core import atomic_path, check, require

if TYPE_CHECKING:
    from veilrec.privacy.guarantee import Guarantee

_COLOURS = ("#4454d6", "#d98b3a", "#3f9e7a", "#b0507f", "#7a6bd0", "#9096a8")


def plot_guarantee(guarantee: Guarantee, path: str | Path) -> Path:
    """One bar per claim, as long as its composed epsilon, cut in proportion to what each part costs alone.

    >>> from veilrec.privacy import Guarantee
    >>> plot_guarantee(Guarantee.none("ease", reads=()), "a.txt")
    Traceback (most recent call last):
        ...
    ValueError: path must be a name ending in one of .png, .svg, .pdf, got 'a.txt'.
    """
    path = Path(path)
    kinds = (".png", ".svg", ".pdf")
    check(path.suffix in kinds, "path", f"a name ending in one of {', '.join(kinds)}", path.name)
    claims = [claim for claim in guarantee.claims if math.isfinite(claim.epsilon)]
    words = "none" if not guarantee.claims else "no finite epsilon"
    check(bool(claims), "the statement", "one with a finite claim", words, "There is no budget to draw.")
    figures = require("matplotlib.figure", extra="plots", purpose="the picture of a statement")
    figure = figures.Figure(figsize=(7.2, 1.1 + 0.75 * len(claims)), dpi=160, layout="constrained")
    axis = figure.subplots()
    labels: dict[str, str] = {}
    for row, claim in enumerate(reversed(claims)):
        left, whole = 0.0, math.fsum(cost for _, cost in claim.parts)
        for event, cost in claim.parts:
            width = claim.epsilon * cost / whole if whole else 0.0
            name = event.label or event.kind
            colour = labels.setdefault(name, _COLOURS[len(labels) % len(_COLOURS)])
            axis.barh(row, width, left=left, color=colour, height=0.55, edgecolor="white")
            left += width
        note = f" {claim.epsilon:.3g}" + (f" at delta {claim.delta:.1g}" if claim.delta else "")
        axis.text(left, row, note, va="center", fontsize=8, color="#1b1d26")
    axis.set_yticks(range(len(claims)), [claim.secret for claim in reversed(claims)], fontsize=8)
    axis.set_xlim(0, 1.25 * max(claim.epsilon for claim in claims) or 1.0)
    axis.set_xlabel("composed epsilon, cut by what each part costs alone", fontsize=8)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    handles = require("matplotlib.patches", extra="plots", purpose="the picture of a statement")
    keys = [handles.Patch(color=colour, label=name) for name, colour in labels.items()]
    axis.legend(
        handles=keys, fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3
    )
    figure.suptitle(f"Where the budget of {guarantee.model} went", fontsize=10, x=0.02, ha="left")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
    return path
