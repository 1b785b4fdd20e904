"""Booked once, drawn once: of the copies of a folder only the one that was at work last goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import veilrec as vr
from veilrec.privacy import Ledger, Reservation
from veilrec.privacy.mechanisms import Gaussian
from veilrec.systems import DPGram
from veilrec.training.job import Job

STALE = "reservation must be taken up where it was left last.*go on in that folder, or choose a new one"


class Stopped(BaseException):
    """What a kill leaves behind, without the kill."""


@pytest.fixture(scope="module")
def data() -> vr.Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


class Runs:
    """Fits of one model on the same data and ledger, in any folder; each can be stopped before a draw."""

    def __init__(self, data: vr.Dataset, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.place, self.patch = data, place, monkeypatch
        self.ledger = Ledger(place / "budget.sqlite")

    def fit(self, name: str, stop_before: int = 99, watch=lambda: None) -> np.ndarray | None:
        """The counts; None if the fit was stopped before that draw. ``watch`` is called before each."""
        real, drawn = Gaussian.release, 0

        def release(*given, **named):
            nonlocal drawn
            watch()
            drawn += 1
            if drawn == stop_before:
                raise Stopped
            return real(*given, **named)

        with self.patch.context() as patch:
            patch.setattr(Gaussian, "release", release)
            try:
                about = {"ledger": self.ledger, "population": "shop", "progress": False}
                model = DPGram().fit(self.data, checkpoint=self.place / name, **about)
            except Stopped:
                return None
        return model.shared["counts"]

    def copy(self, name: str, to: str) -> None:
        shutil.copytree(self.place / name, self.place / to)

    def drawn(self, name: str) -> list[str]:
        return sorted(file.name for file in (self.place / name).glob("released*"))

    @property
    def states(self) -> list[str]:
        return [spend.state for spend in self.ledger.history("shop")]


@pytest.fixture
def runs(data, tmp_path, monkeypatch) -> Runs:
    return Runs(data, tmp_path, monkeypatch)


def test_a_copy_of_a_stopped_run_does_not_draw_once_more(runs: Runs) -> None:
    runs.fit("one", stop_before=1)
    runs.copy("one", "two")
    runs.fit("one", stop_before=2)
    assert runs.drawn("one") == ["released-item-counts.safetensors"]
    for _ in range(2):  # however often it is tried
        with pytest.raises(ValueError, match=STALE):
            runs.fit("two")
    assert runs.drawn("two") == []
    assert runs.fit("one") is not None
    assert runs.states == ["released"]


def test_a_backup_of_a_run_at_work_is_no_way_back_behind_its_draws(runs: Runs) -> None:
    """The run was never taken up again: it drew on after the backup, and that is enough."""
    seen: list[Path] = []

    def back_up() -> None:
        seen.append(runs.place / f"backup {len(seen)}")
        runs.copy("one", seen[-1].name)

    runs.fit("one", stop_before=2, watch=back_up)
    early, late = seen
    with pytest.raises(ValueError, match=STALE):  # of before the first draw
        runs.fit(early.name)
    counts = runs.fit(late.name)  # has all that was drawn; from now on the run is there
    assert counts is not None
    with pytest.raises(ValueError, match="another release needs a new one"):
        runs.fit("one")
    assert runs.drawn(early.name) == []
    assert runs.states == ["released"]


def test_the_first_of_equal_copies_goes_on_and_the_others_are_stale(runs: Runs) -> None:
    runs.fit("one", stop_before=2)
    runs.copy("one", "two")
    runs.fit("two", stop_before=1)  # taken up there, though nothing was drawn
    with pytest.raises(ValueError, match=STALE):
        runs.fit("one")
    assert runs.fit("two") is not None
    assert runs.states == ["released"]


def test_a_copy_of_an_ended_run_is_read_back_again_and_again(runs: Runs) -> None:
    counts = runs.fit("one")
    runs.copy("one", "two")
    notes = (runs.place / "two" / "kept.json").read_bytes()
    for name in ("two", "one", "two"):
        again = runs.fit(name, stop_before=1)  # nothing is drawn
        assert np.array_equal(again, counts)
    assert (runs.place / "two" / "kept.json").read_bytes() == notes
    assert runs.states == ["released"]


def test_a_fit_that_failed_without_a_folder_holds_nothing(runs: Runs) -> None:
    class Failing(DPGram):
        def _fit(self, job) -> None:
            raise Stopped

    with pytest.raises(Stopped):
        Failing().fit(runs.data, ledger=runs.ledger, population="shop", progress=False)
    assert runs.states == ["reserved"]
    assert not list(runs.place.glob("*-held*"))


def die(held: Reservation | None) -> NoReturn:
    if held is not None:
        held.let_go()  # so does the system
    raise Stopped


MOMENTS = [  # when a run dies that goes on: before or after its n-th call of
    (Ledger, "resume", "before", 1),
    (Ledger, "resume", "after", 1),
    (Job, "paid", "after", 1),
    (Ledger, "pass_on", "before", 1),
    (Ledger, "pass_on", "after", 1),
    (Job, "keep", "after", 1),
    (Ledger, "pass_on", "after", 2),
    (Job, "end", "after", 1),
]


@pytest.mark.parametrize(("where", "name", "when", "nth"), MOMENTS)
def test_who_dies_between_folder_and_ledger_can_go_on_and_no_copy_can(runs, where, name, when, nth) -> None:
    runs.fit("one", stop_before=1)
    runs.copy("one", "first")
    real, calls = getattr(where, name), 0

    def dying(*given, **named):
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            raise Stopped
        result = real(*given, **named)
        if calls == nth:
            die(result)
        return result

    for _ in range(2):  # and dies there once more, if it comes there again
        calls = 0
        with runs.patch.context() as patch:
            patch.setattr(where, name, dying)
            runs.fit("one")
    runs.copy("one", "last")
    ended = json.loads((runs.place / "one" / "kept.json").read_text())["ended"]
    kept = {file: (runs.place / "one" / file).read_bytes() for file in runs.drawn("one")}
    counts = runs.fit("one")
    assert counts is not None
    assert all((runs.place / "one" / file).read_bytes() == was for file, was in kept.items())
    assert len(json.loads((runs.place / "one" / "kept.json").read_text())["tokens"]) == 1
    assert runs.states == ["released"]
    with pytest.raises(ValueError, match="another release needs a new one"):
        runs.fit("first")
    if ended:  # nothing is drawn there
        assert np.array_equal(runs.fit("last"), counts)
    else:
        with pytest.raises(ValueError, match="another release needs a new one"):
            runs.fit("last")


@pytest.mark.parametrize(("name", "when"), [("resume", "before"), ("resume", "after"), ("pass_on", "after")])
def test_a_copy_of_what_a_death_left_is_stale_when_the_run_has_gone_on(runs, name, when) -> None:
    """Its notes name two tokens, and the ledger has one of them: the next must be one that it cannot know."""
    runs.fit("one", stop_before=1)
    real = getattr(Ledger, name)

    def dying(*given, **named):
        die(real(*given, **named) if when == "after" else None)

    with runs.patch.context() as patch:
        patch.setattr(Ledger, name, dying)
        runs.fit("one")
    runs.copy("one", "two")
    runs.fit("one", stop_before=2)
    with pytest.raises(ValueError, match=STALE):
        runs.fit("two")
    assert runs.fit("one") is not None


NURSERY = """
import os, sys
import numpy as np
import veilrec as vr
from pathlib import Path
from veilrec.privacy import Claim, Ledger, Noise, PureEvent
from veilrec.training.budget import reserve
from veilrec.training.folder import hold_folder
from veilrec.training.job import Job

