from __future__ import annotations

import io

import numba
import torch
from rich.console import Console

from veilrec.experiments import DataSpec, load_data, make_split
from veilrec.privacy import Ledger, PureEvent
from veilrec.studio import demo
from veilrec.systems import SYSTEMS
from veilrec.training import evaluate


def test_every_model_of_the_demo_exists():
    for word, settings in demo.MODELS.items():
        SYSTEMS[word](**settings)


def test_the_networks_of_the_demo_have_the_same_settings():
    assert demo.MODELS["gcn"] == demo.MODELS["gerai-paper"] == demo.MODELS["gerai"]


def test_the_networks_of_the_demo_learn_more_than_popularity(monkeypatch):
    """By validation, where popularity is at .330; GERAI, which leaves it sooner, is stopped sooner."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)  # the same figures each time
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    split = make_split(demo.SPLIT, load_data(demo.DATA), demo.SEED, demo.DATA)

    def recall(word, **fewer):
        model = SYSTEMS[word](**demo.MODELS[word] | fewer)
        model.fit(split.train, split.valid, seed=demo.SEED, progress=False, secure=False)
        return evaluate(model, split, 20, part="valid", progress=False).mean()["recall@20"]

    try:
        popularity = recall("popularity")
        assert recall("gcn") > popularity + 0.03
        assert recall("gerai", epochs=24) > popularity + 0.03
    finally:
        torch.set_num_threads(threads)


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


def test_the_demo_books_what_it_draws_and_touches_no_other_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DATA", DataSpec("synthetic:60,40,900"))
    small = {"epochs": 1, "embedding_size": 4}
    monkeypatch.setattr(demo, "MODELS", {"popularity": {}, "gerai": small, "dp-gram": {}})
    monkeypatch.setattr(demo, "ATTACKED", ())
    ledger = Ledger(tmp_path / "budget.sqlite")
    real = [PureEvent(epsilon=1.0)]
    ledger.reserve("shop", "f", real, delta=0.0, run="real").release()
    before = ledger.accounts("shop")
    screen = Console(file=io.StringIO(), width=100, color_system=None)
    result = demo.run_demo(tmp_path / "demo", console=screen, ledger=ledger)
    assert "veilrec budget show synthetic" in screen.file.getvalue()  # type: ignore[attr-defined]
    for record in result["records"][1:]:
        stated, [claim, *_] = record["guarantee"], record["guarantee"]["claims"]
        assert stated["noise"] == "secure"
        spent = [spend for spend in ledger.history("synthetic") if spend.run == record["model"]]
        assert spent[0].epsilon == claim["epsilon"]
        assert {spend.state for spend in spent} == {"released"}
    assert ledger.populations() == ["shop", "synthetic"]
    assert ledger.accounts("shop") == before
    once = len(ledger.history("synthetic"))
    demo.run_demo(tmp_path / "demo", console=None, ledger=ledger)  # a second draw is a second spend
    assert len(ledger.history("synthetic")) == 2 * once


def test_the_demo_books_in_the_users_ledger_unless_another_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "MODELS", {"dp-gram": {}})
    monkeypatch.setattr(demo, "SHOWN", "dp-gram")
    monkeypatch.setattr(demo, "DATA", DataSpec("synthetic:60,40,900"))
    assert demo.run_demo(tmp_path / "demo", console=None)["records"][0]["guarantee"]["noise"] == "secure"
    assert [account.population for account in Ledger().accounts()] == ["synthetic"]
