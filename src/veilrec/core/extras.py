"""Optional parts: import them through here, so that a missing one gives a sentence, not a traceback."""

from __future__ import annotations

import importlib
from typing import Any

from veilrec.core.errors import MissingExtra


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import ``module``, or say which command installs it.

    >>> require("json", extra="plots", purpose="drawing").__name__
    'json'
    >>> require("no_such_module", extra="plots", purpose="drawing")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.MissingExtra: drawing needs the package 'no_such_module', which is not installed. \
Install it with: pip install "veilrec[plots]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        root = module.split(".")[0]
        message = f"{purpose} needs the package {root!r}, which is not installed."
        raise MissingExtra(f'{message} Install it with: pip install "veilrec[{extra}]"') from error
