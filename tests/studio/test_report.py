from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from veilrec.core import DataError, environment
from veilrec.experiments import DataSpec, Experiment, compare, fit_run, write_record
from veilrec.studio.report import group_runs, render, write_report

EVIL = "<script>alert('x')</script>\"'><img src=http://evil.example/x>"


class Page(HTMLParser):
    """Collects tags, attributes and text; complains about tags left open."""

    VOID = frozenset({"meta", "br", "line", "circle", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def run(name="ease", mean=0.3, **rest):
    metrics = {
        metric: {"mean": value, "interval": [value - 0.01, value + 0.01]}
        for metric, value in (("recall@20", mean), ("ndcg@20", mean / 2))
    }
    metrics["coverage@20"] = {"mean": 0.5}
    record = {
        "format": 1,
        "kind": "run",
        "name": name,
        "model": "ease",
        "settings": {"regularization": 50.0},
        "seed": 0,
        "data": {
            "name": "shop",
            "fingerprint": "f" * 64,
            "users": 600,
            "items": 400,
            "interactions": 20_000,
            "density": 0.083,
        },
        "split": {
            "method": "holdout",
            "settings": {},
            "fingerprint": "a" * 64,
            "sizes": {"train": 16_000, "valid": 2_000, "test": 2_000},
        },
        "evaluation": {"protocol": "full", "part": "test", "users": 600, "metrics": metrics, "seconds": 0.1},
        "guarantee": {"protection": "none"},
        "statement": f"Privacy statement of {name}",
        "seconds": {"fit": 1.25},
        "curve": [{"epoch": 1.0, "loss": 1.0, "valid": 0.1}, {"epoch": 2.0, "loss": 0.5, "valid": 0.2}],
        "command": "veilrec fit ease",
        "made": "2026-01-01T00:00:00+00:00",
        "environment": environment(),
    }
    return json.loads(json.dumps(record)) | rest


def assert_self_contained(text: str) -> Page:
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "form",
        "base",
        "audio",
        "video",
    }
    for _, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on")
            assert key not in ("src", "href", "action", "srcset", "xlink:href")
            assert "url(" not in (value or "")
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    assert style
    assert "url(" not in style
    assert "@import" not in style
    return page


def test_the_page_is_whole_and_asks_nothing_of_the_network():
    page = assert_self_contained(render([run(), run("bpr", 0.25)], title="report"))
    rules = [a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
    assert rules == ["default-src 'none'; style-src 'unsafe-inline'"]
    for words in (
        "600 users",
        "20,000 interactions",
        "0.3000",
        "0.2900 – 0.3100",
        "1.2 s",
        "veilrec fit ease",
    ):
        assert words in page.text
    assert any(a.get("name") == "viewport" for tag, a in page.tags if tag == "meta")
    assert [tag for tag, _ in page.tags].count("svg") == 3  # two metrics and the curves


def test_nothing_a_user_named_becomes_markup():
    record = run(EVIL, statement=EVIL, command=EVIL, settings={EVIL: EVIL}, model=EVIL)
    record["data"]["name"] = record["split"]["method"] = EVIL
    record["guarantee"]["protection"] = EVIL
    record["environment"] = {EVIL: EVIL}
    page = assert_self_contained(render([record], title=EVIL, skipped=[EVIL]))
    assert EVIL in "".join(page.words)


def test_only_runs_judged_alike_share_a_table():
    other_split = run("b")
    other_split["split"] = other_split["split"] | {"fingerprint": "b" * 64}
    sampled = run("c")
    sampled["evaluation"] = sampled["evaluation"] | {"protocol": "sampled"}
    lengths = run("d")
    lengths["evaluation"]["metrics"] = {"recall@5": {"mean": 0.1, "interval": [0, 0.2]}}
    groups = group_runs([run("a"), other_split, sampled, lengths, run("e", 0.9)])
    assert [[member["name"] for member in group.runs] for group in groups] == [
        ["e", "a"],
        ["b"],
        ["c"],
        ["d"],
    ]
    assert groups[0].best["recall@20"] == 0.9
    text = render([run(), sampled], title="t")
    assert "Never compare these numbers with full ranking" in text


def test_real_runs_comparisons_and_tunings(tmp_path):
    small = DataSpec("synthetic:80,50,1600")
    fit_run(Experiment("popularity", data=small), tmp_path / "runs" / "pop", progress=False, command="c")
    compare(
        ["popularity"],
        "synthetic:80,50,1600",
        seeds=2,
        k=[5],
        out=tmp_path / "runs" / "table",
        progress=False,
    )
    base = run()
    tuning = {key: base[key] for key in ("format", "data", "split", "command", "made", "environment")}
    trials = [{"number": n, "settings": {"a": n}, "value": 0.1 * n, "seconds": 1.0} for n in range(3)]
    best = {"settings": {"a": 2}, "value": 0.2}
    rest = {"kind": "tuning", "name": "search", "model": "ease", "metric": "ndcg@10", "note": "Tuning reads."}
    write_record(tmp_path / "runs" / "deep" / "search", tuning | rest | {"trials": trials, "best": best})
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "record.json").write_text("{")
    page = write_report([tmp_path / "runs"], tmp_path / "out" / "page.html", title="All of it")
    found = assert_self_contained(page.read_text(encoding="utf-8"))
    for words in (
        "All of it",
        "3 records",
        "Left out: broken: a record must be JSON",
        "table: 1 model on",
        "seeds ± 0.",
        "tuning, 2026-01-01 00:00 UTC",
        "Tuning reads.",
    ):
        assert words in found.text
    assert str(tmp_path) not in page.read_text(encoding="utf-8")


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(DataError, match="the folder must hold a run, got none"):
        write_report([tmp_path], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_the_page_needs_no_matplotlib(monkeypatch, tmp_path):
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "<svg" in render([run()], title="t")
