"""The list of faults: each stands in the source as it is, is valid Python, and names tests that exist."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import veilrec

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "mutants"
ROOMS = {"attacks", "crypto", "data", "ledger", "privacy", "systems", "training"}


def _module(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


faults = _module("faults")
run = _module("run")
FAULTS = faults.read_faults()


@cache
def names_in(file: Path) -> set[tuple[str, ...]]:
    """Functions and classes of a test file, and the functions of its classes."""
    found: set[tuple[str, ...]] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add((node.name,))
        if isinstance(node, ast.ClassDef):
            found.add((node.name,))
            found |= {(node.name, one.name) for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def test_there_are_enough_faults_in_every_room() -> None:
    count = Counter(fault.room for fault in FAULTS)
    assert set(count) == ROOMS
    assert len(FAULTS) >= 66
    assert min(count.values()) >= 5
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_stands_once_compiles_and_names_its_tests(fault) -> None:
    source = fault.source(ROOT).read_text(encoding="utf-8")
    changed = fault.applied(source)  # refuses a text that does not stand once
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))  # more than words have changed
    compile(changed, fault.file, "exec")
    assert fault.breaks[0].isupper()
    assert fault.breaks.endswith(".")
    assert fault.tests
    for test in fault.tests:
        file, *names = test.split("::")
        assert names, "a fault names a test, not a file"
        assert tuple(name.split("[")[0] for name in names) in names_in(ROOT / file), test


def test_a_text_that_stands_twice_or_nowhere_is_refused() -> None:
    fault = FAULTS[0]
    for text in ("", 2 * fault.source(ROOT).read_text(encoding="utf-8")):
        with pytest.raises(ValueError, match="must stand once"):
            fault.applied(text)


def test_thirds_are_thirds_and_differ_by_the_word() -> None:
    thirds = [faults.third(FAULTS, word) for word in ("a", "b")]
    assert [len(some) for some in thirds] == [-(-len(FAULTS) // 3)] * 2
    assert thirds[0] != thirds[1]
    assert faults.third(FAULTS, "a") == thirds[0]


# -- the runner itself: on a small tree of its own ---------------------------------------------------------

SOURCE = "def double(x):\n    return 2 * x\n"
TESTS = """
import pytest
from veilrec.little import double

@pytest.fixture
def two():
    return double(1)

def test_double():
    assert double(3) == 6

def test_blind():
    double(3)

def test_set_up(two):
    assert two == 2

def test_broken():
    assert False

@pytest.mark.skip(reason="not today")
def test_skipped():
    assert double(3) == 6
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder, file, text in (
        ("src/veilrec", "__init__.py", ""),
        ("src/veilrec", "little.py", SOURCE),
        ("tests", "test_little.py", TESTS),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_text(text)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


def little(test: str, after: str = "return 3 * x"):
    about = ("privacy", "three", "little.py", "return 2 * x", after, "Three for two.")
    return faults.Fault(*about, (f"tests/test_little.py::{test}",))


@pytest.mark.parametrize(
    ("test", "after", "word"),
    [
        ("test_double", "return 3 * x", "killed"),
        ("test_blind", "return 3 * x", "survived"),
        ("test_double", "return x.nothing", "killed"),
        ("test_set_up", "raise KeyError", "error"),  # a test that cannot be set up has not looked
        ("test_double", "return 2 * x\n1 / 0", "error"),  # source that cannot be imported is no fault
        ("test_nowhere", "return 3 * x", "error"),
    ],
)
def test_what_counts_as_killed(tree: Path, test: str, after: str, word: str) -> None:
    found = run.try_fault(tree, little(test, after))
    assert found.word == word
    assert (found.test == f"tests/test_little.py::{test}") == (word == "killed" or test == "test_set_up")
    assert (tree / "src/veilrec/little.py").read_text() == SOURCE  # taken out again


def test_a_run_without_an_end_kills_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "run_tests", lambda *given, **named: run.Run(-1, {}, "not at its end after 1 s"))
    assert run.try_fault(tree, little("test_double")).word == "error"


def test_tests_must_pass_before_there_is_a_fault(tree: Path) -> None:
    assert run.try_unchanged(tree, [little("test_double"), little("test_set_up")], 2) == []
    for test, words in (("test_broken", "assert False"), ("test_skipped", "no case of it passed")):
        assert words in run.try_unchanged(tree, [little("test_double"), little(test)], 1)[0]


def test_the_record_has_every_fault_and_all_are_killed() -> None:
    record = json.loads((ROOT / "docs" / "results" / "mutants.json").read_text(encoding="utf-8"))
    assert [entry["name"] for entry in record["each"]] == [fault.name for fault in FAULTS], (
        "run: make mutants"
    )
    assert {entry["outcome"] for entry in record["each"]} == {"killed"}
    for fault, entry in zip(FAULTS, record["each"], strict=True):
        assert any(entry["test"].startswith(test) for test in fault.tests), fault.name


@pytest.mark.long
def test_a_third_of_the_faults_is_killed() -> None:
    """Drawn by the commit, so that all have their turn; by the version where there is no repository."""
    git = shutil.which("git")
    asked = [git or "git", "rev-parse", "HEAD"]
    head = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False) if git else None
    word = head.stdout.strip() if head and head.returncode == 0 else veilrec.__version__
    command = [sys.executable, str(FOLDER / "run.py"), "--third", word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-2000:]}"
