"""The rooms: who may import whom, that exports are true and sorted, that nothing private crosses a wall."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cached_property
from pathlib import Path
from types import FunctionType

import pytest

import veilrec

ROOT = Path(veilrec.__file__).parent
ROOMS = [
    "core",
    "data",
    "metrics",
    "privacy",
    "crypto",
    "models",
    "training",
    "federated",
    "systems",
    "attacks",
    "experiments",
    "studio",
    "cli",
]
MAY_IMPORT = {
    "core": set(),
    "data": {"core"},
    "metrics": {"core"},
    "privacy": {"core"},
    "crypto": {"core"},
    "models": {"core", "data"},
    "training": {"core", "data", "metrics", "privacy", "crypto", "models"},
    "federated": {"core", "data", "metrics", "privacy", "crypto", "models", "training"},
    "systems": {"core", "data", "metrics", "privacy", "crypto", "models", "training", "federated"},
    "attacks": {"core", "data", "metrics", "privacy", "models"},
    "experiments": set(ROOMS) - {"experiments", "studio", "cli"},
    "studio": set(ROOMS) - {"studio", "cli"},
    "cli": set(ROOMS) - {"cli"},
}
FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.name == "cli.py")


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(source: str) -> list[tuple[str, str]]:
    """(module, name) of every import of veilrec in the source, at any depth."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "veilrec":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "veilrec"]
    return found


def _violations(room: str, source: str) -> list[str]:
    wrong = []
    for module, name in _imports(source):
        parts = module.split(".")
        if len(parts) == 1:
            if name != "__version__":
                wrong.append(f"imports {name or 'the package'} from the top")
            continue
        if parts[1] != room:
            if parts[1] not in MAY_IMPORT[room]:
                wrong.append(f"{room} imports {module}")
            if any(part.startswith("_") for part in [*parts, name]) and name != "__version__":
                wrong.append(f"{room} imports the private name {module}.{name}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    assert _violations(_room(path), path.read_text(encoding="utf-8")) == []


def test_the_rule_can_fail() -> None:
    assert _violations("data", "def f():\n    from veilrec.training import Recommender") == [
        "data imports veilrec.training"
    ]
    assert _violations("training", "from veilrec.data.split import _assign") != []
    assert _violations("core", "import veilrec") != []


@pytest.mark.parametrize("room", [*ROOMS[:-1], ""])
def test_exports_are_true_and_sorted(room: str) -> None:
    module = importlib.import_module(f"veilrec.{room}".rstrip("."))
    names = list(module.__all__)
    assert names == sorted(names), f"sort __all__ of veilrec.{room}"
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("room", [*ROOMS[:-1], ""])
def test_every_public_name_has_a_docstring(room: str) -> None:
    module = importlib.import_module(f"veilrec.{room}".rstrip("."))
    for name in module.__all__:
        thing = getattr(module, name)
        if callable(thing) and getattr(thing, "__module__", "").startswith("veilrec"):
            assert (thing.__doc__ or "").strip(), f"{room}.{name} has no docstring"


def _has_example(thing: object) -> bool:
    """Whether the docstring, or for a class one of its own members' docstrings, has ``>>>``."""
    methods = FunctionType | property | cached_property | classmethod | staticmethod
    members = vars(thing).values() if isinstance(thing, type) else ()
    documented = [thing, *(one for one in members if isinstance(one, methods))]
    return any(">>>" in (one.__doc__ or "") for one in documented)


@pytest.mark.parametrize("room", [*ROOMS[:-1], ""])
def test_every_public_name_has_an_example(room: str) -> None:
    module = importlib.import_module(f"veilrec.{room}".rstrip("."))
    things = {name: getattr(module, name) for name in module.__all__}
    bare = [
        name
        for name, thing in things.items()
        if callable(thing)
        and getattr(thing, "__module__", "").startswith("veilrec")
        and not (isinstance(thing, type) and issubclass(thing, Exception))
        and not _has_example(thing)
    ]
    assert bare == [], f"give each of veilrec.{room} an example, >>>, in its docstring"


def test_the_search_for_examples_can_fail() -> None:
    class Bare:
        """No example, here or below."""

        def run(self) -> None:
            """Nor here."""

    class Shown(Bare):
        """See the method."""

        def walk(self) -> None:
            """>>> 1 + 1
            2
            """

    assert not _has_example(Bare)
    assert _has_example(Shown)
    assert _has_example(Shown.walk)
    assert not _has_example(Bare.run)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_pickle_no_global_randomness(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    banned = (
        r"import pickle|torch\.load\(|allow_pickle=True|torch\.manual_seed|np\.random\.(seed|normal|rand)\b"
    )
    assert re.findall(banned, source) == []
