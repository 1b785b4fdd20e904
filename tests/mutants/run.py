"""Puts faults into a copy of the source, one at a time: the tests that each of them names must fail.

    python tests/mutants/run.py [--only NAME ...] [--third WORD] [--jobs 2] [--out record.json]

First all tests that are named run on an unchanged copy, where they must pass: a test that fails anyway kills
nothing. Killed is a fault whose test then *fails*. Source that cannot be imported, a test that cannot be set
up and a run that never ends kill nothing either. With a fault that survives the exit code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "src")]

from faults import ROOT, Fault, read_faults, third  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from veilrec.core import environment, write_json  # noqa: E402

PARTS = ("src", "tests", "pyproject.toml")
LIMIT = 300.0
"""Seconds that the tests of one fault may take; those of no fault, all in all, ten times as long."""


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: ``killed`` by a ``test``, with the first line of what it says."""

    word: str
    test: str
    says: str
    seconds: float


@dataclass(frozen=True)
class Run:
    """What pytest did: its exit code, and its cases by what became of them."""

    code: int
    cases: dict[str, list[tuple[str, str]]]
    """"passed", "failed", "error", "skipped": (node id, what it says)."""
    output: str


def copy_tree(root: Path, target: Path) -> None:
    """What tests need of a tree; compiled kernels come along, byte code does not."""
    ignore = shutil.ignore_patterns("*.pyc", ".hypothesis", "*.egg-info")
    for part in PARTS:
        if (root / part).is_dir():
            shutil.copytree(root / part, target / part, ignore=ignore)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / part, target / part)


def run_tests(folder: Path, tests: list[str], *more: str, limit: float = LIMIT) -> Run:
    """Run tests in a copy, on its own source."""
    place = Path(tempfile.mkdtemp(dir=folder))
    report = place / "report.xml"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place / 'base'}"]
    words += [f"--junitxml={report}", "-o", "junit_family=xunit1", *more, *tests]
    own = {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            words, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=limit
        )
        cases = read_report(report)
    except subprocess.TimeoutExpired:
        return Run(-1, {}, f"not at its end after {limit:g} s")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Run(done.returncode, cases, done.stdout + done.stderr)


def read_report(report: Path) -> dict[str, list[tuple[str, str]]]:
    """The cases of a JUnit report."""
    found: dict[str, list[tuple[str, str]]] = {"passed": [], "failed": [], "error": [], "skipped": []}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):
        file, name = case.get("file", ""), case.get("name", "")
        group = case.get("classname", "").split(".")[len(Path(file).parts) :]  # tests.room.test_it.TestClass
        node = "::".join([file, *group, name]) if file else name
        for tag, word in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
            told = case.find(tag)
            if told is not None:
                found[word].append((node, _line(told.get("message", ""))))
                break
        else:
            found["passed"].append((node, ""))
    return found


def _line(message: str) -> str:
    """One line, without the paths of a machine and what changes from run to run."""
    line = re.sub(r"(?<![\w.])/(?:[\w.-]+/)+[\w.-]*|0x[0-9a-f]{6,}", "...", " ".join(message.split()))
    return line[:160]


def try_unchanged(folder: Path, faults: list[Fault], jobs: int) -> list[str]:
    """The named tests that do not pass on the unchanged copy, with what they say."""
    named = sorted({test for fault in faults for test in fault.tests})
    lots = [named[start::jobs] for start in range(jobs) if named[start::jobs]]
    with ThreadPoolExecutor(len(lots)) as pool:
        runs = list(pool.map(lambda lot: run_tests(folder, lot, limit=10 * LIMIT), lots))
    bad = [
        f"{node}: {says}"
        for run in runs
        for word in ("failed", "error")
        for node, says in run.cases.get(word, [])
    ]
    passed = {node for run in runs for node, _ in run.cases.get("passed", [])}
    # A parametrised test counts by its cases; one that was skipped has not shown anything.
    bad += [
        f"{test}: no case of it passed"
        for test in named
        if not any(node == test or node.startswith((f"{test}[", f"{test}::")) for node in passed)
    ]
    return bad + [run.output[-2000:] for run in runs if bad and not any(run.cases.values())]


def judge(run: Run) -> tuple[str, str, str]:
    """What a run says about its fault: the word, the test, and its first line."""
    failed, errors = run.cases.get("failed", []), run.cases.get("error", [])
    if run.code == 1 and failed and not errors:
        return "killed", *failed[0]
    if errors:
        return "error", *errors[0]
    return ("survived" if run.code in (0, 1) else "error"), "", _line(run.output[-160:])


