from __future__ import annotations

from dataclasses import replace

import pytest

import veilrec as vr
from veilrec.core import BudgetExhausted, CannotFoldIn, DataError
from veilrec.data import Dataset
from veilrec.privacy import Ledger
from veilrec.studio.lists import NEW_USER, lists
from veilrec.systems import Popularity
from veilrec.training import Recommender


@pytest.fixture(scope="module")
def model():
    return Popularity().fit(Dataset.from_arrays([1, 2, 2, 3, 3, 3], ["x", "x", "y", "x", "y", "z"]))


def test_known_users_come_with_their_history(model):
    found = lists(model, users=["2"], k=5)
    assert found.frame.rows() == [(2, "z", 1, 1.0)]
    assert found.histories == {"2": ["x", "y"]}
    everyone = lists(model, k=1)
    assert everyone.frame["user"].to_list() == [1, 2]
    assert everyone.histories == {}
    assert lists(model, users=["3"], k=1, exclude_seen=False).frame["item"].to_list() == ["x"]


def test_new_users_and_candidates(model, tmp_path):
    found = lists(model, history=["y"], k=5)
    assert found.frame["item"].to_list() == ["x", "z"]
    assert found.histories == {NEW_USER: ["y"]}
    file = tmp_path / "few.txt"
    file.write_text("z\n\n y \n")
    assert lists(model, users=["1"], candidates=file).frame["item"].to_list() == ["y", "z"]


def test_bad_candidates(model, tmp_path):
    with pytest.raises(DataError, match="candidates must be a text file"):
        lists(model, users=["1"], candidates=tmp_path / "absent.txt")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="candidates must name one item or more"):
        lists(model, users=["1"], candidates=tmp_path / "empty.txt")
    (tmp_path / "wrong.txt").write_text("q\n")
    with pytest.raises(ValueError, match="item must be one that popularity was fitted on, got 'q'"):
        lists(model, users=["1"], candidates=tmp_path / "wrong.txt")


class Bound(Popularity):
    """Popularity that knows only the users it has seen."""

    word = "bound"
    _score_histories = Recommender._score_histories


def test_models_that_cannot_fold_in_say_so():
    model = Bound().fit(Dataset.from_arrays([1, 1, 2, 2], ["x", "y", "x", "z"]))
    assert len(lists(model, users=["1"], k=1).frame) == 1
    with pytest.raises(CannotFoldIn, match=r"bound .*cannot serve a user who was not in its data"):
        lists(model, history=["x"])


def test_reports_of_new_users_are_drawn_once(tmp_path):
    model = vr.GERAI(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
    people, file = vr.synthetic(5, 40, 60, seed=3), tmp_path / "reports.safetensors"
    first = lists(model, new=people, reports=file, k=3).frame
    assert first.equals(lists(model, new=people, reports=file, k=3).frame)
    assert first["user"].n_unique() == 5
    blank = lists(model, new=people, k=3).frame
    assert not blank.equals(first)
    with pytest.raises(DataError, match="other people"):
        lists(model, new=vr.synthetic(6, 40, 60, seed=4), reports=file)
    file.write_bytes(b"no")
    with pytest.raises(DataError, match="cannot be read"):
        lists(model, new=people, reports=file)


def test_reports_are_for_one_model_with_its_settings_and_scheme(tmp_path):
    """A report of epsilon 0.1 is no report of epsilon 5, nor one of other attributes."""

    def fitted(data, **settings):
        return vr.GERAI(epochs=1, embedding_size=4, **settings).fit(data, progress=False)

    world = vr.synthetic(60, 40, 900)
    people, file = vr.synthetic(5, 40, 60, seed=3), tmp_path / "reports.safetensors"
    private = fitted(world, epsilon=0.1)
    first = lists(private, new=people, reports=file, k=3).frame
    with pytest.raises(
        DataError, match=r"these people and for this model, got those for other settings\. Name"
    ):
        lists(fitted(world, epsilon=5.0), new=people, reports=file)
    fewer = replace(world, attributes={"gender": world.attributes["gender"]})
    with pytest.raises(DataError, match=r"got those for profiles of another scheme\. Name another file"):
        lists(fitted(fewer, epsilon=0.1), new=people, reports=file)
    plain = vr.systems.GCN(epochs=1, embedding_size=4).fit(world, progress=False)
    with pytest.raises(DataError, match="got those for another model and for other settings"):
        lists(plain, new=people, reports=file)
    again = vr.load_model(private.save(tmp_path / "model.veil"))
    assert first.equals(lists(again, new=people, reports=file, k=3).frame)


def test_reports_of_new_users_are_booked_once_or_refused(tmp_path):
    model = vr.GERAI(epsilon=1.0, epochs=1, embedding_size=4)
    model.fit(vr.synthetic(60, 40, 900), progress=False)
    people, file = vr.synthetic(5, 40, 60, seed=3), tmp_path / "reports.safetensors"
    ledger, whole = Ledger(tmp_path / "budget.sqlite"), model.guarantee.claims[0].epsilon
    for _ in range(2):
        lists(model, new=people, reports=file, ledger=ledger)
    [account] = ledger.accounts(people.name)
    assert (account.epsilon, account.runs, account.unfinished) == (whole, 1, 0)
    ledger.set_limit(people.name, epsilon=1.5 * whole, delta=0.0, unit="attribute")
    with pytest.raises(BudgetExhausted, match="Nothing was spent"):
        lists(model, new=people, reports=tmp_path / "second", ledger=ledger)
    assert not (tmp_path / "second").exists()
    assert [one.epsilon for one in ledger.accounts(people.name)] == [whole]
    plain = vr.systems.GCN(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
    plain.report(people, ledger=ledger, population="elsewhere")
    assert "elsewhere" not in ledger.populations()  # no noise, no claim, nothing to book
