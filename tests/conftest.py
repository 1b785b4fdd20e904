"""A time budget per room: the suite stays under its limit because no room may outgrow its share."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # a slow machine is not a failing test
settings.load_profile("house")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin beside other work

# processor seconds; together under the 12 minutes of `make test`
BUDGET = {
    "core": 20,
    "data": 150,
    "metrics": 90,
    "privacy": 150,
    "crypto": 40,
    "models": 60,
    "training": 60,
    "federated": 20,
    "systems": 320,
    "attacks": 120,
    "experiments": 120,
    "studio": 20,
    "src": 90,
    ".": 90,
}
_spent: dict[str, float] = defaultdict(float)


_number = itertools.count()


@pytest.fixture(autouse=True)
def _own_ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test books by default is nobody's budget."""
    place = tmp_path_factory.getbasetemp() / "ledgers" / f"{next(_number)}.sqlite"
    monkeypatch.setenv("VEILREC_LEDGER", str(place))


def _room(path: str) -> str:
    parts = Path(path.split("::")[0]).parts
    if parts[0] == "tests":
        return parts[1] if len(parts) > 2 else "."
    return "src"


def _processor_seconds() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Processor time, children included: a busy machine is not a slow test."""
    began = _processor_seconds()
    try:
        return (yield)
    finally:
        if item.get_closest_marker("long") is None:
            _spent[_room(item.nodeid)] += _processor_seconds() - began


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    over = {room: s for room, s in _spent.items() if s > BUDGET.get(room, 30)}
    session.config.stash[_OVER] = over
    if over and exitstatus == 0:
        session.exitstatus = 1


_OVER: pytest.StashKey[dict[str, float]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    write = terminalreporter.write_line
    write(
        "processor seconds by room: "
        + ", ".join(f"{room} {spent:.0f}" for room, spent in sorted(_spent.items()))
    )
    write(f"skipped: {len(terminalreporter.stats.get('skipped', []))}")
    for room, spent in config.stash.get(_OVER, {}).items():
        limit = BUDGET.get(room, 30)
        write(f"FAILED budget: tests of {room} took {spent:.0f} s of {limit} s. Make them faster.")
