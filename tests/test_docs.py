"""What the documents say must be what the records and the code say."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import veilrec
from veilrec.systems import SYSTEMS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_numbers_come_from_the_records() -> None:
    path = ROOT / "benchmarks" / "readme_table.py"
    spec = importlib.util.spec_from_file_location("numbers_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.table() in README, "run: python benchmarks/readme_table.py --write"


def test_every_model_is_in_the_readme() -> None:
    for word, system in SYSTEMS.items():
        assert f"| `{word}` | `{system.__name__}` |" in README


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda p: p.stem)
def test_records_name_their_command_and_versions(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["command"].startswith(("python ", "veilrec ")) or "python" in record["command"]
    assert record["environment"]["torch"]
    assert not re.search(r"/(home|root|work|tmp)/", path.read_text(encoding="utf-8")), "no paths of a machine"


def test_links_between_documents_hold() -> None:
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_worked_example_prints_what_the_page_shows(capsys) -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_the_version_is_one() -> None:
    assert f'version = "{veilrec.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
