"""New people described as those of the training data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from veilrec.core import DataError, DataWarning
from veilrec.data import Categorical, Dataset, Numeric, extremes_of, like, profiles, read_newcomers, scheme_of


def known() -> Dataset:
    return Dataset.from_arrays(
        ["ann", "bob", "ann"],
        ["tea", "mate", "mate"],
        rating=[5, 3, 1],
        rating_range=(1, 5),
        attributes={
            "city": Categorical(np.array([0, 1], np.int32), ("Rome", "Oslo")),
            "age": Numeric(np.array([20, 50], np.float32), low=0, high=100),
        },
    )


def newcomer(**attributes) -> Dataset:
    return Dataset.from_arrays(["cem"], ["mate"], rating=[4], rating_range=(1, 5), attributes=attributes)


def test_codes_follow_the_training_data() -> None:
    cities = Categorical(np.array([0], np.int32), ("Oslo",))
    ages = Numeric(np.array([30], np.float32))
    found = like(newcomer(city=cities, age=ages), known().items, scheme_of(known()))
    assert found.attributes["city"].codes.tolist() == [1]
    assert found.attributes["city"].categories == ("Rome", "Oslo")
    assert (found.attributes["age"].low, found.attributes["age"].high) == (0, 100)
    assert found.items == known().items
    assert found.frame()["item"].to_list() == ["mate"]


def test_what_is_not_known_is_unknown() -> None:
    somebody = newcomer(city=Categorical(np.array([0], np.int32), ("Lima",)))
    with pytest.warns(DataWarning, match="attribute city has 'Lima', which the training data do not know"):
        found = like(somebody, known().items, scheme_of(known()))
    assert found.attributes["city"].codes.tolist() == [-1]
    assert np.isnan(found.attributes["age"].values).all()


def test_statistics_are_scaled_by_the_extremes_of_the_training_data() -> None:
    """One item where training users have 1 to 2: the lowest value; a mean of 4 where they have 3 and 3."""
    ends = extremes_of(known())
    found = profiles(newcomer(), scaling="observed", attributes=(), extremes=ends)
    values = dict(zip(found.number_names, found.numbers[0]))
    assert values["items"] == -1.0
    assert values["mean"] == 0.0  # both have a mean of 3: the statistic tells nothing
    assert values["highest"] == 0.0  # 4 between 3 and 5
    assert abs(found.numbers).max() <= 1


@pytest.mark.parametrize(
    ("people", "words"),
    [
        (Dataset.from_arrays(["cem"], ["beer"]), "got 'beer'"),
        (newcomer(city=Numeric(np.array([3], np.float32))), "city must be categorical"),
        (newcomer(age=Categorical(np.array([0], np.int32), ("old",))), "age must be a number"),
        (
            newcomer(age=Numeric(np.array([440], np.float32))),
            r"attribute age of user 'cem' must be from 0 to 100, got 440\. That is the range",
        ),
        (
            Dataset.from_arrays(["cem", "dan"], ["mate", "tea"], rating=[5, 50]),
            r"rating of user 'dan' must be from 1 to 5, got 50\. That is the range",
        ),
    ],
)
def test_bad_input(people: Dataset, words: str) -> None:
    with pytest.raises(DataError, match=words):
        like(people, known().items, scheme_of(known()))


def test_the_ends_of_a_range_are_inside_however_they_are_rounded() -> None:
    """0.3 as a rating is stored as 0.30000001."""
    tenths = {"rating": [0.1, 0.3], "rating_range": (0.1, 0.3)}
    data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"], **tenths)
    assert like(data, data.items, scheme_of(data)).rating is not None


def test_tables_of_new_people_are_read_by_the_scheme(tmp_path) -> None:
    """Numbers stay numbers, numbers that are classes stay classes, and what is not there stays away."""
    scheme = {
        "attributes": {
            "age": {"low": 0, "high": 100},
            "pay": {"low": None, "high": None},
            "shoe": {"categories": ["38.5", "40"]},
            "level": {"categories": ["1", "18"]},
            "city": {"categories": ["Rome", "Oslo"]},
        },
        "rating_range": [1, 5],
    }
    events = pl.DataFrame({"user": ["ann", "bob"], "item": ["tea", "mate"], "rating": [1, 5]})
    people = pl.DataFrame(
        {"user": ["ann", "bob"], "age": [20, 30], "pay": [7, 8], "shoe": [38.5, 41.5], "level": [18.0, 7.0]}
    )
    found = read_newcomers(events, people, scheme)
    assert found.rating_range == (1, 5)
    with (
        pytest.warns(DataWarning, match="attribute shoe has '41.5'"),
        pytest.warns(DataWarning, match="attribute level has '7'"),
    ):
        mine = like(found, known().items, scheme).attributes
    assert (mine["age"].values.tolist(), mine["age"].high) == ([20, 30], 100)
    assert (mine["pay"].values.tolist(), mine["pay"].high) == ([7, 8], None)
    assert mine["shoe"].codes.tolist() == [0, -1]
    assert mine["level"].codes.tolist() == [1, -1]
    assert mine["city"].codes.tolist() == [-1, -1]
    assert isinstance(read_newcomers(events, people).attributes["age"], Categorical)
    assert read_newcomers(events, None, scheme).attributes == {}
    with pytest.raises(DataError, match="rating must be from 1 to 5, got 9"):
        read_newcomers(events.with_columns(rating=pl.lit(9)), people, scheme)
    (tmp_path / "new.inter").write_text("user_id:token\titem_id:token\nann\ttea\n")
    (tmp_path / "new.user").write_text("user_id:token\tage:float\nann\t31\n")
    assert read_newcomers(tmp_path / "new.inter", None, scheme).attributes["age"].high == 100
