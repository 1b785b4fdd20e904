from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.attacks import membership_attack
from veilrec.attacks.links_cells import membership_cells
from veilrec.attacks.links_settings import held_out
from veilrec.core import DataError, stream
from veilrec.training import Recommender

FAST = {"resamples": 40}


@pytest.fixture(scope="module")
def parts() -> vr.Split:
    data = vr.synthetic(users=240, items=120, interactions=9600, seed=3)
    return vr.split.holdout(data, test=0.2, valid=0.1, seed=1)


@dataclasses.dataclass(eq=False)
class Knows(Recommender):
    """Scores true interests 1, trained on or not, and trained ones ``memory`` more."""

    word: ClassVar[str] = "knows"
    summary: ClassVar[str] = "an oracle of taste"
    memory: float = 0.0
    taste: object = None

    def _fit(self, job) -> None:
        drawn = stream(job.seed, "knows").random(self.history.shape)
        table = self.taste.toarray() + self.memory * self.history.toarray() + 0.1 * drawn
        self.private["scores"] = table.astype(np.float32)

    def _score(self, users):
        return self.private["scores"][users]


def knows(parts, memory):
    taste = parts.train.matrix() + held_out(parts)
    return Knows(memory=memory, taste=taste).fit(parts.train)


def test_cells_are_matched_within_users(parts) -> None:
    secret, held = parts.train.matrix(), held_out(parts)
    users = np.arange(0, 240, 2)
    cells = membership_cells(secret, held, users, 10_000, stream(1, "cells"))
    for side, matrix in ((True, secret), (False, held)):
        chosen = cells.truth == side
        assert (np.asarray(matrix[cells.user[chosen], cells.item[chosen]]) > 0).all()
    mine, theirs = (np.bincount(cells.user[cells.truth == side], minlength=240) for side in (True, False))
    assert np.array_equal(mine, theirs)
    sizes = np.minimum(np.diff(secret.indptr), np.diff(held.indptr))
    assert np.array_equal(mine[users], sizes[users])
    assert (mine[1::2] == 0).all()
    few = membership_cells(secret, held, users, 400, stream(1, "cells"))
    assert 400 <= len(few.user) <= 400 + 2 * len(users)


def test_held_out_is_test_and_validation_less_what_was_trained() -> None:
    data = vr.Dataset.from_arrays([1, 1, 1, 1], ["a", "b", "c", "a"])
    parts = vr.split.predefined(data, np.array([False, False, True, True]))
    assert held_out(parts).toarray().tolist() == [[0, 0, 1]]
    assert held_out(parts.train).nnz == 0
    world = vr.split.holdout(vr.synthetic(60, 40, 900), test=0.2, valid=0.1)
    assert held_out(world).nnz == len(world.test) + len(world.valid)


def remembers_nothing(model, parts) -> None:
    found = membership_attack(model, parts, adversaries="X", attackers=["score", "score similarity"], **FAST)
    for name in ("score", "score similarity"):
        interval = found.outcome("X", name).interval("auc")
        assert interval.low <= 0.5 <= interval.high, (name, str(interval))


def test_taste_is_no_membership_and_memory_is(parts) -> None:
    """An oracle of taste is perfect at stealing links and knows nothing of membership."""
    taste = knows(parts, 0.0)
    links = vr.attack(taste, parts, "links", adversaries="X", attackers="score", cells=6000)
    assert links.outcome("X", "score").value() > 0.999
    remembers_nothing(taste, parts)
    with pytest.raises(AssertionError):
        remembers_nothing(knows(parts, 0.02), parts)
    found = membership_attack(knows(parts, 9.0), parts, adversaries="X", **FAST)
    for name in ("score", "logistic", "boosting"):
        assert found.outcome("X", name).value("auc") > 0.99, name


def test_those_who_see_no_model_know_nothing(parts) -> None:
    """The two kinds of cells are drawn alike: popularity, known edges and learners on them are at 0.5."""
    found = membership_attack(knows(parts, 0.0), parts, adversaries="X", **FAST)
    nulls = [row for row in found.outcomes if not row.adversary]
    assert [row.attacker for row in nulls] == ["random", "popularity", "known edges", "logistic", "boosting"]
    for row in nulls:
        assert abs(row.value() - 0.5) < 0.04, row.attacker
        assert abs(row.value("precision") - 0.5) < 0.04, row.attacker


def test_a_list_without_seen_items_betrays_them(parts) -> None:
    """Even a model that remembers nothing hides what was trained on from its lists."""
    found = membership_attack(
        knows(parts, 0.0), parts, adversaries="X", attackers="masked list", k=20, **FAST
    )
    assert found.outcome("X", "masked list").interval("auc").low > 0.6
    assert found.counts["density"] == 0.5


def test_influence_reads_membership_off_a_linear_model(parts) -> None:
    ease = vr.EASE(regularization=20).fit(parts.train, progress=False)
    found = membership_attack(ease, parts, attackers=["influence", "fold-in"], **FAST)
    assert found.outcome("X", "influence").value() > 0.99
    assert "Membership inference on ease" in str(found)
    assert found.to_dict()["attack"] == "membership"


def test_data_without_held_out_edges_are_refused(parts) -> None:
    model = vr.Popularity().fit(parts.train)
    with pytest.raises(ValueError, match="data must be a split, got 'Dataset'"):
        membership_attack(model, parts.train)
    others = dataclasses.replace(parts, test=parts.train, valid=None)
    with pytest.raises(DataError, match="with training edges and held-out ones, got none"):
        membership_attack(model, others)


def test_repeated_pairs_count_once() -> None:
    both = sp.csr_matrix(np.ones((1, 3), np.float32))
    cells = membership_cells(both, sp.csr_matrix((1, 3)), np.array([0]), 100, stream(1, "cells"))
    assert len(cells.user) == 0


def test_attackers_can_be_left_out(parts) -> None:
    """As of link stealing: all attackers but those that are named, which the learners do not use either."""
    out = ["boosting", "logistic", "influence", "score similarity"]
    found = membership_attack(knows(parts, 9.0), parts, adversaries="X", leave_out=out, **FAST)
    names = {row.attacker for row in found.outcomes if row.adversary == "X"}
    assert names == {"score", "masked list"}
    with pytest.raises(ValueError, match="attackers must be more than those of leave_out"):
        membership_attack(knows(parts, 9.0), parts, attackers="score", leave_out="score")
