"""Who is at work on a reservation: at most one process, until it ends, however it ends.

Two processes that resume the same reservation would each draw noise of their own and release twice for one
price. A process therefore locks one byte of a file beside the ledger for each of its reservations. The
system frees the byte when the process is gone, ``kill -9`` included; in one process it may be taken again.
On Windows there is no such lock, and nothing is checked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_handles: dict[Path, int] = {}


def hold(ledger: Path, number: int) -> bool:
    """Take reservation ``number`` for this process; False when another process has it.

    >>> import tempfile
    >>> ledger = Path(tempfile.mkdtemp()) / "budget.sqlite"
    >>> hold(ledger, 7), hold(ledger, 7)
    (True, True)
    """
    return _lock(ledger, number, take=True)


def let_go(ledger: Path, number: int) -> None:
    """The work on the reservation is done."""
    _lock(ledger, number, take=False)


def _lock(ledger: Path, number: int, *, take: bool) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    kind = fcntl.LOCK_EX | fcntl.LOCK_NB if take else fcntl.LOCK_UN
    handle = _handle(ledger.resolve())
    try:
        fcntl.lockf(handle, kind, 1, number)
    except BlockingIOError:
        return False
    return True


def _handle(ledger: Path) -> int:
    """Kept open: closing any handle of the file would free every lock that this process has on it."""
    beside = ledger.with_name(ledger.name + "-held")
    if ledger in _handles:
        known = os.fstat(_handles[ledger])
        if beside.exists() and os.path.samestat(known, beside.stat()):
            return _handles[ledger]
        os.close(_handles.pop(ledger))  # the file was taken away; its locks mean nothing to others
    _handles[ledger] = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
    return _handles[ledger]
