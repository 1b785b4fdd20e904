from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.studio.charts import Dot, Line, dot_chart, line_chart, ticks

numbers = st.floats(0, 1e6, allow_nan=False)


def circles(svg: str) -> list[tuple[float, float]]:
    return [(float(c.get("cx")), float(c.get("cy"))) for c in ET.fromstring(svg).iter("circle")]


@given(numbers, numbers)
def test_ticks_cover_the_range_and_rise(a, b):
    low, high = min(a, b), max(a, b)
    marks = ticks(low, high)
    assert marks[0] <= low + 1e-6 * max(high, 1)
    assert marks[-1] >= high - 1e-6 * max(high, 1)
    assert all(x < y for x, y in pairwise(marks))
    assert 2 <= len(marks) <= 9


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_whole_ticks_are_whole(a, b):
    marks = ticks(min(a, b), max(a, b), whole=True)
    assert all(mark == int(mark) for mark in marks)
    assert marks[0] <= min(a, b) <= max(a, b) <= marks[-1]


def test_dots_are_placed_by_value():
    svg = dot_chart("recall", [Dot("a", 0.0), Dot("b", 0.1, 0.05, 0.15), Dot("c", 0.2)])
    (x0, y0), (x1, y1), (x2, y2) = circles(svg)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 < y1 < y2
    line = next(e for e in ET.fromstring(svg).iter("line") if "interval" in e.get("class"))
    assert float(line.get("x1")) < x1 < float(line.get("x2"))
    assert (x1 - float(line.get("x1"))) == pytest.approx((x2 - x0) / 4, abs=0.2)


def test_labels_are_escaped_and_cut():
    svg = dot_chart("<b>", [Dot("<script>alert(1)</script>", 0.5)])
    assert "<script" not in svg
    assert "<b>" not in svg
    assert "&lt;script&gt;" in svg
    shown = [text.text for text in ET.fromstring(svg).iter("text") if text.get("class") == "label"]
    assert shown == ["<script>alert(1)</scr…"]
    assert '"' not in re.search(r'aria-label="([^"]*)"', dot_chart('a"b', [Dot('"', 1.0)])).group(1)


def test_lines_have_a_legend_within_the_picture():
    lines = [Line(f"a model with a name {n}", [(1, 0.1 * n), (2, 0.2)]) for n in range(5)]
    root = ET.fromstring(line_chart("validation", lines, "epoch"))
    assert len(list(root.iter("polyline"))) == 5
    _, _, width, height = (float(part) for part in root.get("viewBox").split())
    for text in root.iter("text"):
        assert 0 <= float(text.get("x")) <= width
        assert 0 <= float(text.get("y")) <= height


def test_a_line_of_one_point_is_a_dot():
    assert len(circles(line_chart("v", [Line("a", [(1, 0.5)])], "epoch"))) == 2  # the point and the legend
