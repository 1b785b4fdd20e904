"""The command line: a thin table from words to calls.

Nothing heavy is imported here, so that ``veilrec --help`` answers at once. Results go to standard output
(with ``--json`` nothing but JSON), everything else to standard error.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from veilrec.studio.commands import attack, audit, budget, data, keys, search, work
from veilrec.studio.commands import reproduce as reproductions
from veilrec.studio.commands.base import Group, examples

_LOOK: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
}

app = typer.Typer(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("veilrec demo", "veilrec fit ease --data ml-100k", "veilrec report runs -o report.html"),
    **_LOOK,
)
data_app = typer.Typer(help="Data sets: what is there, what is in it, fetch, import your own.", **_LOOK)
audit_app = typer.Typer(help="Audits: the epsilon that releases prove, beside the one claimed.", **_LOOK)
keys_app = typer.Typer(help="Keys that sign models.", **_LOOK)
budget_app = typer.Typer(help="Privacy budgets: limits, what all runs have spent, what is left.", **_LOOK)


def _version(wanted: bool) -> None:
    if wanted:
        from veilrec import __version__

        typer.echo(f"veilrec {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of every error.")] = False,
) -> None:
    """Recommenders that keep their users' secrets, say which, from whom and at what price."""


app.command(epilog=examples("veilrec demo", "veilrec demo --out look"))(work.demo)
app.add_typer(data_app, name="data")
app.command(epilog=examples("veilrec models", "veilrec models --json"))(work.models)
app.command(
    epilog=examples(
        "veilrec fit ease --data ml-100k --out runs/ease",
        "veilrec fit lightgcn --data events.csv --set epochs=30 --set split.test=0.2",
        "veilrec fit --config best.yaml --seed 1",
        "veilrec fit dp-gram --data ml-100k --sign shop.key",
    )
)(work.fit)
app.command(
    epilog=examples(
        "veilrec recommend runs/ease --user u17 -k 10",
        "veilrec recommend runs/ease --history i3,i9 --json",
        "veilrec recommend runs/ease --all --csv lists.csv",
    )
)(work.recommend)
app.command(
    epilog=examples(
        "veilrec evaluate runs/ease",
        "veilrec evaluate runs/ease --protocol one-positive --k 10 --json",
    )
)(work.evaluate)
app.command(
    epilog=examples(
        "veilrec compare ease bpr lightgcn --data ml-100k --seeds 5",
        "veilrec compare --config table.yaml --out runs/table",
        "veilrec compare ease lightgcn --set lightgcn.layers=2 --reference best",
    )
)(search.compare)
app.command(
    epilog=examples(
        "veilrec tune lightgcn --data ml-100k --trials 30 --out runs/tune-lightgcn",
        "veilrec fit --config runs/tune-lightgcn/best.yaml",
    )
)(search.tune)
app.command(
    epilog=examples(
        "veilrec report runs -o report.html",
        "veilrec report runs/ease runs/bpr -o two.html",
    )
)(work.report)

app.command(
    epilog=examples(
        "veilrec attack runs/ease --target gender --input list,both",
        "veilrec attack runs/ease --attackers network,tree --bins age=35,46 -k 5,10 --json",
        "veilrec attack theirs.veil --data ml-100k --out attack.json",
        "veilrec attack runs/ease --kind links --adversary X,S --plot curves.png",
    )
)(attack.attack)

app.command(
    epilog=examples(
        "veilrec reproduce gerai-table3 --seeds 1",
        "veilrec reproduce gerai-table2 --rows 'BPR;GCN;GERAI' --out runs/gerai",
    )
)(reproductions.reproduce)

data_app.command("list", epilog=examples("veilrec data list", "veilrec data list --data-dir sets"))(
    data.list_sets
)
data_app.command(epilog=examples("veilrec data info ml-100k", "veilrec data info events.csv --json"))(
    data.info
)
data_app.command(epilog=examples("veilrec data get ml-100k", "veilrec data get ml-1m --data-dir sets"))(
    data.get
)
data_app.command(
    "import",
    epilog=examples(
        "veilrec data import events.csv.gz --user uid --item sku --rating stars --name shop",
        "veilrec data import plays.parquet --users people.csv --links friends.csv --rating-range 1,5",
        "veilrec data import events.csv --users people.csv --categories sex=F,M --attribute-range age=18,99",
    ),
)(data.import_table)

app.add_typer(keys_app, name="keys")
keys_app.command(epilog=examples("veilrec keys new shop", "veilrec keys new ~/keys/shop --json"))(keys.new)
keys_app.callback()(keys.group)
app.command(
    epilog=examples("veilrec verify runs/dp-gram --key shop.pub", "veilrec verify theirs.veil --json")
)(keys.verify)

app.add_typer(audit_app, name="audit")
audit_app.command(
    epilog=examples(
        "veilrec audit mechanism laplace --epsilon 1 -o laplace.png",
        "veilrec audit mechanism all --epsilon 2 --json",
    )
)(audit.mechanism)
audit_app.command(epilog=examples("veilrec audit mutant half-noise", "veilrec audit mutant all --epsilon 1"))(
    audit.mutant
)

app.add_typer(budget_app, name="budget")
budget_app.command(
    "set",
    epilog=examples(
        "veilrec budget set ml-100k --epsilon 8 --delta 1e-5",
        "veilrec budget set shop --epsilon 2.5 --delta 0 --unit attribute",
    ),
)(budget.set_limit)
budget_app.command(epilog=examples("veilrec budget show", "veilrec budget show ml-100k --json"))(budget.show)
budget_app.command(epilog=examples("veilrec budget history", "veilrec budget history ml-100k --json"))(
    budget.history
)


def main() -> None:
    """The entry point of the command ``veilrec``."""
    app()


if __name__ == "__main__":
    main()
