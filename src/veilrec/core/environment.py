"""What a record says about where it was made: versions and the size of the machine, no names or paths."""

from __future__ import annotations

import os
import platform
from importlib import metadata

_PACKAGES = ("veilrec", "numpy", "scipy", "torch", "numba", "polars")


def environment() -> dict[str, str | int]:
    """Versions of Python and of the packages that decide results, and the number of cores.

    >>> sorted(environment())[:3]
    ['cores', 'machine', 'numba']
    """
    found: dict[str, str | int] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
    }
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
