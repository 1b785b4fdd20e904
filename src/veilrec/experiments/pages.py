"""A reproduced table as a page: ours, the paper's figure and the difference in every place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veilrec.core import atomic_path, require, write_text

_PANELS = 3
_ALONE = " on the history"
_COLOURS = ("#d98b3a", "#5f9e6e", "#9096a8")


def table_page(record: Mapping[str, Any]) -> str:
    """The record of a table in Markdown.

    >>> row = {"label": "BPR", "figures": [{"mean": 0.5, "sd": 0.01, "paper": 0.4, "gap": 0.1}]}
    >>> about = {"table": "t", "title": "T", "note": "", "command": "c", "seeds": {"d": 2}}
    >>> record = {**about, "columns": ["hit@5"]}
    >>> print(table_page({**record, "rows": [row], "statements": {"BPR": "none"}}).splitlines()[7])
    | BPR | 0.500 ± 0.010 (0.400, +0.100) |
    """
    counts = {name: f"{n} seeds" if n > 1 else "one seed" for name, n in record["seeds"].items()}
    spread = ", ".join(f"{name} ({count})" for name, count in counts.items())
    lines = [
        f"# {record['table']}: {record['title']}",
        "",
        f"{spread}: mean ± standard deviation over seeds; in brackets the paper's figure and ours minus it.",
        f"{record['note']} Made by `{record['command']}`.".strip(),
        "",
        f"| | {' | '.join(record['columns'])} |",
        "|---" * (len(record["columns"]) + 1) + "|",
    ]
    lines += [f"| {row['label']} | {' | '.join(map(_place, row['figures']))} |" for row in record["rows"]]
    if record.get("orderings"):
        lines += ["", "Which orderings of the paper hold (paired t-test over seeds, p < 0.05):", ""]
        subject = record["subject"]
        lines += [f"| | {subject} against | the paper's difference | ours | verdict |", "|---" * 5 + "|"]
        lines += [
            f"| {o['what']} | {o['against']} | {o['paper']:+.3f} | {o['ours']:+.3f} | {o['verdict']} |"
            for o in record["orderings"]
        ]
    lines += ["", "| | what is kept, from whom |", "|---|---|"]
    lines += [f"| {label} | {words} |" for label, words in record["statements"].items()]
    return "\n".join(lines) + "\n"


def write_table(record: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """The page and the plot of a record, beside each other; returns what was written.

    >>> import tempfile
    >>> row = {"label": "BPR", "figures": [{"mean": 0.5, "sd": None, "paper": 0.4, "gap": 0.1}]}
    >>> about = {"table": "t", "title": "T", "note": "", "command": "c", "seeds": {"d": 1}}
    >>> record = {**about, "columns": ["hit@5"]}
    >>> [path.name for path in write_table({**record, "rows": [row], "statements": {}}, tempfile.mkdtemp())]
    ['t.md', 't.png']
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    page = place / f"{record['table']}.md"
    write_text(page, table_page(record))
    draw = plot_sweep if record.get("sweep") else plot_table
    return [page, draw(record, place / f"{record['table']}.png")]


def plot_table(record: Mapping[str, Any], path: str | Path) -> Path:
    """Ours as dots, the paper's as crosses; one panel per group of columns (what stands before the comma),
    a colour for each of its columns. Attackers who need no model are lines: they are the same for every row.

    >>> plot_table({"rows": [], "columns": [], "title": "nothing"}, "a.png")
    Traceback (most recent call last):
        ...
    ValueError: the record has no rows to draw.
    """
    if not record["rows"]:
        raise ValueError("the record has no rows to draw.")
    figures = require("matplotlib.figure", extra="plots", purpose="the plot of a table")
    groups: dict[str, list[int]] = {}
    for place, head in enumerate(record["columns"]):
        groups.setdefault(_group(head), []).append(place)
    wide = 2 if len(groups) == 4 else min(len(groups), _PANELS)
    high = -(-len(groups) // wide)
    size = (4.2 * wide, high * max(2.2, 1.0 + 0.34 * len(record["rows"])))
    figure = figures.Figure(figsize=size, dpi=140, layout="constrained")
    panels = figure.subplots(high, wide, squeeze=False, sharey=True).ravel()
    for panel in panels[len(groups) :]:
        panel.set_visible(False)
    for panel, places in zip(panels, groups.values()):
        _table_panel(panel, record, places)
    labels = [row["label"] for row in reversed(record["rows"])]
    panels[0].set_yticks(range(len(labels)), labels, fontsize=7)
    printed = any(figure["paper"] is not None for row in record["rows"] for figure in row["figures"])
    marks = "ours (dots), the paper (crosses)" if printed else "ours; the paper prints no figures"
    figure.suptitle(f"{record['title']}: {marks}", fontsize=10)
    with atomic_path(Path(path)) as temporary:
        figure.savefig(temporary, format="png")
    return Path(path)


def _table_panel(panel: Any, record: Mapping[str, Any], places: list[int]) -> None:
    heads, rows = record["columns"], record["rows"][::-1]
    drawn = [place for place in places if not _is_null(heads[place])]
    colours = dict(zip(map(_part, (heads[place] for place in drawn)), _shades(len(drawn))))
    for place in drawn:
        colour = colours[_part(heads[place])]
        theirs = colour if len(drawn) > 1 else _COLOURS[0]
        for shown, mark, lift, hue in (("mean", "o", 0.12, colour), ("paper", "x", -0.12, theirs)):
            values = [(row["figures"][place][shown], height + lift) for height, row in enumerate(rows)]
            known = [pair for pair in values if pair[0] is not None]
            label = _part(heads[place]) if shown == "mean" else None
            if known:
                panel.plot(*zip(*known), mark, color=hue, markersize=3.5, label=label)
    for place in (place for place in places if place not in drawn):
        at, words = rows[0]["figures"][place]["mean"], _part(heads[place])
        if (colour := colours.get(words.removesuffix(_ALONE))) is not None:
            panel.axvline(at, color=colour, linewidth=1.2, ls=":", label=words)
            continue
        panel.axvline(at, color="#9096a8", linewidth=0.8)
        inside = {"transform": panel.get_xaxis_transform(), "va": "top", "ha": "right"}
        panel.text(at, 0.99, words, fontsize=6, rotation=90, **inside)
    panel.set_title(heads[drawn[0]] if len(drawn) == 1 else _group(heads[places[0]]), fontsize=9)
    names = panel.get_legend_handles_labels()[1]
    if len(drawn) > 1 and names:
        many = 2 if max(map(len, names)) > 12 else len(names)
        low = -0.22 / (0.34 * len(rows))  # under the numbers of the axis, however high the panel is
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, low), "ncol": many}
        panel.legend(**below, fontsize=6, frameon=False, handletextpad=0.3, columnspacing=1.0)
    panel.tick_params(labelsize=7)
    panel.grid(axis="x", color="#e4e6ee")
    panel.spines[["top", "right"]].set_visible(False)


