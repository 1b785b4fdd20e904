"""The long tier: the benchmarks with their limits, on real data where there is some, in child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")
pytestmark = pytest.mark.long


def run(script: str, *arguments: str, out: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=1800)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    print(done.stdout[-500:])


@needs_data
@pytest.mark.parametrize("study", ["ml-1m-ease", "ml-1m-lightgcn", "gowalla-gf-cf", "gowalla-lightgcn"])
def test_accuracy_with_the_recorded_settings(study: str, tmp_path: Path) -> None:
    recorded = str(ROOT / "docs" / "results")
    run("accuracy.py", study, "--recorded", recorded, "--slack", "0.003", out=tmp_path)


@needs_data
def test_lightgcn_beats_the_textbook_loop(tmp_path: Path) -> None:
    run("lightgcn_speed.py", "--max-epochs", "5", "--timed", "4", out=tmp_path / "speed.json")


@needs_data
def test_full_ranking_costs_little_more_than_the_product(tmp_path: Path) -> None:
    run("ranking_gowalla.py", out=tmp_path / "ranking.json")


def test_an_epoch_grows_linearly(tmp_path: Path) -> None:
    run("scaling.py", out=tmp_path / "scaling.json")


def test_twenty_million_rows_import(tmp_path: Path) -> None:
    run("import_20m.py", out=tmp_path / "import.json")


def test_every_mechanism_is_audited_and_every_mutant_caught(tmp_path: Path) -> None:
    run("privacy_core.py", out=tmp_path / "privacy-core.json")


@needs_data
def test_a_private_step_costs_at_most_three_plain_ones(tmp_path: Path) -> None:
    run("private_step.py", out=tmp_path / "private-step.json")


def test_ten_million_synthetic_interactions(tmp_path: Path) -> None:
    run("synthetic_speed.py", out=tmp_path / "synthetic.json")


@needs_data
def test_eight_attackers_on_three_attributes_take_four_minutes(tmp_path: Path) -> None:
    run("attribute_attack.py", out=tmp_path / "attack.json")


@needs_data
def test_a_large_graph_is_reported_in_a_minute(tmp_path: Path) -> None:
    run("edge_reports.py", out=tmp_path / "reports.json")


def test_packed_paillier_beats_value_by_value(tmp_path: Path) -> None:
    """The ratios to python-paillier in full; the large round with fewer clients and values."""
    run("secure_sum.py", "--clients", "20", "--items", "300", out=tmp_path / "secure-sum.json")


@needs_data
def test_pf_gnr_costs_little_more_than_its_network(tmp_path: Path) -> None:
    run("pfgnr_speed.py", out=tmp_path / "pfgnr-speed.json")
