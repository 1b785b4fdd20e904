"""Small charts as inline SVG, drawn with nothing but text: no script, no font, no other file.

Colours come from the style sheet of the page, so charts follow its light or dark look. Each is drawn at the
width of a phone and placed in a grid, so its letters keep their size on every screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

_WIDTH = 360.0
_ROW = 26.0
_CHARACTER = 6.6
_COLOURS = 8


@dataclass(frozen=True)
class Dot:
    """One row of a dot chart: a mean and, where there is one, its interval; ``quiet`` draws it in grey."""

    label: str
    mean: float
    low: float | None = None
    high: float | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Line:
    """One line of a line chart: points (x, y) in the order of x; ``dots`` leaves them unconnected."""

    label: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


def ticks(low: float, high: float, about: int = 4, *, whole: bool = False) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``, about ``about`` steps apart.

    >>> ticks(0.0, 0.23)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    >>> ticks(1, 3, whole=True)
    [1.0, 2.0, 3.0]
    """
    span = high - low
    if span < 1e-9 * max(abs(low), abs(high), 1e-3):  # as good as one value
        span = max(abs(high), 1e-3)
        high = low + span
    power = 10.0 ** math.floor(math.log10(span / about))
    steps = [power * factor for factor in (1, 2, 2.5, 5, 10)]
    if whole:
        steps = [max(1.0, step) for step in steps if step != 2.5]
    step = min(steps, key=lambda size: abs(span / size - about))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, max(last, first + 1) + 1)]


def dot_chart(title: str, rows: Sequence[Dot]) -> Markup:
    """Horizontal dots with intervals on an axis that starts at zero; the value stands at the right.

    >>> "<svg" in dot_chart("recall@20", [Dot("ease", 0.3, 0.28, 0.32)])
    True
    """
    left = 14 + _CHARACTER * min(max(len(row.label) for row in rows), 22)
    right = _WIDTH - 52
    marks = ticks(min(0.0, *(_low(row) for row in rows)), max(1e-9, *(_high(row) for row in rows)))
    top, height = 34.0, 34.0 + _ROW * len(rows) + 22

    def x(value: float) -> float:
        return left + (right - left) * (value - marks[0]) / (marks[-1] - marks[0])

    parts = [_text(0, 15, title, "title")]
    for mark in marks:
        parts.append(_line(x(mark), top - 6, x(mark), height - 20, "grid"))
        parts.append(_text(x(mark), height - 5, f"{mark:g}", "tick", "middle"))
    for number, row in enumerate(rows):
        y = top + _ROW * (number + 0.5)
        look = "quiet" if row.quiet else "main"
        parts.append(_text(left - 10, y + 4, _short(row.label), "label", "end"))
        if row.low is not None and row.high is not None:
            parts.append(_line(x(row.low), y, x(row.high), y, f"interval {look}"))
        parts.append(f'<circle class="{look}" cx="{x(row.mean):.1f}" cy="{y:.1f}" r="4.5"/>')
        parts.append(_text(_WIDTH, y + 4, f"{row.mean:.4f}", "value", "end"))
    words = "; ".join(f"{row.label} {row.mean:.4f}" for row in rows)
    return _svg(parts, height, f"{title}: {words}")


def line_chart(title: str, lines: Sequence[Line], x_label: str) -> Markup:
    """Lines over whole numbers (epochs, trials), each named at the foot in its colour.

    >>> line_chart("validation", [Line("bpr", [(1, 0.1), (2, 0.2)])], "epoch").count("<polyline")
    1
    """
    every = [point for line in lines for point in line.points]
    x_marks = ticks(min(p[0] for p in every), max(p[0] for p in every), whole=True)
    y_marks = ticks(min(p[1] for p in every), max(p[1] for p in every))
    left, right, top, bottom = 46.0, _WIDTH - 10, 36.0, 186.0
    legend, legend_rows = _legend(lines, bottom + 44)
    height = bottom + 34 + 18 * legend_rows

    def x(value: float) -> float:
        return left + (right - left) * (value - x_marks[0]) / (x_marks[-1] - x_marks[0])

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - y_marks[0]) / (y_marks[-1] - y_marks[0])

    parts = [_text(0, 15, title, "title")]
    for mark in y_marks:
        parts += [
            _line(left, y(mark), right, y(mark), "grid"),
            _text(left - 6, y(mark) + 4, f"{mark:g}", "tick", "end"),
        ]
    parts += [_text(x(mark), bottom + 15, f"{mark:g}", "tick", "middle") for mark in x_marks]
    parts.append(_text(right, bottom + 28, x_label, "tick", "end"))
    for number, line in enumerate(lines):
        look = f"c{number % _COLOURS}"
        if line.dots or len(line.points) == 1:
            parts += [
                f'<circle class="{look}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3.5"/>' for a, b in line.points
            ]
        else:
            path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line.points)
            parts.append(f'<polyline class="line {look}" points="{path}"/>')
    return _svg([*parts, *legend], height, f"{title} of {', '.join(line.label for line in lines)}")


def _legend(lines: Sequence[Line], y: float) -> tuple[list[str], int]:
    parts, x, rows = [], 0.0, 1
    for number, line in enumerate(lines):
        width = 26 + _CHARACTER * len(_short(line.label))
        if x > 0 and x + width > _WIDTH:
            x, rows = 0.0, rows + 1
        place = y + 18 * (rows - 1)
        parts.append(f'<circle class="c{number % _COLOURS}" cx="{x + 5:.1f}" cy="{place - 4:.1f}" r="4.5"/>')
        parts.append(_text(x + 14, place, _short(line.label), "label"))
        x += width
    return parts, rows


def _low(row: Dot) -> float:
    return row.mean if row.low is None else row.low


def _high(row: Dot) -> float:
    return row.mean if row.high is None else row.high


def _short(label: str) -> str:
    return label if len(label) <= 22 else label[:21] + "…"


def _text(x: float, y: float, words: str, look: str, anchor: str = "start") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    return f'<line class="{look}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _svg(parts: Sequence[str], height: float, description: str) -> Markup:
    head = f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{escape(description)}">'
    return Markup(head + "".join(parts) + "</svg>")
