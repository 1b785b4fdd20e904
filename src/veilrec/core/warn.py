"""Warnings that point at the caller's own line."""

from __future__ import annotations

import sys
import warnings

from veilrec.core.errors import DataWarning


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn at the line outside of veilrec that led here, however many of our calls lie between.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("two rows are the same")
    >>> caught[0].category.__name__, str(caught[0].message)
    ('DataWarning', 'two rows are the same')
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "veilrec":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
