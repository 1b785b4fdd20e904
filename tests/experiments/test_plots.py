from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import pytest

from veilrec.core import MissingExtra
from veilrec.experiments import compare, plot_comparison


@pytest.fixture(scope="module")
def record():
    return compare(["popularity"], "synthetic:80,50,1600", seeds=2, k=[5, 10], progress=False).record


def test_every_kind_of_file(record, tmp_path):
    assert plot_comparison(record, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert plot_comparison(record, tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    root = ET.parse(plot_comparison(record, tmp_path / "a.svg")).getroot()
    assert root.tag.endswith("svg")
    comments = (tmp_path / "a.svg").read_text()
    for name in ("recall@10", "ndcg@10", "hit@10", "precision@10"):
        assert f"<!-- {name} -->" in comments


def test_other_names_are_refused(record, tmp_path):
    with pytest.raises(ValueError, match=r"one of \.png, \.svg, \.pdf, got 'a\.gif'"):
        plot_comparison(record, tmp_path / "a.gif")


def test_without_matplotlib_there_is_a_sentence(record, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"the plot of a comparison needs the package 'matplotlib'"):
        plot_comparison(record, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
