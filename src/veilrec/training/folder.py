"""A checkpoint folder has one holder: two fits in it would each draw noise, and one would be paid for."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from veilrec.core import check
from veilrec.privacy.ledger_hold import hold, let_go

NOTES = "kept.json"
"""The file in which a folder says what it keeps."""
_leaving: dict[Path, list[Callable[[], None]]] = {}
_P = ParamSpec("_P")
_R = TypeVar("_R")


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold a checkpoint folder; refused while another thread or process does.

    A folder that is made here and in which nothing is kept is gone again at the end.

    >>> folder = Path(tempfile.mkdtemp()) / "new"
    >>> with hold_folder(folder), hold_folder(folder):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
        ...
    ValueError: checkpoint must be free, got '.../new'. Another fit is at work in this folder: wait, or ...
    >>> folder.exists()
    False
    """
    check_writable(folder)
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    place = folder.resolve()
    try:
        free = _take(folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    remedy = "Another fit is at work in this folder: wait, or choose another one."
    check(free, "checkpoint", "free", str(folder), remedy)
    _leaving[place] = []
    try:
        yield
    finally:
        for leave in _leaving.pop(place):
            leave()
        let_go(place / NOTES)
        for one in made:  # the innermost first
            with suppress(OSError):  # something is kept there
                one.rmdir()


def when_left(folder: Path, leave: Callable[[], None]) -> None:
    """Call ``leave`` when whoever holds the folder leaves it, with or without an error.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with hold_folder(folder):
    ...     when_left(folder, lambda: print("left"))
    left
    """
    _leaving.get(folder.resolve(), []).append(leave)


def alone(fit: Callable[_P, _R]) -> Callable[_P, _R]:
    """``fit`` with its ``checkpoint`` folder, if it is given one, held from its first to its last line.

    >>> fit = alone(lambda *, checkpoint=None: (checkpoint / "kept.json-held").exists())
    >>> fit(checkpoint=Path(tempfile.mkdtemp()))
    True
    """

    @functools.wraps(fit)
    def held(*given: _P.args, **named: _P.kwargs) -> _R:
        folder = cast(Any, named.get("checkpoint"))
        if folder is None:
            return fit(*given, **named)
        with hold_folder(Path(folder)):
            return fit(*given, **named)

    return held


def check_writable(folder: Path) -> None:
    """That a folder can be made and written to; nothing is left behind.

    >>> check_writable(Path(tempfile.mkdtemp()) / "new")
    """
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(dir=place):
            pass
    except OSError as error:
        raise _unusable(folder, error) from None


def sync(folder: Path) -> None:
    """What was renamed in the folder is on the disk: a power cut brings no older file back.

    >>> sync(Path(tempfile.mkdtemp()))
    """
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _take(folder: Path) -> bool:
    for _ in range(9):
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another one has left, and taken the empty folder away
            return hold(folder.resolve() / NOTES)
    return False


def _unusable(folder: Path, error: OSError) -> ValueError:
    reason = (error.strerror or type(error).__name__).lower()
    return ValueError(
        f"checkpoint must be a folder that can be written to, got {str(folder)!r} ({reason}). "
        "Choose another folder."
    )
