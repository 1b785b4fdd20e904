"""The budget ledger: what adds up, who is refused, what the file forgives and what it does not."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veilrec import __version__
from veilrec.core import BudgetExhausted, DataError
from veilrec.privacy import (
    Claim,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    PureEvent,
    UnboundedEvent,
    UnsupportedEvent,
    epsilon_of,
    ledger_file,
    new_token,
)
from veilrec.privacy.ledger_file import ledger_path
from veilrec.privacy.ledger_units import counted

GAUSS = GaussianEvent(noise_multiplier=4.0, count=20)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "deep" / "budget.sqlite", timeout=2.0)


def pure(epsilon: float, **more) -> list[Event]:
    return [PureEvent(epsilon=epsilon, **more)]


def take(ledger: Ledger, events, population: str = "shop", fingerprint: str = "", **more):
    """Each population has data of its own, unless a fingerprint is given."""
    data = fingerprint or ("f1" if population == "shop" else f"data of {population}")
    return ledger.reserve(population, data, events, **({"delta": 0.0, "run": "run"} | more))


def stands(ledger: Ledger, unit: str = "user", population: str = "shop"):
    return next(account for account in ledger.accounts(population) if account.unit == unit)


# -- adding up --------------------------------------------------------------------------------------------


def test_spends_add_up_and_the_one_too_many_is_refused_before_anything_is_written(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=8.0, delta=2e-5)
    first = take(ledger, [GAUSS], delta=1e-5, run="first")
    assert first.spend.epsilon == epsilon_of([GAUSS], 1e-5)
    assert first.spend.version == __version__
    take(ledger, pure(1.0), run="second").release()
    account = stands(ledger)
    assert account.epsilon == pytest.approx(epsilon_of([GAUSS], 1e-5) + 1.0, rel=1e-12)
    assert (account.delta, account.runs, account.unfinished) == (1e-5, 2, 1)
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExhausted) as refused:
        take(ledger, [GAUSS], delta=1e-5, run="third")
    assert ledger.path.read_bytes() == before
    assert str(refused.value) == (
        "run 'third' asks for epsilon 4.983 and delta 1e-05 per user of 'shop', and epsilon 2.017 and "
        "delta 1e-05 are left of epsilon 8 and delta 2e-05. Nothing was spent."
    )
    assert refused.value.left == account.left
    assert refused.value.asked == (first.spend.epsilon, 1e-5)
    take(ledger, pure(2.0), run="fits")


def test_delta_is_a_budget_too(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=100.0, delta=1e-5)
    take(ledger, [GAUSS], delta=1e-5)
    with pytest.raises(BudgetExhausted, match="delta 0 are left"):
        take(ledger, [GAUSS], delta=1e-6)
    take(ledger, pure(1.0))  # pure parts need no delta


def test_rounding_of_floats_is_forgiven_and_no_more(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=0.3, delta=0.0)
    for _ in range(3):
        take(ledger, pure(0.1))
    with pytest.raises(BudgetExhausted):
        take(ledger, pure(1e-6))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=8), limit=st.floats(0.5, 6.0))
def test_whatever_is_asked_the_total_is_the_sum_and_below_the_limit(asked: list[float], limit: float) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        ledger, granted = Ledger(folder / "b.sqlite"), []
        ledger.set_limit("shop", epsilon=limit, delta=0.0)
        for epsilon in asked:
            fits = math.fsum([*granted, epsilon]) <= limit * (1 + 1e-9)
            try:
                take(ledger, pure(epsilon))
                granted.append(epsilon)
                assert fits
            except BudgetExhausted:
                assert not fits
        assert stands(ledger).epsilon == math.fsum(granted)
    finally:
        shutil.rmtree(folder)


def test_a_population_is_not_its_fingerprint(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=1.0, delta=0.0)
    take(ledger, pure(1.0))
    with pytest.raises(BudgetExhausted):  # an appended row opens no fresh budget
        ledger.reserve("shop", "f2", pure(1.0), delta=0.0, run="appended")
    ledger.reserve("another", "f3", pure(1.0), delta=0.0, run="other data")


def test_the_same_data_under_another_name_get_no_fresh_budget(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=1.0, delta=0.0)
    take(ledger, pure(1.0))
    claim = Claim("all data", "user", "add-remove", "OF", ("counts",), tuple(pure(1.0)))
    words = r"^population must be 'shop', got 'shop2'. The same data are booked there, .* new_population=True"
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            take(ledger, pure(1.0), population="shop2", fingerprint="f1")
        with pytest.raises(ValueError, match=words):
            ledger.reserve_claims("shop2", "f1", [claim], run="renamed")
    assert ledger.populations() == ["shop"]
    ledger.set_limit("shop2", epsilon=9.0, delta=0.0)  # a limit says nothing about the data
    with pytest.raises(ValueError, match=words):
        take(ledger, pure(1.0), population="shop2", fingerprint="f1")
    ledger.reserve_claims("shop2", "f1", [claim], run="meant", new_population=True)
    take(ledger, pure(1.0), population="shop2", fingerprint="f1")  # it was said once
    assert stands(ledger, population="shop2").epsilon == 2.0
    with pytest.raises(ValueError, match=r"^population must be 'shop', 'shop2', got 'shop3'"):
        take(ledger, pure(1.0), population="shop3", fingerprint="f1")
    with pytest.raises(BudgetExhausted):
        take(ledger, pure(1.0))


# -- units ------------------------------------------------------------------------------------------------

AR, RP = "add-remove", "replace"
CELLS = [  # spend's unit, per_user, event's relation, limit's unit, limit's relation, cost of epsilon 0.5
    ("user", None, AR, "user", AR, 0.5),
    ("user", None, AR, "user", RP, 1.0),
    ("user", None, RP, "user", RP, 0.5),
    ("user", None, RP, "user", AR, math.inf),
    ("user", None, AR, "interaction", AR, 1.0),
    ("user", None, AR, "interaction", RP, 1.0),
    ("user", None, AR, "attribute", RP, 1.0),
    ("user", None, RP, "interaction", AR, 0.5),
    ("user", None, RP, "attribute", RP, 0.5),
    ("interaction", None, AR, "interaction", AR, 0.5),
    ("interaction", 20, AR, "interaction", AR, 0.5),
    ("interaction", 20, AR, "interaction", RP, 1.0),
    ("interaction", 20, AR, "user", AR, 10.0),
    ("interaction", 20, AR, "user", RP, 20.0),
    ("interaction", None, AR, "user", AR, math.inf),
    ("interaction", 20, RP, "user", RP, math.inf),
    ("interaction", 20, RP, "interaction", AR, math.inf),
    ("interaction", 20, AR, "attribute", RP, 0.0),
    ("attribute", None, RP, "attribute", RP, 0.5),
    ("attribute", None, RP, "user", RP, 0.5),
    ("attribute", None, RP, "user", AR, math.inf),
    ("attribute", None, AR, "user", AR, 0.5),
    ("attribute", None, RP, "interaction", AR, 0.0),
]


@pytest.mark.parametrize(("unit", "per_user", "relation", "limit_unit", "neighbours", "cost"), CELLS)
def test_the_table_of_units(ledger, unit, per_user, relation, limit_unit, neighbours, cost) -> None:
    events = pure(0.5, neighbours=relation)
    found = counted(events, 0.0, unit, per_user, limit_unit, neighbours)
    assert found == (cost, 0.0)
    # The ledger counts the same, whether the limit comes after the spend or before.
    options = {"unit": unit, "neighbours": relation, "per_user": per_user}
    take(ledger, events, **options)
    change = ledger.set_limit("shop", epsilon=50.0, delta=0.0, unit=limit_unit, neighbours=neighbours)
    assert change.spent_epsilon == cost
    ledger.set_limit("fresh", epsilon=50.0, delta=0.0, unit=limit_unit, neighbours=neighbours)
    if math.isinf(cost):
        with pytest.raises(BudgetExhausted, match="epsilon inf"):
            take(ledger, events, population="fresh", **options)
    else:
        take(ledger, events, population="fresh", **options)
        account = stands(ledger, limit_unit, "fresh")
        assert (account.epsilon, account.runs) == (cost, int(cost > 0))


def test_a_changed_user_costs_twice_an_added_one() -> None:
    """Why a spend per user counts as *replacing* for finer units: f(user) in [-1, 1], Laplace of scale 1."""
    event = LaplaceEvent(noise_multiplier=1.0)  # a user more moves the sum by at most 1

    def loss(at: float, one: float, other: float) -> float:
        return abs(at - other) - abs(at - one)

    truth = max(loss(at / 10, 1.0, -1.0) for at in range(-50, 51))  # the user's only interaction changes
    assert truth == pytest.approx(2.0)
    assert counted([event], 0.0, "user", None, "user", AR)[0] == 1.0
    assert counted([event], 0.0, "user", None, "interaction", AR)[0] == pytest.approx(truth)


def test_delta_counts_only_where_the_spend_counts() -> None:
    gauss = [GaussianEvent(noise_multiplier=10.0)]
    assert counted(gauss, 1e-5, "interaction", 4, "attribute", RP) == (0.0, 0.0)
    epsilon, delta = counted(gauss, 1e-5, "interaction", 4, "user", AR)
    assert delta == 1e-5
    assert epsilon == pytest.approx(epsilon_of([GaussianEvent(noise_multiplier=2.5)], 1e-5), rel=1e-9)


def test_every_limit_must_allow_the_run(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=10.0, delta=0.0)
    ledger.set_limit("shop", epsilon=2.0, delta=0.0, unit="interaction")
    take(ledger, pure(0.5))  # 0.5 per user, 1 per interaction
    with pytest.raises(BudgetExhausted, match="per interaction"):
        take(ledger, pure(1.0))
    take(ledger, pure(0.1), unit="interaction", per_user=50)
    with pytest.raises(BudgetExhausted, match="epsilon 5 and delta 0 per user"):
        take(ledger, pure(0.1), unit="interaction", per_user=50)
    assert stands(ledger).epsilon == pytest.approx(5.5)
    assert stands(ledger, "interaction").epsilon == pytest.approx(1.1)


# -- limits -----------------------------------------------------------------------------------------------


def test_limits_go_up_and_down_and_the_history_keeps_it(ledger: Ledger) -> None:
    take(ledger, pure(3.0))
    assert stands(ledger).limit is None
    assert stands(ledger).left is None
    assert not ledger.set_limit("shop", epsilon=4.0, delta=0.0).below_spent
    lowered = ledger.set_limit("shop", epsilon=2.0, delta=1e-6)
    assert lowered.below_spent
    assert lowered.spent_epsilon == 3.0
    assert stands(ledger).left == (0.0, 1e-6)
    with pytest.raises(BudgetExhausted, match="epsilon 0 and delta 1e-06 are left"):
        take(ledger, pure(0.001))
    ledger.set_limit("shop", epsilon=5.0, delta=0.0)
    take(ledger, pure(2.0))
    history = ledger.history("shop")
    assert [(entry.to_dict()["kind"], entry.epsilon) for entry in history] == [
        ("spend", 3.0),
        ("limit", 4.0),
        ("limit", 2.0),
        ("limit", 5.0),
        ("spend", 2.0),
    ]
    assert sorted(entry.time for entry in history) == [entry.time for entry in history]
    assert all(entry.time.endswith("+00:00") for entry in history)


def test_an_unbounded_release_needs_a_population_without_a_limit(ledger: Ledger) -> None:
    raw = [UnboundedEvent(reason="item vectors are trained without noise.")]
    taken = take(ledger, raw)
    assert taken.spend.epsilon == math.inf
    assert taken.spend.to_dict()["epsilon"] is None
    assert json.dumps(stands(ledger).to_dict(), allow_nan=False)
    assert ledger.set_limit("shop", epsilon=8.0, delta=0.0).below_spent
    with pytest.raises(BudgetExhausted, match="epsilon 0 and"):
        take(ledger, pure(0.1))
    ledger.set_limit("other", epsilon=8.0, delta=0.0)
    with pytest.raises(BudgetExhausted, match=r"covers: item vectors are trained without noise. Nothing was"):
        take(ledger, raw, population="other")
    with pytest.raises(BudgetExhausted, match="no finite epsilon at delta 0; ask at a larger delta"):
        take(ledger, [GAUSS], population="other")
    assert len(ledger.history("other")) == 1


# -- finishing, crashing, going on ---------------------------------------------------------------------------


def test_release_once_or_twice_and_a_crash_is_spent(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=2.0, delta=0.0)
    done, crashed = take(ledger, pure(1.0)), take(ledger, pure(1.0))
    done.release()
    first = ledger.history("shop")[1]
    done.release()
    assert ledger.history("shop")[1] == first
    _, one, other = ledger.history("shop")
    assert (one.state, one.note) == ("released", "released")
    assert (other.id, other.state, other.note) == (crashed.id, "reserved", "not finished; counted as spent")
    with pytest.raises(BudgetExhausted):
        take(ledger, pure(0.1))


def turn(taken) -> dict[str, object]:
    """What a run keeps says that it was the last to be at work."""
    return {"tokens": [taken.token], "token": new_token()}


def test_resume_goes_on_without_paying_again(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=1.0, delta=1e-5)
    events = [PureEvent(epsilon=0.5, label="counts"), GaussianEvent(noise_multiplier=20.0)]
    taken = take(ledger, events, delta=1e-5)
    same = {"population": "shop", "fingerprint": "f1", "events": events}
    for other in ({"population": "shop2"}, {"fingerprint": "f2"}, {"events": events[:1]}):
        with pytest.raises(ValueError, match=f"{next(iter(other))} must be what was reserved"):
            ledger.resume(taken.id, **same | other)
    taken.let_go()
    again = ledger.resume(taken.id, **same, **turn(taken))
    assert again.spend == taken.spend
    again.release()
    assert (stands(ledger).runs, stands(ledger).unfinished) == (1, 0)
    with pytest.raises(ValueError, match=r"reservation must be unfinished.*another release needs a new one"):
        ledger.resume(taken.id, **same)
    with pytest.raises(DataError, match="has no reservation 'nonsense'"):
        ledger.resume("nonsense", **same)


HOLDER = """
import sys
from veilrec.privacy.ledger import Ledger
from veilrec.privacy.events import PureEvent
taken = Ledger(sys.argv[1]).reserve("shop", "f1", [PureEvent(epsilon=1.0)], delta=0.0, run="away")
print(taken.id, taken.token, flush=True)
sys.stdin.read()
"""


def test_nobody_resumes_what_another_process_is_at(ledger: Ledger) -> None:
    words = [sys.executable, "-c", HOLDER, str(ledger.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        name, token = holder.stdout.readline().split()
        same = {"population": "shop", "fingerprint": "f1", "events": pure(1.0)}
        same |= {"tokens": [token], "token": new_token()}
        with pytest.raises(ValueError, match="Another process or thread is at work on it"):
            ledger.resume(name, **same)
        holder.kill()
        holder.wait()
        assert ledger.resume(name, **same).id == name


def test_of_threads_that_resume_a_reservation_one_gets_it(ledger: Ledger) -> None:
    taken = take(ledger, pure(1.0))
    same = {"population": "shop", "fingerprint": "f1", "events": pure(1.0)}
    with pytest.raises(ValueError, match="Another process or thread is at work on it"):
        ledger.resume(taken.id, **same, **turn(taken))
    taken.let_go()

    def resume(number: int) -> bool:
        others = [taken.token, *(str(one) for one in range(6) if one != number)]  # only the place counts
        try:
            return bool(Ledger(ledger.path).resume(taken.id, **same, tokens=others, token=str(number)))
        except ValueError:
            return False

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(resume, range(6)))
    assert sum(won) == 1
    taken.let_go()
    taken.let_go()  # again is harmless
    ledger.resume(taken.id, **same, tokens=[str(won.index(True))], token=new_token()).release()


STALE = (
    r"^reservation must be taken up where it was left last, got '\w+'. The run went on elsewhere since this "
    r"copy was made: go on in that folder, or choose a new one and pay again.$"
)


def test_a_reservation_goes_on_with_the_token_that_it_has_and_gets_another(ledger: Ledger) -> None:
    taken = take(ledger, pure(1.0))
    same = {"population": "shop", "fingerprint": "f1", "events": pure(1.0)}
    taken.let_go()
    for wrong in ([], [new_token()], [""]):
        with pytest.raises(ValueError, match=STALE):
            ledger.resume(taken.id, **same, tokens=wrong, token=new_token())
    for old in ("", taken.token):  # without a new one a copy would stay as good as what it was copied from
        with pytest.raises(ValueError, match="token must be a new one, got"):
            ledger.resume(taken.id, **same, tokens=[taken.token], token=old)
    again = ledger.resume(taken.id, **same, tokens=["older", taken.token], token="b")
    again.let_go()
    with pytest.raises(ValueError, match=STALE):
        ledger.resume(taken.id, **same, **turn(taken))
    again = ledger.resume(taken.id, **same, tokens=["b"], token="c")
    with pytest.raises(ValueError, match=STALE):
        ledger.pass_on([taken.id], ["b"], "d")
    ledger.pass_on([taken.id], ["c"], "d")
    again.release()
    ledger.resume(taken.id, **same, ended=True).let_go()  # only read back
    assert "token" not in json.dumps([entry.to_dict() for entry in ledger.history()])


def test_the_parts_of_a_run_have_one_token_and_get_the_next_together_or_not_at_all(ledger: Ledger) -> None:
    claim = Claim("all data", "user", "add-remove", "OF", ("counts",), tuple(pure(1.0)))
    one, two = ledger.reserve_claims("shop", "f1", [claim, claim], run="parts")
    assert one.token == two.token
    ledger.pass_on([two.id], [two.token], "b")
    with pytest.raises(ValueError, match=STALE):
        ledger.pass_on([one.id, two.id], [one.token], "c")
    ledger.pass_on([one.id, two.id], [one.token, "b"], "c")
    ledger.pass_on([one.id, two.id], ["c"], "d")


def test_what_the_file_did_not_take_has_no_holder(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite", timeout=0.1)
    taken = take(ledger, pure(1.0))
    taken.let_go()
    same = {"population": "shop", "fingerprint": "f1", "events": pure(1.0)}
    reader = sqlite3.connect(ledger.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM spend").fetchall()  # nobody can commit
    with pytest.raises(DataError, match="is held by another process"):
        ledger.resume(taken.id, **same, **turn(taken))
    with pytest.raises(DataError, match="is held by another process"):
        take(ledger, pure(1.0))
    reader.close()
    assert not list(tmp_path.glob("*-held*"))
    ledger.resume(taken.id, **same, **turn(taken))
    assert take(ledger, pure(1.0)).number == taken.number + 1


def test_a_ledger_of_the_first_format_is_read_and_goes_on(ledger: Ledger) -> None:
    ledger.set_limit("shop", epsilon=2.0, delta=0.0)
    taken = take(ledger, pure(1.0))
    taken.let_go()
    db = sqlite3.connect(ledger.path)
    db.executescript("DROP TABLE turn; PRAGMA user_version=1;")
    db.close()
    before = ledger.path.read_bytes()
    assert stands(ledger).left == (1.0, 0.0)
    assert ledger.path.read_bytes() == before  # who looks changes nothing
    with pytest.raises(ValueError, match=STALE):  # nobody knows which copy was the last
        ledger.resume(taken.id, population="shop", fingerprint="f1", events=pure(1.0), **turn(taken))
    take(ledger, pure(1.0)).release()
    with pytest.raises(BudgetExhausted):
        take(ledger, pure(0.1))
    db = sqlite3.connect(ledger.path)
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM spend",
        "DELETE FROM cost",
        "DELETE FROM limit_change",
        "UPDATE spend SET epsilon = 0",
        "UPDATE spend SET state = 'released', released_at = 'now', population = 'other'",
        "UPDATE spend SET state = 'reserved', released_at = NULL WHERE state = 'released'",
        "UPDATE cost SET epsilon = 0",
        "UPDATE limit_change SET epsilon = 99",
    ],
)
def test_the_file_itself_gives_nothing_back(ledger: Ledger, statement: str) -> None:
    ledger.set_limit("shop", epsilon=3.0, delta=0.0)
    take(ledger, pure(1.0)).release()
    take(ledger, pure(1.0))
    db = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match="stays"):
        db.execute(statement)
    db.close()


# -- bad input --------------------------------------------------------------------------------------------


class Strange(Event):
    """Not in the accountant's book."""

    kind = "strange"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"events": []}, ValueError, r"events must be at least one, got \(\)"),
        ({"events": [Strange()]}, UnsupportedEvent, "does not know the event Strange"),
        ({"events": [{"event": "pure"}]}, UnsupportedEvent, "does not know the event dict"),
        ({"events": pure(1.0, neighbours="replace")}, UnsupportedEvent, "proven for replacing"),
        ({"delta": 1.0}, ValueError, "delta must be from 0 up to but not including 1, got 1.0"),
        ({"delta": math.nan}, ValueError, "delta must be from 0"),
        ({"delta": -1e-9}, ValueError, "delta must be from 0"),
        ({"unit": "users"}, ValueError, "unit must be one of .* Did you mean 'user'"),
        ({"neighbours": "add"}, ValueError, "neighbours must be one of"),
        ({"grade": "good"}, ValueError, "grade must be one of secure, research"),
        ({"population": ""}, ValueError, "population must be a printable name"),
        ({"population": " shop"}, ValueError, "population must be a printable name"),
        ({"fingerprint": None}, ValueError, "fingerprint must be a printable name"),
        ({"run": "a\nb"}, ValueError, "run must be a printable name"),
        ({"per_user": 5}, ValueError, "per_user must be None unless the unit is interaction, got 5"),
        ({"per_user": 0, "unit": "interaction"}, ValueError, "per_user must be a whole number"),
    ],
)
def test_a_bad_reservation_is_one_sentence_and_nothing_written(ledger, change, error, words) -> None:
    good = {"population": "shop", "fingerprint": "f", "events": pure(1.0), "delta": 0.0, "run": "r"}
    with pytest.raises(error, match=words):
        ledger.reserve(**good | change)
    assert not ledger.path.parent.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0, got 0.0"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"delta": 1}, "delta must be"),
        ({"unit": "person"}, "unit must be one of"),
        ({"neighbours": "swap"}, "neighbours must be one of"),
        ({"population": "a\tb"}, "population must be"),
    ],
)
def test_a_bad_limit_is_one_sentence_and_nothing_written(ledger, change, words) -> None:
    with pytest.raises(ValueError, match=words):
        ledger.set_limit(**{"population": "shop", "epsilon": 1.0, "delta": 0.0} | change)
    assert not ledger.path.parent.exists()


