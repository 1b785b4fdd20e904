from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.data import Dataset
from veilrec.training import Array, Job, Recommender, evaluate, predict_pairs, validation_score


@dataclass(eq=False)
class Fixed(Recommender):
    """Scores item i of user u by a fixed table."""

    word: ClassVar[str] = "fixed"
    summary: ClassVar[str] = "scores from a table"
    rates: ClassVar[bool] = True

    def _fit(self, job: Job) -> None:
        self.shared["table"] = np.array([[5, 4, 3, 2, 1], [1, 2, 3, 4, 5]], dtype=np.float32)

    def _score(self, users: Array) -> Array:
        return self.shared["table"][users]


def toy() -> vr.Split:
    data = Dataset.from_arrays(
        ["a", "a", "a", "b", "b", "b", "b"],
        ["i0", "i1", "i3", "i0", "i1", "i2", "i4"],
        rating=[5, 4, 3, 1, 2, 3, 4],
    )
    # item i0..i4; a holds out i1 (valid) and i3 (test); b holds out i2 (test)
    rows = {(u, i): n for n, (u, i) in enumerate(zip(data.user, data.item, strict=True))}
    test = np.zeros(len(data), bool)
    test[[rows[(0, 2 + 1)], rows[(1, 2)]]] = True
    valid = np.zeros(len(data), bool)
    valid[rows[(0, 1)]] = True
    return vr.Split(
        train=data.take(~(test | valid)),
        test=data.take(test),
        valid=data.take(valid),
        method="hand",
        settings={},
        source_fingerprint=data.fingerprint,
        parts=(valid + 2 * test).astype(np.uint8),
    )


def test_masks_train_and_validation_on_test() -> None:
    split = toy()
    result = evaluate(Fixed().fit(split.train), split, k=(1, 2), progress=False)
    # a: i0 (train) and i1 (valid) are masked, so the list is i2, i3, i4; b: i0, i1, i4 masked, list i3, i2
    assert result.users.tolist() == [0, 1]
    assert result.per_user["recall@1"].tolist() == [0, 0]
    assert result.per_user["recall@2"].tolist() == [1, 1]
    assert result.mean()["coverage@2"] == 2 / 5
    assert result.mean()["mae"] == pytest.approx((abs(2 - 3) + abs(3 - 3)) / 2)
    assert result.mean()["rmse"] == pytest.approx(np.sqrt(1 / 2))


def test_masks_only_train_on_validation() -> None:
    split = toy()
    result = evaluate(Fixed().fit(split.train), split, k=1, part="valid", progress=False)
    assert result.users.tolist() == [0]
    assert result.per_user["recall@1"].tolist() == [1]


def test_report_is_plain_json() -> None:
    import json

    split = toy()
    report = evaluate(Fixed().fit(split.train), split, k=2, progress=False).to_dict()
    assert json.loads(json.dumps(report))["metrics"]["recall@2"] == {"mean": 1.0, "interval": [1.0, 1.0]}


@pytest.mark.parametrize("protocol", ["one-positive", "sampled"])
def test_list_protocols_carry_their_name(protocol: str) -> None:
    parts = vr.split.holdout(vr.synthetic(users=80, items=300, interactions=2000), test=0.2, seed=1)
    model = vr.Popularity().fit(parts.train)
    names = evaluate(model, parts, k=5, protocol=protocol, progress=False).mean()
    assert names
    assert all("(" in name for name in names)
    full = evaluate(model, parts, k=5, progress=False).mean()
    assert not set(names) & set(full), "protocols must not be mistaken for each other"


def test_refusals() -> None:
    split = toy()
    model = Fixed().fit(split.train)
    with pytest.raises(ValueError, match="protocol must be one of full, one-positive, sampled, got 'ful'"):
        evaluate(model, split, protocol="ful")
    with pytest.raises(ValueError, match="k must be a whole number"):
        evaluate(model, split, k=0)
    with pytest.raises(DataError, match="must have a valid part"):
        evaluate(model, replace(split, valid=None), part="valid")
    other = vr.split.holdout(vr.synthetic(users=50, items=30, interactions=500), test=0.2, seed=1)
    with pytest.raises(ValueError, match="split must be of the data the model was fitted on"):
        evaluate(model, other)


def test_predict_pairs_over_block_borders() -> None:
    table = np.random.default_rng(0).random((20, 7)).astype(np.float32)
    random = np.random.default_rng(1)
    user, item = random.integers(0, 20, 100), random.integers(0, 7, 100)
    for block in (1, 3, 20, 64):
        np.testing.assert_array_equal(predict_pairs(lambda u: table[u], user, item, block), table[user, item])


def test_validation_score_is_recall_of_evaluate() -> None:
    parts = vr.split.holdout(vr.synthetic(users=80, items=60, interactions=1600), test=0.2, valid=0.1, seed=1)
    assert parts.valid is not None
    model = vr.Popularity().fit(parts.train)
    expected = evaluate(model, parts, k=20, part="valid", progress=False).mean()["recall@20"]
    assert validation_score(model.score_codes, parts.train, parts.valid) == pytest.approx(expected)
