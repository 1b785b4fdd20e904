"""What every Recommender must do. It runs over ``SYSTEMS``, so registering a model holds it to this."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import veilrec as vr
from veilrec.core import CannotFoldIn, DataError, NotFitted
from veilrec.data import Dataset
from veilrec.privacy import UnboundedEvent
from veilrec.systems import SYSTEMS
from veilrec.training import Job, Recommender

SMALL = {"epochs": 8, "embedding_size": 8, "rank": 8, "iterations": 3, "batch_size": 64, "validate_every": 1}
SMALL |= {"epsilon": 100.0}  # 80 users are too few to learn from under a real budget

FOLDS_IN_WITH_HISTORIES = {"gf-cf"}
"""Serve new users, but only with everybody's histories at hand: not from the shareable part."""


@cache
def parts() -> vr.Split:
    return vr.split.holdout(
        vr.synthetic(users=80, items=60, interactions=1600, seed=3), test=0.2, valid=0.1, seed=1
    )


def quick(word: str) -> Recommender:
    known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
    return SYSTEMS[word](**{name: value for name, value in SMALL.items() if name in known})


@cache
def fitted(word: str) -> Recommender:
    return quick(word).fit(parts().train, seed=5, progress=False, secure=False)


def folds_in(word: str) -> bool:
    return SYSTEMS[word]._score_histories is not Recommender._score_histories


def has_similarity(word: str) -> bool:
    return SYSTEMS[word]._item_similarity is not Recommender._item_similarity


def iterative(word: str) -> bool:
    return "epochs" in {field.name for field in dataclasses.fields(SYSTEMS[word])}


every = pytest.mark.parametrize("word", sorted(SYSTEMS))


@every
def test_describes_itself(word: str) -> None:
    system = SYSTEMS[word]
    assert system.word == word
    assert 10 < len(system.summary) < 100
    assert ">>>" in (system.__doc__ or "")


@every
def test_an_unfitted_model_says_so(word: str) -> None:
    for use in (
        lambda m: m.recommend(["u1"]),
        lambda m: m.guarantee,
        lambda m: m.scores(),
        lambda m: m.save("x"),
    ):
        with pytest.raises(NotFitted, match="is not fitted"):
            use(quick(word))
    assert not Path("x").exists()


@every
def test_lists_are_ranked_unseen_and_unique(word: str) -> None:
    model, train = fitted(word), parts().train
    frame = model.recommend(k=7)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["user", "item", "rank", "score"]
    seen = set(zip(*(train.frame()[c].to_list() for c in ("user", "item")), strict=True))
    assert not seen & set(zip(frame["user"].to_list(), frame["item"].to_list(), strict=True))
    for _, rows in frame.group_by("user"):
        assert rows["rank"].to_list() == list(range(1, len(rows) + 1))
        assert rows["item"].n_unique() == len(rows)
        assert (np.diff(rows["score"].to_numpy()) <= 0).all()
    assert frame["user"].n_unique() == train.n_users


@every
def test_lists_are_the_top_of_the_scores(word: str) -> None:
    model = fitted(word)
    user = model.users.take([4])[0]
    scores = model.scores([user])[0].copy()
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    scores[model.history[4].indices] = -np.inf
    best = np.argsort(-scores, kind="stable")[:5]
    listed = model.recommend([user], k=5)
    np.testing.assert_allclose(listed["score"].to_numpy(), scores[best], rtol=1e-4, atol=1e-5)


@every
def test_candidates_and_seen(word: str) -> None:
    model = fitted(word)
    user, items = model.users.take([2])[0], model.items.take([1, 5, 9]).to_list()
    assert set(model.recommend([user], k=10, exclude_seen=False, candidates=items)["item"]) == set(items)
    everything = model.recommend([user], k=1000, exclude_seen=False)
    assert len(everything) == len(model.items)
    known = len(model.history[2].indices)
    assert len(model.recommend([user], k=1000)) == len(model.items) - known
    np.testing.assert_array_equal(model.scores([user], items), model.scores([user])[:, [1, 5, 9]])