def test_an_unknown_population_has_a_nearest_name(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="Known are: none yet"):
        ledger.accounts("shop")
    assert ledger.accounts() == ledger.history() == ledger.populations() == []
    ledger.set_limit("ml-100k", epsilon=1.0, delta=0.0)
    for look in (ledger.accounts, ledger.history):
        with pytest.raises(ValueError, match=r"got 'ml100k'. Did you mean 'ml-100k'"):
            look("ml100k")


# -- the file ---------------------------------------------------------------------------------------------


def refused(ledger: Ledger, words: str) -> None:
    for act in (ledger.accounts, lambda: take(ledger, pure(0.1))):
        with pytest.raises(DataError, match=words) as error:
            act()
        assert str(ledger.path) in str(error.value)
        assert "\n" not in str(error.value)


def test_not_a_ledger(tmp_path: Path) -> None:
    refused(Ledger(tmp_path), "is a folder")
    (tmp_path / "text").write_text("a long enough file that is no data base at all\n" * 40)
    refused(Ledger(tmp_path / "text"), "not an SQLite file")
    with pytest.raises(DataError, match="text is a file, not a folder"):
        take(Ledger(tmp_path / "text" / "below"), pure(1.0))
    with sqlite3.connect(tmp_path / "foreign") as db:
        db.execute("CREATE TABLE spend (x)")
    db.close()
    refused(Ledger(tmp_path / "foreign"), "is an SQLite file, but not a budget ledger")


