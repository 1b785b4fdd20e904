"""An audit: a mechanism on trial, the bound that its runs show, and whether its claim survives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.attacks.bounds import LEVEL, delta_points, gaussian_mu_bound, two_world_epsilon
from veilrec.attacks.trials import Trial
from veilrec.core import atomic_path, check, require, track
from veilrec.privacy import Noise, delta_of
from veilrec.privacy.gaussian_profile import gaussian_epsilon


@dataclass(frozen=True)
class Finding:
    """What an audit found: the claimed epsilon and the one that the runs prove to be spent at least.

    ``share`` is measured over claimed; for Gaussian noise both as distances mu, which is where its tightness
    shows. ``refuted``: somebody spends more than was claimed.

    >>> from veilrec.attacks import audit, trial
    >>> found = audit(trial("laplace", 1.0), Noise.research(1), runs=4000)
    >>> found.refuted, 0.7 < found.share < 1
    (False, True)
    """

    name: str
    claimed: float
    measured: float
    share: float
    delta: float
    method: str
    runs: int
    level: float
    tight: bool

    @property
    def refuted(self) -> bool:
        """Whether the measured bound lies above the claim."""
        return self.share > 1

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "mechanism": self.name,
            "claimed_epsilon": round(self.claimed, 6),
            "measured_epsilon": round(self.measured, 4),
            "measured_over_claimed": round(self.share, 4),
            "delta": self.delta,
            "method": self.method,
            "tight": self.tight,
            "runs_per_world": self.runs,
            "level": self.level,
            "refuted": self.refuted,
        }


@dataclass(frozen=True)
class Curve:
    """The claimed curve delta(epsilon) and the points that the runs show, each a lower bound.

    >>> from veilrec.attacks import audit_curve, trial
    >>> curve = audit_curve(trial("gaussian", 1.0), Noise.research(1), runs=4000)
    >>> bool((curve.measured <= curve.claimed).all())
    True
    """

    name: str
    epsilons: NDArray[np.float64]
    claimed: NDArray[np.float64]
    measured: NDArray[np.float64]

    @property
    def refuted(self) -> bool:
        """Whether a point lies above the curve."""
        return bool((self.measured > self.claimed).any())


def audit(trial: Trial, noise: Noise, runs: int | None = None, level: float = LEVEL) -> Finding:
    """Run a mechanism in both worlds and bound what it spends.

    >>> from veilrec.attacks import trial
    >>> audit(trial("bit-response", 2.0), Noise.research(1), runs=4000).measured < 2.0
    True
    """
    count = trial.runs if runs is None else runs
    ours, theirs = (trial.scores(world, count, noise) for world in (1, 0))
    if trial.method == "gaussian":
        mu = gaussian_mu_bound(ours, theirs, level)
        measured, share = gaussian_epsilon(mu, trial.delta), mu / trial.mu
    else:
        measured = two_world_epsilon(ours, theirs, trial.delta, level)
        share = measured / trial.epsilon
    return Finding(
        trial.name, trial.epsilon, measured, share, trial.delta, trial.method, count, level, trial.tight
    )


def audit_curve(
    trial: Trial, noise: Noise, runs: int | None = None, level: float = LEVEL, progress: bool = False
) -> Curve:
    """Claimed and measured delta at several epsilon up to the claimed one.

    >>> from veilrec.attacks import trial
    >>> audit_curve(trial("piecewise", 1.0), Noise.research(1), runs=2000).refuted
    False
    """
    count = trial.runs if runs is None else runs
    epsilons = np.linspace(0, trial.epsilon, 9)
    worlds = track([1, 0], "auditing", show=progress)
    ours, theirs = (trial.scores(world, count, noise) for world in worlds)
    claimed = np.array([delta_of(trial.events, float(e), trial.neighbours) for e in epsilons])
    return Curve(trial.name, epsilons, claimed, delta_points(ours, theirs, epsilons, level))


def plot_audit(curve: Curve, path: str | Path) -> Path:
    """The claimed curve as a line, the measured lower bounds as points; a point above the line refutes it.

    >>> import numpy as np
    >>> plot_audit(Curve("x", np.zeros(1), np.zeros(1), np.zeros(1)), "a.txt")
    Traceback (most recent call last):
        ...
    ValueError: path must be a name ending in one of .png, .svg, .pdf, got 'a.txt'.
    """
    path = Path(path)
    kinds = (".png", ".svg", ".pdf")
    check(path.suffix in kinds, "path", f"a name ending in one of {', '.join(kinds)}", path.name)
    figures = require("matplotlib.figure", extra="plots", purpose="the plot of an audit")
    figure = figures.Figure(figsize=(6.4, 4.0), dpi=160, layout="constrained")
    axis = figure.subplots()
    axis.plot(curve.epsilons, curve.claimed, color="#4454d6", linewidth=1.8, label="claimed")
    above = curve.measured > curve.claimed
    for which, colour, words in (
        (~above, "#1b1d26", "measured, at least"),
        (above, "#c0392b", "refutes the claim"),
    ):
        if which.any():
            axis.plot(
                curve.epsilons[which], curve.measured[which], "o", color=colour, markersize=5, label=words
            )
    axis.set_xlabel("epsilon")
    axis.set_ylabel("delta")
    axis.set_ylim(bottom=0)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    axis.set_title(f"{curve.name}: claimed curve and what the runs show", fontsize=10, loc="left")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
    return path
