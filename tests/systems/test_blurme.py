"""BlurMe: what is added, to whom and by which rule, and that its statement claims nothing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.core import DataError
from veilrec.data import Categorical, Numeric
from veilrec.systems import BlurMe, Popularity
from veilrec.systems.blurme import class_weights

QUICK = {"embedding_size": 16, "epochs": 15}
WITHOUT_TRAINING = {"embedding_size": 2, "epochs": 1}


def data() -> vr.Dataset:
    return vr.synthetic(200, 100, 5000, seed=2, attribute_strength=2.0)


def fit(d=None, **settings) -> BlurMe:
    return BlurMe(**WITHOUT_TRAINING | settings).fit(d or data(), seed=1, progress=False)


def additions(model: BlurMe) -> sp.csr_matrix:
    owner, item = model.private["added_user"], model.private["added_item"]
    return sp.csr_matrix((np.ones(len(owner)), (owner, item)), shape=model.history.shape)


@pytest.mark.parametrize("strategy", ["greedy", "sampled", "random"])
def test_additions_are_new_of_the_other_class_and_as_many_as_said(strategy) -> None:
    model, d = fit(strategy=strategy, extra=0.2), data()
    added, codes = additions(model), d.attributes["gender"].codes
    assert added.max() == 1
    assert added.multiply(model.history).nnz == 0
    weights = class_weights(d.matrix(), codes, 2, 1.0)
    wanted = np.rint(0.2 * d.user_counts)
    for user in range(d.n_users):
        free = (weights[1 - codes[user]] > 0) & (d.matrix()[[user]].toarray().ravel() == 0)
        mine = added[[user]].indices
        assert len(mine) == min(wanted[user], free.sum())
        assert free[mine].all()
        if strategy == "greedy" and len(mine):
            best = np.sort(np.where(free, weights[1 - codes[user]], -np.inf))[-len(mine) :]
            np.testing.assert_allclose(np.sort(weights[1 - codes[user]][mine]), best)


def test_sampled_additions_follow_the_weights() -> None:
    """Between the first and the last quarter of an item list, and not so for the even draw."""
    d = data()
    lists = {"F": d.items.take(np.arange(40)).to_list(), "M": d.items.take(np.arange(40, 80)).to_list()}
    share = {}
    for strategy in ("sampled", "random"):
        added = additions(fit(strategy=strategy, typical=lists, extra=0.1)).sum(axis=0).A1
        share[strategy] = added[[*range(10), *range(40, 50)]].sum() / added.sum()
    assert share["sampled"] > 0.3
    assert share["random"] < 0.3


def test_the_blur_fools_the_classifier_it_was_made_for() -> None:
    d = data()
    codes = d.attributes["gender"].codes
    weights = class_weights(d.matrix(), codes, 2, 1.0)

    def gap(profiles) -> float:
        margin = profiles @ (weights[1] - weights[0]) / np.sqrt(profiles.sum(axis=1).A1)
        return float(margin[codes == 1].mean() - margin[codes == 0].mean())

    plain = gap(d.matrix())
    assert gap(d.matrix() + additions(fit(strategy="greedy", extra=0.3))) < 0.5 * plain
    assert gap(d.matrix() + additions(fit(extra=0.0))) == pytest.approx(plain)


def test_added_items_are_not_listed_and_nothing_else_moves() -> None:
    model = fit(extra=0.3)
    user = int(model.private["added_user"][0])
    mine = additions(model)[[user]].indices
    scores = model.score_codes(np.array([user, user]))
    np.testing.assert_array_equal(scores[0], scores[1])
    others = np.setdiff1d(np.arange(scores.shape[1]), mine)
    assert scores[0, mine].max() < scores[0, others].min()
    plain = model.private["user_vectors"][user] @ model.shared["item_vectors"].T + model.shared["item_bias"]
    np.testing.assert_allclose(scores[0, others], plain[others], rtol=1e-4, atol=1e-5)


def test_weights_agree_with_the_direction_of_the_data() -> None:
    d = data()
    codes = d.attributes["gender"].codes
    weights = class_weights(d.matrix(), codes, 2, 1.0)
    np.testing.assert_allclose(weights[0], -weights[1], atol=1e-9)
    share = [d.matrix()[codes == c].mean(axis=0).A1 for c in (0, 1)]
    assert np.corrcoef(share[1] - share[0], weights[1])[0, 1] > 0.6


def test_the_statement_claims_nothing_and_names_the_leaks() -> None:
    learnt = fit().guarantee
    assert math.isinf(learnt.epsilon)
    assert {e.label for e in learnt.claims[0].events} == {"typical items", "blurred profiles"}
    public = fit(typical={"F": ["i1"], "M": ["i2"]}).guarantee
    assert {e.label for e in public.claims[0].events} == {"blurred profiles"}
    assert "no finite guarantee" in str(public)


def test_ranking() -> None:
    split = vr.split.holdout(data(), test=0.2, seed=1)
    lists = {}
    for model in (Popularity(), BlurMe(**QUICK)):
        fitted = model.fit(split.train, seed=1, progress=False)
        lists[model.word] = vr.evaluate(fitted, split, k=10, progress=False).mean()["recall@10"]
    assert lists["blurme"] > 1.1 * lists["popularity"]


def test_missing_attributes_are_an_error_and_missing_values_are_not() -> None:
    bare = dataclasses.replace(data(), attributes={})
    with pytest.raises(DataError, match=r"must have the categorical attribute 'gender'.*got none"):
        fit(bare)
    ages = dataclasses.replace(data(), attributes={"age": Numeric(np.zeros(200, np.float32))})
    with pytest.raises(DataError, match="got numbers"):
        fit(ages, attribute="age")
    half = np.where(np.arange(200) < 100, data().attributes["gender"].codes, -1).astype(np.int32)
    model = fit(dataclasses.replace(data(), attributes={"gender": Categorical(half, ("F", "M"))}))
    assert model.private["added_user"].max() < 100
    one = np.zeros(200, np.int32)
    with pytest.raises(DataError, match="got 1 of its classes"):
        fit(dataclasses.replace(data(), attributes={"gender": Categorical(one, ("F", "M"))}))


def test_bad_lists() -> None:
    with pytest.raises(DataError, match="typical must have a list for each of F, M"):
        fit(typical={"F": []})
    with pytest.raises(DataError, match="typical must name items of the data, got 'tea' for M"):
        fit(typical={"F": [], "M": ["tea"]})


def test_more_classes() -> None:
    model = fit(attribute="occupation")
    assert model.facts["added"] > 100