def test_a_newer_file_is_left_alone(ledger: Ledger) -> None:
    take(ledger, pure(1.0))
    db = sqlite3.connect(ledger.path)
    db.execute("PRAGMA user_version=3")
    db.close()
    refused(ledger, r"was written by another veilrec \(format 3, this one knows 2\). Upgrade veilrec")


@pytest.mark.parametrize("how", ["cut", "scribbled"])
def test_a_damaged_file_is_said_to_be_damaged(ledger: Ledger, how: str) -> None:
    for _ in range(30):
        take(ledger, pure(1.0))
    whole = bytearray(ledger.path.read_bytes())
    whole[4096 : 4096 + 8] = b"scribble"
    ledger.path.write_bytes(whole if how == "scribbled" else whole[: len(whole) // 2])
    refused(ledger, "is damaged .*Put a copy back")


def test_an_empty_file_is_a_new_ledger(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    ledger = Ledger(tmp_path / "new")
    assert ledger.accounts() == []
    take(ledger, pure(1.0))
    assert stands(ledger).epsilon == 1.0


def test_a_read_only_file_can_be_looked_at() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    ledger = Ledger(folder / "b.sqlite")
    taken = take(ledger, pure(1.0))
    ledger.path.chmod(0o444)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)  # for root no file is read-only
        assert stands(ledger).epsilon == 1.0
        for act in (lambda: take(ledger, pure(1.0)), taken.release):
            with pytest.raises(DataError, match="is read-only, so nothing can be reserved"):
                act()
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_a_held_file_is_waited_for_and_then_said_to_be_held(ledger: Ledger) -> None:
    take(ledger, pure(1.0))
    db = sqlite3.connect(ledger.path, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DataError, match=r"is held by another process for more than 0.1 s. Try again"):
        take(Ledger(ledger.path, timeout=0.1), pure(1.0))
    db.close()
    assert stands(ledger).runs == 1


def test_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VEILREC_LEDGER", "VEILREC_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert ledger_path() == Path.home() / ".local" / "share" / "veilrec" / "budget.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert ledger_path() == tmp_path / "share" / "veilrec" / "budget.sqlite"
    monkeypatch.setenv("VEILREC_HOME", str(tmp_path / "home"))
    assert ledger_path() == tmp_path / "home" / "budget.sqlite"
    monkeypatch.setenv("VEILREC_LEDGER", str(tmp_path / "mine"))
    assert Ledger().path == tmp_path / "mine"


def test_the_ledger_waits_for_nothing_heavy() -> None:
    script = (
        "import sys, time\nimport veilrec.privacy.ledger\n"
        "heavy = {'torch', 'polars', 'numba', 'scipy', 'dp_accounting'}\n"
        "print(sorted(heavy & set(sys.modules)), time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, _, seconds = done.stdout.strip().rpartition(" ")
    assert loaded == "[]"
    assert float(seconds) < 0.5


# -- two processes at once ---------------------------------------------------------------------------------


def just_before_writing(monkeypatch: pytest.MonkeyPatch, act) -> None:
    """Another process acts between the look at the ledger and the transaction, once."""
    waiting = [act]

    def writing(*what):
        if waiting:
            waiting.pop()()
        return ledger_file.writing(*what)

    monkeypatch.setattr("veilrec.privacy.ledger.writing", writing)


def test_a_limit_that_comes_in_between_is_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    just_before_writing(
        monkeypatch, lambda: ledger.set_limit("shop", epsilon=1.0, delta=0.0, unit="interaction")
    )
    with pytest.raises(BudgetExhausted, match=r"epsilon 1\.2 and delta 0 per interaction"):
        take(ledger, pure(0.6))
    assert len(ledger.history("shop")) == 1


def test_a_spend_that_comes_in_between_is_counted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    take(ledger, pure(0.1))
    just_before_writing(monkeypatch, lambda: take(ledger, pure(0.2)))
    change = ledger.set_limit("shop", epsilon=1.0, delta=0.0, unit="interaction")
    assert change.spent_epsilon == pytest.approx(0.6)


RACER = """
import sys, time
from veilrec.core import BudgetExhausted
from veilrec.privacy import ledger_queries as queries
from veilrec.privacy.events import PureEvent
from veilrec.privacy.ledger import Ledger
ledger = Ledger(sys.argv[1])
broken = sys.argv[2] == "broken"
if broken:  # looks first, writes later: the twin that the test must catch
    queries.refuse_beyond = lambda *what: None
print("ready", flush=True)
for line in sys.stdin:
    population = line.strip()
    try:
        if broken:
            [account] = ledger.accounts(population)
            if account.left[0] < 1:
                raise BudgetExhausted("", population="", unit="", asked=(0, 0), left=(0, 0))
            time.sleep(0.01)
        ledger.reserve(population, population, [PureEvent(epsilon=1.0)], delta=0.0, run="race")
        print("won", flush=True)
    except BudgetExhausted:
        print("lost", flush=True)
"""


def winners(path: Path, kind: str, rounds: int) -> list[int]:
    """How many of three processes got the last bit of budget, round by round."""
    ledger = Ledger(path)
    words = [sys.executable, "-c", RACER, str(path), kind]
    racers = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for _ in range(3)
    ]
    found = []
    try:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for number in range(rounds):
            ledger.set_limit(f"p{number}", epsilon=1.5, delta=0.0)
            for racer in racers:
                racer.stdin.write(f"p{number}\n")
            found.append([racer.stdout.readline() for racer in racers].count("won\n"))
            assert stands(ledger, population=f"p{number}").epsilon == found[-1]
    finally:
        for racer in racers:
            racer.communicate()
    return found


def test_of_racing_processes_exactly_one_wins(tmp_path: Path) -> None:
    assert winners(tmp_path / "sound", "sound", 25) == [1] * 25
    assert max(winners(tmp_path / "broken", "broken", 8)) > 1
