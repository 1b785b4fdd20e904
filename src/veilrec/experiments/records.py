"""Records: what was run, on what, with what result, as JSON that can be shared.

A record (``kind`` "run", "comparison" or "tuning") has ``format``, ``name``, ``data`` (name, fingerprint,
counts), ``split`` (method, settings, fingerprint, sizes), ``command``, ``made`` (UTC), ``environment``, and
what its kind adds. It names no folder of the machine and no person: paths outside the
working folder are cut to their last part.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from veilrec.core import DataError, environment, write_json
from veilrec.data import Dataset, Split

FORMAT = 1


def new_record(
    kind: str, name: str, data: Dataset, split: Split, command: str | None, **rest: Any
) -> dict[str, Any]:
    """The part that all records share, and what this kind adds."""
    counts = np.bincount(split.parts, minlength=3)
    sizes = {part: int(count) for part, count in zip(("train", "valid", "test"), counts) if count}
    about = {"method": split.method, "settings": dict(split.settings), "fingerprint": split.fingerprint}
    return {
        "format": FORMAT,
        "kind": kind,
        "name": name,
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint,
            "users": data.n_users,
            "items": data.n_items,
            "interactions": len(data),
            "density": data.density,
        },
        "split": {**about, "sizes": sizes},
        **rest,
        "command": command,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
    }


def attack_record(
    found: Mapping[str, Any],
    name: str,
    *,
    protection: str,
    data_fingerprint: str,
    split_fingerprint: str | None,
    seconds: float,
    command: str | None,
) -> dict[str, Any]:
    """The record of an attack (``kind`` "attack"), which lies as ``attack*.json`` beside that of its run.

    >>> prints = {"data_fingerprint": "d", "split_fingerprint": None}
    >>> found = {"attack": "attribute", "rows": []}
    >>> attack_record(found, "a", protection="none", **prints, seconds=1.0, command=None)["kind"]
    'attack'
    """
    return {
        "format": FORMAT,
        "kind": "attack",
        "name": name,
        **found,
        "data_fingerprint": data_fingerprint,
        "split_fingerprint": split_fingerprint,
        "protection": protection,
        "seconds": round(seconds, 3),
        "command": command,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
    }


def write_record(folder: str | Path, record: dict[str, Any]) -> Path:
    """Write ``record.json`` into ``folder``, atomically.

    >>> import tempfile
    >>> path = write_record(tempfile.mkdtemp(), {"format": 1, "kind": "run", "name": "a"})
    >>> read_record(path.parent)["name"]
    'a'
    """
    path = Path(folder) / "record.json"
    write_json(path, record)
    return path


def read_record(path: str | Path) -> dict[str, Any]:
    """The record in a file, or in the ``record.json`` of a folder.

    >>> import tempfile
    >>> path = write_record(tempfile.mkdtemp(), {"format": 1, "kind": "tuning"})
    >>> read_record(path) == read_record(path.parent)
    True
    """
    path = Path(path)
    file = path / "record.json" if path.is_dir() else path
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            "a record must be a file, got none. Fit or compare something first.", file=file
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"a record must be JSON ({error}). Run it again.", file=file) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else type(record).__name__
        message = f"the format of a record must be {FORMAT}, got {found!r}. Use the version that wrote it."
        raise DataError(message, file=file)
    return record


def find_records(folder: str | Path) -> list[Path]:
    """Every ``record.json`` at or below ``folder``, sorted by path; hidden folders are left out.

    >>> import tempfile
    >>> top = Path(tempfile.mkdtemp())
    >>> _ = write_record(top / "runs" / "a", {"format": 1})
    >>> [path.relative_to(top).as_posix() for path in find_records(top)]
    ['runs/a/record.json']
    """
    top = Path(folder)
    if not top.is_dir():
        raise DataError("runs must be a folder, got none. Check the path.", file=top)
    found = (path for path in top.rglob("record.json") if path.is_file())
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(top).parts))


def leading_metrics(names: Iterable[str], most: int = 4) -> list[str]:
    """The per-user metrics worth showing first: longest lists first, then recall, NDCG, hit, precision, ...

    >>> leading_metrics(["ndcg@5", "coverage@20", "recall@20", "ndcg@20", "map@20"], most=3)
    ['recall@20', 'ndcg@20', 'map@20']
    """
    order = ("recall", "ndcg", "hit", "precision", "map", "mrr")

    def place(name: str) -> tuple[int, int]:
        word, length, _ = metric_parts(name)
        return -length, order.index(word)

    return sorted((name for name in names if metric_parts(name)[0] in order), key=place)[:most]


def metric_parts(name: str) -> tuple[str, int, str]:
    """A metric's word, its list length (0 where it has none), and the mark of its protocol.

    >>> metric_parts("hit@10 (1+99 sampled)"), metric_parts("rmse")
    (('hit', 10, ' (1+99 sampled)'), ('rmse', 0, ''))
    """
    word, _, rest = name.partition("@")
    length, space, mark = rest.partition(" ")
    return word, int(length or 0), space + mark


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command that is running, as it may be shown: paths of the machine are cut.

    >>> command_line(["fit", "ease", "--data", "/srv/people/ann/events.csv", "--seed=1"])
    'veilrec fit ease --data events.csv --seed=1'
    """
    words = sys.argv[1:] if arguments is None else arguments
    return shlex.join(["veilrec", *(_cut(word) for word in words)])


def portable(path: str) -> str:
    """A path without what is private to the machine: relative to the working folder, or its last part.

    >>> portable("/srv/people/ann/events.csv"), portable("tables/events.csv")
    ('events.csv', 'tables/events.csv')
    """
    given = Path(path).expanduser()
    if not given.is_absolute() and ".." not in given.parts:
        return path
    inside = os.path.relpath(given)
    return Path(given.name).as_posix() if inside.startswith("..") else Path(inside).as_posix()


def _cut(word: str) -> str:
    head, equals, tail = word.partition("=")
    if equals and (tail.startswith(("/", "~")) or ".." in Path(tail).parts):
        return f"{head}={portable(tail)}"
    return portable(word) if word.startswith(("/", "~")) or ".." in Path(word).parts else word
