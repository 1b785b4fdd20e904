"""Attribute inference: can gender, age or occupation be read off what a recommender shows?

Threat model. The attacker holds 80 % of the users with their attribute and their inputs (a leak, a survey,
paid accounts), sees the inputs of the other 20 %, and guesses their attribute. Input is the ``history``
(training items), the ``list`` (top K), ``both`` (their sum, one number per item, as in GERAI) or
``adaptive``: history and list side by side and every report that the model releases per user, perturbed as it
is, so that the attacker learns what the perturbation does. The history is the attacker's own knowledge: no
mechanism inside the model can push an attacker who has it below ``history``. What the model itself gives away
is the *difference* to the same attacker with the history alone, on the same splits.

Every result stands beside a random guess, the majority class, the history alone, and the same attacker fed
the popular items instead of the model's list. An attacker that finds nothing proves nothing; another may do
better.

Reference: Zhang et al., "Graph embedding for recommendation against attribute inference attacks", WWW 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.attacks.attribute_inputs import (
    INPUTS,
    Attackable,
    Evidence,
    evidence_of,
    lists_of,
    popular_lists,
    reports_of,
)
from veilrec.attacks.attribute_metrics import METRICS, class_metrics
from veilrec.attacks.attribute_models import ATTACKERS, Task, guess, one_thread
from veilrec.attacks.attribute_result import AttributeAttack, Outcome
from veilrec.attacks.attribute_targets import Target, targets_of
from veilrec.core import bar, check, check_choice, check_count, check_fraction, stream, stream_seed
from veilrec.data import Dataset, Split

_DRAWS = 50  # random guesses per attacked user

Key = tuple[str, int | None]


def attribute_attack(
    model: Attackable,
    data: Dataset | Split,
    target: str | Iterable[str] | None = None,
    *,
    attackers: str | Iterable[str] | None = None,
    inputs: str | Iterable[str] = "both",
    k: int | Iterable[int] = 10,
    bins: Mapping[str, Sequence[float]] | None = None,
    repeats: int = 5,
    labelled: float = 0.8,
    seed: int = 0,
    progress: bool = False,
) -> AttributeAttack:
    """Attack a fitted recommender: infer ``target`` (None: every attribute that can be) of its users.

    ``data`` are the histories that the attacker holds, normally what the model was fitted on; of a split, its
    training part. ``attackers`` are words of ``ATTACKERS`` (None: all), ``inputs`` of history, list, both and
    adaptive, ``k`` the list lengths. A numeric attribute needs public ``bins``, say ``{"age": (35, 46)}``.
    Users without a value, or in a class of fewer than 5, are left out and counted. The split into labelled
    and attacked users is drawn ``repeats`` times, by class.

    >>> import veilrec as vr
    >>> data = vr.synthetic(users=150, items=80, interactions=3000)
    >>> model = vr.Popularity().fit(data)
    >>> found = attribute_attack(model, data, "gender", attackers="bayes", repeats=2)
    >>> sorted(row.sees for row in found.outcomes)
    ['both', 'history', 'majority class', 'popular both', 'random guess']
    >>> found.leak("gender", "bayes").mean == found.outcome("gender", "bayes", "both").mean("auc") - (
    ...     found.outcome("gender", "bayes", "history").mean("auc"))
    True
    """
    chosen = _words("attackers", attackers, ATTACKERS)
    kinds = _words("inputs", inputs, INPUTS)
    lengths = [k] if isinstance(k, int) else list(dict.fromkeys(k))
    check(len(lengths) > 0, "k", "a list length or more", k)
    for length in lengths:
        check_count("k", length)
    check_count("repeats", repeats)
    check_count("seed", seed, 0)
    check_fraction("labelled", labelled)
    histories = data.train if isinstance(data, Split) else data
    targets, passed = targets_of(histories, target, bins or {})
    seen = _evidence(model, histories, kinds, lengths)
    outcomes: list[Outcome] = []
    with (
        one_thread(chosen),
        bar("attacking", len(targets) * repeats * len(chosen) * len(seen), show=progress) as tick,
    ):
        for one in targets:
            outcomes += _attack_target(one, seen, chosen, repeats, labelled, seed, tick.advance)
    settings = {
        "attackers": chosen,
        "inputs": kinds,
        "k": lengths,
        "bins": {name: [float(edge) for edge in edges] for name, edges in (bins or {}).items()},
        "repeats": repeats,
        "labelled": labelled,
        "seed": seed,
    }
    return AttributeAttack(
        model=str(getattr(model, "word", type(model).__name__)),
        data=histories.name,
        targets=tuple(targets),
        passed_over=passed,
        outcomes=tuple(outcomes),
        settings=settings,
    )


def _evidence(
    model: Attackable, data: Dataset, kinds: Sequence[str], lengths: Sequence[int]
) -> dict[Key, Evidence]:
    """What the attacker sees, by the words of the table and the length of the list."""
    history = data.matrix()
    found: dict[Key, Evidence] = {("history", None): Evidence(history)}
    with_lists = [kind for kind in kinds if kind != "history"]
    if not with_lists:
        return found
    lists, popular = lists_of(model, data, lengths), popular_lists(data, lengths)
    reports = reports_of(model, data) if "adaptive" in kinds else None
    for kind in with_lists:
        for k in lengths:
            found[kind, k] = evidence_of(kind, history, lists[k], reports)
            found[f"popular {kind}", k] = evidence_of(kind, history, popular[k])
    return found


def _attack_target(
    target: Target,
    seen: Mapping[Key, Evidence],
    attackers: Sequence[str],
    repeats: int,
    labelled: float,
    seed: int,
    advance: Any,
) -> list[Outcome]:
    users, classes = len(target.codes), len(target.classes)
    keys: list[tuple[str, str, int | None]] = [("", "random guess", None), ("", "majority class", None)]
    keys += [(attacker, *key) for attacker in attackers for key in seen]
    values = {key: np.zeros((repeats, len(METRICS))) for key in keys}
    hits = {key: np.zeros(users) for key in keys}
    tested = np.zeros(users)
    ratio = 0.0

    def judge(key: tuple[str, str, int | None], repeat: int, scores: NDArray[np.float64]) -> None:
        guessed = scores.argmax(axis=1)
        values[key][repeat] = [*class_metrics(truth, guessed, scores).values()]
        hits[key][test] += guessed == truth

    for repeat in range(repeats):
        train, test = target.split(labelled, stream(seed, "attribute split", target.name, repeat))
        truth, labels = target.codes[test], target.codes[train]
        tested[test] += 1
        ratio = len(test) / len(train)
        shares = np.bincount(labels, minlength=classes) / len(labels)
        judge(keys[1], repeat, np.tile(shares, (len(test), 1)))
        draw = stream(seed, "random guess", target.name, repeat).choice(
            classes, (_DRAWS, len(test)), p=shares
        )
        flat = np.ones((draw.size, classes))
        values[keys[0]][repeat] = [*class_metrics(np.tile(truth, _DRAWS), draw.ravel(), flat).values()]
        hits[keys[0]][test] += (draw == truth).mean(axis=0)
        number = stream_seed(seed, "attribute attacker", target.name, repeat)
        for key, evidence in seen.items():
            task = Task(evidence, train, test, labels, classes, number)
            for attacker in attackers:
                judge((attacker, *key), repeat, guess(attacker, task))
                advance()
    ever = tested > 0
    return [Outcome(target.name, *key, values[key], hits[key][ever] / tested[ever], ratio) for key in keys]


def _words(name: str, given: str | Iterable[str] | None, known: Iterable[str]) -> list[str]:
    if given is None:
        return list(known)
    words = [given] if isinstance(given, str) else list(dict.fromkeys(given))
    check(len(words) > 0, name, "one or more", words)
    for word in words:
        check_choice(name, word, known)
    return words
