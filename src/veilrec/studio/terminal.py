"""Tables for a person at a terminal. What a user named goes through ``Text``: no markup is read from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from veilrec.attacks import AttributeAttack


def show_evaluation(console: Console, name: str, judged: Mapping[str, Any]) -> None:
    """The metrics of one model: a row per metric, a column per list length."""
    from veilrec.experiments import metric_parts  # here: it waits for torch

    metrics = {metric_parts(key): found for key, found in judged["metrics"].items()}
    lengths = sorted({length for _, length, _ in metrics if length})
    words = list(dict.fromkeys(word for word, length, _ in metrics if length))
    mark = next(iter(metrics))[2]
    about = f"{name}: {judged['protocol']} ranking of the {judged['part']} part, {judged['users']:,} users"
    _title(console, about)
    table = _table()
    table.add_column("metric")
    for length in lengths:
        table.add_column(f"@{length}", justify="right")
    for word in words:
        cells = [_cell(metrics.get((word, length, mark)), "interval") for length in lengths]
        table.add_row(word + mark, *cells)
    for (word, length, _), found in metrics.items():
        if not length:
            table.add_row(word, _cell(found, "interval"))
    console.print(table)
    console.print(Text("mean ± half of the 95 % interval over users", style="dim"))


def show_runs(console: Console, records: Iterable[Mapping[str, Any]]) -> None:
    """Several runs judged alike, a row each."""
    from veilrec.experiments import leading_metrics  # here: it waits for torch

    records = list(records)
    names = leading_metrics(records[0]["evaluation"]["metrics"], _room(console))
    best = {n: max(record["evaluation"]["metrics"][n]["mean"] for record in records) for n in names}
    table = _models_table(names)
    for record in records:
        cells = []
        for name in names:
            cell = _cell(found := record["evaluation"]["metrics"][name], "interval")
            cell.stylize("bold") if found["mean"] == best[name] else None
            cells.append(cell)
        protection = record["guarantee"]["protection"]
        table.add_row(Text(record["name"]), *cells, f"{record['seconds']['fit']:.1f} s", Text(protection))
    console.print(table)
    console.print(
        Text("mean ± half of the 95 % interval over users; the best of each column is bold", style="dim")
    )


def show_attacks(console: Console, attacks: Mapping[str, AttributeAttack], target: str) -> None:
    """The network attacker on several models: what it gets from list and history, and what the list adds."""
    table = _table()
    for name in ("model", "list alone", "history", "history and list", "the list adds"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for word, attack in attacks.items():
        seen = [attack.outcome(target, "network", sees).mean("auc") for sees in ("list", "history", "both")]
        leak = attack.leak(target, "network", "both")
        gain = f"{leak.mean:+.3f} ({leak.low:+.3f} to {leak.high:+.3f})"
        table.add_row(Text(word), *(f"{value:.3f}" for value in seen), gain)
    console.print(table)
    words = "the history is the attacker's own knowledge: only what the list adds is the model's doing"
    console.print(Text(words, style="dim"))


def show_comparison(console: Console, record: Mapping[str, Any]) -> None:
    """A comparison: under each mean the interval over seeds, and the test against the reference."""
    from veilrec.experiments import leading_metrics  # here: it waits for torch

    rows = record["models"]
    names = leading_metrics(rows[0]["metrics"], _room(console))
    seeds = len(record["seeds"])
    _title(console, f"{record['data']['name']}, {len(rows)} models, {seeds} seed{'s' if seeds > 1 else ''}")
    table = _models_table(names)
    for row in rows:
        cells = []
        for name in names:
            found = row["metrics"][name]
            cell = _cell(found, "users")
            if found["mean"] == max(other["metrics"][name]["mean"] for other in rows):
                cell.stylize("bold")
            if found["seeds"] is not None:
                cell.append(
                    f"\nseeds ± {(found['seeds'][1] - found['seeds'][0]) / 2:.4f}", style="dim not bold"
                )
            cell.append("\n" + _test(found["test"]), style="dim not bold")
            cells.append(cell)
        table.add_row(Text(row["label"]), *cells, f"{row['seconds']:.1f} s", Text(row["protection"]))
    console.print(table)
    console.print(Text(record["note"], style="dim"))


def show_tuning(console: Console, record: Mapping[str, Any], config: str) -> None:
    """The best settings of a search."""
    best = record["best"]
    _title(console, f"{record['model']} on {record['data']['name']}: best of {len(record['trials'])} trials")
    table = _table()
    table.add_column("setting")
    table.add_column("value", justify="right")
    for key, value in best["settings"].items():
        table.add_row(key, f"{value:.6g}" if isinstance(value, float) else Text(str(value)))
    table.add_row(f"{record['metric']} (validation)", Text(f"{best['value']:.4f}", style="bold"))
    console.print(table)
    console.print(Text(record["note"], style="yellow"))
    console.print(Text(f"Fit with them: veilrec fit --config {config}"))


def show_lists(
    console: Console, rows: Iterable[Mapping[str, Any]], histories: Mapping[str, list[str]]
) -> None:
    """Recommendations, a table per user, with a glimpse of what the user has interacted with."""
    lists: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        lists.setdefault(str(row["user"]), []).append(row)
    for user, entries in lists.items():
        seen = histories.get(user, [])
        more = f" and {len(seen) - 6:,} more" if len(seen) > 6 else ""
        who = f", who has interacted with {', '.join(seen[:6])}{more}" if seen else ""
        _title(console, f"for {user}{who}")
        table = _table()
        for column in ("rank", "item", "score"):
            table.add_column(column, justify="left" if column == "item" else "right")
        for entry in entries:
            table.add_row(str(entry["rank"]), Text(str(entry["item"])), f"{entry['score']:.4g}")
        console.print(table)


def show_table(console: Console, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Plain rows under a heading."""
    table = _table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)


