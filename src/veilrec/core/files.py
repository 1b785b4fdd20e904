"""Files appear whole or not at all: write under a temporary name beside the target, flush, rename."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path; on success it is renamed to ``target``, on failure it is removed.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_path(where) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> where.read_text()
    'whole'
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_dir(target: str | Path) -> Iterator[Path]:
    """Like :func:`atomic_path` for a whole directory; an existing directory is replaced at the end.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "run"
    >>> with atomic_dir(where) as temporary:
    ...     _ = (temporary / "a.txt").write_text("whole")
    >>> [path.name for path in where.iterdir()]
    ['a.txt']
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
    try:
        yield temporary
        temporary.chmod(0o755)
        if target.exists():
            old = temporary.with_suffix(".old")
            target.replace(old)
            temporary.replace(target)
            shutil.rmtree(old)
        else:
            temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(target: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_text(where, "grün")
    >>> where.read_bytes().decode("utf-8")
    'grün'
    """
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON, atomically; NaN and infinity are refused.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "a.json"
    >>> write_json(where, {"epsilon": 1.0})
    >>> json.loads(where.read_text())
    {'epsilon': 1.0}
    """
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sha256_file(path: str | Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal.

    >>> import tempfile
    >>> where = Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_text(where, "whole")
    >>> sha256_file(where)[:8]
    '5d5766cf'
    """
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
