"""Who is at work on a reservation or in a checkpoint folder: one thread of one process, until it ends.

Two that go on from the same reservation would each draw noise of their own and release twice for one price.
So whoever works takes a place: in this process by a register, which threads share, and against others by a
lock on a small file beside the ledger or the notes of the folder. The lock belongs to the handle that took it
(``flock``): who copies the file, in this process or another, does not free it. The system does when the
process is gone, ``kill -9`` included. On Windows there is no such lock, and only threads are told apart.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_mutex = threading.Lock()
_held: dict[Path, int | None] = {}
"""The lock files of this process, each with its open handle."""


def hold(file: Path, number: int = 0) -> bool:
    """Take place ``number`` beside ``file``; False when a thread of this or another process has it.

    >>> import tempfile
    >>> ledger = Path(tempfile.mkdtemp()) / "budget.sqlite"
    >>> hold(ledger, 7), hold(ledger, 7), hold(ledger, 8)
    (True, False, True)
    >>> sorted(path.name for path in ledger.parent.iterdir())
    ['budget.sqlite-held-7', 'budget.sqlite-held-8']
    >>> let_go(ledger, 7)
    >>> hold(ledger, 7)
    True
    """
    place = _place(file, number)
    with _mutex:
        if place in _held:
            return False
        handle = None
        if sys.platform != "win32":
            handle = _lock(place)
            if handle is None:
                return False
        _held[place] = handle
        return True


def let_go(file: Path, number: int = 0) -> None:
    """The work is done, or given up; nothing stays beside the file.

    >>> let_go(Path("never held"))
    """
    place = _place(file, number)
    with _mutex:
        handle = _held.pop(place, None)
        if handle is None or sys.platform == "win32":
            return
        import fcntl

        try:
            if _is_there(handle, place):  # not that of another holder, in a folder that was put here since
                with contextlib.suppress(OSError):  # a file that has to stay is as good without a lock
                    place.unlink()  # before the lock is gone: who opens it from now on opens another
            fcntl.flock(handle, fcntl.LOCK_UN)  # whoever else has a copy of the handle
        finally:
            os.close(handle)


def _lock(place: Path) -> int | None:
    """A handle with the lock on the file that is there; None when another one has it."""
    import fcntl

    while True:
        handle = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)  # no program that is started inherits it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(handle, place):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder has taken the file away: a lock on it means nothing to others


def _is_there(handle: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), place.stat())
    except OSError:
        return False


def _place(file: Path, number: int) -> Path:
    file = file.resolve()
    return file.with_name(f"{file.name}-held-{number}" if number else f"{file.name}-held")


def _forked() -> None:
    """A child holds nothing. It closes its copies of the handles, which frees nothing of its parent's: only
    the last copy would, or to unlock one, which a child never does.
    """
    for handle in _held.values():
        if handle is not None:
            os.close(handle)
    _held.clear()
    _mutex.release()


if hasattr(os, "register_at_fork"):  # with the mutex, so that no handle is on its way into the register
    os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_forked)
