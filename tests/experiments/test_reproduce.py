"""Tables of papers: the transcribed figures, the cells that are kept, the page and the plot."""

from __future__ import annotations

import json

import numpy as np
import pytest

import veilrec as vr
from veilrec.experiments import GERAI_TABLES, gerai_tables, reproduce, table_page, write_table
from veilrec.experiments.gerai_paper import PAPER_ATTACKERS, PAPER_F1, PAPER_HIT, PAPER_NDCG
from veilrec.systems import SYSTEMS
from veilrec.training import Recommender


@pytest.fixture
def small(monkeypatch):
    """The synthetic world in place of ML-100K."""
    data = vr.synthetic(users=150, items=300, interactions=3500, seed=1)
    monkeypatch.setattr(gerai_tables, "load", lambda name, data_dir=None: data)


def test_every_row_is_a_model_and_every_table_has_the_paper_in_it() -> None:
    for row in gerai_tables.ROWS.values():
        SYSTEMS[row.model](**row.settings)
    for table in GERAI_TABLES.values():
        printed = {label for column in table.columns for label in column.paper}
        assert printed <= set(table.rows)
        assert "popularity" in table.rows


def test_transcribed_figures_are_plausible() -> None:
    """Longer lists hit more; most of the 96 figures of table 5 are multiples of 1/189 (its test users)."""
    for row in PAPER_HIT.values():
        assert list(row) == sorted(row)
    assert set(PAPER_NDCG) == set(PAPER_HIT) == set(PAPER_F1["age"])
    figures = np.array([value for rows in PAPER_ATTACKERS.values() for row in rows.values() for value in row])
    whole = np.abs(figures * 189 - np.rint(figures * 189)) < 0.1
    assert len(figures) == 96
    assert whole.sum() >= 85


def test_cells_are_kept_and_shared(small, tmp_path, monkeypatch) -> None:
    rows = ("popularity", "BPR")
    first = reproduce("gerai-table4", tmp_path, seeds=1, rows=rows, progress=False)
    assert len(list((tmp_path / "cells").iterdir())) == 2
    assert [row["label"] for row in first["rows"]] == list(rows)
    hit = first["rows"][1]["figures"][0]
    assert hit["paper"] is None  # BPR is not in the paper's table 4
    assert 0 < hit["mean"] < 1

    def never(*about, **more):
        raise AssertionError("a kept cell was computed again")

    monkeypatch.setattr(Recommender, "fit", never)
    again = reproduce("gerai-table4", tmp_path, seeds=1, rows=rows, progress=False)
    assert again["rows"] == first["rows"]
    shared = reproduce("gerai-table3", tmp_path, seeds=1, rows=rows, progress=False)
    gap = shared["rows"][1]["figures"][0]
    assert gap["gap"] == pytest.approx(gap["mean"] - 0.348)
    monkeypatch.setitem(gerai_tables.ROWS, "BPR", gerai_tables.Row("bpr", {"epochs": 1}))
    with pytest.raises(AssertionError, match="computed again"):  # other settings are another cell
        reproduce("gerai-table3", tmp_path, seeds=1, rows=rows, progress=False)


def test_other_attackers_are_added_to_a_cell(small, tmp_path) -> None:
    reproduce("gerai-table4", tmp_path, seeds=1, rows=("popularity",), progress=False)
    reproduce("gerai-table5", tmp_path, seeds=1, rows=("popularity",), progress=False)
    cell = json.loads((tmp_path / "cells" / "popularity-0.json").read_text())
    assert set(cell["f1"]["gender"]) == {"network", "tree", "bayes", "knn", "gp"}
    assert cell["f1"]["gender"]["tree"]["majority class"] > 0


def test_page_and_plot(small, tmp_path) -> None:
    record = reproduce("gerai-table3", tmp_path, seeds=1, rows=("popularity", "BPR"), progress=False)
    page = table_page(record)
    assert "| BPR | 0." in page
    assert "(0.348, " in page
    written = write_table(record, tmp_path)
    assert [path.suffix for path in written] == [".md", ".png"]
    assert written[1].stat().st_size > 5000


def test_unknown_tables_are_named() -> None:
    with pytest.raises(ValueError, match="Did you mean 'gerai-table3'"):
        reproduce("gerai-table33", "nowhere")
