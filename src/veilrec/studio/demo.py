"""`veilrec demo`: fit, judge, recommend and report on embedded data, as a user would do with their own."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from veilrec.attacks import AttributeAttack, attribute_attack
from veilrec.core import write_json
from veilrec.experiments import (
    DataSpec,
    Experiment,
    SplitSpec,
    attack_record,
    fit_run,
    open_run,
    read_record,
)
from veilrec.privacy import Ledger
from veilrec.studio.lists import lists
from veilrec.studio.report import write_report
from veilrec.studio.terminal import show_attacks, show_lists, show_runs
from veilrec.systems import SYSTEMS

if TYPE_CHECKING:
    from rich.console import Console

# Chosen by validation, with five starts: GCN stays at the popularity of items for 16 to 24 passes, where the
# default patience may stop it; with a penalty it stays for up to 32, at a rate of 0.01 sometimes for ever.
_SMALL = {
    "embedding_size": 32,
    "epochs": 48,
    "batch_size": 1024,
    "weight_decay": 0.0,
    "patience": 12,
    "validate_every": 4,
}
DATA, SPLIT, SEED = DataSpec("synthetic"), SplitSpec("holdout", test=0.1, valid=0.1), 1
MODELS: dict[str, dict[str, Any]] = {
    "popularity": {},
    "ease": {},
    "lightgcn": {"embedding_size": 32, "layers": 2},
    "gcn": _SMALL,
    "gerai-paper": _SMALL,
    "gerai": _SMALL,
}
ATTACKED = ("gcn", "gerai-paper", "gerai")
"""The same network without privacy, as published, and certified: what does an attacker gain from each?"""
SHOWN, USER, TARGET = "gerai", "u17", "gender"
"""Whose list is shown, and to whom: fixed beforehand, not picked by the test part."""


def run_demo(out: str | Path, *, console: Console | None, ledger: Ledger | None = None) -> dict[str, Any]:
    """Run the demo into ``out``; returns what it found, and prints it if there is a ``console``.

    What its private models draw is booked in ``ledger``, else in the user's own, under the name of the
    made-up data: no budget of real people is touched.
    """
    folder, ledger = Path(out), ledger or Ledger()

    def say(text: str, style: str = "") -> None:
        if console is not None:
            console.print(Text(text, style=style), soft_wrap=True)

    records, booked = [], False
    for word, settings in MODELS.items():
        spec = Experiment(model=word, settings=settings, data=DATA, split=SPLIT, seed=SEED)
        say(f"fitting {word} ...", "dim")
        private = SYSTEMS[word].is_private()
        fit_run(
            spec,
            folder / word,
            overwrite=True,
            progress=console is not None,
            command="veilrec demo",
            ledger=ledger if private else None,
        )
        booked |= private
        records.append(read_record(folder / word))
    data, split = records[0]["data"], records[0]["split"]["sizes"]
    attacks = {word: _attacked(folder / word) for word in ATTACKED if word in MODELS}
    page = write_report([folder], folder / "report.html", title="veilrec demo")
    found = lists(open_run(folder / SHOWN).model, users=[USER], k=5)
    result: dict[str, Any] = {"records": records, "user": USER, "page": str(page)}
    result["list"] = found.frame.to_dicts()
    result["attacks"] = {word: attack.to_dict() for word, attack in attacks.items()}
    if console is None:
        return result
    say(
        f"\nMade-up data: {data['interactions']:,} interactions of {data['users']:,} users with "
        f"{data['items']:,} items; {split['train']:,} to learn from, {split['test']:,} held out.\n"
    )
    show_runs(console, records)
    if attacks:
        say(f"\nWhat an attacker learns of {TARGET} who knows it of 80 % of the users (AUC; 0.5: nothing)")
        show_attacks(console, attacks, TARGET)
    say(f"\nWhat {SHOWN} recommends")
    show_lists(console, found.frame.to_dicts(), found.histories)
    say(f"\n{next(record['statement'] for record in records if record['name'] == SHOWN)}\n")
    say(f"The page: {page}\n")
    if booked:
        say(f"What the private ones drew is booked: veilrec budget show {data['name']}\n")
    say("Next:")
    place = shlex.quote(str(folder / SHOWN))
    say(f"  veilrec recommend {place} --history i3,i9 -k 5    # a user it has never seen")
    say("  veilrec data import events.csv --name shop        # your own table")
    say("  veilrec compare ease lightgcn --data shop --seeds 3")
    say(f"  veilrec attack {place} --target {TARGET}           # all attackers")
    say("  veilrec audit mechanism unary --epsilon 1          # is the noise what it claims to be?")
    return result


def _attacked(folder: Path) -> AttributeAttack:
    run, began = open_run(folder), time.perf_counter()
    data, split = run.parts()
    found = attribute_attack(
        run.model, split, TARGET, attackers="network", inputs=("both", "list"), repeats=3
    )
    record = attack_record(
        found.to_dict(),
        folder.name,
        protection=run.model.guarantee.to_dict()["protection"],
        data_fingerprint=data.fingerprint,
        split_fingerprint=split.fingerprint,
        seconds=time.perf_counter() - began,
        command="veilrec demo",
    )
    write_json(folder / "attack.json", record)
    return found