@every
def test_one_user_alone_gets_the_same_list(word: str) -> None:
    model = fitted(word)
    user = model.users.take([11])[0]
    together = model.recommend(k=6).filter(pl.col("user") == user)
    alone = model.recommend([user], k=6)
    assert together["item"].to_list() == alone["item"].to_list()
    # a product of one row may round its last bit otherwise than that of many
    assert together["score"].to_list() == pytest.approx(alone["score"].to_list(), rel=1e-5)


@every
def test_bad_requests_are_refused(word: str) -> None:
    model = fitted(word)
    with pytest.raises(ValueError, match=r"user must be one that .* got 'nobody'"):
        model.recommend(["nobody"])
    with pytest.raises(ValueError, match=r"item must be one that .* got 'nothing'"):
        model.recommend(["u1"], candidates=["nothing"])
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        model.recommend(["u1"], k=0)
    with pytest.raises(ValueError, match="seed must be"):
        quick(word).fit(parts().train, seed=-1, progress=False)
    empty = parts().train.take(np.zeros(len(parts().train), dtype=bool))
    with pytest.raises(DataError, match="no interactions"):
        quick(word).fit(empty, progress=False)
    other = vr.synthetic(users=50, items=30, interactions=500)
    with pytest.raises(ValueError, match="valid must be a part of the same split"):
        quick(word).fit(parts().train, other, progress=False)


@every
def test_the_same_seed_gives_the_same_bits(word: str) -> None:
    again = quick(word).fit(parts().train, seed=5, progress=False, secure=False)
    for name, array in {**fitted(word).shared, **fitted(word).private}.items():
        np.testing.assert_array_equal(array, {**again.shared, **again.private}[name])


@every
@pytest.mark.parametrize("form", ["folder", "model.veil"])
def test_save_and_load(word: str, form: str, tmp_path: Path) -> None:
    model = fitted(word)
    loaded = vr.load_model(model.save(tmp_path / form))
    assert type(loaded) is type(model)
    assert loaded.settings() == model.settings()
    assert loaded.guarantee == model.guarantee
    assert loaded.facts == model.facts
    assert loaded.recommend(k=5).equals(model.recommend(k=5))


@every
def test_the_shareable_part_has_nothing_of_the_users(word: str, tmp_path: Path) -> None:
    model = fitted(word)
    path = model.save(tmp_path / "public", part="shareable")
    assert not (path / "private").exists()
    text = (path / "model.json").read_text() + (path / "ids.json").read_text()
    assert '"u1"' not in text
    loaded = vr.load_model(path)
    with pytest.raises((NotFitted, ValueError)):
        loaded.recommend(["u1"])
    if folds_in(word) and word not in FOLDS_IN_WITH_HISTORIES:
        items = model.items.take([3, 4]).to_list()
        expected = model.recommend(history={"new": items}, k=3)
        assert loaded.recommend(history={"new": items}, k=3).equals(expected)
    else:
        with pytest.raises(CannotFoldIn):
            loaded.recommend(history={"new": []}, k=3)


@every
def test_new_users(word: str) -> None:
    model = fitted(word)
    seen = model.items.take([3, 4, 8]).to_list()
    if not folds_in(word):
        with pytest.raises(CannotFoldIn, match=word):
            model.recommend(history={"new": seen})
        return
    frame = model.recommend(history={"new": seen, "empty": []}, k=5)
    assert set(frame["user"]) == {"new", "empty"}
    assert not set(frame.filter(pl.col("user") == "new")["item"]) & set(seen)


@every
def test_similar_items(word: str) -> None:
    model = fitted(word)
    item = model.items.take([7])[0]
    if not has_similarity(word):
        with pytest.raises(TypeError, match="similar items"):
            model.similar_items([item])
        return
    frame = model.similar_items([item], k=4)
    assert frame.columns == ["item", "similar", "rank", "score"]
    assert item not in frame["similar"].to_list()


@every
def test_statement(word: str) -> None:
    guarantee = fitted(word).guarantee
    assert guarantee.model == word
    assert guarantee.epsilon > 0
    if math.isinf(guarantee.epsilon):
        assert "none" in str(guarantee) or "no finite" in str(guarantee)
        assert guarantee.not_covered


