"""RAP: the attacker can learn, the recommender can fool it, and the statement claims nothing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import veilrec as vr
from veilrec.core import DataError, DataWarning
from veilrec.data import Categorical, Numeric
from veilrec.metrics import rank_all
from veilrec.systems import RAP, Popularity
from veilrec.systems.blurme import class_weights
from veilrec.systems.rap import ListReader

QUICK = {"embedding_size": 16, "batch_size": 512, "attributes": ("gender",), "epochs": 25}


def data(strength: float = 3.0) -> vr.Dataset:
    return vr.synthetic(300, 120, 7000, seed=2, attribute_strength=strength)


def leak(model: RAP, codes: np.ndarray, k: int = 10) -> float:
    """AUC of an attacker of another kind, logistic regression on lists, over held-out fifths of the users."""
    lists, _ = rank_all(
        model.score_codes, np.arange(len(codes)), k, n_items=len(model.items), seen=model.history
    )
    shown = sp.csr_matrix(
        (np.ones(lists.size), (np.repeat(np.arange(len(codes)), k), lists.ravel())), shape=model.history.shape
    )
    fold, guess = np.arange(len(codes)) % 5, np.zeros(len(codes))
    for part in range(5):
        weights = class_weights(shown, np.where(fold == part, -1, codes), 2, 1.0)
        guess[fold == part] = shown[fold == part] @ (weights[1] - weights[0])
    above = guess[codes == 1][:, None] - guess[codes == 0][None]
    return float((above > 0).mean() + (above == 0).mean() / 2)


def test_the_adversary_lowers_what_lists_tell_and_costs_little() -> None:
    d = data()
    split = vr.split.holdout(d, test=0.2, seed=1, joint=True)
    codes = d.attributes["gender"].codes
    plain, guarded = (
        RAP(alpha=alpha, **QUICK).fit(split.train, seed=1, progress=False) for alpha in (0.0, 0.3)
    )
    assert leak(plain, codes) > 0.7
    assert leak(guarded, codes) < leak(plain, codes) - 0.08
    popular = Popularity().fit(split.train, progress=False)
    recall = {
        name: vr.evaluate(model, split, k=10, progress=False).mean()["recall@10"]
        for name, model in {"popular": popular, "guarded": guarded}.items()
    }
    assert recall["guarded"] > 1.1 * recall["popular"]


def test_the_attacker_learns_from_order_and_content() -> None:
    """Class 1 has a mark at the first place of its list; a recurrent reader must find it."""
    generator = torch.Generator().manual_seed(1)
    reader = ListReader(3, 8, [2], generator)
    lists = torch.randn(200, 6, 3, generator=generator)
    labels = (lists[:, 0, 0] > 0).long()[:, None]
    optimiser = torch.optim.Adam(reader.parameters(), lr=0.05)
    before = float(reader.loss(lists, labels).detach())
    for _ in range(150):
        optimiser.zero_grad()
        loss = reader.loss(lists, labels)
        loss.backward()
        optimiser.step()
    assert before > 0.6
    assert float(loss.detach()) < 0.3


def test_the_loss_is_bounded_by_knowing_nothing_and_skips_the_missing() -> None:
    reader = ListReader(2, 4, [2], torch.Generator().manual_seed(1))
    lists = torch.ones(4, 3, 2)
    with torch.no_grad():
        reader.outputs[0].bias.copy_(torch.tensor([9.0, -9.0]))
    wrong = torch.ones(4, 1, dtype=torch.long)
    assert float(reader.loss(lists, wrong).detach()) > 5
    assert float(reader.loss(lists, wrong, bounded=True).detach()) == pytest.approx(math.log(2))
    half = torch.tensor([[1], [1], [-1], [-1]])
    torch.testing.assert_close(reader.loss(lists, half), reader.loss(lists[:2], half[:2]))
    assert float(reader.loss(lists, -torch.ones(4, 1, dtype=torch.long)).detach()) == 0


def test_the_same_bits_where_threads_share_the_work() -> None:
    """The contract's data are too small for threads; gradients added up in any order show here."""
    d = vr.synthetic(900, 1500, 40_000, seed=1)
    one, two = (RAP(attributes=("gender",), epochs=1).fit(d, seed=1, progress=False) for _ in range(2))
    np.testing.assert_array_equal(one.private["user_vectors"], two.private["user_vectors"])
    np.testing.assert_array_equal(one.shared["item_vectors"], two.shared["item_vectors"])


