"""The long tier: every model at the largest size that it takes, in a process of its own."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from veilrec.systems import SYSTEMS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "largest.py"
LARGEST = runpy.run_path(str(SCRIPT), run_name="largest")
pytestmark = pytest.mark.long
CASES = [
    (word, number)
    for word in sorted(SYSTEMS)
    for number, case in enumerate(LARGEST["cases"](word))
    if not case.slow  # those are in docs/results/largest.json
]


@pytest.mark.parametrize(("word", "number"), CASES)
def test_it_ends_in_lists_and_in_bounded_memory(word: str, number: int) -> None:
    found = LARGEST["in_child"](word, number)
    print(found)
    assert "failed" not in found, found["failed"]


def test_a_process_that_dies_is_told_with_its_signal(tmp_path: Path) -> None:
    """Negative control: a child that is killed, and one that is refused."""
    script = tmp_path / "largest.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    watch = LARGEST["in_child"]
    found = watch("ease", 0, script)
    assert found["failed"].startswith("ease: ended by signal 11")
    script.write_text("raise SystemExit('no memory')")
    assert watch("ease", 0, script)["failed"].startswith("ease: code 1: no memory")
    script.write_text("""print('{"peak_gb": 8.1}')""")
    assert watch("ease", 0, script)["failed"] == "ease needed 8.1 GB, more than 8"
