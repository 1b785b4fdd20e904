"""What public facts show to be wrong costs nothing, and what no epsilon covers is told to the ledger."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import BudgetExhausted, DataWarning, NotFitted
from veilrec.data import Categorical, Dataset
from veilrec.data.profiles import rating_statistics
from veilrec.privacy import Ledger, Spend
from veilrec.systems import (
    DPAE,
    DPALS,
    GAP,
    GERAI,
    RAP,
    SYSTEMS,
    BlurMe,
    DPGram,
    DPSpectral,
    GERAIFunctional,
    GERAIPaper,
    GERAIUsers,
    LapGraphGCN,
    PFGNRPaper,
    private_items,
)
from veilrec.systems import gerai_users as users_module
from veilrec.training import DataGuard, Recommender

NET = {"epochs": 1, "embedding_size": 4}


@pytest.fixture(scope="module")
def people() -> Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.sqlite")


def assert_untouched(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="Known are: none yet"):
        ledger.history("shop")


PRIVATE = sorted(word for word, system in SYSTEMS.items() if system.is_private())


def tiny(word: str) -> Recommender:
    known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
    return SYSTEMS[word](**{name: value for name, value in NET.items() if name in known})


@pytest.fixture
def at_looks(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The state of every spend in the ledger at each look at the data."""
    honest, found = DataGuard.take, []

    def noting(self, *given, **named):
        found.append([entry.state for entry in ledger.history() if isinstance(entry, Spend)])
        return honest(self, *given, **named)

    monkeypatch.setattr(DataGuard, "take", noting)
    return found


@pytest.mark.filterwarnings("ignore::veilrec.core.DataWarning")
@pytest.mark.parametrize("word", PRIVATE)
def test_all_is_reserved_before_the_first_look_and_released_after_the_last(
    people, ledger, at_looks, word
) -> None:
    model = tiny(word)
    asked = (*model._claims(DataGuard(people).public), *model._unclaimed())
    model.fit(people, progress=False, ledger=ledger, population="shop")
    booked = ledger.history("shop")
    assert {entry.state for entry in booked} == {"released"}
    assert at_looks == [["reserved"] * len(booked)] * len(at_looks) != []
    assert [(one.unit, one.neighbours, one.events, one.delta) for one in booked] == [
        (one.unit, one.neighbours, one.events, one.delta) for one in asked if not one.restates
    ]


@pytest.mark.parametrize("word", PRIVATE)
def test_a_fit_that_is_refused_never_looks_and_keeps_what_was_fitted(
    people, ledger, at_looks, monkeypatch, word
) -> None:
    for unit in ("user", "attribute"):
        ledger.set_limit("shop", epsilon=1e-9, delta=0.0, unit=unit)
    model, began = tiny(word), []
    monkeypatch.setattr(SYSTEMS[word], "_fit", lambda self, job: began.append(job))
    with pytest.raises(BudgetExhausted):
        model.fit(people, progress=False, ledger=ledger, population="shop")
    assert not began
    assert not at_looks
    with pytest.raises(NotFitted):
        _ = model.history


@pytest.mark.parametrize(
    ("word", "grade"), [("dp-gram", "secure"), ("dpmf", "research"), ("dpne", "research")]
)
def test_a_formula_in_floats_is_booked_as_for_research(people, ledger, word, grade) -> None:
    """Whatever its noise comes from: the history of a budget must not call it secure."""
    model = tiny(word).fit(people, progress=False, ledger=ledger, population="shop")
    assert {entry.grade for entry in ledger.history("shop")} == {grade} == {model.guarantee.grade}


CASES: list[tuple[Callable[[], Recommender], dict[str, Any], str]] = [
    (lambda: DPGram(epsilon=5e-6), {}, "epsilon must be large enough for noise on 820 numbers"),
    (lambda: DPSpectral(epsilon=1e-6, delta=1e-9), {}, "epsilon must be large enough for noise on"),
    (lambda: DPALS(epsilon=1e-6, delta=1e-9), {}, "epsilon must be large enough for noise on"),
    (lambda: GERAIFunctional(epsilon=1e-5), {}, "epsilon must be large enough for noise on"),
    (lambda: GERAIUsers(epsilon=1e-6), {}, "epsilon must be large enough for noise on"),
    (lambda: DPAE(epsilon=1e-6), {}, "epsilon must be large enough for noise on"),
    (lambda: BlurMe(typical={"F": ["nope"], "M": []}), {}, "typical must name items of the data, got 'nope'"),
    (lambda: GAP(delta=0.5), {}, "delta must be below 1 / 60"),
    (lambda: GERAI(**NET), {"device": "nonsense"}, "device must be 'auto', 'cpu' or that of a GPU"),
]


