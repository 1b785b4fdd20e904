"""Bad input: one clear sentence each, with the file, the line, the value and the remedy."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilrec.core import DataError, DataWarning
from veilrec.data.read import read


def fails(folder: Path, text: str | bytes, pattern: str, name: str = "t.csv", **arguments: Any) -> DataError:
    """Reading this text raises a DataError: file, then ``pattern``."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        read(path, **arguments)
    message = str(caught.value)
    assert message.startswith(str(path)), message
    assert re.search(pattern, message), message
    assert "\n" not in message
    return caught.value


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv: the file does not exist\. Check the path\."):
        read(tmp_path / "gone.csv")


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a file must be named, got a folder\. Name the file inside it\."):
        read(tmp_path)


@pytest.mark.parametrize("source", [None, 7, "", ["a.csv"]])
def test_neither_path_nor_frame(source: object) -> None:
    with pytest.raises(ValueError, match="source must be a path, or a pandas, Polars or Arrow frame, got"):
        read(source)


@pytest.mark.parametrize("text", ["", "\n", "\n \r\n", "\ufeff"])
def test_empty_file(tmp_path: Path, text: str) -> None:
    fails(tmp_path, text, "the file must hold a table, got an empty file")
    fails(tmp_path, gzip.compress(text.encode()), "the file must hold a table, got an empty file", "t.csv.gz")


@pytest.mark.parametrize("text", ["user,item\n", "user,item", "user,item\n\n\n"])
def test_header_only(tmp_path: Path, text: str) -> None:
    fails(tmp_path, text, "the table must have a row or more, got none below its header")


def test_a_frame_without_rows() -> None:
    with pytest.raises(DataError, match="interactions frame: the table must have a row or more"):
        read(pl.DataFrame({"user": [], "item": []}))


def test_missing_column(tmp_path: Path) -> None:
    error = fails(
        tmp_path,
        "who,item,stars\na,b,3\n",
        r"the user column must have a common name, but the columns are 'who', 'item', 'stars'\. "
        r"Name it with user=\.\.\. \(--user\), or say header=False if the first line is data\.",
    )
    assert error.file == tmp_path / "t.csv"
    fails(tmp_path, "user,thing\na,b\n", r"the item column .* 'user', 'thing'.*item=\.\.\. \(--item\)")
    fails(tmp_path, "user,item\na,b\n", "rating must be one of the columns 'user', 'item', got 'stars'",
          rating="stars")  # fmt: skip
    fails(tmp_path, "1,2\n", "the item column .*header=True", user="column_2")


def test_one_column_for_two_roles(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user,item\na,b\n")
    with pytest.raises(ValueError, match="columns must be different for each role"):
        read(path, user="item", item="item")


def test_repeated_column_name(tmp_path: Path) -> None:
    fails(tmp_path, "user,item,item\na,b,c\n", "column names must be distinct, got 'item' more than once")


def test_wrong_separator(tmp_path: Path) -> None:
    error = fails(
        tmp_path,
        "user;item;rating\na;b;3\n",
        r"two columns or more, got one when cut at ',': 'user;item;rating'\. .* separator=';'",
        separator=",",
    )
    assert error.line == 1
    fails(tmp_path, "user^item\na^b\n", "got one when cut at ','")
    with pytest.raises(
        ValueError, match="separator must be text without quotes, backslashes or line ends, got ''"
    ):
        read(tmp_path / "t.csv", separator="")


def test_rows_that_are_too_long_or_too_short(tmp_path: Path) -> None:
    error = fails(tmp_path, "user,item,rating\na,b,1\n\nc,d,e,2\n", "a row must have 3 columns, got 4")
    assert error.line == 4
    error = fails(tmp_path, "user,item,note\na,b,1\nc,d,e,2\n", "a row must have 3 columns, got 4")
    assert error.line == 3
    error = fails(tmp_path, "user,item\na,b\nc\n", "a row must have 2 columns, got 1")
    assert error.line == 3


def test_broken_quotes(tmp_path: Path) -> None:
    error = fails(tmp_path, 'user,item\na,b\nc,"d\ne,f\n', "fields must be properly quoted")
    assert error.line == 3


def test_undecodable_bytes(tmp_path: Path) -> None:
    error = fails(
        tmp_path,
        b"user,item\na,b\nc,\xe9t\xe9\n",
        r'text must be utf-8, got byte 0xe9 at offset 16\. Name the .* encoding="latin-1"',
    )
    assert error.line == 3
    fails(tmp_path, b"us\xe9r,item\na,b\n", "got byte 0xe9 at offset 2")
    fails(tmp_path, b"\xef\xbb\xbfus\xe9r,item\na,b\n", "got byte 0xe9 at offset 5")
    fails(tmp_path, "user,item\na,b\n".encode("utf-16"), 'encoding="utf-16"')
    fails(tmp_path, "user,item\na,é\n", "text must be ascii, got byte 0xc3 at offset 12", encoding="ascii")
    zipped = gzip.compress(b"user,item\na,b\nc,\xe9\n")
    assert fails(tmp_path, zipped, "got byte 0xe9 at offset 16", "t.csv.gz").line == 3
    with pytest.raises(ValueError, match="encoding must be one that Python knows, got 'latin-9000'"):
        read(tmp_path / "t.csv", encoding="latin-9000")


@pytest.mark.parametrize("value", ["five", "nan", "NaN", "", "inf", "-inf", "3,5"])
def test_a_rating_that_is_no_number(tmp_path: Path, value: str) -> None:
    text = f'user,item,rating,note\na,x,3,n\n\na,y,4,"n\nm"\nb,x,"{value}",n\n'
    error = fails(tmp_path, text, "rating must be a number, got ")
    assert error.line == 6
    assert value in str(error)


def test_nan_and_null_ratings_in_frames() -> None:
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [1.0, float("nan")]})
    with pytest.raises(DataError, match="interactions frame, row 1: rating must be a number, got nan"):
        read(frame)
    with pytest.raises(DataError, match="interactions frame, row 0: rating must be a number, got None"):
        read(frame.with_columns(rating=pl.Series([None, 1.0])))


