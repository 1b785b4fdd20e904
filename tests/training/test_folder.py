"""One holder: of two fits in a checkpoint folder one draws and the other is refused, in threads or not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import BudgetExhausted
from veilrec.privacy import Ledger, PureEvent
from veilrec.privacy.ledger_hold import hold, let_go
from veilrec.systems import DPGram, Popularity
from veilrec.training import Recommender
from veilrec.training.folder import hold_folder

ABOUT = {"progress": False, "population": "shop"}


@pytest.fixture(scope="module")
def data() -> vr.Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.sqlite")


class Gate:
    """Holds every fit that comes to it until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def on(self, kind: type[Recommender]) -> Recommender:
        gate = self

        class Waiting(kind):  # type: ignore[misc, valid-type]
            def _fit(self, job) -> None:
                gate.reached.set()
                assert gate.opened.wait(30)
                super()._fit(job)

        return Waiting()


def test_of_two_threads_in_a_folder_one_draws_and_one_is_refused(data, ledger, tmp_path) -> None:
    gate, folder = Gate(), tmp_path / "kept"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gate.on(DPGram).fit, data, checkpoint=folder, ledger=ledger, **ABOUT)
        assert gate.reached.wait(30)
        for same in (folder, folder.parent / "x" / ".." / "kept", str(folder)):
            with pytest.raises(ValueError, match=r"checkpoint must be free, got .*kept'\. Another fit is at"):
                DPGram().fit(data, checkpoint=same, ledger=ledger, **ABOUT)
        with pytest.raises(ValueError, match="checkpoint must be free"):  # of any model
            Popularity().fit(data, checkpoint=folder, progress=False)
        gate.opened.set()
        counts = first.result().shared["counts"]
    assert len(ledger.history("shop")) == 1
    again = DPGram().fit(data, checkpoint=folder, ledger=ledger, **ABOUT)  # free again, and nothing is drawn
    assert np.array_equal(again.shared["counts"], counts)
    assert len(ledger.history("shop")) == 1


def test_a_copy_of_a_folder_has_the_same_reservation_and_no_second_holder(data, ledger, tmp_path) -> None:
    gate, folder, copy = Gate(), tmp_path / "kept", tmp_path / "copy"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gate.on(DPGram).fit, data, checkpoint=folder, ledger=ledger, **ABOUT)
        assert gate.reached.wait(30)
        shutil.copytree(folder, copy)
        with pytest.raises(ValueError, match=r"reservation must be free, got .* process or thread is at"):
            DPGram().fit(data, checkpoint=copy, ledger=ledger, **ABOUT)
        gate.opened.set()
        first.result()
    with pytest.raises(ValueError, match="another release needs a new one"):
        DPGram().fit(data, checkpoint=copy, ledger=ledger, **ABOUT)


AWAY = """
import sys
import veilrec as vr
from veilrec.privacy import Ledger, PureEvent
from veilrec.systems import DPGram

class Waiting(DPGram):
    def _fit(self, job):
        print("at work", flush=True)
        sys.stdin.read()

data = vr.synthetic(users=60, items=40, interactions=900, seed=1)
about = {"progress": False, "population": "shop"}
Waiting().fit(data, checkpoint=sys.argv[1], ledger=Ledger(sys.argv[2]), **about)
"""


