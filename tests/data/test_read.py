"""Good tables of every shape, as people have them."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from veilrec.core import DataWarning
from veilrec.data.dataset import Categorical, Dataset, Numeric
from veilrec.data.frames import kind_of, to_kind
from veilrec.data.read import read

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def put(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    """A file with this text, packed when its name ends in .gz."""
    path, raw = folder / name, text.encode(encoding)
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def numeric(data: Dataset, name: str) -> Numeric:
    attribute = data.attributes[name]
    assert isinstance(attribute, Numeric)
    return attribute


def categorical(data: Dataset, name: str) -> Categorical:
    attribute = data.attributes[name]
    assert isinstance(attribute, Categorical)
    return attribute


def test_a_table_nobody_has_seen(tmp_path: Path) -> None:
    """Odd column names, ids with spaces and other scripts, gzip, missing attributes, links, marks."""
    events = put(
        tmp_path,
        "Käufe 2024.csv.gz",
        'wer;was;wie gut;wann;geheim\nÜnal Ö.;"Tee; grün";4,\n'.replace("4,", "4;2024-01-02T10:00:00Z;no")
        + "名前;007;2.5;2024-01-03;yes\n"
        + "Ünal Ö.;7;5;2024-01-01 09:30:00;0\n"
        + "x y z;007;1;2024-01-01T00:00:00+02:00;1\n",
    )
    people = put(tmp_path, "people.tsv", "wer\tage\tsex\tincome\n名前\t41\tf\t\nÜnal Ö.\t\t\t12.5\n")
    friends = put(tmp_path, "friends.csv", "wer,friend,since\nx y z,名前,2020\n名前,x y z,2021\n")
    data = read(
        events,
        users=people,
        links=friends,
        user="wer",
        item="was",
        rating="wie gut",
        time="wann",
        sensitive="geheim",
        rating_range=(1, 5),
        numeric_ranges={"income": (0, 100), "age": (0, 120)},
    )
    assert data.name == "Käufe 2024"
    assert data.rating_range == (1.0, 5.0)
    assert data.frame().rows() == [
        ("x y z", "007", 1.0, 1704060000, True),
        ("Ünal Ö.", "7", 5.0, 1704101400, False),
        ("Ünal Ö.", "Tee; grün", 4.0, 1704189600, False),
        ("名前", "007", 2.5, 1704240000, True),
    ]
    assert data.user_frame().rows() == [
        ("x y z", None, None, None),
        ("Ünal Ö.", None, None, 12.5),
        ("名前", 41.0, "f", None),
    ]
    assert (numeric(data, "age").low, numeric(data, "age").high) == (0, 120)
    assert data.links is not None
    assert list(zip(data.links.source.tolist(), data.links.target.tolist())) == [(0, 2), (2, 0)]
    assert data.frame_kind == "polars"


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::", " "])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_separator_is_found(tmp_path: Path, separator: str, ending: str, packed: str) -> None:
    lines = [("user", "item", "rating"), ("b", "x1", "2"), ("a", "x2", "3.5")]
    text = ending.join(separator.join(line) for line in lines) + ending
    data = read(put(tmp_path, "t.csv" + packed, text))
    assert data.frame().rows() == [("a", "x2", 3.5), ("b", "x1", 2.0)]


def test_a_separator_of_ones_own(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "user^^item\na,b^^c\n")
    assert read(path, separator="^^").frame().rows() == [("a,b", "c")]
    path = put(tmp_path, "u.csv", "user^item\na^c\n")
    assert read(path, separator="^").frame().rows() == [("a", "c")]


def test_byte_order_mark_empty_lines_and_runs_of_spaces(tmp_path: Path) -> None:
    marked = put(tmp_path, "bom.csv", "\ufeffuser,item\na,b\n")
    assert read(marked).frame().rows() == [("a", "b")]
    bare = put(tmp_path, "bare.csv", "\ufeff1,2,3\n")
    assert read(bare).frame().rows() == [(1, 2, 3.0)]
    gaps = put(tmp_path, "gaps.csv", "\n\nuser,item,note\n\na,b,\n\n\nc,d,x\n\n")
    assert read(gaps).frame().rows() == [("a", "b"), ("c", "d")]
    spaces = put(tmp_path, "s.txt", "\n  1   2  3 \n4 5 1\n")
    assert read(spaces).frame().rows() == [(1, 2, 3.0), (4, 5, 1.0)]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = put(tmp_path, "t.csv", "user,item\nJosé,Käse\n", encoding)
    assert read(path, encoding=encoding).frame().rows() == [("José", "Käse")]


def test_quotes(tmp_path: Path) -> None:
    good = put(tmp_path, "q.csv", 'user,item,note\n"a, b",x,"two\nlines"\nc,"say ""hi""",\n')
    assert read(good).frame().rows() == [("a, b", "x"), ("c", 'say "hi"')]
    lone = put(tmp_path, "lone.csv", 'user,item\na,12" vinyl\nb,7" single\n')
    assert read(lone).frame()["item"].to_list() == ['12" vinyl', '7" single']