def try_fault(folder: Path, fault: Fault) -> Outcome:
    """Put a fault into the copy, run its tests, take it out again."""
    file, began = fault.source(folder), time.perf_counter()
    kept = file.with_name(file.name + ".kept")
    shutil.copy2(file, kept)
    try:
        file.write_text(fault.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        run = run_tests(folder, list(fault.tests), "-x")
    finally:
        os.replace(kept, file)  # its time too: compiled kernels stay valid
    return Outcome(*judge(run), round(time.perf_counter() - began, 1))


def try_all(faults: list[Fault], jobs: int) -> dict[str, Outcome]:
    """All faults, each in a copy that no other fault is in."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        first = Path(place) / "0"
        copy_tree(ROOT, first)
        bad = try_unchanged(first, faults, jobs)
        if bad:
            raise SystemExit("\n".join(["tests must pass before there is a fault, got:", *bad]))
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            if number:
                copy_tree(first, Path(place) / str(number))
            free.put(Path(place) / str(number))

        def one(fault: Fault) -> Outcome:
            folder = free.get()
            try:
                found = try_fault(folder, fault)
            finally:
                free.put(folder)
            print(f"{found.word:9} {found.seconds:6.1f} s  {fault.room}: {fault.name}", flush=True)
            return found

        with ThreadPoolExecutor(jobs) as pool:
            return {fault.name: found for fault, found in zip(faults, pool.map(one, faults), strict=True)}


def sources() -> str:
    """A fingerprint of the source and the tests, whatever commit they are of."""
    digest = hashlib.sha256()
    for part in ("src", "tests"):
        for file in sorted((ROOT / part).rglob("*")):
            if file.suffix in (".py", ".toml"):
                digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def record(out: Path, faults: list[Fault], found: dict[str, Outcome]) -> dict[str, Any]:
    """What is kept of a run; of faults that were not tried in it, what is known of before stays."""
    known = json.loads(out.read_text(encoding="utf-8"))["each"] if out.exists() else []
    entries = {entry["name"]: entry for entry in known}
    for fault in faults:
        one = found[fault.name]
        entries[fault.name] = {
            "name": fault.name,
            "room": fault.room,
            "breaks": fault.breaks,
            "outcome": one.word,
            "test": one.test,
            "says": one.says,
            "seconds": one.seconds,
        }
    each = [entries[fault.name] for fault in read_faults() if fault.name in entries]
    return {
        "command": f"python tests/mutants/run.py --out {out.as_posix()}",
        "sources": sources(),
        "faults": len(each),
        "killed": sum(entry["outcome"] == "killed" for entry in each),
        "seconds_one_after_the_other": round(sum(entry["seconds"] for entry in each)),
        "each": each,
        "environment": environment(),
    }


def show(faults: list[Fault], found: dict[str, Outcome]) -> None:
    """A table: faults, what became of them, and by which test."""
    table = Table("fault", "room", "outcome", "by", "seconds")
    for fault in faults:
        one = found[fault.name]
        style = "" if one.word == "killed" else "bold red"
        by = one.test.split("::", 1)[-1] if one.word == "killed" else one.says
        table.add_row(fault.name, fault.room, one.word, by, f"{one.seconds:.1f}", style=style)
    Console().print(table)


def main(given: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Every fault must be noticed by the test that is about it.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone")
    parser.add_argument("--third", metavar="WORD", help="a third of all faults, drawn by this word")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    parser.add_argument("--out", type=Path, help="where the record goes")
    chosen = parser.parse_args(given)
    faults = read_faults()
    if chosen.only:
        unknown = sorted(set(chosen.only) - {fault.name for fault in faults})
        if unknown:
            parser.error(f"--only must name faults, got {', '.join(unknown)}.")
        faults = [fault for fault in faults if fault.name in chosen.only]
    if chosen.third:
        faults = third(faults, chosen.third)
    began = time.perf_counter()
    found = try_all(faults, chosen.jobs)
    seconds = time.perf_counter() - began
    show(faults, found)
    alive = [name for name, one in found.items() if one.word != "killed"]
    print(f"{len(faults) - len(alive)} of {len(faults)} faults killed in {seconds:.0f} s")
    if chosen.out:
        write_json(chosen.out, record(chosen.out, faults, found))
    return 1 if alive else 0


if __name__ == "__main__":
    raise SystemExit(main())
