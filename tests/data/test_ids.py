"""External ids: exact, compact, found again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.core import DataError
from veilrec.data.ids import Ids, compact, encode

_INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    "odd", ["07", "+7", "-0", " 7", "7 ", "7.0", "1e3", "", "seven", "9223372036854775808"]
)
def test_text_that_is_no_canonical_number_stays_text(odd: str) -> None:
    many = ["5"] * 2000
    for column in ([odd, *many], [*many, odd]):
        kept = compact(pl.Series(column))
        assert kept.dtype == pl.String
        assert kept.to_list() == column


@given(st.lists(_INT64, min_size=1, max_size=20))
def test_canonical_text_becomes_numbers_and_back(values: list[int]) -> None:
    column = pl.Series([str(value) for value in values])
    assert compact(column).dtype == pl.Int64
    assert compact(column).cast(pl.String).to_list() == column.to_list()


def test_numbers_that_leave_64_bits_become_text() -> None:
    assert compact(pl.Series([1, 2**64 - 1], dtype=pl.UInt64)).to_list() == ["1", "18446744073709551615"]


@given(st.lists(st.one_of(st.text(max_size=3), st.integers(0, 20).map(str)), min_size=1, max_size=30))
def test_encode_gives_every_id_back(values: list[str]) -> None:
    codes, ids = encode(pl.Series(values, dtype=pl.String))
    assert ids.take(codes).cast(pl.String).to_list() == values
    assert len(ids) == len(set(values))
    assert ids.values.to_list() == sorted(
        ids.values.to_list(), key=lambda v: v if ids.numeric else v.encode()
    )


@given(st.lists(_INT64, min_size=1, max_size=20), st.lists(_INT64, max_size=20))
def test_lookup_of_numbers_against_a_dictionary(known: list[int], asked: list[int]) -> None:
    ids = Ids(known)
    place = {value: code for code, value in enumerate(sorted(set(known)))}
    asked = [*asked, *known]
    expected = [place.get(value, -1) for value in asked]
    assert ids.codes(pl.Series(asked, dtype=pl.Int64)).tolist() == expected
    assert ids.codes([str(value) for value in asked]).tolist() == expected


def test_lookup_in_a_dense_vocabulary_outside_its_ends() -> None:
    ids = Ids(range(10, 20))
    assert ids.codes(pl.Series([9, 10, None, 19, 20])).tolist() == [-1, 0, -1, 9, -1]


@pytest.mark.parametrize("size", [3, 1000])
def test_text_lookup_is_the_same_by_bisection_and_by_hash(size: int) -> None:
    names = [f"u{i:04d}" for i in range(size)]
    ids = Ids(names)
    asked = ["u0002", "zz", None, "", "u0000"]
    assert ids.codes(asked).tolist() == [2, -1, -1, -1, 0]
    assert ids.codes(asked * size).tolist() == [2, -1, -1, -1, 0] * size


def test_a_number_finds_its_text_only_when_written_canonically() -> None:
    assert Ids([7, 12]).codes(["7", "07", "12 ", "12"]).tolist() == [0, -1, -1, 1]
    assert Ids(["a", "7"]).codes([7, 8]).tolist() == [0, -1]


def test_empty_vocabulary_and_missing_ids() -> None:
    assert len(Ids([])) == 0
    assert Ids([]).codes(["a"]).tolist() == [-1]
    with pytest.raises(DataError, match="ids must be given everywhere"):
        Ids(["a", None])


def test_equality_goes_by_the_ids() -> None:
    assert Ids(["b", "a"]) == Ids(["a", "b", "b"])
    assert hash(Ids(["b", "a"])) == hash(Ids(["a", "b"]))
    assert Ids([1]) == Ids(["1"])
    assert Ids([1]) != Ids([2])
    assert repr(Ids([1])) == "Ids(1 numbers)"


def test_codes_are_int32() -> None:
    for column in (pl.Series([5, 6]), pl.Series(["x", "y"])):
        assert encode(column)[0].dtype == np.int32
