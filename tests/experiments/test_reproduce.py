"""Tables of papers: the transcribed figures, the cells that are kept, the verdicts, the page and the plot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import veilrec as vr
from veilrec.attacks import ATTACKERS
from veilrec.experiments import (
    TABLES,
    gerai_tables,
    pfgnr_tables,
    reproduce,
    table_page,
    write_table,
)
from veilrec.experiments.gerai_paper import PAPER_ATTACKERS, PAPER_F1, PAPER_HIT, PAPER_NDCG
from veilrec.experiments.pages import plot_table
from veilrec.experiments.tables import Column, PaperTable, Row, Study, model_of, orderings, reproduce_table
from veilrec.systems import SYSTEMS
from veilrec.training import Recommender

QUICK = {
    "popularity": Row("popularity", in_paper=False),
    "BPR": Row("bpr", {"epochs": 2}),
    "GERAI": Row("gerai-paper", {"epochs": 1, "embedding_size": 4}),
}


def small(name: str) -> PaperTable:
    """The table with quick rows and lists of 5 and 10."""
    table = TABLES[name]
    long = ("15", "20", "25", "30")
    columns = tuple(column for column in table.columns if not column.head.endswith(long))
    return replace(table, rows=QUICK, columns=columns)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The synthetic world in place of ML-100K, and a folder with the cells of three rows and two seeds."""
    data = vr.synthetic(users=90, items=200, interactions=1500, seed=1)
    folder = tmp_path_factory.mktemp("reproduce")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gerai_tables, "load", lambda name, data_dir=None: data)
        patch.setattr(gerai_tables, "LENGTHS", (5, 10))
        patch.setitem(ATTACKERS, "network", ATTACKERS["bayes"])  # the attacks have tests of their own
        reproduce_table("gerai-table3", small("gerai-table3"), folder, seeds=2, progress=False)
        yield folder


def test_every_row_is_a_model_and_every_table_has_the_paper_in_it() -> None:
    for table in TABLES.values():
        for row in table.rows.values():
            SYSTEMS[row.model](**row.settings)
        printed = {label for column in table.columns for label in column.paper}
        assert printed <= set(table.rows)
        if table.sweep:
            assert {label for points in table.sweep.values() for label in points.values()} <= set(table.rows)
        else:
            assert {"popularity", table.subject} <= set(table.rows)


def test_transcribed_figures_are_plausible() -> None:
    """Longer lists hit more; most of the 96 figures of table 5 are multiples of 1/189 (its test users)."""
    for row in PAPER_HIT.values():
        assert list(row) == sorted(row)
    assert set(PAPER_NDCG) == set(PAPER_HIT) == set(PAPER_F1["age"])
    figures = np.array([value for rows in PAPER_ATTACKERS.values() for row in rows.values() for value in row])
    whole = np.abs(figures * 189 - np.rint(figures * 189)) < 0.1
    assert len(figures) == 96
    assert whole.sum() >= 85


def test_cells_are_kept_and_shared(world, monkeypatch) -> None:
    assert len(list((world / "cells").iterdir())) == 6

    def never(*about, **more):
        raise AssertionError("a kept cell was computed again")

    monkeypatch.setattr(Recommender, "fit", never)
    for name in ("gerai-table3", "gerai-table4", "gerai-table5"):
        record = reproduce_table(name, small(name), world, seeds=2, progress=False)
        assert [row["label"] for row in record["rows"]] == list(QUICK)
        assert len(record["rows"][0]["figures"][0]["values"]) == 2
    first = record["rows"][1]["figures"][0]  # BPR in the paper's table 5: age, by a tree
    assert first["gap"] == pytest.approx(first["mean"] - 0.466)
    other = replace(small("gerai-table3"), rows={**QUICK, "BPR": Row("bpr", {"epochs": 1})})
    with pytest.raises(AssertionError, match="computed again"):  # other settings are another cell
        reproduce_table("gerai-table3", other, world, seeds=1, progress=False)


def test_page_and_plot(world, tmp_path) -> None:
    record = reproduce_table("gerai-table3", small("gerai-table3"), world, seeds=2, progress=False)
    page = table_page(record)
    assert "| BPR | 0." in page
    assert "(0.348, " in page
    assert "| hit | BPR | -0.013 |" in page  # of K = 5 and 10 the paper's mean difference
    written = write_table(record, tmp_path)
    assert [path.suffix for path in written] == [".md", ".png"]
    assert written[1].stat().st_size > 5000


def test_one_row_of_many_columns_is_drawn_without_a_warning(tmp_path) -> None:
    """A table with `--rows` of one label: panels that are too flat for their marks would collapse."""
    heads = [column.head for column in TABLES["pfgnr-table2"].columns]
    figures = [{"mean": 0.5, "sd": None, "paper": 0.4, "gap": 0.1} for _ in heads]
    record = {"title": "t", "columns": heads, "rows": [{"label": "PF-GNR(5)", "figures": figures}]}
    assert plot_table(record, tmp_path / "one.png").stat().st_size > 5000


def test_a_figure_is_drawn_from_its_sweep(world, tmp_path) -> None:
    table = replace(small("gerai-table3"), sweep={"length": {1.0: "popularity", 2.0: "BPR"}})
    record = reproduce_table("gerai-figure2", table, world, seeds=1, progress=False)
    written = write_table(record, tmp_path)
    assert written[1].stat().st_size > 5000


