"""One self-contained page of runs, comparisons and tunings: no script, no request, no other file.

Runs stand in one table only if they were judged alike: same data, same split, same protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from veilrec.core import DataError, write_text
from veilrec.experiments import NULL_MODEL, find_records, leading_metrics, read_record
from veilrec.studio.charts import Dot, Line, dot_chart, line_chart
from veilrec.studio.leaks import leak_charts, leaks
from veilrec.systems import load_model

_COLUMNS, _CHARTS = 6, 3


@dataclass(frozen=True)
class Group:
    """Runs that may be compared with each other, and how they were judged."""

    data: dict[str, Any]
    split: dict[str, Any]
    protocol: str
    users: int
    runs: list[dict[str, Any]]
    metrics: list[str]
    best: dict[str, float]
    charts: list[Markup]
    curves: Markup | None


def write_report(folders: Iterable[str | Path], out: str | Path, *, title: str = "veilrec report") -> Path:
    """Collect the records below ``folders`` and write the page; returns its path.

    >>> write_report(["no such folder"], "page.html")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: no such folder: runs must be a folder, got none. Check the path.
    """
    folders = [Path(folder) for folder in folders]
    records, skipped = [], []
    for path in dict.fromkeys(path for folder in folders for path in find_records(folder)):
        for file in (path, *sorted(path.parent.glob("attack*.json"))):
            try:
                record = read_record(file)
                if record["kind"] == "run" and file.name == "record.json":
                    record["signature"] = signature(file.parent, record)
                records.append(record)
            except DataError as error:
                skipped.append(f"{file.parent.name}: {error.args[0].removeprefix(f'{file}: ')}")
    if not records:
        where = ", ".join(str(folder) for folder in folders)
        raise DataError("the folder must hold a run, got none. Run `veilrec fit` first.", file=where)
    write_text(out, render(records, title=title, skipped=skipped))
    return Path(out)


def render(records: list[dict[str, Any]], *, title: str, skipped: list[str] | None = None) -> str:
    """The page as text."""
    import jinja2

    from veilrec import __version__

    loader = jinja2.PackageLoader("veilrec.studio", "templates")
    pages = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    runs = [record for record in records if record["kind"] == "run"]
    comparisons = [record for record in records if record["kind"] == "comparison"]
    attacked = [row for record in records if record["kind"] == "attack" for row in leaks(record)]
    records = [record for record in records if record["kind"] != "attack"]
    return pages.get_template("report.html.j2").render(
        title=title,
        version=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        groups=group_runs(runs),
        comparisons=[{**record, "charts": comparison_charts(record)} for record in comparisons],
        tunings=[{**r, "chart": tuning_chart(r)} for r in records if r["kind"] == "tuning"],
        leaks=attacked,
        leak_charts=leak_charts(attacked),
        statements=statements(records),
        signatures=[(run["name"], run["signature"]) for run in runs if "signature" in run],
        environments=_distinct(record["environment"] for record in records),
        records=records,
        skipped=skipped or [],
        columns=lambda metrics: leading_metrics(metrics, _COLUMNS),
        plain=lambda value: f"{value:.6g}" if isinstance(value, float) else value,
    )


def signature(folder: Path, record: dict[str, Any]) -> str:
    """Who signed the model of a run, in words; broken, where model and record do not go together.

    >>> signature(Path("no such folder"), {})
    'none'
    """
    if not (folder / "signature.json").exists():
        return "none"
    try:
        model = load_model(folder)
    except DataError:
        return "broken: the model was changed since"
    if str(model.guarantee) != record["statement"]:
        return f"good, by {model.signed_by}; but this record has another statement than the model"
    return f"good, by {model.signed_by}"


def group_runs(runs: list[dict[str, Any]]) -> list[Group]:
    """The runs by what makes them comparable, each group sorted by its first metric, best first."""
    keyed: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        judged = run["evaluation"]
        names = tuple(leading_metrics(judged["metrics"], most=len(judged["metrics"])))
        prints = run["data"]["fingerprint"], run["split"]["fingerprint"]
        keyed.setdefault((*prints, judged["protocol"], judged["part"], names), []).append(run)
    return [_group(members, list(names)) for (*_, names), members in keyed.items()]


def _group(runs: list[dict[str, Any]], names: list[str]) -> Group:
    runs = sorted(runs, key=lambda run: -run["evaluation"]["metrics"][names[0]]["mean"])
    curves = _curves(runs)
    drawn = names[: _CHARTS - (curves is not None)] if len(runs) > 1 else []  # one dot tells nothing
    judged = runs[0]["evaluation"]
    return Group(
        data=runs[0]["data"],
        split=runs[0]["split"],
        protocol=judged["protocol"],
        users=judged["users"],
        runs=runs,
        metrics=names[:_COLUMNS],
        best={name: max(run["evaluation"]["metrics"][name]["mean"] for run in runs) for name in names},
        charts=[dot_chart(name, [_run_dot(run, name) for run in runs]) for name in drawn],
        curves=curves,
    )


def comparison_charts(record: dict[str, Any]) -> list[Markup]:
    """One dot chart per leading metric; intervals over users."""
    names = leading_metrics(record["models"][0]["metrics"], _CHARTS)
    return [
        dot_chart(
            name,
            [
                _dot(row["label"], row["model"], found["mean"], found["users"])
                for row in record["models"]
                if (found := row["metrics"].get(name))
            ],
        )
        for name in names
    ]


def tuning_chart(record: dict[str, Any]) -> Markup | None:
    """The value of each trial and the best so far."""
    values = [
        (trial["number"] + 1, trial["value"]) for trial in record["trials"] if trial["value"] is not None
    ]
    if not values:
        return None
    pick = min if record["metric"] in ("mae", "rmse") else max
    best = [
        (number, pick(value for _, value in values[: place + 1])) for place, (number, _) in enumerate(values)
    ]
    lines = [Line("best so far", best), Line("trial", values, dots=True)]
    return line_chart(f"{record['metric']} on the validation part", lines, "trial")


def statements(records: list[dict[str, Any]]) -> list[str]:
    """Each different privacy statement once."""
    found = [record["statement"] for record in records if "statement" in record]
    found += [
        row["statement"] for record in records if record["kind"] == "comparison" for row in record["models"]
    ]
    return _distinct(found)


def _distinct(values: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def _run_dot(run: dict[str, Any], metric: str) -> Dot:
    found = run["evaluation"]["metrics"][metric]
    return _dot(run["name"], run["model"], found["mean"], found["interval"])


def _dot(label: str, model: str, mean: float, interval: Sequence[float]) -> Dot:
    low, high = interval
    return Dot(label, mean, low, high, quiet=model == NULL_MODEL)


def _curves(runs: list[dict[str, Any]]) -> Markup | None:
    lines = []
    for run in runs:
        points = [(entry["epoch"], entry["valid"]) for entry in run.get("curve", []) if "valid" in entry]
        if points:
            lines.append(Line(run["name"], points))
    return line_chart("validation while fitting", lines, "epoch") if lines else None
