"""The largest sizes are taken, and what is larger is refused in one sentence, before work or spending."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.data import Dataset, Ids
from veilrec.privacy import Ledger
from veilrec.systems import SYSTEMS
from veilrec.training import DataGuard, Recommender

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "largest.py"
SCRIPTS = runpy.run_path(str(SCRIPT), run_name="largest")
WORDS = {
    "items": r"must have at most {most} items for {word}, got {got}: a .*(Raise|raise) max_items",
    "pairs": r"must have at most {most} pairs of a user drawn and an item for {word}, .*Lower sampling_rate",
    "added edges": r"must have at most {most} reported edges that noise adds for {word}, .*larger epsilon",
    "numbers": r"must have at most {most} numbers in the messages of a round for {word}, got .*sums='plain'",
}


def people(users: int, items: int) -> Dataset:
    """So many users with an item each, of so many items; an id costs little."""
    names = [Ids(pl.int_range(0, n, eager=True).cast(pl.String)) for n in (users, items)]
    codes = np.arange(users)
    return Dataset.from_codes(codes, codes % items, *names, name="wide")


LIMITED = [
    pytest.param(word, case, id=f"{word}: {case.limit}")
    for word, several in SCRIPTS["limited"]().items()
    for case in several
    if case.limit and word != "pf-gnr"  # which thins its report out
]


@pytest.mark.parametrize(("word", "case"), LIMITED)
def test_beyond_the_limit_comes_the_sentence(
    word: str, case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, items, _ = case.size
    case.model(word)._check_data(people(users, items))  # the largest is taken
    most, what = case.limit.split(" ", 1)
    of_users = what == "added edges"
    beyond = people(users + of_users, items + (not of_users))
    words = WORDS[what].format(most=most, word=word, got=f"{items + 1:,}")
    refused(case.model(word), beyond, words, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "model",
    [
        vr.PFGNR(thinning=1.0),
        vr.PFGNRPaper(epsilon=0.05),
        vr.PFGNRPaper(epsilon=0.05, ablation="LDP"),
        SYSTEMS["dprr"](epsilon=0.05),
    ],
    ids=lambda model: f"{model.word} {model.epsilon}",
)
def test_reports_that_are_nearly_all_noise_are_refused(
    model: Recommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = WORDS["added edges"].format(most="10,000,000", word=model.word)
    refused(model, people(200_000, 50_000), words, tmp_path, monkeypatch)


def test_what_reads_no_report_or_thins_it_out_takes_more_users() -> None:
    vr.PFGNR()._check_data(people(400_000, 50_000))
    vr.PFGNRPaper(epsilon=0.05, ablation="GNR")._check_data(people(200_000, 50_000))
    vr.PFGNRPaper(sums="plain")._check_data(people(10_000, 50_000))
    vr.PFGNRSums(sums="plain", epochs=1)._check_data(people(10_000, 50_000))


@pytest.mark.parametrize("sums", ["paillier", "shared", "masked"])
@pytest.mark.parametrize("system", [vr.PFGNRPaper, vr.PFGNRSums])
def test_rounds_between_parties_have_a_limit_for_every_sum(
    system: type[Recommender], sums: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = WORDS["numbers"].format(most="67,108,864", word=system.word)
    refused(system(sums=sums), people(10_000, 50_000), words, tmp_path, monkeypatch)  # type: ignore[call-arg]


def refused(
    model: Recommender, data: Dataset, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit ends in these words: nothing was looked at, begun or booked."""

    def reached(*given: object, **named: object) -> None:
        pytest.fail("the fit had begun")

    monkeypatch.setattr(type(model), "_fit", reached)
    monkeypatch.setattr(DataGuard, "take", reached)
    ledger = Ledger(folder / "budget.sqlite")
    with pytest.raises(DataError, match=words):
        model.fit(data, progress=False, ledger=ledger, population="shop")
    with pytest.raises(ValueError, match="Known are: none yet"):
        ledger.history("shop")
