"""Cells of a comparison: one model under one seed, computed once and kept by what decides its numbers."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilrec.core import DataError, atomic_path
from veilrec.data import Split
from veilrec.experiments.config import make_model
from veilrec.experiments.specs import Entry, Plan
from veilrec.training import Array, Recommender, evaluate


@dataclass(frozen=True, eq=False)
class Cell:
    """One model under one seed: per-user values, figures of the whole, and what was fitted."""

    users: Array
    values: dict[str, Array]
    about: dict[str, Any]


def cell_key(plan: Plan, model: Recommender, split: Split, seed: int) -> str:
    from veilrec import __version__

    about = [
        __version__,
        model.word,
        model.settings(),
        split.source_fingerprint,
        split.fingerprint,
        seed,
        list(plan.evaluate.k),
        plan.evaluate.protocol,
    ]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def compute_cell(plan: Plan, entry: Entry, seed: int, split: Split, path: Path, progress: bool) -> None:
    from safetensors.numpy import save_file

    model = make_model(entry.model, entry.settings)
    checkpoint = path.with_suffix(".checkpoint")
    model.fit(
        split.train,
        split.valid,
        seed=seed,
        device=plan.device,
        checkpoint=checkpoint,
        progress=progress,
        secure=False,
    )
    judged = evaluate(
        model, split, plan.evaluate.k, protocol=plan.evaluate.protocol, seed=seed, progress=progress
    )
    about = {
        "model": model.word,
        "settings": model.settings(),
        "seed": seed,
        "overall": judged.overall,
        "seconds": model.facts["seconds"],
        "guarantee": model.guarantee.to_dict(),
        "statement": str(model.guarantee),
    }
    arrays = {f"metric.{name}": np.ascontiguousarray(values) for name, values in judged.per_user.items()}
    arrays["users"] = np.ascontiguousarray(judged.users)
    with atomic_path(path) as temporary:
        save_file(arrays, temporary, metadata={"about": json.dumps(about)})
    shutil.rmtree(checkpoint, ignore_errors=True)


def read_cell(path: Path) -> Cell:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as saved:
            about = json.loads((saved.metadata() or {})["about"])
            arrays = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(
            f"the cell cannot be read ({error}). Delete it to compute it again.", file=path
        ) from error
    values = {n.removeprefix("metric."): a for n, a in sorted(arrays.items()) if n.startswith("metric.")}
    return Cell(arrays["users"], values, about)