def plot_sweep(record: Mapping[str, Any], path: str | Path) -> Path:
    """A figure of sweeps: a panel for each setting and column, its points joined; other rows are lines, and
    so are attackers who need no model (dotted).

    >>> import tempfile
    >>> rows = [{"label": str(n), "figures": [{"mean": n / 9, "sd": None, "paper": None}]} for n in (1, 2)]
    >>> record = {"rows": rows, "columns": ["hit@5"], "title": "T", "sweep": {"size": {"1": "1", "2": "2"}}}
    >>> plot_sweep(record, Path(tempfile.mkdtemp()) / "a.png").name
    'a.png'
    """
    figures = require("matplotlib.figure", extra="plots", purpose="the plot of a figure")
    by_label = {row["label"]: row["figures"] for row in record["rows"]}
    swept = {label for points in record["sweep"].values() for label in points.values()}
    heads = record["columns"]
    drawn = [place for place, head in enumerate(heads) if not _is_null(head)]
    shape = (len(drawn), len(record["sweep"]))
    figure = figures.Figure(figsize=(3.2 * shape[1], 1.9 * shape[0]), dpi=140, layout="constrained")
    panels = figure.subplots(*shape, squeeze=False, sharey="row", sharex="col")
    for column, (name, points) in enumerate(record["sweep"].items()):
        for height, line in enumerate(drawn):
            panel, head = panels[height][column], heads[line]
            known = [(at, by_label[label][line]["mean"]) for at, label in points.items() if label in by_label]
            known = [(at, value) for at, value in known if value is not None]
            panel.plot([at for at, _ in known], [value for _, value in known], "o-", color="#4454d6", ms=4)
            for row, colour in zip((r for r in record["rows"] if r["label"] not in swept), _COLOURS):
                if (level := row["figures"][line]["mean"]) is not None:
                    panel.axhline(level, color=colour, linewidth=0.9, label=row["label"])
            for place in set(range(len(heads))) - set(drawn):
                if _group(heads[place]) == _group(head):
                    panel.axhline(record["rows"][0]["figures"][place]["mean"], color="#9096a8", ls=":")
            panel.grid(axis="y", color="#e4e6ee")
            panel.tick_params(labelsize=7)
            panel.spines[["top", "right"]].set_visible(False)
            if column == 0:
                panel.set_ylabel(head.replace(", ", "\n"), fontsize=7)
            if height == 0:
                panel.set_title(name, fontsize=9)
    if panels[0][0].get_legend_handles_labels()[0]:
        panels[0][-1].legend(fontsize=7, frameon=False)
    figure.suptitle(record["title"], fontsize=10)
    with atomic_path(Path(path)) as temporary:
        figure.savefig(temporary, format="png")
    return Path(path)


def _group(head: str) -> str:
    return head.split("@")[0].split(",")[0]


def _part(head: str) -> str:
    """What tells a column from the others of its group."""
    return f"@{head.split('@')[1]}" if "@" in head else head.split(", ")[-1]


def _shades(count: int) -> list[Any]:
    """One blue, or as many colours from light to dark."""
    if count == 1:
        return ["#4454d6"]
    ramp = require("matplotlib", extra="plots", purpose="the plot of a table").colormaps["plasma_r"]
    return [ramp(0.15 + 0.85 * place / (count - 1)) for place in range(count)]


def _is_null(head: str) -> bool:
    return head.endswith(("history", "majority class", "random guess", "no model"))


def _place(figure: Mapping[str, Any]) -> str:
    if figure["mean"] is None:
        return "-"
    ours = f"{figure['mean']:.3f}" + (f" ± {figure['sd']:.3f}" if figure["sd"] is not None else "")
    return ours if figure["paper"] is None else f"{ours} ({figure['paper']:.3f}, {figure['gap']:+.3f})"
