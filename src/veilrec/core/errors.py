"""The exceptions a caller may want to branch on; everything else is a plain ValueError or TypeError."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """A file or table cannot be used as it is.

    The message names the file (and the line where there is one), the offending value and the remedy.

    >>> raise DataError("rating must be a number, got 'five'. Fix the value.", file="a.csv", line=3)
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: a.csv, line 3: rating must be a number, got 'five'. Fix the value.
    """

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None) -> None:
        where = "" if file is None else f"{file}, line {line}: " if line is not None else f"{file}: "
        super().__init__(where + message)
        self.file = None if file is None else Path(file)
        self.line = line


class BudgetExhausted(ValueError):
    """A run asked for more than is left of a privacy budget; nothing was spent.

    ``asked`` and ``left`` are pairs (epsilon, delta) for one ``unit`` of the population.
    """

    def __init__(
        self,
        message: str,
        *,
        population: str,
        unit: str,
        asked: tuple[float, float],
        left: tuple[float, float],
    ) -> None:
        super().__init__(message)
        self.population, self.unit = population, unit
        self.asked, self.left = asked, left


class NotFitted(RuntimeError):
    """The model was asked for something that only a fitted model has."""


class CannotFoldIn(TypeError):
    """The model has no way to serve a user who was not there when it was fitted."""


class MissingExtra(ImportError):
    """An optional part of veilrec is not installed; the message has the command that installs it."""


class DataWarning(UserWarning):
    """The data can be used, but something in it is probably not what its owner meant."""
