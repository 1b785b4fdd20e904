"""Link stealing and membership inference, the course of an attack: people, cells, suspicions, metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from veilrec.attacks.attribute_models import one_thread
from veilrec.attacks.links_attackers import LINK_ATTACKERS
from veilrec.attacks.links_cells import Cells, draw_people, link_cells, membership_cells, split_edges
from veilrec.attacks.links_knowledge import OWN, Attacker, Knowledge, Linkable, NotApplicable, tiles
from veilrec.attacks.links_learn import LEARNERS
from veilrec.attacks.links_metrics import Curve
from veilrec.attacks.links_nulls import NULLS
from veilrec.attacks.links_result import LinkAttack, LinkOutcome
from veilrec.attacks.links_settings import ADVERSARIES, Settings, check_cells, check_same, held_out
from veilrec.core import CannotFoldIn, DataError, NotFitted, bar, stream
from veilrec.data import Dataset, Split

Values = NDArray[np.float64]
Key = tuple[str, str]  # adversary, "" for none; attacker
Suspicions = dict[Key, tuple[Values, Values]]  # of the labelled users' cells, of the attacked users' cells


def steal(kind: str, model: Linkable, data: Dataset | Split, given: Settings, progress: bool) -> LinkAttack:
    """Run the attackers of ``kind`` "links" or "membership" and judge them.

    >>> import veilrec as vr
    >>> parts = vr.split.holdout(vr.synthetic(users=90, items=60, interactions=1800))
    >>> given = Settings.of("X", "score", cells=1000, resamples=20)
    >>> steal("links", vr.EASE().fit(parts.train, progress=False), parts, given, False).kind
    'links'
    """
    train = data.train if isinstance(data, Split) else data
    check_same(model, train)
    history, held = train.matrix(), held_out(data)
    people = draw_people(history, given.known, given.users, given.seed)
    asked = np.sort(np.concatenate([people.labelled, people.attacked]))
    hints, secret = split_edges(history, asked, given.own, stream(given.seed, "links", "hints"))

    def cells_of(users: NDArray[np.int64], group: str, most: int) -> Cells:
        generator = stream(given.seed, kind, "cells", group)
        if kind == "links":
            return link_cells(secret, history, held, users, most, generator)
        return membership_cells(secret, held, users, most, generator)

    lesson = cells_of(people.labelled, "labelled", given.cells // 2)
    target = cells_of(people.attacked, "attacked", given.cells)
    check_cells(kind, target, train.name)
    known = history[people.reference]

    def knowledge(side: str) -> Knowledge:
        seen = model.view(side) if side else {}
        return Knowledge(seen, train, people.reference, known, hints, asked, given.k, given.seed)

    plan = _plan(given)
    values, missing = _collect(plan, knowledge, lesson, target, progress)
    shown = {key: why for key, why in missing.items() if key[0] in given.adversaries}
    sides = [side for side in given.adversaries if any(key[0] == side for key in values)]
    name = str(getattr(model, "word", type(model).__name__))
    if not sides:
        why = "; ".join(f"{attacker}: {reason}" for (_, attacker), reason in shown.items())
        all_sides = " or ".join(given.adversaries)
        raise DataError(f"{name} must show {all_sides} something to work on, got nothing. {why}.")
    learners = [word for word in given.attackers if word in LEARNERS]
    with one_thread(learners):
        for side in ["", *sides] if learners else []:
            for word in learners:
                values[side, word] = _learn(word, side, values, lesson, target, given.seed)
    wanted = [
        (side, word) for side, word in values if not side or (side in sides and word in given.attackers)
    ]
    wanted.sort(key=lambda key: ("", *ADVERSARIES).index(key[0]))
    return LinkAttack(
        kind=kind,
        model=name,
        data=train.name,
        outcomes=_judge(wanted, plan, values, target, given, progress),
        not_applicable={key: why for key, why in shown.items() if key[1] in given.attackers},
        counts={
            "attacked_users": len(people.attacked),
            "labelled_users": len(people.labelled),
            "reference_users": len(people.reference),
            "edges": int(target.truth.sum()),
            "other_cells": int((~target.truth).sum()),
            "density": target.density,
        },
        settings=dataclasses.asdict(given),
    )


def _plan(given: Settings) -> dict[Key, Attacker]:
    """Who is run for whom: S can do all that O can. A supervised attacker weighs all that its adversary can
    do, and X what O can do too; nobody does what was left out."""
    learning = any(word in LEARNERS for word in given.attackers)
    plan: dict[Key, Attacker] = {("", word): one for word, one in NULLS.items()}
    for side in ADVERSARIES:
        for word, one in LINK_ATTACKERS.items():
            asked = side in given.adversaries and word in given.attackers
            weighed = learning and (side in given.adversaries or (side == "O" and "X" in given.adversaries))
            if side in one.adversaries and (asked or weighed) and word not in given.leave_out:
                plan[side, word] = one
    return plan


def _collect(
    plan: Mapping[Key, Attacker],
    knowledge: Callable[[str], Knowledge],
    lesson: Cells,
    target: Cells,
    progress: bool,
) -> tuple[Suspicions, dict[Key, str]]:
    """Everybody's suspicions, and why some have none."""
    values: Suspicions = {}
    missing: dict[Key, str] = {}
    sides = {side: knowledge(side) for side, _ in plan}
    with bar("attacking", len(plan), show=progress) as tick:
        for (side, word), one in plan.items():
            try:
                values[side, word] = _suspicions(one, sides[side], lesson, target)
            except (NotApplicable, CannotFoldIn, NotFitted) as reason:
                missing[side, word] = str(reason).rstrip(".")
            tick.advance(note=word)
    return values, missing


