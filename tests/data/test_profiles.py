"""Profiles: what is left out is named, and what is refused says how to get it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import veilrec as vr
from veilrec.core import DataError, DataWarning
from veilrec.data import Categorical, Numeric, binned, check_edges, profiles

DATA = vr.synthetic(users=60, items=40, interactions=900)


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ("rating", "have no ratings,"),
        ("rating_range", r"no declared range.*--rating-range LOW,HIGH"),
    ],
)
def test_statistics_that_need_ratings_are_left_out_by_name(lacking, words) -> None:
    bare = dataclasses.replace(DATA, **{lacking: None})
    with pytest.warns(DataWarning, match=words) as seen:
        found = profiles(bare)
    assert len(seen) == 1
    assert found.number_names == ("items",)
    text = str(seen[0].message)
    for name in profiles(DATA).number_names[1:]:
        assert name.split()[0] in text, name
    assert found.left_out == (text,)
    assert profiles(bare, quiet=True).left_out == (text,)
    assert profiles(bare, statistics=False).left_out == ()


def test_nothing_is_left_out_of_whole_data() -> None:
    assert profiles(DATA).left_out == ()


def test_an_attribute_of_one_category() -> None:
    one = Categorical(np.zeros(60, np.int32), ("all",))
    data = dataclasses.replace(DATA, attributes={**DATA.attributes, "planet": one})
    with pytest.warns(DataWarning, match="attribute planet has one category and tells nothing: left out"):
        found = profiles(data)
    assert "planet" not in found.category_names
    both = profiles(data, quiet=True).beside(profiles(data, statistics=False, quiet=True))
    assert both.left_out == found.left_out * 2


def test_a_number_without_a_range_is_refused_with_both_ways_to_declare_one() -> None:
    data = dataclasses.replace(DATA, attributes={"income": Numeric(np.ones(60, np.float32), None, None)})
    with pytest.raises(DataError) as error:
        profiles(data)
    text = str(error.value)
    assert "attribute income must have a declared public range, got none" in text
    assert "numeric_ranges={'income': (low, high)}" in text
    assert "--attribute-range income=LOW,HIGH" in text
    assert "bins" not in text


@pytest.mark.parametrize("edges", [(46, 35), (35, 35), (), (35, math.nan), (35, math.inf), ("a",), 35, None])
def test_edges_are_checked_under_the_name_that_they_have(edges) -> None:
    with pytest.raises(ValueError, match="age_edges must be rising finite edges, got"):
        check_edges("age_edges", edges)
    ages = Numeric(np.array([20], np.float32))
    with pytest.raises(ValueError, match="bins must be rising finite edges, got"):
        binned(ages, edges)


def test_edges_may_be_none_where_that_means_no_classes() -> None:
    assert check_edges("age_edges", (), or_none=True) == ()
    assert check_edges("age_edges", [35, 46], or_none=True) == (35.0, 46.0)
