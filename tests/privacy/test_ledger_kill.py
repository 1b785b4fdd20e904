"""kill -9 at random moments of a run: the ledger never shows less than what was released.

A nursery process imports the ledger once and forks a target for each kill, so that fifty kills take seconds.
The target runs reserve, write the result (with fsync), release, over and over; when the budget is gone it
raises the limit a little, so that the limit is always near. A shared byte says what it was doing as it died.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from veilrec.privacy import Ledger, Spend, new_token

KILLS = 50
EPSILON = 0.25
PHASES = ("starting", "reserving", "writing", "releasing", "setting a limit")

NURSERY = """
import mmap, os, sys
from veilrec.core import BudgetExhausted
from veilrec.privacy.events import PureEvent
from veilrec.privacy.ledger import Ledger

def run(path, broken):
    phase = mmap.mmap(os.open(path + "-phase", os.O_RDWR), 1)
    out = os.open(path + "-out", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ledger, events = Ledger(path), [PureEvent(epsilon=0.25)]

    def write():
        phase[0] = 2
        os.write(out, b"released\\n")
        os.fsync(out)

    sys.stdout.write(f"{os.getpid()}\\n")
    sys.stdout.flush()
    if "p" not in ledger.populations():
        ledger.set_limit("p", epsilon=1.0, delta=0.0)
    while True:
        try:
            if broken:
                write()
            phase[0] = 1
            taken = ledger.reserve("p", "f", events, delta=0.0, run="target")
            if not broken:
                write()
            phase[0] = 3
            taken.release()
        except BudgetExhausted:
            phase[0] = 4
            limit = ledger.accounts("p")[0].limit[0] + 1.0
            ledger.set_limit("p", epsilon=limit, delta=0.0)

for line in sys.stdin:
    path, kind = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        try:
            run(path, kind == "broken")
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    print("ended", os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1, flush=True)
"""


class Killer:
    """Starts targets and kills them."""

    def __init__(self) -> None:
        self.nursery = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.random = random.Random(20)
        self.died: Counter[str] = Counter()

    def kill(self, path: Path, kind: str) -> None:
        phase = Path(f"{path}-phase")
        phase.write_bytes(b"\0")
        self.nursery.stdin.write(f"{path}\t{kind}\n")
        target = int(self.nursery.stdout.readline())
        time.sleep(self.random.uniform(0.0, 0.12))
        os.kill(target, signal.SIGKILL)
        assert self.nursery.stdout.readline() == f"ended {signal.SIGKILL}\n"
        self.died[PHASES[phase.read_bytes()[0]]] += 1


@pytest.fixture
def killer():
    one = Killer()
    yield one
    one.nursery.communicate()


def released(path: Path) -> float:
    out = Path(f"{path}-out")
    return EPSILON * out.read_bytes().count(b"\n") if out.exists() else 0.0


def check_after_a_kill(path: Path) -> list[Spend]:
    """What must hold whenever a process died; gives the spends that were left unfinished."""
    shown = released(path)
    if not Ledger(path).populations():  # died before the limit was set
        assert shown == 0.0, "the ledger shows less than what was released"
        return []
    [account] = Ledger(path).accounts("p")
    assert account.epsilon >= shown, "the ledger shows less than what was released"
    assert account.limit is not None
    assert account.epsilon <= account.limit[0] * (1 + 1e-9)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    spends = [entry for entry in Ledger(path).history("p") if isinstance(entry, Spend)]
    assert account.epsilon == EPSILON * len(spends)
    finished = sum(spend.state == "released" for spend in spends)
    assert EPSILON * finished <= shown, "something was marked as released that is not out"
    return [spend for spend in spends if spend.state == "reserved"]


def token_of(path: Path, spend: Spend) -> str:
    db = sqlite3.connect(path)
    query = "SELECT token FROM turn JOIN spend ON turn.spend = spend.number WHERE id = ?"
    [(token,)] = db.execute(query, (spend.id,)).fetchall()
    db.close()
    return token


def test_fifty_kills_never_make_the_ledger_show_too_little(tmp_path: Path, killer: Killer) -> None:
    unfinished = runs = 0
    for number in range(KILLS):
        path = tmp_path / f"{number // 10}.sqlite"  # also the first moments of a new file
        before = released(path)
        killer.kill(path, "sound")
        left = check_after_a_kill(path)
        runs += round((released(path) - before) / EPSILON)
        for spend in left:  # nobody holds what a dead process held
            same = {"population": "p", "fingerprint": "f", "events": spend.events}
            Ledger(path).resume(spend.id, **same, tokens=[token_of(path, spend)], token=new_token()).let_go()
        unfinished += len(left) if number % 10 == 9 else 0
    print(f"{KILLS} kills: {dict(killer.died)}; {runs} results, {unfinished} spends left unfinished")
    inside = sum(killer.died[phase] for phase in ("reserving", "writing", "releasing"))
    assert inside >= KILLS / 5, killer.died
    assert min(killer.died["reserving"], killer.died["releasing"]) > 0, killer.died
    assert unfinished > 0
    assert runs > 0


def test_the_check_catches_a_target_that_writes_before_it_reserves(tmp_path: Path, killer: Killer) -> None:
    def kill_and_check() -> None:
        for number in range(KILLS):
            killer.kill(tmp_path / f"{number}.sqlite", "broken")
            check_after_a_kill(tmp_path / f"{number}.sqlite")

    with pytest.raises(AssertionError, match="the ledger shows less than what was released"):
        kill_and_check()
