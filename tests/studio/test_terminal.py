from __future__ import annotations

import io

import pytest
from rich.console import Console

from veilrec.studio.terminal import (
    show_comparison,
    show_evaluation,
    show_lists,
    show_reproduced,
    show_runs,
    show_table,
    show_tuning,
)


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), width=100, color_system=None)


def said(screen: Console) -> str:
    return screen.file.getvalue()  # type: ignore[attr-defined]


def metric(mean, half=0.01):
    return {"mean": mean, "interval": [mean - half, mean + half]}


def test_evaluation_has_a_row_per_metric_and_a_column_per_length(screen):
    metrics = {
        "recall@5": metric(0.1),
        "recall@20": metric(0.3),
        "coverage@5": {"mean": 0.5},
        "rmse": {"mean": 0.9},
    }
    show_evaluation(screen, "[red]a", {"protocol": "full", "part": "test", "users": 1234, "metrics": metrics})
    lines = [" ".join(line.split()) for line in said(screen).splitlines()]
    assert lines[0] == "[red]a: full ranking of the test part, 1,234 users"
    assert lines[1] == "metric @5 @20"
    assert "recall 0.1000 ± 0.0100 0.3000 ± 0.0100" in lines
    assert "coverage 0.5000" in lines
    assert "rmse 0.9000" in lines


def test_sampled_metrics_carry_their_mark(screen):
    judged = {
        "protocol": "sampled",
        "part": "test",
        "users": 9,
        "metrics": {"hit@5 (1+99 sampled)": metric(0.4)},
    }
    show_evaluation(screen, "a", judged)
    assert "hit (1+99 sampled)  0.4000 ± 0.0100" in said(screen)


def record(name, mean):
    return {
        "name": name,
        "evaluation": {"metrics": {"recall@5": metric(mean), "ndcg@5": metric(mean / 2)}},
        "guarantee": {"protection": "none"},
        "seconds": {"fit": 1.26},
    }


def test_runs_stand_below_each_other(screen):
    show_runs(screen, [record("a", 0.1), record("b", 0.3)])
    lines = [" ".join(line.split()) for line in said(screen).splitlines()]
    assert lines[0] == "model recall@5 ndcg@5 fit protection"
    assert lines[2] == "b 0.3000 ± 0.0100 0.1500 ± 0.0100 1.3 s none"


def test_narrow_terminals_show_fewer_metrics():
    screen = Console(file=io.StringIO(), width=50, color_system=None)
    show_runs(screen, [record("a", 0.1)])
    assert "recall@5" in said(screen)
    assert "ndcg@5" not in said(screen)


def test_comparison_shows_tests_and_seeds(screen):
    found = {"mean": 0.2, "users": [0.18, 0.22], "seeds": [0.1, 0.3], "test": None}
    test = {"against": "a", "p": 0.0001, "effect": 0.5}
    rows = [
        {"label": "a", "metrics": {"recall@5": found}, "seconds": 1.0, "protection": "none"},
        {"label": "b", "metrics": {"recall@5": found | {"test": test}}, "seconds": 2.0, "protection": "none"},
        {
            "label": "c",
            "metrics": {"recall@5": found | {"test": test | {"p": 0.25, "effect": None}}},
            "seconds": 2.0,
            "protection": "none",
        },
    ]
    show_comparison(screen, {"models": rows, "seeds": [0, 1], "data": {"name": "shop"}, "note": "The note."})
    text = said(screen)
    assert "shop, 3 models, 2 seeds" in text
    assert text.count("0.2000 ± 0.0200") == 3
    assert text.count("seeds ± 0.1000") == 3
    assert "reference" in text
    assert "p < 0.001, d +0.50" in text
    assert "p 0.250" in text
    assert "The note." in text


def test_tuning_ends_with_the_command(screen):
    best = {"settings": {"rate": 0.00123456, "size": 8}, "value": 0.25}
    about = {"model": "bpr", "data": {"name": "shop"}, "trials": [1, 2], "metric": "ndcg@10", "note": "Mind."}
    show_tuning(screen, about | {"best": best}, "runs/best.yaml")
    text = said(screen)
    assert "bpr on shop: best of 2 trials" in text
    assert "0.00123456" in text
    assert "Fit with them: veilrec fit --config runs/best.yaml" in text


def test_lists_and_tables_read_no_markup(screen):
    rows = [{"user": "[b]u", "item": "[red]x", "rank": 1, "score": 0.5}]
    show_lists(screen, rows, {"[b]u": [f"i{n}" for n in range(8)]})
    show_table(screen, ["name"], [["[blink]n"]])
    text = said(screen)
    assert "for [b]u, who has interacted with i0, i1, i2, i3, i4, i5 and 2 more" in text
    assert "[red]x" in text
    assert "[blink]n" in text


def test_a_reproduced_table_fits_the_terminal() -> None:
    figure = {"mean": 0.5, "sd": None, "paper": 0.25, "gap": 0.25}
    rows = [{"label": "BPR", "figures": [figure, {**figure, "paper": None}] * 9}]
    record = {
        "table": "t",
        "title": "T",
        "columns": [f"hit@{k}" for k in range(18)],
        "rows": rows,
        "orderings": [{"verdict": "holds"}, {"verdict": "open"}, {"verdict": "holds"}],
    }
    shown = Console(width=80, record=True, file=io.StringIO())
    show_reproduced(shown, record, "runs/t.md")
    text = shown.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "0.500 (0.250)  0.500" in text
    assert "hit@3" in text
    assert "hit@4" not in text
    assert "2 holds, 1 open" in text
    assert "18 columns, spread and statements: runs/t.md" in text
