"""What to run: frozen specs of an experiment and of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from veilrec.core import check, check_count
from veilrec.experiments.values import nearest

NULL_MODEL = "popularity"
"""The model every comparison includes: whoever does not beat it has learnt nothing about anyone."""


@dataclass(frozen=True)
class DataSpec:
    """Which data: a named set, an imported set, a file, or ``synthetic[:users,items,interactions]``.

    ``dir`` is where named sets lie. What stands between it and ``min_rating`` is for files and means what it
    means in :func:`veilrec.read`; the filters come last.

    >>> DataSpec("events.csv", user="client", min_rating=4).source
    'events.csv'
    """

    source: str = "synthetic"
    dir: str | None = None
    users: str | None = None
    links: str | None = None
    format: str | None = None
    user: str | None = None
    item: str | None = None
    rating: str | Literal[False] | None = None
    time: str | Literal[False] | None = None
    sensitive: str | Literal[False] | None = None
    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    escape: Literal["double", "backslash", "backslash-quote", "backslash-plain", "none"] | None = None
    rating_range: tuple[float, float] | None = None
    duplicates: Literal["last", "first", "mean", "error", "keep"] | None = None
    unknown_users: Literal["error", "drop"] | None = None
    missing: Literal["error", "drop"] | None = None
    min_rating: float | None = None
    k_core: int | None = None


@dataclass(frozen=True)
class SplitSpec:
    """How to split. ``auto`` takes the split that came with the data, else a per-user holdout.

    ``seed`` None follows the seed of the experiment. ``joint`` draws a holdout for all users together
    (:func:`veilrec.split.holdout`).

    >>> SplitSpec("temporal", test=0.2)
    SplitSpec(method='temporal', test=0.2, valid=0.1, seed=None, joint=False)
    """

    method: Literal["auto", "holdout", "leave_one_out", "temporal", "global_temporal"] = "auto"
    test: float = 0.1
    valid: float = 0.1
    seed: int | None = None
    joint: bool = False

    def __post_init__(self) -> None:
        good = not self.joint or self.method == "holdout"
        check(good, "split.joint", "False unless the method is 'holdout'", self.joint)


@dataclass(frozen=True)
class EvaluateSpec:
    """How to judge: list lengths and the protocol of :func:`veilrec.evaluate`.

    >>> EvaluateSpec(k=(20,)).protocol
    'full'
    """

    k: tuple[int, ...] = (5, 10, 20)
    protocol: Literal["full", "sampled", "one-positive"] = "full"

    def __post_init__(self) -> None:
        check(len(self.k) > 0, "evaluate.k", "one length or more", self.k)
        for length in self.k:
            check_count("evaluate.k", length)


@dataclass(frozen=True)
class Experiment:
    """One fit: model, settings, data, split, evaluation and seed.

    >>> Experiment("popularity").to_dict()["split"]["method"]
    'auto'
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: DataSpec = DataSpec()
    split: SplitSpec = SplitSpec()
    evaluate: EvaluateSpec = EvaluateSpec()
    seed: int = 0
    secure: bool = True
    tuned: bool = False
    """Whether the settings were chosen on data of the same people; `veilrec tune` says so in best.yaml."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: str | None = None

    def __post_init__(self) -> None:
        check_count("seed", self.seed, 0)

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON-ready values, without the folder it writes to."""
        plain = dataclasses.asdict(self)
        plain["evaluate"]["k"] = list(self.evaluate.k)
        del plain["out"]
        return plain


@dataclass(frozen=True)
class Entry:
    """One row of a comparison: a model with settings, under a label.

    >>> Entry("strong", "ease", {"regularization": 900.0}).model
    'ease'
    """

    label: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A comparison: models x seeds on the same data and splits.

    Differences are tested against ``reference``: a label, "first", or "best" (of each metric).

    >>> Plan((Entry("popularity", "popularity"),)).seeds
    (0,)
    """

    models: tuple[Entry, ...]
    seeds: tuple[int, ...] = (0,)
    data: DataSpec = DataSpec()
    split: SplitSpec = SplitSpec()
    evaluate: EvaluateSpec = EvaluateSpec()
    reference: str = "first"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: str | None = None

    def __post_init__(self) -> None:
        check(len(self.models) > 0, "models", "one or more", [])
        check(len(self.seeds) > 0, "seeds", "one or more", [])
        for seed in self.seeds:
            check_count("seeds", seed, 0)
        repeated = [seed for seed in self.seeds if self.seeds.count(seed) > 1]
        check(not repeated, "seeds", "different from each other", list(self.seeds))
        labels = [entry.label for entry in self.models]
        if self.reference not in ("first", "best", *labels):
            known = ["first", "best", *labels]
            remedy = nearest(self.reference, known)
            check(False, "reference", f"one of {', '.join(known)}", self.reference, remedy)
