"""What became of every line and row of a table: the account adds up, or nothing is handed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veilrec.core import DataError
from veilrec.data.format_table import Lines, Table


@dataclass(frozen=True)
class ReadReport:
    """The account of one table: ``rows`` were read, ``dropped`` says how many were left out and why.

    ``lines`` counts the lines of a text file; it is None for other files and frames.

    >>> report = ReadReport("interactions", "events.csv", rows=9, dropped={"repeated pair": 2}, kept=7)
    >>> print(report)
    interactions from events.csv: 9 rows read, 2 dropped (2 repeated pair), 7 kept
    >>> ReadReport("interactions", "events.csv", rows=9, dropped={}, kept=7)
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: events.csv: rows must add up, got 9 read, 0 dropped and 7 kept. ...
    """

    what: str
    source: str
    rows: int
    dropped: Mapping[str, int]
    kept: int
    lines: Lines | None = None

    def __post_init__(self) -> None:
        gone = sum(self.dropped.values())
        if self.rows != gone + self.kept or min(self.kept, *self.dropped.values(), 0) < 0:
            raise DataError(
                f"rows must add up, got {self.rows:,} read, {gone:,} dropped and {self.kept:,} kept. "
                "Please report this file's shape as a fault of veilrec.",
                file=self.source,
            )
        found = self.lines
        if found is None:
            return
        held = self.rows if found.lists is None else found.lists
        if found.total != found.header + found.blank + found.inside + held or held > self.rows:
            lists = "" if found.lists is None else f"{found.lists:,} lists of items with "
            raise DataError(
                f"lines must add up, got {found.total:,} in the file, {found.header} as header, "
                f"{found.blank:,} blank, {found.inside:,} inside of fields and {lists}{self.rows:,} rows. "
                "Name how fields are cut and quoted with separator= and escape= (--separator, --escape).",
                file=self.source,
            )

    @classmethod
    def of(cls, what: str, table: Table, rows: int, dropped: Mapping[str, int], kept: int) -> ReadReport:
        """The account of an opened table; reasons that never came up are left out."""
        reasons = {reason: int(count) for reason, count in dropped.items() if count}
        lines = None if table.lines is None else table.lines()
        source = Path(table.label).name if table.in_file else table.label
        return cls(what, source, rows, reasons, kept, lines)

    @classmethod
    def from_dict(cls, card: Mapping[str, Any]) -> ReadReport:
        """The report that :meth:`to_dict` wrote."""
        lines = card["lines"]
        return cls(**{**card, "lines": None if lines is None else Lines(**lines)})

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.what} from {self.source}: "
        if self.lines is not None:
            also = f", {self.lines.inside:,} inside of fields" if self.lines.inside else ""
            also += f", {self.lines.lists:,} lists of items" if self.lines.lists is not None else ""
            text += (
                f"{self.lines.total:,} lines in the file ({self.lines.header} header, "
                f"{self.lines.blank:,} blank{also}), "
            )
        why = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        gone = sum(self.dropped.values())
        text += f"{self.rows:,} rows read, {gone:,} dropped{f' ({why})' if why else ''}, {self.kept:,} kept"
        if self.lines is not None:
            text += "; " + ", ".join(f"{name} {value!r}" for name, value in self.lines.how.items())
        return text
