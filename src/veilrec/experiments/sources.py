"""From the words of a spec to data and split."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from veilrec.core import DataError, check
from veilrec.data import (
    Dataset,
    Split,
    available,
    filters,
    imported_dir,
    load,
    predefined_split,
    read,
    save_dataset,
    synthetic,
)
from veilrec.data import split as splits
from veilrec.data.named import SETS
from veilrec.experiments.specs import DataSpec, SplitSpec
from veilrec.experiments.values import nearest

SYNTHETIC = "synthetic"
_OURS = ("source", "dir", "min_rating", "k_core")


def load_data(spec: DataSpec) -> Dataset:
    """The data a spec names, filtered as it says.

    >>> load_data(DataSpec("synthetic:60,40,900")).n_items
    40
    """
    data = _load(spec)
    if spec.min_rating is not None:
        data = filters.min_rating(data, spec.min_rating)
    if spec.k_core is not None:
        data = filters.k_core(data, spec.k_core, spec.k_core)
    return data


def import_data(
    file: str | Path, name: str | None = None, *, overwrite: bool = False, **reading: Any
) -> Dataset:
    """Read a user's own tables and keep them under ``name``, so that :func:`veilrec.load` finds them.

    ``reading`` are arguments of :func:`veilrec.read`. A name that is taken is refused unless ``overwrite``.
    """
    if name is not None:
        _check_name(name, overwrite)
    data = read(file, name=name, **reading)
    _check_name(data.name, overwrite)
    save_dataset(data, imported_dir() / data.name)
    return data


def _check_name(name: str, overwrite: bool) -> None:
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is not None
    check(good, "name", "letters, digits, dots, dashes and underscores", name, "Give another with --name.")
    taken = name == SYNTHETIC or name in SETS
    check(not taken, "name", "new, and not that of a known data set", name, "Give another with --name.")
    there = (imported_dir() / name).exists() and not overwrite
    check(not there, "name", "new", name, "Give another with --name, or replace it with --overwrite.")


def make_split(spec: SplitSpec, data: Dataset, seed: int, source: DataSpec | None = None) -> Split:
    """Split as the spec says; ``source`` lets "auto" find the split that was published with the data.

    >>> make_split(SplitSpec(), synthetic(users=60, items=40, interactions=900), seed=1).method
    'holdout'
    """
    own = seed if spec.seed is None else spec.seed
    if spec.method == "auto":
        given = _published(source, data)
        if given is not None:
            return splits.carve_validation(given, spec.valid, own) if spec.valid else given
        return splits.holdout(data, spec.test, spec.valid, own)
    if spec.method == "holdout":
        return splits.holdout(data, spec.test, spec.valid, own, joint=spec.joint)
    if spec.method == "leave_one_out":
        return splits.leave_one_out(data, valid=spec.valid > 0)
    if spec.method == "temporal":
        return splits.temporal(data, spec.test, spec.valid)
    return splits.global_temporal(data, spec.test, spec.valid)


def is_file(source: str) -> bool:
    """Whether a source is a file or folder, not the name of a data set: a name wins over a folder called so.

    >>> is_file("synthetic"), is_file("ml-100k"), is_file("./ml-100k")
    (False, False, True)
    """
    return source.partition(":")[0] != SYNTHETIC and source not in _names()


def _load(spec: DataSpec) -> Dataset:
    kind, _, size = spec.source.partition(":")
    given = {name: value for name, value in vars(spec).items() if value is not None}
    reading = {name: value for name, value in given.items() if name not in _OURS}
    if is_file(spec.source):
        if not Path(spec.source).exists() and os.sep not in spec.source and "." not in spec.source:
            known = [SYNTHETIC, *_names()]
            message = f"data must be a file or one of {', '.join(known)}, got {spec.source!r}."
            raise DataError(f"{message} {nearest(spec.source, known)}")
        return read(spec.source, **reading)
    if reading:
        name, value = next(iter(reading.items()))
        raise DataError(f"data.{name} must be given with a file only, got {value!r} with {spec.source}.")
    if kind == SYNTHETIC:
        return _synthetic(size, spec.source)
    return load(spec.source, data_dir=spec.dir)


def _names() -> list[str]:
    return [row.name for row in available()]


def _synthetic(size: str, source: str) -> Dataset:
    if not size:
        return synthetic()
    numbers = size.split(",")
    if len(numbers) != 3 or not all(number.strip().isdigit() for number in numbers):
        message = f"data must be synthetic or synthetic:users,items,interactions, got {source!r}."
        raise DataError(message + " Write, say, synthetic:600,400,20000.")
    users, items, interactions = (int(number) for number in numbers)
    return synthetic(users, items, interactions)


def _published(source: DataSpec | None, data: Dataset) -> Split | None:
    """The split that came with a named set, if nothing was filtered away since."""
    if source is None or is_file(source.source) or source.source.partition(":")[0] == SYNTHETIC:
        return None
    given = predefined_split(source.source, data_dir=source.dir)
    return given if given is not None and given.source_fingerprint == data.fingerprint else None