def _suspicions(one: Attacker, know: Knowledge, *parts: Cells) -> tuple[Values, Values]:
    """The suspicions of the cells, tile by tile of users."""
    rows = one.prepare(know)
    found = [np.zeros(len(cells.user)) for cells in parts]
    for part in tiles(len(know.asked), know.data.n_items):
        users = know.asked[part]
        block = rows(users)
        for cells, out in zip(parts, found):
            low, high = np.searchsorted(cells.user, [users[0], users[-1] + 1])
            place = np.searchsorted(users, cells.user[low:high])
            out[low:high] = block[place, cells.item[low:high]]
    return found[0], found[1]


def _learn(
    word: str, side: str, values: Suspicions, lesson: Cells, target: Cells, seed: int
) -> tuple[Values, Values]:
    """A supervised attacker on the suspicions of its adversary, for X also of O, and of those without one."""
    if not lesson.truth.any() or lesson.truth.all():
        raise DataError("labelled users must have edges and other cells to learn from, got one kind.")
    mine = {"", "O", "X"} if side == "X" else {"", side}
    columns = [key for key in values if key[0] in mine and key[1] not in {"random", *LEARNERS}]
    train, asked = (np.stack([values[key][at] for key in columns], axis=1) for at in (0, 1))
    return np.empty(0), LEARNERS[word](train, lesson.truth, asked, seed)


def _judge(
    keys: Sequence[Key],
    plan: Mapping[Key, Attacker],
    values: Suspicions,
    target: Cells,
    given: Settings,
    progress: bool,
) -> tuple[LinkOutcome, ...]:
    """Metrics, and the same over resampled users: the same resamples for everybody."""
    users, place = np.unique(target.user, return_inverse=True)
    even = np.full(len(users), 1 / len(users))
    times = stream(given.seed, "links", "bootstrap").multinomial(len(users), even, given.resamples)
    found = []
    with bar("judging", len(keys), show=progress) as tick:
        for side, word in keys:
            one = plan.get((side, word))
            about = (one.sees, one.knows) if one else ("all of these" if side else "no model", OWN)
            curve = Curve(target.truth, values[side, word][1], target.weight)
            draws = curve.resampled(place, times)
            found.append(LinkOutcome(side, word, *about, curve.values(), draws, curve.roc()))
            tick.advance(note=word)
    return tuple(found)