def test_rating_outside_the_declared_range(tmp_path: Path) -> None:
    error = fails(
        tmp_path,
        "user,item,rating\na,x,5\nb,x,5.5\n",
        "rating must be from 1 to 5, got 5.5. Correct the value, or declare another rating_range.",
        rating_range=(1, 5),
    )
    assert error.line == 3
    for wrong in ((5, 1), (1, float("nan")), 5, ("a", "b"), (1, 2, 3)):
        with pytest.raises(ValueError, match="rating_range must be a pair"):
            read(tmp_path / "t.csv", rating_range=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("user", ["", '""', "  "])
def test_missing_ids(tmp_path: Path, user: str) -> None:
    error = fails(tmp_path, f"user,item\na,x\n{user},y\n", "the user id must be given in every row, got none")
    assert error.line == 3
    assert fails(tmp_path, "user,item\na,x\nb,\n", "the item id must be given in every row").line == 3
    assert fails(tmp_path, "user,item,note\na,x,\n,,n\n", "the user id must be given in every row").line == 3


def test_ids_of_a_wrong_type() -> None:
    with pytest.raises(DataError, match=r"row 1: user ids must be text or whole numbers, got 1\.5"):
        read(pl.DataFrame({"user": [1.0, 1.5], "item": [1, 2]}))
    with pytest.raises(DataError, match="row 1: the user id must be given"):
        read(pl.DataFrame({"user": [1.0, None], "item": [1, 2]}))
    with pytest.raises(DataError, match="item ids must be text or whole numbers, got the type List"):
        read(pl.DataFrame({"user": [1], "item": [[1]]}))


@pytest.mark.parametrize("value", ["yesterday", "", "31.12.2024", "2024-13-01", "nan"])
def test_a_time_that_is_none(tmp_path: Path, value: str) -> None:
    for good in ("2024-01-01", "1700000000"):
        error = fails(tmp_path, f"user,item,time\na,x,{good}\nb,x,{value}\n", "time must be unix seconds")
        assert error.line == 3
        assert f"got {value!r}" in str(error) or not value


def test_a_mark_that_is_none(tmp_path: Path) -> None:
    error = fails(
        tmp_path, "user,item,private\na,x,0\nb,x,maybe\n", "sensitive must be true or false .*'maybe'"
    )
    assert error.line == 3


def test_ids_that_differ_by_space_or_case_are_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user,item\nann,x\nAnn,y\nbob,x \nbob,x\n")
    with pytest.warns(DataWarning) as caught:
        data = read(path)
    texts = [str(one.message) for one in caught]
    assert data.n_users == 3
    assert any(
        "2 user ids differ only by white space or case, for example 'Ann' and 'ann'" in t for t in texts
    )
    assert any("2 item ids differ" in t and "'x' and 'x '" in t for t in texts)
    assert all(Path(one.filename) == Path(__file__) for one in caught)


def test_unknown_extension(tmp_path: Path) -> None:
    fails(tmp_path, "user,item\na,b\n", r"known kind .*got '\.xlsx'\. If it is separated text", "t.xlsx")
    assert len(read(tmp_path / "t.xlsx", format="csv")) == 1
    with pytest.raises(ValueError, match=r"format must be one of csv, .*got 'cvs'\. Did you mean 'csv'"):
        read(tmp_path / "t.xlsx", format="cvs")


def test_corrupt_files(tmp_path: Path) -> None:
    whole = gzip.compress(b"user,item\n" + b"a,b\n" * 1000)
    fails(tmp_path, whole[:-20], "the file must be whole gzip, but", "cut.csv.gz")
    fails(tmp_path, b"user,item\na,b\n", "the file must be whole gzip, but", "plain.csv.gz")
    spoilt = bytearray(whole)
    spoilt[15] ^= 0xFF
    fails(tmp_path, bytes(spoilt), "the file must be whole gzip, but", "spoilt.csv.gz")
    pl.DataFrame({"user": np.arange(1000), "item": np.arange(1000)}).write_parquet(tmp_path / "good.parquet")
    good = (tmp_path / "good.parquet").read_bytes()
    fails(tmp_path, good[:-30], "the file must be whole Parquet, but", "cut.parquet")
    fails(tmp_path, b"user,item\n", "the file must be whole Parquet, but", "no.parquet")
    fails(tmp_path, b"MATLAB 5.0 nonsense" * 20, "the file must be whole MATLAB, but", "no.mat")


def test_wrong_policies(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="duplicates must be one of last, first, mean, error, keep, got 'lst'"
    ):
        read(tmp_path / "t.csv", duplicates="lst")
    with pytest.raises(ValueError, match="unknown_users must be one of error, drop, got 'ignore'"):
        read(tmp_path / "t.csv", unknown_users="ignore")
