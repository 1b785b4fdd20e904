"""The loop over epochs: validation, early stopping, checkpoints and resume, once for all iterative models.

A model hands over its *state*, a dictionary of arrays or tensors that its ``step`` changes in place
(parameters, optimiser moments, whatever decides the next epoch), and draws the randomness of epoch ``e``
from ``stream(seed, ..., e)``. Then a run that was stopped and resumed ends in the bits of one that was not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from veilrec.core import bar, check_count
from veilrec.data import Dataset
from veilrec.training.job import Job

CHECKPOINT_SECONDS = 20.0
"""How much work a kill may cost a plain model: a checkpoint is written at the first epoch end after them."""
_STATE = "state"


class Iterative(Protocol):
    """What the loop reads from a model, and where it notes the best epoch: ``facts["epochs"]``."""

    word: ClassVar[str]
    epochs: int
    patience: int
    validate_every: int
    facts: dict[str, Any]


@dataclass
class Progress:
    """Where a loop stands; saved with every checkpoint.

    >>> Progress().epoch, Progress().best_value
    (0, -inf)
    """

    epoch: int = 0
    best_epoch: int = 0
    best_value: float = -math.inf
    curve: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    """Spent in training steps; validation not counted."""


def run_epochs(
    job: Job,
    model: Iterative,
    *,
    state: Mapping[str, Any],
    step: Callable[[int], float],
    validate: Callable[[Dataset], float],
    keep: tuple[str, ...] | None = None,
) -> Progress:
    """Run ``step(epoch)`` for epochs 0, 1, ... and leave ``state`` at the best epoch.

    ``step`` returns the mean loss. Where the job has validation data, ``validate`` judges the state by it
    (higher is better) at every ``validate_every``-th epoch; the loop stops after ``patience`` validations
    without a new best, and the arrays named in ``keep`` (default: all) are put back to those of the best
    epoch. Without validation data it runs all ``epochs``.

    >>> import veilrec as vr
    >>> data, state = vr.synthetic(users=60, items=40, interactions=900), {"x": np.zeros(1)}
    >>> def step(epoch):
    ...     state["x"] += 1
    ...     return 1 / (epoch + 1)
    >>> job = Job(data, data, seed=0, device="cpu", checkpoint=None, progress=False)
    >>> model = vr.BPR(epochs=9, validate_every=1, patience=2)
    >>> at = run_epochs(job, model, state=state, step=step, validate=lambda valid: -abs(state["x"][0] - 3))
    >>> at.epoch, at.best_epoch, state["x"].tolist()
    (5, 3, [3.0])
    """
    word, epochs, patience, validate_every = model.word, model.epochs, model.patience, model.validate_every
    valid = job.validation()
    check_count("epochs", epochs)
    check_count("validate_every", validate_every)
    check_count("patience", patience)
    kept = tuple(state) if keep is None else keep
    at = Progress()
    best: dict[str, Any] = {}
    if job.checkpoint is not None and job.file(_STATE).exists():
        at, best = _resume(job, state)
    written = time.perf_counter()
    with bar(f"fitting {word}", epochs, show=job.progress) as ticker:
        ticker.advance(at.epoch)
        since_best = (at.epoch - at.best_epoch) // validate_every if valid is not None else 0
        while at.epoch < epochs and since_best < patience:
            began = time.perf_counter()
            loss = float(step(at.epoch))
            at.seconds += time.perf_counter() - began
            if not math.isfinite(loss):
                where = f"epoch {at.epoch + 1} of {word}"
                raise ValueError(f"loss must be finite, got {loss} in {where}. Lower the learning rate.")
            at.epoch += 1
            entry = {"epoch": float(at.epoch), "loss": loss}
            if valid is not None and (at.epoch % validate_every == 0 or at.epoch == epochs):
                value = float(validate(valid))
                entry["valid"] = value
                if value > at.best_value:
                    at.best_value, at.best_epoch = value, at.epoch
                    best = {name: _numpy(state[name]).copy() for name in kept}
                since_best = (at.epoch - at.best_epoch) // validate_every
            entry["seconds"] = round(at.seconds, 3)
            at.curve.append(entry)
            shown = f", valid {entry['valid']:.4f}" if "valid" in entry else ""
            ticker.advance(1, note=f"loss {loss:.4f}{shown}")
            # a private model's epochs are kept one by one: to repeat one is to draw its noise again
            due = job.guard is not None or time.perf_counter() - written >= CHECKPOINT_SECONDS
            if job.checkpoint is not None and due:
                _save(job, at, state, best)
                written = time.perf_counter()
    if best:
        _put(state, best)
    elif valid is None:
        at.best_epoch = at.epoch
    if job.checkpoint is not None:
        _save(job, at, state, best)
    job.log.extend(at.curve)
    model.facts["epochs"] = at.best_epoch
    return at


def _numpy(value: Any) -> np.ndarray[Any, Any]:
    return value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()


def _put(state: Mapping[str, Any], values: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for name, value in values.items():
        if isinstance(state[name], np.ndarray):
            state[name][...] = value
        else:
            import torch

            with torch.no_grad():
                state[name].copy_(torch.from_numpy(value.copy()).reshape(state[name].shape))


def _save(job: Job, at: Progress, state: Mapping[str, Any], best: Mapping[str, Any]) -> None:
    arrays = {f"now.{name}": np.ascontiguousarray(_numpy(value)) for name, value in state.items()}
    arrays |= {f"best.{name}": np.ascontiguousarray(value) for name, value in best.items()}
    about = {
        "epoch": at.epoch,
        "best_epoch": at.best_epoch,
        "best_value": at.best_value if math.isfinite(at.best_value) else None,
        "curve": at.curve,
        "seconds": at.seconds,
    }
    job.keep(_STATE, arrays, {"progress": json.dumps(about)})


def _resume(job: Job, state: Mapping[str, Any]) -> tuple[Progress, dict[str, Any]]:
    notes, arrays = job.read_kept(_STATE)
    _put(state, {n.removeprefix("now."): a for n, a in arrays.items() if n.startswith("now.")})
    values = json.loads(notes["progress"])
    if values["best_value"] is None:
        values["best_value"] = -math.inf
    return Progress(**values), {
        n.removeprefix("best."): a for n, a in arrays.items() if n.startswith("best.")
    }