def test_the_statement_claims_nothing() -> None:
    guarantee = RAP(**QUICK | {"epochs": 1}).fit(data(), progress=False).guarantee
    assert math.isinf(guarantee.epsilon)
    assert "no finite guarantee" in str(guarantee)
    assert "labels" in str(guarantee)
    assert "other attackers may succeed" in str(guarantee)


def test_attributes_are_needed_and_named() -> None:
    bare = dataclasses.replace(data(), attributes={"age": Numeric(np.zeros(300, np.float32))})
    quick = QUICK | {"epochs": 1}
    with pytest.raises(DataError, match="must have categorical attributes of its users, which rap is to"):
        RAP(**quick | {"attributes": ()}).fit(bare, progress=False)
    with pytest.raises(DataError, match=r"categorical ones of synthetic \(none\), got 'age'"):
        RAP(**quick | {"attributes": ("age",)}).fit(bare, progress=False)
    codes = np.where(np.arange(300) < 150, data().attributes["gender"].codes, -1).astype(np.int32)
    half = dataclasses.replace(data(), attributes={"gender": Categorical(codes, ("F", "M"))})
    assert RAP(**quick).fit(half, progress=False).facts["attributes"] == ["gender"]


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="alpha must be"):
        RAP(alpha=-1.0)
    with pytest.raises(ValueError, match="readers must be"):
        RAP(readers=0)


def test_an_attribute_that_few_have_told() -> None:
    """Batches of readers without any label had nothing to descend on; now readers are those who told."""
    data = vr.synthetic(users=120, items=40, interactions=1500, seed=1)
    gender = data.attributes["gender"]
    codes = np.where(np.arange(120) < 6, gender.codes, -1).astype(np.int32)
    codes[:2] = 0, 1
    few = dataclasses.replace(data, attributes={"gender": Categorical(codes, gender.categories)})
    model = RAP(epochs=2, embedding_size=4, batch_size=300).fit(few, progress=False)
    assert model.facts["attributes"] == ["gender"]


@pytest.mark.parametrize(
    ("codes", "classes", "words"),
    [
        (np.zeros(120), 2, "attributes must be of two known classes or more"),
        (np.full(120, -1), 2, "attributes must be of two known classes or more"),
        (np.arange(120), 300, "attributes must be of at most 256 classes"),
    ],
    ids=["one class", "all unknown", "300 classes"],
)
def test_an_attribute_of_no_use_is_refused(codes: np.ndarray, classes: int, words: str) -> None:
    data = vr.synthetic(users=120, items=40, interactions=1500, seed=1)
    job = Categorical(codes.astype(np.int32), tuple(f"job {n}" for n in range(classes)))
    with pytest.raises(ValueError, match=words):
        RAP(epochs=1).fit(dataclasses.replace(data, attributes={"job": job}), progress=False)


def test_a_large_attribute_is_left_out_unless_it_is_named() -> None:
    data = vr.synthetic(users=120, items=40, interactions=1500, seed=1)
    large = Categorical(np.arange(120, dtype=np.int32), tuple(f"{n}" for n in range(300)), declared=False)
    data = dataclasses.replace(data, attributes={"gender": data.attributes["gender"], "zip": large})
    with pytest.warns(DataWarning, match="leaves out attributes of more than 256 classes: zip") as caught:
        model = RAP(epochs=1, embedding_size=4).fit(data, progress=False)
    assert caught[0].filename == __file__
    assert model.facts["attributes"] == ["gender"]
    assert "read off the data" not in str(model.guarantee)  # the list of zip was not used
    with pytest.raises(ValueError, match=r"attributes must be of at most 256 classes, got \{'zip': 300"):
        RAP(attributes=("zip",), epochs=1).fit(data, progress=False)


def test_those_who_told_must_have_interactions() -> None:
    data = vr.synthetic(users=120, items=40, interactions=1500, seed=1)
    codes = np.full(120, -1, np.int32)
    codes[:2] = 0, 1
    rest = data.take(np.flatnonzero(data.user > 1))
    mute = dataclasses.replace(rest, attributes={"gender": Categorical(codes, ("F", "M"))})
    with pytest.raises(ValueError, match="attributes must be known of a user with interactions"):
        RAP(epochs=1).fit(mute, progress=False)
