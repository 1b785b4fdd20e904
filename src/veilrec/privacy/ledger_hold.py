"""Who is at work on a reservation or in a checkpoint folder: one thread of one process, until it ends.

Two that go on from the same reservation would each draw noise of their own and release twice for one price.
So whoever works takes a place: in this process by a register, which threads share, and against others by a
lock on one byte of a file beside the ledger or the notes of the folder. The system frees the byte when the
process is gone, ``kill -9`` included. On Windows there is no such lock, and only threads are told apart.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_mutex = threading.Lock()
_held: set[tuple[Path, int]] = set()
_handles: dict[Path, int] = {}


def hold(file: Path, number: int = 0) -> bool:
    """Take place ``number`` beside ``file``; False when a thread of this or another process has it.

    >>> import tempfile
    >>> ledger = Path(tempfile.mkdtemp()) / "budget.sqlite"
    >>> hold(ledger, 7), hold(ledger, 7), hold(ledger, 8)
    (True, False, True)
    >>> let_go(ledger, 7)
    >>> hold(ledger, 7)
    True
    """
    place = file.resolve(), number
    with _mutex:
        if place in _held or not _lock(*place):
            return False
        _held.add(place)
        return True


def let_go(file: Path, number: int = 0, *, remove: bool = False) -> None:
    """The work is done, or given up; ``remove``: nobody has another place beside the file, so nothing stays.

    >>> let_go(Path("never held"))
    """
    place = file.resolve(), number
    with _mutex:
        if place not in _held:
            return
        _held.remove(place)
        if sys.platform == "win32":
            return
        import fcntl

        if remove:  # before the lock is gone: who opens the file from now on opens another
            with contextlib.suppress(FileNotFoundError):
                _beside(place[0]).unlink()
            os.close(_handles.pop(place[0]))
        else:
            fcntl.lockf(_handles[place[0]], fcntl.LOCK_UN, 1, number)


def _lock(file: Path, number: int) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    while True:
        handle = _handle(file)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):  # systems differ
            return False
        if _is_there(handle, file):
            return True


def _handle(file: Path) -> int:
    """Kept open: closing any handle of the file would free every lock that this process has on it."""
    if file in _handles:
        if _is_there(_handles[file], file):
            return _handles[file]
        os.close(_handles.pop(file))  # the file was taken away; its locks mean nothing to others
    _handles[file] = os.open(_beside(file), os.O_RDWR | os.O_CREAT, 0o666)
    return _handles[file]


def _is_there(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), _beside(file).stat())
    except FileNotFoundError:
        return False


def _beside(file: Path) -> Path:
    return file.with_name(file.name + "-held")


def _forked() -> None:
    """A child has the register of its parent but none of its locks, and perhaps a mutex that nobody frees."""
    global _mutex
    _mutex = threading.Lock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
