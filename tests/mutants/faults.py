"""The faults: small changes of the source, each with the test that must notice it.

One file per room, ``tests/mutants/<room>.toml``, with a table for each fault:

    [[fault]]
    name = "half-the-noise"
    file = "privacy/mechanisms/gaussian.py"          # below src/veilrec
    before = "return self.noise_multiplier * self.sensitivity"
    after = "return self.noise_multiplier * self.sensitivity / 2"
    breaks = "The noise is half of what the event says."
    tests = ["tests/privacy/mechanisms/test_additive.py::test_the_noise_has_the_deviation_of_the_event"]

``before`` is the text of a line, or of a few, and stands once in its file: so faults survive when lines move.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Fault:
    """One fault; ``room`` is the name of the file that lists it."""

    room: str
    name: str
    file: str
    before: str
    after: str
    breaks: str
    tests: tuple[str, ...]

    def source(self, root: Path) -> Path:
        """The file that it changes."""
        return root / "src" / "veilrec" / self.file

    def applied(self, text: str) -> str:
        """The source with the fault in it."""
        found = text.count(self.before)
        if found != 1:
            raise ValueError(f"{self.name}: the text before must stand once in {self.file}, got {found}.")
        return text.replace(self.before, self.after)


def read_faults(folder: Path = ROOT / "tests" / "mutants") -> list[Fault]:
    """All faults, room by room."""
    return [
        Fault(path.stem, **{**entry, "tests": tuple(entry["tests"])})
        for path in sorted(folder.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    ]


def third(faults: list[Fault], word: str) -> list[Fault]:
    """A third of the faults, drawn by a word: by another word another third."""

    def place(fault: Fault) -> bytes:
        return hashlib.sha256((word + fault.name).encode()).digest()

    drawn = sorted(faults, key=place)[: -(-len(faults) // 3)]
    return [fault for fault in faults if fault in drawn]