def test_a_folder_of_another_process_is_refused_until_that_is_killed(data, ledger, tmp_path) -> None:
    folder = tmp_path / "kept"
    words = [sys.executable, "-c", AWAY, str(folder), str(ledger.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as away:
        assert away.stdout is not None
        assert away.stdout.readline() == "at work\n"
        with pytest.raises(ValueError, match=r"checkpoint must be free, got .*kept'\. Another fit"):
            DPGram().fit(data, checkpoint=folder, ledger=ledger, **ABOUT)
        away.kill()
        away.wait()
        DPGram().fit(data, checkpoint=folder, ledger=ledger, **ABOUT)
    [spend] = ledger.history("shop")
    assert spend.state == "released"


class Failing(DPGram):
    def _fit(self, job) -> None:
        _ = 1 / 0


def test_a_fit_that_failed_leaves_its_folder_and_reservation_free(data, ledger, tmp_path) -> None:
    with pytest.raises(ZeroDivisionError) as kept:  # whose traceback holds on to the fit
        Failing().fit(data, checkpoint=tmp_path / "kept", ledger=ledger, **ABOUT)
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["kept.json"]
    DPGram().fit(data, checkpoint=tmp_path / "kept", ledger=ledger, **ABOUT)
    assert [spend.state for spend in ledger.history("shop")] == ["released"]
    assert kept.value


def test_what_is_refused_leaves_no_folder(data, ledger, tmp_path) -> None:
    ledger.set_limit("shop", epsilon=0.1, delta=0.0)
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "there", tmp_path / "a" / "b"):
        with pytest.raises(BudgetExhausted):
            DPGram().fit(data, checkpoint=folder, ledger=ledger, **ABOUT)
    assert not (tmp_path / "a").exists()
    assert not any((tmp_path / "there").iterdir())


def test_a_run_that_somebody_is_at_work_on_is_not_overwritten(tmp_path) -> None:
    from veilrec.experiments import DataSpec, Experiment, fit_run

    spec = Experiment("popularity", data=DataSpec("synthetic:60,40,900"))
    out = fit_run(spec, tmp_path / "run", progress=False)
    files = sorted(file.name for file in out.iterdir())
    with hold_folder(out / "checkpoints"):
        with pytest.raises(ValueError, match="checkpoint must be free"):
            fit_run(spec, out, overwrite=True, progress=False)
        assert sorted(file.name for file in out.iterdir()) == ["checkpoints", *files]
    fit_run(spec, out, overwrite=True, progress=False)
    assert sorted(file.name for file in out.iterdir()) == files


def test_of_racing_threads_exactly_one_holds(tmp_path) -> None:
    for turn in range(20):
        start = threading.Barrier(8)

        def race(turn: int = turn, start: threading.Barrier = start) -> bool:
            start.wait(30)
            return hold(tmp_path / "file", turn)

        with ThreadPoolExecutor(8) as pool:
            won = [one.result() for one in [pool.submit(race) for _ in range(8)]]
        assert sum(won) == 1


RACE = """
import sys, time
from pathlib import Path
from veilrec.privacy.ledger_hold import hold, let_go
folder, ends = Path(sys.argv[1]), time.monotonic() + 1.5
turns = 0
while time.monotonic() < ends:
    if hold(folder / "file"):
        alone = folder / "alone"
        with open(alone, "x"):
            pass
        alone.unlink()
        let_go(folder / "file")
        turns += 1
print(turns)
"""


def test_a_lock_that_is_taken_away_at_the_end_has_one_holder_all_the_same(tmp_path) -> None:
    """Who has opened the file just before it goes must not believe that its lock counts."""
    words = [sys.executable, "-c", RACE, str(tmp_path)]
    racers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    turns = [int(racer.communicate(timeout=60)[0]) for racer in racers]  # empty where two were there
    assert min(turns) > 0
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_does_not_hold_what_its_parent_holds(tmp_path) -> None:
    assert hold(tmp_path / "file")

    def in_child() -> bool:
        child = os.fork()
        if not child:
            os._exit(int(hold(tmp_path / "file")))
        return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert not in_child()
    let_go(tmp_path / "file")
    assert in_child()


OTHER = """
import sys
from pathlib import Path
from veilrec.privacy.ledger_hold import hold
for line in sys.stdin:
    file, number = line.split()
    if hold(Path(file), int(number)):
        print("got it", flush=True)
        break
    print("is taken", flush=True)
"""


@pytest.fixture
def other():
    """Asks another process whether it gets a place; it has it then until the test ends."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:

        def gets(file: Path, number: int = 0) -> bool:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{file} {number}\n")
            return {"got it\n": True, "is taken\n": False}[process.stdout.readline()]

        yield gets
        process.kill()


def test_who_copies_a_folder_in_which_it_is_at_work_keeps_its_place(tmp_path, other) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    with hold_folder(run):
        shutil.copytree(run, copy)
        assert not other(run / "kept.json")
        with hold_folder(copy):  # a place of its own, whatever was copied into it
            assert not other(run / "kept.json")
        assert not other(run / "kept.json")
    assert not run.exists()  # nothing was kept there, and nothing stays


def test_who_copies_the_folder_of_the_ledger_keeps_its_reservation(ledger, tmp_path, other) -> None:
    events = [PureEvent(epsilon=1.0)]
    taken, more = (ledger.reserve("shop", "f", events, delta=0.0, run=run) for run in ("one", "more"))
    shutil.copytree(tmp_path, tmp_path.with_name(tmp_path.name + "-copy"))
    assert not other(ledger.path, taken.number)
    more.release()  # nor does the end of another reservation free it
    assert not other(ledger.path, taken.number)
    assert [file.name for file in tmp_path.glob("*-held*")] == [f"budget.sqlite-held-{taken.number}"]
    taken.let_go()
    assert other(ledger.path, taken.number)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_frees_nothing_of_its_parent_and_keeps_nothing_from_others(tmp_path, other) -> None:
    assert hold(tmp_path / "file")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        let_go(tmp_path / "file")  # it is not the child's to give
        os.write(writer, b".")
        signal.pause()
    try:
        assert os.read(reader, 1) == b"."
        assert not other(tmp_path / "file")
        let_go(tmp_path / "file")
        assert other(tmp_path / "file")  # though the child lives and was born with the handle
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


PARENT = """
import os, sys, time
from pathlib import Path
from veilrec.privacy.ledger_hold import hold
assert hold(Path(sys.argv[1]))
child = os.fork()
if not child:
    os.close(1)
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_holder_that_is_killed_is_gone_though_its_child_lives(tmp_path, other) -> None:
    words = [sys.executable, "-c", PARENT, str(tmp_path / "file")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert not other(tmp_path / "file")
            parent.kill()
            parent.wait()
            os.kill(child, 0)  # lives
            assert other(tmp_path / "file")
        finally:
            os.kill(child, signal.SIGKILL)


def test_who_leaves_does_not_take_away_the_lock_of_a_folder_that_was_put_there(tmp_path, other) -> None:
    place = tmp_path / "run"
    place.mkdir()
    assert hold(place / "file")
    place.rename(tmp_path / "away")
    place.mkdir()
    assert other(place / "file")
    let_go(place / "file")
    assert not hold(place / "file")
