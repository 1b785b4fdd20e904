from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import veilrec.training.loop
from veilrec.core import stream
from veilrec.data import Dataset
from veilrec.experiments import DataSpec, Experiment, SplitSpec
from veilrec.systems import SYSTEMS
from veilrec.training import Array, Job, Recommender, run_epochs, validation_score

SMALL = DataSpec("synthetic:80,50,1600")


@dataclass(eq=False)
class Toy(Recommender):
    """Random steps kept by validation: the smallest model with epochs; ``stop_at`` is where it is stopped."""

    word: ClassVar[str] = "toy"
    summary: ClassVar[str] = "random steps"
    stop_at: ClassVar[int | None] = None
    steps: ClassVar[list[int]] = []
    patience: ClassVar[int] = 10
    validate_every: ClassVar[int] = 1

    epochs: int = 6
    size: float = 1.0

    def _fit(self, job: Job) -> None:
        state = {"weights": np.zeros(len(self.items), np.float32)}

        def step(epoch: int) -> float:
            if epoch == Toy.stop_at:
                raise KeyboardInterrupt
            Toy.steps.append(epoch)
            state["weights"] += self.size * stream(job.seed, "toy", epoch).normal(size=len(self.items))
            return float(np.abs(state["weights"]).mean())

        def score(users: Array) -> Array:
            return np.broadcast_to(state["weights"], (len(users), len(self.items))).copy()

        def validate(valid: Dataset) -> float:
            return validation_score(score, job.train, valid)

        run_epochs(job, self, state=state, step=step, validate=validate)
        self.shared["weights"] = state["weights"].copy()

    def _score(self, users: Array) -> Array:
        return np.broadcast_to(self.shared["weights"], (len(users), len(self.items)))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> type[Toy]:
    """The toy model, known by its word; each epoch leaves a checkpoint."""
    monkeypatch.setitem(SYSTEMS, "toy", Toy)
    monkeypatch.setattr(veilrec.training.loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(Toy, "stop_at", None)
    monkeypatch.setattr(Toy, "steps", [])
    return Toy


@pytest.fixture
def small() -> Callable[..., Experiment]:
    """Makes an experiment that takes a blink."""

    def make(model: str = "popularity", **rest: Any) -> Experiment:
        return Experiment(
            model, **{"data": SMALL, "split": SplitSpec("holdout", 0.2, 0.1), "seed": 1, **rest}
        )

    return make