def test_verdicts() -> None:
    """The sign of the paper, found by the test over seeds: holds; the other sign: does not; else open."""
    columns = (Column("hit@5", ("x",), {"A": 0.5, "B": 0.4, "C": 0.4, "D": 0.4}),)
    table = PaperTable("t", gerai_tables.STUDIES, {}, columns, subject="A")
    values = {
        "A": [0.50, 0.52, 0.51],
        "B": [0.40, 0.41, 0.41],
        "C": [0.60, 0.63, 0.62],
        "D": [0.49, 0.53, 0.51],
    }
    lines = [{"label": label, "figures": [{"values": some}]} for label, some in values.items()]
    found = {row["against"]: row["verdict"] for row in orderings(lines, table)}
    assert found == {"B": "holds", "C": "does not", "D": "open"}


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="Did you mean 'gerai-table3'"):
        reproduce("gerai-table33", "nowhere")
    with pytest.raises(ValueError, match="row must be one of"):
        reproduce("gerai-table3", "nowhere", rows=("GERAI-X",))


def test_several_data_sets_ratios_and_what_a_row_lacks(tmp_path) -> None:
    """Two data sets with their own seeds; a column relative to a row; a figure that one row cannot have."""

    def split(size: int):
        return lambda seed, data_dir: vr.split.holdout(vr.synthetic(size, 40, 900), test=0.2, seed=seed)

    def measure(model, split, seed):
        seen = {"S": 0.5} if model.word == "ease" else {}
        return {"users": split.train.n_users, "value": {"ease": 4.0, "popularity": 2.0}[model.word], **seen}

    studies = {"small": Study(split(60), measure, 2), "large": Study(split(70), measure, 1)}
    columns = (
        Column("small users", ("users",), {"EASE": 50.0}, "small"),
        Column("large users", ("users",), {}, "large"),
        Column("large ratio", ("value",), {}, "large", relative="popularity"),
        Column("large S", ("S",), {}, "large", optional=True),
    )
    rows = {"popularity": Row("popularity"), "EASE": Row("ease")}
    table = PaperTable("t", studies, rows, columns, "EASE")
    record = reproduce_table("t", table, tmp_path, progress=False)
    assert record["seeds"] == {"small": 2, "large": 1}
    found = {line["label"]: [figure["mean"] for figure in line["figures"]] for line in record["rows"]}
    assert found == {"popularity": [60.0, 70.0, 1.0, None], "EASE": [60.0, 70.0, 2.0, 0.5]}
    assert "| popularity | 60.000 ± 0.000 | 70.000 | 1.000 | - |" in table_page(record)
    write_table(record, tmp_path)
    for sweep in ({"n": {"1": "popularity", "2": "EASE"}}, {"n": {"1": "EASE"}}):
        write_table({**record, "sweep": sweep}, tmp_path)  # without the point, without the line
    only = reproduce_table("t", table, tmp_path, data=["large"], progress=False)
    assert only["columns"] == ["large users", "large ratio", "large S"]
    with pytest.raises(ValueError, match="data must be one of small, large"):
        reproduce_table("t", table, tmp_path, data=["yelp"])


def test_pfgnr_rows_on_the_synthetic_world(tmp_path) -> None:
    """The rows of a PF-GNR table are fitted and attacked, with quick settings."""
    table = TABLES["pfgnr-table3"]
    parts = vr.split.holdout(vr.synthetic(120, 60, 2500), test=0.1, valid=0.1)
    quick = {word: {"epochs": 1, "embedding_size": 8} for word in (*pfgnr_tables.GRAPH_MODELS, "gap")}
    study = Study(lambda seed, data_dir: parts, table.studies["ml-1m"].measure, 1, quick)
    record = reproduce_table(
        "t", replace(table.on(["ml-1m"]), studies={"ml-1m": study}), tmp_path, progress=False
    )
    by_label = {line["label"]: line["figures"] for line in record["rows"]}
    server = record["columns"].index("ml-1m link stealing, AUC, the server")
    assert 0.5 < by_label["PF-GNR(5)"][server]["mean"] <= 1
    assert by_label["PF-GNR-C/A(5)"][server]["mean"] is not None


@pytest.mark.parametrize("data", pfgnr_tables.STUDIES)
def test_a_wrapped_network_has_the_settings_of_the_plain_one(data: str) -> None:
    """Rows of figure 3 differ by what they protect, not by their size or how long they learn."""
    study, found = pfgnr_tables.STUDIES[data], {}
    for label in TABLES["pfgnr-figure3"].rows:
        found[label] = model_of(pfgnr_tables.ROWS[label], study).settings()
    names = {"GNR": "LightGCN", "NGCF": "NGCF", "GAT": "GAT", "GSage": "GraphSAGE"}
    for name, plain in names.items():
        wrapped = found[f"PF-{name}(5)"]
        shared = found[plain].keys() & wrapped.keys()
        assert shared >= {"layers", "epochs", "learning_rate", "embedding_size"}
        assert {key: wrapped[key] for key in shared} == {key: found[plain][key] for key in shared}
