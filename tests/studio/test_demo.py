from __future__ import annotations

import io

from rich.console import Console

from veilrec.studio import demo
from veilrec.systems import SYSTEMS


def test_every_model_of_the_demo_exists():
    for word, settings in demo.MODELS.items():
        SYSTEMS[word](**settings)


def test_the_demo_shows_a_table_a_list_a_statement_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "MODELS", {"popularity": {}, "ease": {}})
    monkeypatch.setattr(demo, "SHOWN", "ease")
    monkeypatch.setattr(demo, "ATTACKED", ("ease",))
    screen = Console(file=io.StringIO(), width=100, color_system=None)
    result = demo.run_demo(tmp_path / "demo", console=screen)
    said = screen.file.getvalue()  # type: ignore[attr-defined]
    assert [record["name"] for record in result["records"]] == ["popularity", "ease"]
    assert "What ease recommends" in said
    assert "for u17, who has interacted with" in said
    assert "Privacy statement of ease" in said
    assert "protection: none" in said
    assert "What an attacker learns of gender" in said
    assert "the list adds" in said
    assert said.count("\n  veilrec ") == 5
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "ease" in page
    again = demo.run_demo(tmp_path / "demo", console=None)
    assert again["list"] == result["list"]
    assert len(result["list"]) == 5
