"""Progress bars: shown on a terminal, silent in pipes, files, tests and when the caller says so."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Ticker(Protocol):
    """What a running bar can do."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Move on by ``amount`` and show ``note`` beside the bar."""


class _Silent:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


@contextmanager
def bar(description: str, total: float | None, *, show: bool = True) -> Iterator[Ticker]:
    """A bar on standard error while the block runs.

    >>> with bar("counting", total=2, show=False) as ticker:
    ...     ticker.advance(2)
    """
    if not (show and sys.stderr.isatty()):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total, note="")

        class _Shown:
            def advance(self, amount: float = 1, note: str = "") -> None:
                progress.update(task, advance=amount, note=note)

        yield _Shown()


def track(
    items: Iterable[_T], description: str, *, total: int | None = None, show: bool = True
) -> Iterator[_T]:
    """Iterate with a bar.

    >>> list(track([1, 2], "adding", show=False))
    [1, 2]
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with bar(description, total, show=show) as ticker:
        for item in items:
            yield item
            ticker.advance()
