"""Noisy values that are drawn one time only.

A second draw of noise on the same private value is a second release: averaged over k draws the variance
falls to 1/k. So whoever releases a value once keeps it here, gets the very same array back ever after, and
an attempt to draw again is an error, not a silent second spend.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check


class AlreadyReleased(RuntimeError):
    """A value that is released once was to be drawn again, or its name was taken for other data."""


class Once:
    """A cache of releases by name. Arrays come back read-only, and as the same object.

    >>> kept = Once()
    >>> first = kept.release("graph", "data-1", lambda: np.ones(2))
    >>> kept.release("graph", "data-1", lambda: np.zeros(2)) is first
    True
    >>> kept.release("graph", "data-2", lambda: np.zeros(2))
    Traceback (most recent call last):
        ...
    AlreadyReleased: 'graph' was released for other data or settings. Give this release another key ...
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, NDArray[np.float64]]] = {}
        self._lock = RLock()

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def release(
        self, key: str, fingerprint: str, draw: Callable[[], NDArray[np.float64]], *, fresh: bool = False
    ) -> NDArray[np.float64]:
        """What ``draw`` gave the first time. ``fingerprint`` names the data and settings it was drawn for.

        ``fresh=True`` insists on a new draw, which is granted only where there was none before.
        """
        check(isinstance(key, str) and bool(key), "key", "a name", key)
        with self._lock:
            if key not in self._kept:
                values = np.array(draw(), np.float64)
                values.setflags(write=False)
                self._kept[key] = (fingerprint, values)
                return values
            if fresh:
                raise AlreadyReleased(
                    f"{key!r} was already released. A second draw is a second release: use the first one."
                )
            known, values = self._kept[key]
            if known != fingerprint:
                raise AlreadyReleased(
                    f"{key!r} was released for other data or settings. Give this release another key: it "
                    "is a new release with a cost of its own."
                )
            return values
