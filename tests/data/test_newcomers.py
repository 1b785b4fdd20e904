"""New people described as those of the training data."""

from __future__ import annotations

import numpy as np
import pytest

from veilrec.core import DataError
from veilrec.data import Categorical, Dataset, Numeric, extremes_of, like, profiles, scheme_of


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
    found = like(
        newcomer(city=Categorical(np.array([0], np.int32), ("Lima",))), known().items, scheme_of(known())
    )
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
    ],
)
def test_bad_input(people: Dataset, words: str) -> None:
    with pytest.raises(DataError, match=words):
        like(people, known().items, scheme_of(known()))
