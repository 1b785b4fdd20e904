"""`Job`: everything one fit is given."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from veilrec.data import Dataset
from veilrec.privacy import Noise
from veilrec.training.guard import DataGuard

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything one fit is given: data, seed, device, where to keep checkpoints, whether to show bars.

    ``noise`` is where mechanisms draw from, ``guard`` the way of a private system to its users' data (its
    ``train`` has none).

    >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
    >>> Job(data, None, seed=1, device="cpu", checkpoint=None, progress=False).log
    []
    """

    train: Dataset
    valid: Dataset | None
    seed: int
    device: str
    checkpoint: Path | None
    progress: bool
    log: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    noise: Noise = dataclasses.field(default_factory=Noise.secure)
    guard: DataGuard | None = None
    fingerprint: str = ""
    """Of the whole data, which ``train`` may not show."""