@pytest.mark.parametrize(("make", "how", "words"), CASES)
def test_refused_before_anything_is_reserved(people, ledger, make, how, words) -> None:
    with pytest.raises(ValueError, match=words):
        make().fit(people, progress=False, ledger=ledger, population="shop", **how)
    assert_untouched(ledger)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GERAIUsers(clip_norm=1e-35), "clip_norm must be large enough for single precision"),
        (lambda: DPAE(clip_norm=1e-35), "clip_norm must be large enough for single precision"),
        (lambda: DPGram(count_share=1 - 1e-16), "count_share must be from 0 to 0.99"),
        (lambda: DPALS(exponent=400.0), "exponent must be from 0 to 4"),
        (lambda: DPALS(item_ridge=0.0), "item_ridge must be a finite number above 0"),
        (lambda: GERAIFunctional(scale=1e300), "scale must be at most 1e6"),
        (lambda: GERAIPaper(loss_epsilon=1e-5), "epsilon must be large enough for noise on 1,890 numbers"),
        (lambda: LapGraphGCN(epsilon=1e-6), "epsilon must be at least 1e-06 in each of its parts"),
        (lambda: PFGNRPaper(split=1 - 1e-8), "epsilon must be at least 1e-06 in each of its parts"),
        (lambda: vr.PFGNR(epsilon=1e-15), "epsilon must be at least 1e-06 in each of its parts"),
        (lambda: vr.PFGNR(epsilon=True), "epsilon must be a finite number above 0, got True"),
    ],
)
def test_settings_that_no_data_could_mend(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("below", ["", "sub", "sub/sub"])
def test_a_checkpoint_that_is_no_folder_costs_nothing(people, ledger, tmp_path, below) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(ValueError, match="checkpoint must be a folder that can be written to, got"):
        GERAI(**NET).fit(
            people, progress=False, ledger=ledger, population="shop", checkpoint=tmp_path / "file" / below
        )
    assert_untouched(ledger)
    assert (tmp_path / "file").read_text() == "a file"


@pytest.mark.parametrize("notes", ["{}", "[]", "null", '{"key": "k"}'])
def test_notes_without_their_parts_cost_nothing(people, ledger, tmp_path, notes) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "kept.json").write_text(notes)
    with pytest.raises(ValueError, match="checkpoint must be readable, got notes without their parts"):
        GERAI(**NET).fit(people, progress=False, ledger=ledger, population="shop", checkpoint=folder)
    assert_untouched(ledger)


def test_looking_for_a_folder_leaves_none_behind(people, ledger, tmp_path) -> None:
    ledger.set_limit("shop", epsilon=0.1, delta=0.0)
    with pytest.raises(BudgetExhausted):
        DPGram().fit(
            people, progress=False, ledger=ledger, population="shop", checkpoint=tmp_path / "a" / "b"
        )
    assert not (tmp_path / "a").exists()


# -- what no epsilon covers ----------------------------------------------------------------------------------

BARE = {
    "gerai": lambda: GERAI(**NET),
    "blurme": lambda: BlurMe(**NET),
    "rap": lambda: RAP(attributes=("gender",), **NET),
}


@pytest.mark.parametrize("word", BARE)
@pytest.mark.parametrize("unit", ["user", "interaction"])
def test_interactions_without_noise_are_refused_by_a_limit(people, ledger, word, unit) -> None:
    for neighbours in ("add-remove", "replace"):
        ledger.set_limit(f"shop {neighbours}", epsilon=100.0, delta=1e-5, unit=unit, neighbours=neighbours)
        with pytest.raises(BudgetExhausted, match="epsilon inf"):
            BARE[word]().fit(people, progress=False, ledger=ledger, population=f"shop {neighbours}")


def test_a_limit_for_attributes_takes_what_protects_attributes(people, ledger) -> None:
    ledger.set_limit("shop", epsilon=5.0, delta=1e-5, unit="attribute", neighbours="replace")
    model = GERAI(**NET).fit(people, progress=False, ledger=ledger, population="shop")
    (account,) = [one for one in ledger.accounts("shop") if one.unit == "attribute"]
    assert account.epsilon == pytest.approx(3.0)
    assert model.guarantee.epsilon == pytest.approx(3.0)  # the statement names the rest as not covered
    assert any("interactions" in words for words in model.guarantee.not_covered)


