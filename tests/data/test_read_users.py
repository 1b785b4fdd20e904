"""Attributes and links, good and bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilrec.core import DataError, DataWarning
from veilrec.data.dataset import Categorical, Dataset, Numeric
from veilrec.data.read import read

_EVENTS = pl.DataFrame({"user": ["a", "b", "c"], "item": ["x", "x", "y"]})


def _with(folder: Path, text: str, what: str = "users", **arguments: Any) -> Dataset:
    path = folder / f"{what}.csv"
    path.write_text(text, encoding="utf-8")
    return read(_EVENTS, **{what: path}, **arguments)


def _fails(folder: Path, text: str, pattern: str, what: str = "users", **arguments: Any) -> DataError:
    with pytest.raises(DataError, match=pattern) as caught:
        _with(folder, text, what, **arguments)
    assert str(caught.value).startswith(str(folder / f"{what}.csv"))
    return caught.value


def _categories(data: Dataset, name: str) -> tuple[list[int], tuple[str, ...]]:
    attribute = data.attributes[name]
    assert isinstance(attribute, Categorical)
    return attribute.codes.tolist(), attribute.categories


def test_kinds_of_attributes(tmp_path: Path) -> None:
    many = 40
    events = pl.DataFrame({"user": np.arange(many), "item": np.zeros(many, np.int64)})
    people = pl.DataFrame(
        {
            "user": np.arange(many),
            "word": ["b", " a "] * (many // 2),
            "few": [10, 9] * (many // 2),
            "many": np.arange(many),
            "real": np.arange(many) + 0.5,
            "whole_floats": [1.0, None] * (many // 2),
            "zip": np.arange(many) + 90000,
            "padded": [f"{i:03d}" for i in range(many)],
            "flag": [True, False] * (many // 2),
            "nothing": [None] * many,
            "mostly": ["1"] * (many - 1) + ["one"],
        }
    )
    people.write_csv(tmp_path / "people.csv")
    for source in (people, tmp_path / "people.csv"):
        data = read(events, users=source)
        kinds = {name: type(attribute).__name__ for name, attribute in data.attributes.items()}
        assert kinds == {
            "word": "Categorical",
            "few": "Categorical",
            "many": "Numeric",
            "real": "Numeric",
            "whole_floats": "Categorical",
            "zip": "Categorical",
            "padded": "Categorical",
            "flag": "Categorical",
            "nothing": "Categorical",
            "mostly": "Categorical",
        }
        assert _categories(data, "word")[1] == ("a", "b")
        assert _categories(data, "few")[1] == ("9", "10")
        assert _categories(data, "whole_floats") == ([0, -1] * (many // 2), ("1",))
        assert _categories(data, "nothing") == ([-1] * many, ())
        real = data.attributes["real"]
        assert isinstance(real, Numeric)
        assert (real.low, real.high) == (None, None)
        assert real.values.tolist() == [i + 0.5 for i in range(many)]


def test_missing_values_and_users_without_a_row(tmp_path: Path) -> None:
    data = _with(tmp_path, "user,sex,income\nc,NA,\na,f,2.5\n")
    assert _categories(data, "sex") == ([0, -1, -1], ("f",))
    assert data.attributes["income"].column().to_list() == [2.5, None, None]


def test_the_id_column_is_found(tmp_path: Path) -> None:
    for header in ("user,sex", "Customer-ID,sex", "id,sex"):
        assert list(_with(tmp_path, header + "\na,f\n").attributes) == ["sex"]
    events = _EVENTS.rename({"user": "wer"})
    people = pl.DataFrame({"sex": ["f"], "WER": ["a"], "id": [5]})
    assert list(read(events, user="wer", users=people).attributes) == ["sex", "id"]
    assert list(_with(tmp_path, "a,1\nb,2\n").attributes) == ["column_2"]
    _fails(tmp_path, "who,sex\na,f\n", "the user column must have a common name.*'who', 'sex'.*to 'user'")


def test_declared_ranges(tmp_path: Path) -> None:
    data = _with(tmp_path, "user,age\na,30\nb,\n", numeric_ranges={"age": (0, 120)})
    age = data.attributes["age"]
    assert isinstance(age, Numeric)
    assert (age.low, age.high) == (0.0, 120.0)
    assert age.missing.tolist() == [False, True, True]
    for value in ("121", "old", "-1", "inf"):
        error = _fails(
            tmp_path, f"user,age\na,30\nb,{value}\n", f"age must be a number from 0 to 120, got '{value}'",
            numeric_ranges={"age": (0, 120)},
        )  # fmt: skip
        assert error.line == 3
    with pytest.raises(ValueError, match="numeric_ranges must be about the attributes age, got 'agee'"):
        _with(tmp_path, "user,age\na,30\n", numeric_ranges={"agee": (0, 120)})
    with pytest.raises(ValueError, match="numeric_ranges of 'age' must be a pair"):
        _with(tmp_path, "user,age\na,30\n", numeric_ranges={"age": (5, 5)})
    with pytest.raises(ValueError, match="numeric_ranges must be given together with a table of users"):
        read(_EVENTS, numeric_ranges={"age": (0, 120)})


def test_declared_categories(tmp_path: Path) -> None:
    text = "user,size\na,small\nb,large\n"
    data = _with(tmp_path, text, categories={"size": ["small", "middle", "large"]})
    assert _categories(data, "size") == ([0, 2, -1], ("small", "middle", "large"))
    error = _fails(
        tmp_path, text, "size must be one of the declared categories small, middle, got 'large'",
        categories={"size": ["small", "middle"]},
    )  # fmt: skip
    assert error.line == 3
    with pytest.raises(ValueError, match="categories of 'size' must be distinct"):
        _with(tmp_path, text, categories={"size": ["small", "small"]})
    with pytest.raises(ValueError, match="either a range or categories"):
        _with(tmp_path, text, categories={"size": ["small"]}, numeric_ranges={"size": (0, 1)})


def test_bad_user_rows(tmp_path: Path) -> None:
    error = _fails(tmp_path, "user,age\na,1\nz,2\ny,3\n", r"got user 'z' without any \(2 such rows\)")
    assert error.line == 3
    data = _with(tmp_path, "user,age\na,1\nz,2\n", unknown_users="drop")
    assert _categories(data, "age")[0] == [0, -1, -1]
    error = _fails(tmp_path, "user,age\na,1\nb,1\na,2\n", r"one row only, got 'a' again \(before in line 2\)")
    assert error.line == 4
    assert _fails(tmp_path, "user,age\na,1\n,2\n", "the user id must be given in every row").line == 3
    _fails(tmp_path, "user,age\n", "the table must have a row or more")
    with pytest.raises(DataError, match="users frame: attribute 'tags' must be text or numbers"):
        read(_EVENTS, users=pl.DataFrame({"user": ["a"], "tags": [["x"]]}))
    with pytest.raises(DataError, match="the file does not exist"):
        read(_EVENTS, users=tmp_path / "gone.csv")


@pytest.mark.parametrize(
    "header",
    ["source,target", "truster,trustee", "user,friend", "userID,friendID", "source_id,target_id", "von,zu"],
)
def test_links_are_found_directed_and_sorted(tmp_path: Path, header: str) -> None:
    data = _with(tmp_path, header + "\nc,a\na,b\nb,a\n", "links")
    assert data.links is not None
    assert list(zip(data.links.source.tolist(), data.links.target.tolist())) == [(0, 1), (1, 0), (2, 0)]


def test_link_columns_in_other_places(tmp_path: Path) -> None:
    data = _with(tmp_path, "weight,friend,user\n1,a,c\n", "links")
    assert data.links is not None
    assert (data.links.source.tolist(), data.links.target.tolist()) == ([2], [0])
    bare = read(pl.DataFrame({"user": [1, 2], "item": [1, 1]}), links=_put(tmp_path, "1 2 1\n"))
    assert bare.links is not None
    assert len(bare.links) == 1
    _fails(
        tmp_path, "x,y,z\na,b,c\n", "columns source and target, but the columns are 'x', 'y', 'z'", "links"
    )


def _put(folder: Path, text: str) -> Path:
    path = folder / "trust.txt"
    path.write_text(text)
    return path


def test_bad_links(tmp_path: Path) -> None:
    error = _fails(tmp_path, "source,target\na,b\na,z\n", "got user 'z' without any", "links")
    assert error.line == 3
    kept = _with(tmp_path, "source,target\na,b\na,z\nz,b\n", "links", unknown_users="drop").links
    assert kept is not None
    assert len(kept) == 1
    with pytest.warns(DataWarning, match=r"links\.csv: 2 links lead from a user to the same user; left out"):
        own = _with(tmp_path, "source,target\na,a\na,b\nc,c\n", "links").links
    assert own is not None
    assert len(own) == 1
    with pytest.warns(DataWarning, match=r"links\.csv: 1 links are named more than once; each counts once"):
        twice = _with(tmp_path, "source,target\na,b\na,b\n", "links").links
    assert twice is not None
    assert len(twice) == 1
    _fails(tmp_path, "source,target\na,\n", "the user id must be given in every row", "links")
    _fails(tmp_path, "source,target\n", "the table must have a row or more", "links")
