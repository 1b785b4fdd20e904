from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from veilrec.data import Dataset
from veilrec.training import Job, run_epochs
from veilrec.training.guard import DataGuard

DATA = Dataset.from_arrays(["a", "b"], ["x", "y"])


@dataclass
class Toy:
    """What the loop reads from a model."""

    epochs: int
    patience: int = 10
    validate_every: int = 1
    facts: dict[str, Any] = field(default_factory=dict)
    word: ClassVar[str] = "toy"


def job(checkpoint: Path | None = None, valid: Dataset | None = None) -> Job:
    return Job(DATA, valid, 0, "cpu", checkpoint, False, key="toy")


def never(valid: Dataset) -> float:
    raise AssertionError("there is nothing to validate on")


def run(values: list[float], patience: int = 2, every: int = 1, epochs: int | None = None):
    state = {"x": np.zeros(1)}

    def step(epoch: int) -> float:
        state["x"][0] = epoch + 1
        return 1.0

    model = Toy(epochs or len(values), patience, every)
    at = run_epochs(
        job(valid=DATA), model, state=state, step=step, validate=lambda valid: values[int(state["x"][0]) - 1]
    )
    assert model.facts == {"epochs": at.best_epoch}
    return at, state["x"][0]


def test_best_epoch_is_put_back() -> None:
    at, x = run([0.1, 0.5, 0.3, 0.2, 0.9])
    assert (at.best_epoch, at.best_value, x) == (2, 0.5, 2)
    assert at.epoch == 4, "two validations without a new best end the run"


def test_patience_counts_validations() -> None:
    at, x = run([0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], patience=2, every=2)
    assert (at.best_epoch, at.epoch, x) == (2, 6, 2)


def test_the_last_epoch_is_always_validated() -> None:
    at, _ = run([0.1, 0.2, 0.3], every=2)
    assert at.best_epoch == 3


def test_without_validation_it_runs_to_the_end() -> None:
    state = {"x": np.zeros(1)}
    at = run_epochs(job(), Toy(3), state=state, step=lambda e: 0.0, validate=never)
    assert (at.epoch, at.best_epoch) == (3, 3)


def test_divergence_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"loss must be finite, got nan in epoch 1 of toy\. Lower"):
        run_epochs(job(), Toy(3), state={}, step=lambda e: math.nan, validate=never)


def test_broken_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="checkpoint must be readable"):
        run_epochs(job(tmp_path), Toy(1), state={}, step=lambda e: 0.0, validate=never)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []
    for _ in range(2):
        state = {"x": np.zeros(2)}

        def step(epoch: int, state=state) -> float:
            calls.append(epoch)
            state["x"] += 1
            return 0.0

        run_epochs(job(tmp_path), Toy(3), state=state, step=step, validate=never)
        assert state["x"].tolist() == [3, 3]
    assert calls == [0, 1, 2]


def test_a_private_model_keeps_every_epoch(tmp_path: Path) -> None:
    """A plain one keeps those after some seconds; for a private one to repeat an epoch is to draw again."""
    kept = []
    for name, guard in (("plain", None), ("private", DataGuard(DATA))):
        state = {"x": np.zeros(1)}

        def step(epoch: int, state: dict[str, Any] = state) -> float:
            if epoch == 3:
                raise KeyboardInterrupt
            state["x"] += 1
            return 0.0

        place = tmp_path / name
        place.mkdir()
        work = replace(job(place), guard=guard)
        with pytest.raises(KeyboardInterrupt):
            run_epochs(work, Toy(9), state=state, step=step, validate=never)
        kept.append((place / "state.safetensors").exists())
    assert kept == [False, True]
