"""What attacks found, on the report page."""

from __future__ import annotations

import pytest

from veilrec.attacks import attribute_attack
from veilrec.core import write_json
from veilrec.experiments import DataSpec, Experiment, SplitSpec, attack_record, fit_run, open_run
from veilrec.studio.leaks import leak_charts, leaks
from veilrec.studio.report import write_report


def row(target: str, sees: str, auc: float, gain: float) -> dict:
    metrics = {"auc": {"mean": auc, "repeats": None}}
    leak = {"auc": {"mean": gain, "repeats": [gain - 0.01, gain + 0.01]}}
    return {
        "target": target,
        "attacker": "bayes",
        "sees": sees,
        "k": 10,
        "metrics": metrics,
        "leak": leak,
    }


def test_the_strongest_attacker_who_sees_the_model_counts() -> None:
    """A popular list is everybody's: whoever wins by it has learnt nothing from the model."""
    rows = [
        row("age", "both", 0.6, 0.02),
        row("age", "list", 0.7, 0.12),
        row("age", "popular both", 0.9, 0.3),
    ]
    record = {"attack": "attribute", "name": "run", "protection": "none", "rows": rows}
    (found,) = leaks(record)
    assert (found.sees, found.auc, found.null_auc) == ("list @10", 0.7, pytest.approx(0.58))
    assert (found.low, found.high) == (pytest.approx(0.11), pytest.approx(0.13))


def test_links_by_adversary() -> None:
    rows = [
        {"adversary": side, "attacker": word, "sees": "scores", "null": "popularity"}
        | {"metrics": {"auc": {"value": auc}}, "leak": {"auc": [auc - 0.8, auc - 0.82, auc - 0.78]}}
        for side, word, auc in [("X", "score", 0.9), ("S", "score", 0.91), ("S", "reported graph", 0.95)]
    ]
    rows.append({"adversary": "", "attacker": "popularity", "sees": "", "metrics": {"auc": {"value": 0.8}}})
    found = leaks({"attack": "links", "name": "run", "protection": "none", "rows": rows})
    assert [(one.secret, one.attacker) for one in found] == [
        ("an interaction, X", "score"),
        ("an interaction, S", "reported graph"),
    ]
    assert found[1].null_auc == pytest.approx(0.8)


def test_page_with_attacks(tmp_path) -> None:
    for word in ("popularity", "ease"):
        spec = Experiment(word, data=DataSpec("synthetic:80,60,1500"), split=SplitSpec("holdout"), seed=1)
        fit_run(spec, tmp_path / word, progress=False)
        run = open_run(tmp_path / word)
        data, split = run.parts()
        found = attribute_attack(run.model, split, "gender", attackers="bayes", repeats=2)
        prints = {"data_fingerprint": data.fingerprint, "split_fingerprint": split.fingerprint}
        record = attack_record(
            found.to_dict(), word, protection="none", **prints, seconds=1.0, command="veilrec attack"
        )
        write_json(tmp_path / word / "attack.json", record)
    text = write_report([tmp_path], tmp_path / "page.html").read_text()
    assert "What attackers gain" in text
    assert "gender: AUC that the model adds" in text
    assert text.count("the same with the history alone") == 2
    assert len(leak_charts(leaks(record) * 2)) == 1
