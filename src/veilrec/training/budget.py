"""The budget of a fit: reserved before data are touched, taken up again when a stopped fit goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veilrec.core import check
from veilrec.data import Dataset
from veilrec.privacy import Claim, Ledger, Noise, Reservation
from veilrec.training.folder import when_left
from veilrec.training.job import Job


def reserve(
    ledger: Ledger,
    data: Dataset,
    population: str,
    run: str,
    claims: Sequence[Claim],
    noise: Noise,
    job: Job | None,
    in_floats: bool = False,
    new_population: bool = False,
) -> list[Reservation]:
    """One reservation per claim that pays, all or none.

    With a checkpoint folder the job's notes there name them, and a fit that goes on continues them instead of
    paying again; so does one that has ended, which draws nothing more. They are held as long as the folder
    is, and a token says which of its copies may go on: the one that was at work last. ``in_floats``: the
    noise is a formula, booked as for research. ``new_population``: the caller says that data which are booked
    under another name get a budget of their own; data are the same by their
    :attr:`~veilrec.data.Dataset.identity`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import veilrec as vr
    >>> from veilrec.privacy import PureEvent
    >>> report = PureEvent(epsilon=1.0, neighbours="replace", label="gender")
    >>> claim = Claim("the gender of a user", "attribute", "replace", "OXSF", ("reports",), (report,))
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite")
    >>> data = vr.synthetic(users=60, items=40, interactions=900)
    >>> held = reserve(ledger, data, "shop", "demo", [claim], Noise.research(1), None)
    >>> [one.spend.epsilon for one in held]
    [1.0]
    """
    claims = [claim for claim in claims if not claim.restates]
    held = []
    if job is not None and job.reservations:
        same = len(job.reservations) == len(claims)
        remedy = "Choose another folder, or delete this one and pay again."
        check(same, "checkpoint", "paid for as this version pays", f"{len(job.reservations)} parts", remedy)
        about: dict[str, Any] = {"population": population, "fingerprint": data.identity, "ended": job.ended}
        if not job.ended:
            about["tokens"], about["token"] = job.new_token()
        for number, claim in zip(job.reservations, claims, strict=True):
            held.append(ledger.resume(number, events=claim.events, **about))
            _let_go_with(job, held[-1])
        if not job.ended:
            _pay(job, held)
        return held
    grade = "research" if in_floats else noise.grade
    held = ledger.reserve_claims(
        population, data.identity, claims, run=run, grade=grade, new_population=new_population
    )
    if job is not None and held:
        for one in held:
            _let_go_with(job, one)
        _pay(job, held)
    return held


def _pay(job: Job, held: Sequence[Reservation]) -> None:
    if job.checkpoint is not None:
        job.paid([one.id for one in held], held[0].token)
        job.held.extend(held)


def _let_go_with(job: Job, reservation: Reservation) -> None:
    if job.checkpoint is None:
        reservation.let_go()  # nobody can go on: its token is kept nowhere
    else:
        when_left(job.checkpoint, reservation.let_go)


def book_reports(
    ledger: Ledger,
    people: Dataset,
    population: str,
    model: str,
    noise: Noise,
    new_population: bool = False,
) -> None:
    """Book what ``noise`` has drawn for reports of new people, if anything, before they are handed over.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from veilrec.privacy import PureEvent
    >>> import veilrec as vr
    >>> ledger, noise = Ledger(Path(tempfile.mkdtemp()) / "budget.sqlite"), Noise.research(1)
    >>> noise.record(PureEvent(epsilon=1.0, neighbours="replace", label="gender"))
    >>> book_reports(ledger, vr.synthetic(5, 40, 60), "newcomers", "gerai", noise)
    >>> [account.epsilon for account in ledger.accounts("newcomers")]
    [1.0]
    """
    if not noise.events:
        return
    seen, drawn = ("the reports, and everything computed from them",), tuple(noise.events)
    claim = Claim("what new people report", "attribute", "replace", "OXSF", seen, drawn)
    about = (ledger, people, population, f"{model}, new people", [claim], noise, None)
    for reservation in reserve(*about, new_population=new_population):
        reservation.release()
