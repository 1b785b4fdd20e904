from __future__ import annotations

import pytest

from veilrec.core import CannotFoldIn, DataError
from veilrec.data import Dataset
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