def test_header_or_not(tmp_path: Path) -> None:
    text = "1,2,4.5,100\n3,4,5,50\n"
    assert read(put(tmp_path, "n.csv", text)).frame().rows() == [(1, 2, 4.5, 100), (3, 4, 5.0, 50)]
    names = put(tmp_path, "w.csv", "ann,tea\nbob,tea\n")
    assert len(read(names, header=False)) == 2
    forced = read(put(tmp_path, "f.csv", text), header=True, user="1", item="2")
    assert forced.frame().rows() == [(3, 4)]
    swapped = read(put(tmp_path, "p.csv", text), user="column_2", item="column_1", time="column_3")
    assert swapped.frame().columns == ["user", "item", "time"]
    assert swapped.frame()["user"].to_list() == [2, 4]
    numbered = put(tmp_path, "id7.csv", "uid7,99,x\na,b,1\n")
    assert read(numbered, user="uid7", item="99").frame().rows() == [("a", "b")]


def test_named_columns_bend_case_and_optional_ones_can_be_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "User ID,MovieID,Weight,Date,Private\na,b,3,2024-01-01,1\n")
    assert read(path, user="user_id").frame().columns == ["user", "item", "rating", "time", "sensitive"]
    bare = read(path, rating=False, time=False, sensitive=False)
    assert bare.frame().columns == ["user", "item"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["100", "50"], [100, 50]),
        (["1700000000123", "1700000001000"], [1700000000, 1700000001]),
        (["1700000000123456", "1700000001000000"], [1700000000, 1700000001]),
        (["1700000000123456789", "1700000001000000000"], [1700000000, 1700000001]),
        (["1700000000.9", "-1.5"], [1700000000, -2]),
        (["2024-01-01", "2024-01-01T00:00:01.5"], [1704067200, 1704067201]),
        (["2024/01/01 00:01", "2024-01-01 00:00:00Z"], [1704067260, 1704067200]),
        (["1969-12-31T23:59:59.5Z", "2024-01-01T01:00+0100"], [-1, 1704067200]),
    ],
)
def test_times(tmp_path: Path, values: list[str], expected: list[int]) -> None:
    lines = "".join(f"{user},x,{value}\n" for user, value in zip("ab", values))
    data = read(put(tmp_path, "t.csv", "user,item,time\n" + lines))
    assert data.time is not None
    assert data.time.tolist() == expected


def test_typed_times_in_frames() -> None:
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 1], "date": [dt.date(2024, 1, 1), dt.date(1970, 1, 2)]})
    assert read(frame).frame()["time"].to_list() == [1704067200, 86400]
    zoned = pd.DataFrame({"user": [1], "item": [1], "time": pd.to_datetime(["2024-01-01T02:00+02:00"])})
    assert read(zoned).frame()["time"].to_list() == [1704067200]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_in_memory(kind: str) -> None:
    events = to_kind(pl.DataFrame({"user": ["b", "a"], "item": [1, 2], "rating": [1.0, 2.0]}), kind)
    people = to_kind(pl.DataFrame({"user": ["a"], "group": ["x"]}), kind)
    links = to_kind(pl.DataFrame({"source": ["a"], "target": ["b"]}), kind)
    data = read(events, users=people, links=links)
    assert data.frame_kind == kind
    assert data.name == "data"
    assert data.frame().rows() == [("a", 2, 2.0), ("b", 1, 1.0)]
    assert categorical(data, "group").codes.tolist() == [0, -1]
    assert kind_of(to_kind(data.frame(), data.frame_kind)) == kind


