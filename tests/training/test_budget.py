"""Data that are booked get no fresh budget under another name, however they are read, cut or declared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import BudgetExhausted
from veilrec.data import filters
from veilrec.privacy import Ledger
from veilrec.systems import DPGram

AGAIN: dict[str, Callable[[Path], vr.Dataset]] = {
    "as it is": lambda file: vr.read(file),
    "no ratings": lambda file: vr.read(file, rating=False),
    "a range of ratings": lambda file: vr.read(file, rating_range=(0, 10)),
    "no times": lambda file: vr.read(file, time=False),
    "a row left out": lambda file: vr.read(file).take(np.arange(899)),
    "a person left out": lambda file: vr.read(file).without(vr.read(file).users.values[0]),
    "the training part": lambda file: vr.split.holdout(vr.read(file, time=False)).train,
    "a core": lambda file: filters.k_core(vr.read(file, rating=False), 2, 2),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    vr.synthetic(users=60, items=40, interactions=900, seed=1).frame().write_csv(tmp_path / "shop.csv")
    return tmp_path / "shop.csv"


@pytest.fixture
def ledger(tmp_path: Path, file: Path) -> Ledger:
    """A budget that one fit has used up."""
    found = Ledger(tmp_path / "budget.sqlite")
    found.set_limit("shop", epsilon=8.0, delta=1e-4)
    DPGram().fit(vr.read(file), ledger=found, progress=False)
    return found


@pytest.mark.parametrize("way", AGAIN)
def test_the_same_rows_get_no_fresh_budget(file: Path, ledger: Ledger, way: str) -> None:
    data = AGAIN[way](file)
    with pytest.raises(BudgetExhausted):
        DPGram().fit(data, ledger=ledger, population="shop", progress=False)
    with pytest.raises(ValueError, match=r"^population must be 'shop', got 'other'\. The same data are"):
        DPGram().fit(data, ledger=ledger, population="other", progress=False)
    assert [account.population for account in ledger.accounts()] == ["shop"]


def test_other_rows_and_who_says_so_get_one(file: Path, ledger: Ledger) -> None:
    """The control: a ledger that refused everybody would pass too."""
    DPGram().fit(vr.synthetic(60, 40, 900, seed=2), ledger=ledger, population="others", progress=False)
    about = {"ledger": ledger, "population": "other", "progress": False}
    DPGram().fit(vr.read(file), new_population=True, **about)
    assert [account.population for account in ledger.accounts()] == ["other", "others", "shop"]