def show_reproduced(console: Console, record: Mapping[str, Any], page: object) -> None:
    """As many columns of a reproduced table as fit: ours, and the paper's in brackets; where the rest is."""
    heads = record["columns"]
    fit = max(1, min(len(heads), (console.width - 16) // 16))
    _title(console, f"{record['table']}: {record['title']}; in brackets the paper's figure")
    rows = [(row["label"], *(_beside(one) for one in row["figures"][:fit])) for row in record["rows"]]
    show_table(console, ("", *heads[:fit]), rows)
    verdicts = Counter(one["verdict"] for one in record.get("orderings", []))
    if verdicts:
        words = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        console.print(f"orderings of the paper: {words}")
    console.print(f"{len(heads)} columns, spread and statements: {page}", soft_wrap=True)


def _beside(figure: Mapping[str, Any]) -> str:
    if figure["mean"] is None:
        return "-"
    return f"{figure['mean']:.3f}" + ("" if figure["paper"] is None else f" ({figure['paper']:.3f})")


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def _models_table(metrics: Iterable[str]) -> Table:
    """Head of a table with a row per model: its name, metrics, seconds and protection."""
    table = _table()
    table.add_column("model")
    for name in metrics:
        table.add_column(name, justify="right")
    table.add_column("fit", justify="right")
    table.add_column("protection")
    return table


def _title(console: Console, text: str) -> None:
    """A line of its own: the title of a rich table wraps at the table's width."""
    console.print(Text(text, style="italic"), soft_wrap=True)


def _room(console: Console) -> int:
    """How many metrics fit beside the name, the seconds and the protection."""
    return max(1, min(4, (console.width - 36) // 18))


def _cell(found: Mapping[str, Any] | None, interval: str) -> Text:
    if found is None:
        return Text("")
    if interval not in found:
        return Text(f"{found['mean']:.4f}" if math.isfinite(found["mean"]) else "-")
    low, high = found[interval]
    return Text.assemble(f"{found['mean']:.4f}", (f" ± {(high - low) / 2:.4f}", "dim"))


def _test(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return "reference"
    effect = "" if test["effect"] is None else f", d {test['effect']:+.2f}"
    p = "p < 0.001" if test["p"] < 0.001 else f"p {test['p']:.3f}"
    return p + effect