def test_a_lazy_frame_and_whole_floats_as_ids() -> None:
    lazy = pl.LazyFrame({"user": [1.0, 2.0], "item": pl.Series(["x", "y"], dtype=pl.Categorical)})
    assert read(lazy).frame().rows() == [(1, "x"), (2, "y")]


def test_the_same_data_from_csv_parquet_and_frame(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"user": [3, 1, 3], "item": ["a", "b", "c"], "rating": [1.0, 2.5, 4.0]}
    frame = pl.DataFrame({**rows, "time": [30, 20, 10]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    prints = {read(source).fingerprint for source in (frame, tmp_path / "t.csv", str(tmp_path / "t.parquet"))}
    assert len(prints) == 1


def test_a_progress_free_silent_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    read(put(tmp_path, "t.csv", "user,item\na,b\n"))
    assert capfd.readouterr() == ("", "")


@needs_data
def test_movielens_files() -> None:
    folder = Path(os.environ["VEILREC_DATA"])
    small = read(
        folder / "ml-100k" / "u.data",
        users=folder / "ml-100k" / "u.user",
        rating_range=(1, 5),
        numeric_ranges={"age": (0, 120)},
    )
    assert (small.n_users, small.n_items, len(small)) == (943, 1682, 100_000)
    assert small.rating is not None
    assert np.bincount(small.rating.astype(int))[1:].tolist() == [6110, 11370, 27145, 34174, 21201]
    gender = categorical(small, "gender")
    assert dict(zip(gender.categories, np.bincount(gender.codes).tolist())) == {"F": 273, "M": 670}
    assert len(categorical(small, "occupation").categories) == 21
    assert not numeric(small, "age").missing.any()
    large = read(folder / "ml-1m" / "ratings.dat.gz", users=folder / "ml-1m" / "users.dat")
    assert (large.n_users, large.n_items, len(large)) == (6040, 3706, 1_000_209)
    age = categorical(large, "age")
    assert age.categories == ("1", "18", "25", "35", "45", "50", "56")
    assert np.bincount(age.codes).tolist() == [222, 1103, 2096, 1193, 550, 496, 380]


@needs_data
def test_social_files() -> None:
    folder = Path(os.environ["VEILREC_DATA"])
    with pytest.warns(DataWarning, match="1,436 of 284,086 rows repeat"):
        ciao = read(
            folder / "ciao" / "rating_with_timestamp.mat",
            links=folder / "ciao" / "trustnetwork.mat",
            name="ciao",
        )
    assert (ciao.n_users, ciao.n_items, len(ciao)) == (7375, 105_114, 284_086 - 1436)
    assert ciao.links is not None
    assert len(ciao.links) == 111_781
    with pytest.warns(DataWarning, match="3 of 35,497 rows repeat"):
        film = read(
            folder / "filmtrust" / "ratings.txt",
            links=folder / "filmtrust" / "trust.txt",
            unknown_users="drop",
        )
    assert (film.n_users, film.n_items) == (1508, 2071)
    music = read(folder / "lastfm" / "user_artists.dat", links=folder / "lastfm" / "user_friends.dat")
    assert music.links is not None
    assert (len(music), len(music.links)) == (92_834, 25_434)


@needs_data
def test_purchases_in_parquet() -> None:
    folder = Path(os.environ["VEILREC_DATA"]) / "completejourney"
    data = read(folder / "transactions.parquet", users=folder / "demographics.parquet", duplicates="keep")
    assert (data.n_users, data.n_items, len(data)) == (2469, 68_509, 1_469_307)
    assert int((~data.attributes["age"].missing).sum()) == 801