def test_reports_without_noise_are_an_unbounded_spend(people, ledger) -> None:
    model = GERAI.paper(ablation="NL", **NET).fit(people, progress=False)
    ledger.set_limit("newcomers", epsilon=0.1, delta=1e-5, unit="attribute", neighbours="replace")
    with pytest.raises(BudgetExhausted):
        model.report(vr.synthetic(5, 40, 60, seed=3), ledger=ledger, population="newcomers")
    unasked = GERAIUsers(**NET).fit(dataclasses.replace(people, attributes={}), progress=False)
    assert len(unasked.report(vr.synthetic(5, 40, 60, seed=3), ledger=ledger, population="newcomers")) == 5
    plain = vr.GCN(**NET).fit(people, progress=False)  # states that it keeps nothing: nothing is booked
    assert len(plain.report(vr.synthetic(5, 40, 60, seed=3), ledger=ledger, population="others")) == 5


# -- what one user can move ----------------------------------------------------------------------------------


def test_no_user_moves_the_counts_of_gerai_users(furthest, awkward, monkeypatch) -> None:
    def make() -> GERAIUsers:
        return GERAIUsers(**NET)

    worst = furthest(make, awkward, range(0, awkward.n_users, 3))
    assert 0.95 < worst["item counts"] <= 1 + 1e-9
    assert users_module.bounded_rows is private_items.bounded_rows
    monkeypatch.setattr(users_module, "bounded_rows", lambda rows, *_: rows.astype(np.float64))
    assert furthest(make, awkward, [0])["item counts"] > 1.5  # the control


def test_a_user_whose_vector_overflows_says_nothing(people, monkeypatch) -> None:
    honest = DPALS._own_vectors

    def wild(self, histories, vectors):
        found = honest(self, histories, vectors)
        found[3] = np.inf
        return found

    monkeypatch.setattr(DPALS, "_own_vectors", wild)
    model = DPALS(embedding_size=4, rounds=1)
    model.fit(people, progress=False, secure=False)
    assert np.isfinite(model.shared["item_vectors"]).all()


# -- data of one's own ---------------------------------------------------------------------------------------


def rated(people: Dataset, low: float, high: float) -> Dataset:
    assert people.rating is not None
    span = low + (people.rating - 1) / 4 * (high - low)
    return vr.Dataset.from_codes(
        people.user,
        people.item,
        people.users,
        people.items,
        rating=span,
        attributes=people.attributes,
        rating_range=(low, high),
    )


@pytest.mark.parametrize("span", [(0.0, 100.0), (0.0, 0.5), (1.0, 5.0), (-10.0, 10.0)])
@pytest.mark.parametrize("make", [GERAI, GERAIPaper, vr.GCN])
def test_any_scale_of_ratings(people, span, make) -> None:
    model = make(**NET).fit(rated(people, *span), progress=False)
    assert np.isfinite(model.scores()).all()


def test_even_parts_of_a_long_scale_are_filled_alike() -> None:
    data = Dataset.from_arrays(["ann"] * 20, range(20), rating=np.arange(0, 100, 5.0), rating_range=(0, 100))
    found = rating_statistics(data)
    assert [found[f"count {at:g}"][0] for at in range(5, 100, 10)] == [2.0] * 10
    assert found["share positive"][0] == pytest.approx(0.2)


def test_an_attribute_without_a_value_is_left_out_by_name(people) -> None:
    empty = Categorical(np.full(people.n_users, -1, np.int32), (), declared=False)
    data = dataclasses.replace(people, attributes={**people.attributes, "job": empty})
    for make in (GERAI, GERAIUsers, GERAIPaper):
        with pytest.warns(DataWarning, match="attribute job has no value and tells nothing: left out"):
            make(**NET).fit(data, progress=False)


def test_lists_longer_than_the_catalogue(people) -> None:
    parts = vr.split.holdout(people, test=0.2, seed=1)
    model = vr.Popularity().fit(parts.train)
    found = vr.attack(model, parts, "attribute", target="gender", attackers="bayes", k=10**9, repeats=1)
    assert found.outcomes
