"""The budget ledger: what every run has spent on a population, and whether one more fits.

A run reserves all it will spend *before* it touches data and marks the reservation as released when it has
ended. A crash leaves it reserved, and that counts as spent for ever: nothing here gives budget back.

Totals are added, epsilon to epsilon and delta to delta (basic composition). That stays true when a run is
chosen after seeing what earlier runs released, and when the limit decides who may still run (Rogers, Roth,
Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016). One tight sum over the events of all runs
would be smaller, but does not hold for parameters that were chosen in the light of earlier results.

How a spend for one unit counts for another: ``ledger_units``. The file: ``ledger_file``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from veilrec import __version__
from veilrec.core import DataError, check, check_choice, check_positive
from veilrec.privacy import ledger_queries as queries
from veilrec.privacy.events import RELATIONS, Event, Neighbours, check_budget
from veilrec.privacy.guarantee import UNITS, Claim, Unit
from veilrec.privacy.ledger_entries import check_name, known_events, new_spend, new_token, now
from veilrec.privacy.ledger_file import ledger_path, reading, writing
from veilrec.privacy.ledger_hold import hold, let_go
from veilrec.privacy.ledger_records import Account, LimitChange, Spend
from veilrec.privacy.ledger_units import USUAL, Pair


@dataclass(frozen=True)
class Reservation:
    """A spend that is paid for: the run may touch data now. See :class:`Ledger` for an example."""

    spend: Spend
    ledger: Ledger = field(repr=False, compare=False)
    number: int = field(repr=False, compare=False)
    token: str = field(repr=False, compare=False)
    """What :meth:`Ledger.resume` asks for; keep it with the run."""

    @property
    def id(self) -> str:
        """What :meth:`Ledger.resume` asks for; keep it with the run.

        >>> import tempfile
        >>> from veilrec.privacy import PureEvent
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> taken = ledger.reserve("shop", "f", [PureEvent(epsilon=1.0)], delta=0.0, run="first")
        >>> len(taken.id)
        16
        """
        return self.spend.id

    def release(self) -> None:
        """The run has ended and its results are out. Again is harmless."""
        self.ledger.mark_released(self.id)

    def let_go(self) -> None:
        """The run has stopped: it stays spent, and from now on :meth:`Ledger.resume` may take it up.

        Until then, or until the process is gone, it has one holder. Again is harmless.
        """
        let_go(self.ledger.path, self.number)


class Ledger:
    """Budgets in one SQLite file, shared by all processes that name it.

    >>> import tempfile
    >>> from veilrec.privacy import PureEvent
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
    >>> _ = ledger.set_limit("shop", epsilon=2.0, delta=1e-5)
    >>> taken = ledger.reserve("shop", "fingerprint", [PureEvent(epsilon=1.5)], delta=0.0, run="first")
    >>> taken.release()   # after the work
    >>> [account] = ledger.accounts("shop")
    >>> account.epsilon, account.left
    (1.5, (0.5, 1e-05))
    >>> ledger.reserve("shop", "fingerprint", [PureEvent(epsilon=1.0)], delta=0.0, run="second")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.BudgetExhausted: run 'second' asks for epsilon 1 and delta 0 per user of 'shop' ...
    """

    def __init__(self, path: str | Path | None = None, *, timeout: float = 10.0) -> None:
        check_positive("timeout", timeout)
        self.path = ledger_path() if path is None else Path(path).expanduser().absolute()
        self.timeout = timeout

    # -- limits ---------------------------------------------------------------------------------------

    def set_limit(
        self,
        population: str,
        *,
        epsilon: float,
        delta: float,
        unit: Unit = "user",
        neighbours: Neighbours | None = None,
    ) -> LimitChange:
        """Set, raise or lower the limit per ``unit``; below what is spent it only stops further runs.

        >>> import tempfile
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> ledger.set_limit("shop", epsilon=8.0, delta=1e-5).neighbours
        'add-remove'
        """
        check_name("population", population)
        check_budget(epsilon, delta)
        check_choice("unit", unit, UNITS)
        neighbours = USUAL[unit] if neighbours is None else neighbours
        check_choice("neighbours", neighbours, RELATIONS)
        pair: Pair = (unit, neighbours)
        costs: dict[str, queries.Amount] = {}
        while True:
            with reading(self.path, self.timeout) as db:
                missing = queries.without_cost(db, population, pair)
            costs |= {s.id: queries.cost_of(s, pair) for s in missing if s.id not in costs}
            with writing(self.path, self.timeout) as db:
                missing = queries.without_cost(db, population, pair)
                if any(spend.id not in costs for spend in missing):
                    continue  # another run came in between
                for spend in missing:
                    queries.add_cost(db, spend.id, pair, costs[spend.id])
                spent = queries.total(db, population, pair)
                change = LimitChange(
                    population=population,
                    unit=unit,
                    neighbours=neighbours,
                    epsilon=float(epsilon),
                    delta=float(delta),
                    spent_epsilon=spent[0],
                    spent_delta=spent[1],
                    version=__version__,
                    time=now(),
                )
                queries.add_change(db, change)
            return change

    # -- spending -------------------------------------------------------------------------------------

    def reserve(
        self,
        population: str,
        fingerprint: str,
        events: Iterable[Event],
        *,
        delta: float,
        run: str,
        unit: Unit = "user",
        neighbours: Neighbours = "add-remove",
        per_user: int | None = None,
        grade: str = "secure",
        new_population: bool = False,
    ) -> Reservation:
        """Pay for ``events`` before data is touched; :class:`BudgetExhausted` if a limit does not allow it.

        Epsilon is composed from the events at ``delta``. ``per_user``: for spends per interaction, the most
        interactions that any user has in what the run reads. ``grade``: that of the noise. A ``fingerprint``
        that is booked under another population's name is refused, since it would get a fresh budget, unless
        the caller says with ``new_population`` that it shall.

        >>> import tempfile
        >>> from veilrec.privacy import GaussianEvent
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> steps = [GaussianEvent(noise_multiplier=4.0, count=20)]
        >>> taken = ledger.reserve("shop", "f", steps, delta=1e-5, run="first")
        >>> round(taken.spend.epsilon, 2)
        4.98
        """
        spend = new_spend(
            population, fingerprint, events, delta, run, unit, neighbours, per_user=per_user, grade=grade
        )
        return self._reserve([spend], new_population)[0]

    def reserve_claims(
        self,
        population: str,
        fingerprint: str,
        claims: Iterable[Claim],
        *,
        run: str,
        grade: str = "secure",
        new_population: bool = False,
    ) -> list[Reservation]:
        """Pay for all claims of a run, or for none: when one is refused, nothing is spent.

        ``grade`` and ``new_population`` as in :meth:`reserve`.

        >>> import tempfile
        >>> from veilrec.privacy import Claim, PureEvent
        >>> event = PureEvent(epsilon=1.0, neighbours="replace")
        >>> claim = Claim("gender", "attribute", "replace", "OXSF", ("reports",), (event,))
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> [one.spend.epsilon for one in ledger.reserve_claims("shop", "f", [claim, claim], run="first")]
        [1.0, 1.0]
        """
        spends = [
            new_spend(
                population,
                fingerprint,
                claim.events,
                claim.delta,
                run,
                claim.unit,
                claim.neighbours,
                per_user=claim.per_user if claim.per_user > 1 else None,
                grade=grade,
            )
            for claim in claims
        ]
        return self._reserve(spends, new_population) if spends else []

    def _reserve(self, spends: list[Spend], new_population: bool) -> list[Reservation]:
        population = spends[0].population
        costs: list[dict[Pair, queries.Amount]] = [
            {(spend.unit, spend.neighbours): (spend.epsilon, spend.delta)} for spend in spends
        ]
        with reading(self.path, self.timeout) as db:
            limits = queries.limits(db, population)
        token = new_token()  # of the whole run
        while True:
            pairs: list[Pair] = [(limit.unit, limit.neighbours) for limit in limits.values()]
            for spend, cost in zip(spends, costs):
                cost |= {pair: queries.cost_of(spend, pair) for pair in pairs if pair not in cost}
            with ExitStack() as undo, writing(self.path, self.timeout) as db:
                if not new_population:
                    queries.refuse_renamed(db, spends[0])
                limits = queries.limits(db, population)
                if any((limit.unit, limit.neighbours) not in costs[0] for limit in limits.values()):
                    continue  # a limit came in between
                for limit in limits.values():  # all parts of a run together, or none of them
                    pair = (limit.unit, limit.neighbours)
                    asked = [cost[pair] for cost in costs]
                    queries.refuse_beyond(limit, queries.total(db, population, pair), spends, asked)
                numbers = []
                for place, (spend, cost) in enumerate(zip(spends, costs)):
                    spends[place] = replace(spend, reserved_at=now())
                    numbers.append(queries.add_spend(db, spends[place], cost, token))
                for spend, number in zip(spends, numbers):  # none is held before all are allowed
                    self._hold(number, spend.id, undo)
            return [Reservation(spend, self, number, token) for spend, number in zip(spends, numbers)]

    def resume(
        self,
        reservation_id: str,
        *,
        population: str,
        fingerprint: str,
        events: Iterable[Event],
        tokens: Sequence[str] = (),
        token: str = "",
        ended: bool = False,
    ) -> Reservation:
        """Go on with a reservation that was not released, without paying again.

        Refused when what is asked differs from what was paid for, when the results are out already, and
        while it has a holder: another process, or a thread of this one. ``tokens`` are those that the run
        has kept: one of them must be the reservation's, else the run went on from another copy of what was
        kept. ``token`` is a new one, which becomes the reservation's; the run keeps it beside the others
        before this call and alone after it, so that it can go on whenever it is killed. ``ended``: all was
        drawn and kept, and is only read back; then the results may be out, and no token is asked for.

        >>> import tempfile
        >>> from veilrec.privacy import PureEvent, new_token
        >>> ledger, events = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite"), [PureEvent(epsilon=1.0)]
        >>> taken = ledger.reserve("shop", "f", events, delta=0.0, run="first")
        >>> taken.let_go()   # it was stopped; so does the end of its process
        >>> same = {"population": "shop", "fingerprint": "f", "events": events}
        >>> again = ledger.resume(taken.id, **same, tokens=[taken.token], token=new_token())
        >>> again.id == taken.id, ledger.accounts("shop")[0].epsilon
        (True, 1.0)
        """
        events = known_events(events)
        with ExitStack() as undo, writing(self.path, self.timeout) as db:
            number, spend = self._found(db, reservation_id)
            asked = {"population": population, "fingerprint": fingerprint, "events": events}
            for name, value in asked.items():
                paid = getattr(spend, name)
                check(value == paid, name, f"what was reserved, {paid!r}", value, "Reserve anew.")
            check(
                ended or spend.released_at is None,
                "reservation",
                "unfinished",
                reservation_id,
                f"Its results were released at {spend.released_at}; another release needs a new one.",
            )
            if not ended:
                queries.pass_on(db, number, reservation_id, tokens, token)
            self._hold(number, reservation_id, undo)
        return Reservation(spend, self, number, token)

    def pass_on(self, reservation_ids: Sequence[str], tokens: Sequence[str], token: str) -> None:
        """Give reservations that are held a new ``token``: copies of what was kept until now are stale.

        A run calls it before it keeps what it has drawn, with ``tokens`` and ``token`` as in :meth:`resume`.

        >>> import tempfile
        >>> from veilrec.privacy import PureEvent, new_token
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> taken = ledger.reserve("shop", "f", [PureEvent(epsilon=1.0)], delta=0.0, run="first")
        >>> ledger.pass_on([taken.id], [taken.token], new_token())
        >>> ledger.pass_on([taken.id], [taken.token], new_token())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: reservation must be taken up where it was left last, got ... The run went on elsewhere ...
        """
        with writing(self.path, self.timeout) as db:
            for one in reservation_ids:
                number, _ = self._found(db, one)
                queries.pass_on(db, number, one, tokens, token)

    def mark_released(self, reservation_id: str) -> None:
        """What :meth:`Reservation.release` calls; harmless when it was released before."""
        with writing(self.path, self.timeout) as db:
            number, _ = self._found(db, reservation_id)
            db.execute(
                "UPDATE spend SET state = 'released', released_at = ? "
                "WHERE number = ? AND state = 'reserved'",
                (now(), number),
            )
        let_go(self.path, number)

    # -- looking --------------------------------------------------------------------------------------

    def populations(self) -> list[str]:
        """The names that have a limit or a spend.

        >>> Ledger("not-there.sqlite").populations()
        []
        """
        with reading(self.path, self.timeout) as db:
            return queries.populations(db)

    def accounts(self, population: str | None = None) -> list[Account]:
        """How each population (or one) stands: a row per unit that has a limit or a spend.

        >>> import tempfile
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> _ = ledger.set_limit("shop", epsilon=8.0, delta=1e-5)
        >>> [(a.population, a.unit, a.left) for a in ledger.accounts()]
        [('shop', 'user', (8.0, 1e-05))]
        """
        with reading(self.path, self.timeout) as db:
            names = queries.populations(db, population)
            return [account for name in names for account in queries.accounts(db, name)]

    def history(self, population: str | None = None) -> list[Spend | LimitChange]:
        """Every spend and every change of a limit, oldest first.

        >>> import tempfile
        >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
        >>> _ = ledger.set_limit("shop", epsilon=8.0, delta=1e-5)
        >>> [entry.epsilon for entry in ledger.history("shop")]
        [8.0]
        """
        entries: list[Spend | LimitChange] = []
        with reading(self.path, self.timeout) as db:
            for name in queries.populations(db, population):
                entries += [*queries.changes(db, name), *queries.spends(db, name)]
        return sorted(entries, key=lambda entry: entry.time)

    def _hold(self, number: int, reservation_id: str, undo: ExitStack) -> None:
        remedy = "Another process or thread is at work on it: wait until it has ended or let go."
        check(hold(self.path, number), "reservation", "free", reservation_id, remedy)
        undo.push(lambda error, *_: let_go(self.path, number) if error else None)

    def _found(self, db: sqlite3.Connection, reservation_id: str) -> tuple[int, Spend]:
        found = queries.find_spend(db, reservation_id)
        if found is None:
            raise DataError(f"has no reservation {reservation_id!r}. Was it made elsewhere?", file=self.path)
        return found