data = vr.Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
claims = [Claim("all", "user", "add-remove", "OF", ("x",), (PureEvent(epsilon=1.0),))] * 2

def run(folder, ledger):
    job = Job(data, None, 1, "cpu", folder, False, key="this fit")
    with hold_folder(folder):
        job.check_folder()
        reserve(ledger, data, "shop", "demo", claims, Noise.secure(), job)
        print(os.getpid(), flush=True)
        while True:
            count = len(list(folder.glob("*.safetensors")))
            job.keep(f"round {count}", {"x": np.ones(1)}, {})

for line in sys.stdin:
    folder, ledger = map(Path, line.split())
    child = os.fork()
    if not child:
        try:
            run(folder, Ledger(ledger))
        except ValueError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", NURSERY]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True, bufsize=1) as one:
        yield one
        one.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_whenever_it_is_killed_the_folder_goes_on_and_its_older_copy_does_not(nursery, tmp_path) -> None:
    folder, ledger, chance = tmp_path / "kept", tmp_path / "budget.sqlite", random.Random(7)
    between = 0

    def start(where: Path) -> str:
        nursery.stdin.write(f"{where} {ledger}\n")
        return nursery.stdout.readline().strip()

    for turn in range(12):
        copy = tmp_path / f"copy {turn}".replace(" ", "-")
        if turn:
            shutil.copytree(folder, copy)
        answer = start(folder)
        assert answer.isdigit(), answer
        time.sleep(chance.uniform(0.0, 0.12))
        os.kill(int(answer), signal.SIGKILL)
        assert nursery.stdout.readline() == "ended\n"
        between += len(json.loads((folder / "kept.json").read_text())["tokens"]) > 1
        if turn:
            assert "taken up where it was left last" in start(copy)
            assert nursery.stdout.readline() == "ended\n"
    assert between > 0  # some died with two tokens in their notes
    assert len(Ledger(ledger).history("shop")) == 2