@pytest.mark.parametrize("word", [word for word in sorted(SYSTEMS) if iterative(word)])
def test_resume_gives_the_bits_of_an_uninterrupted_run(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from veilrec.training import loop

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    again = {"seed": 2, "progress": False, "secure": False}
    whole = quick(word).fit(parts().train, parts().valid, **again)
    saved, calls = loop._save, []

    def killed(*arguments: object) -> None:
        saved(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        quick(word).fit(parts().train, parts().valid, **again, checkpoint=tmp_path)
    monkeypatch.setattr(loop, "_save", saved)
    resumed = quick(word).fit(parts().train, parts().valid, **again, checkpoint=tmp_path)
    for name, array in {**whole.shared, **whole.private}.items():
        np.testing.assert_array_equal(array, {**resumed.shared, **resumed.private}[name])
    assert [e["loss"] for e in whole.facts["log"]] == [e["loss"] for e in resumed.facts["log"]]
    with pytest.raises(ValueError, match="checkpoint must be of the same model"):
        quick(word).fit(parts().train, parts().valid, **again | {"seed": 3}, checkpoint=tmp_path)


@every
def test_a_fit_that_is_repeated_from_its_folder_draws_no_noise_anew(word: str, tmp_path: Path) -> None:
    events = [event for claim in fitted(word).guarantee.claims for event in claim.events]
    if all(isinstance(event, UnboundedEvent) for event in events):
        pytest.skip("there is no noise to draw")
    first, again = (
        quick(word).fit(parts().train, parts().valid, progress=False, checkpoint=tmp_path) for _ in range(2)
    )
    assert first.guarantee == again.guarantee
    for name, array in {**first.shared, **first.private}.items():
        np.testing.assert_array_equal(array, {**again.shared, **again.private}[name], err_msg=name)
    with pytest.raises(
        ValueError, match="kind of noise"
    ):  # research noise must not go on as secure, nor back
        quick(word).fit(parts().train, parts().valid, progress=False, secure=False, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "word", sorted(word for word in SYSTEMS if SYSTEMS[word].is_private() and not iterative(word))
)
def test_a_fit_that_was_stopped_between_releases_ends_in_the_same_bits(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read back must not shift the draws that follow: two releases would share their noise."""
    again = {"seed": 2, "progress": False, "secure": False}
    whole = quick(word).fit(parts().train, **again)
    keep, calls = Job.keep, []

    def killed(self: Job, *arguments: Any) -> None:
        keep(self, *arguments)
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Job, "keep", killed)
    with pytest.raises(KeyboardInterrupt):
        quick(word).fit(parts().train, **again, checkpoint=tmp_path)
    resumed = quick(word).fit(parts().train, **again, checkpoint=tmp_path)
    for name, array in {**whole.shared, **whole.private}.items():
        np.testing.assert_array_equal(array, {**resumed.shared, **resumed.private}[name])


@every
def test_learns_something(word: str) -> None:
    """A model whose lists ignore its data would score like chance; none may."""
    lists = vr.evaluate(fitted(word), parts(), k=10, progress=False).mean()
    untouched = parts().train.n_items - parts().train.user_counts.mean()
    assert lists["recall@10"] > 1.3 * 10 / untouched


@every
def test_pandas_in_pandas_out(word: str) -> None:
    pd = pytest.importorskip("pandas")
    model = SYSTEMS[word]
    frame = pd.DataFrame(
        {"uid": ["a", "a", "b", "b", "c"], "sku": ["x", "y", "y", "z", "x"], "stars": [5, 3, 4, 2, 1]}
    )
    people = pd.DataFrame({"uid": ["a", "b", "c"], "gender": ["F", "M", "F"]})
    data = vr.read(frame, user="uid", item="sku", rating="stars", rating_range=(1, 5), users=people)
    assert isinstance(data, Dataset)
    assert model.word == word
    assert isinstance(quick(word).fit(data, progress=False).recommend(k=2), pd.DataFrame)
