"""What the benchmarks refuse and record, without running them: their fits are in the long tier."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import veilrec as vr
from veilrec.experiments import gerai_tables, tables

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def run(monkeypatch, script: str, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", [script, *words])
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")


def test_one_seed_is_refused_before_the_fits(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(vr, "load", lambda name: pytest.fail("the data were read"))
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, "gerai_batch.py", "--seeds", "1", "--work", str(tmp_path / "work"))
    assert caught.value.code == 2
    assert "--seeds must be at least 2, got 1. One seed has no interval." in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


def test_the_adaptive_attack_takes_the_rows_of_the_tables_and_names_their_data(monkeypatch, tmp_path) -> None:
    parts = vr.split.holdout(vr.synthetic(60, 40, 900), test=0.2)
    study = tables.Study(lambda seed, data_dir: parts, lambda model, split, seed: {})
    asked = []

    def model_of(row, found):
        asked.append((row.model, found is study))
        return SimpleNamespace(fit=lambda *parts, **how: None)

    monkeypatch.setenv("VEILREC_DATA", str(tmp_path))
    monkeypatch.setitem(gerai_tables.STUDIES, "ml-100k", study)
    monkeypatch.setattr(tables, "model_of", model_of)
    monkeypatch.setattr("veilrec.attacks.attribute_attack", lambda *them, **how: SimpleNamespace(outcomes=()))
    run(monkeypatch, "gerai_adaptive.py", "--out", str(tmp_path / "record.json"))
    assert asked == [("gcn", True), ("gerai-paper", True), ("gerai", True), ("gerai-users", True)]
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert record["data_fingerprint"] == parts.source_fingerprint
