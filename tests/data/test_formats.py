"""Files of other programs: MovieLens, RecBole, LightGCN, MATLAB; and how they are told apart."""

from __future__ import annotations

import gzip
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat

from veilrec.core import DataError, DataWarning
from veilrec.data.dataset import Categorical, Numeric
from veilrec.data.format_lightgcn import read_lightgcn
from veilrec.data.format_table import Lines
from veilrec.data.format_text import find_separator
from veilrec.data.formats import find_format, open_table
from veilrec.data.read import read
from veilrec.data.store import load_dataset, save_dataset

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("user id,item id", ","),
        ("user, first;item", ","),
        ("user;item;price, net", ";"),
        ("a|b,c|d", "|"),
        ("a\tb,c,d", "\t"),
        ("1::2::3,5", "::"),
        ("1 2 3", " "),
        ('"a;b;c",d', ","),
        ("alone", ","),
    ],
)
def test_separators(line: str, separator: str) -> None:
    assert find_separator(line) == separator


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", b"user,item\n", "csv"),
        ("A.TSV.GZ", gzip.compress(b"user\titem\n"), "csv"),
        ("events", b"user,item\n", "csv"),
        ("u.data", b"1\t2\t3\t4\n", "movielens"),
        ("ml.inter", b"user_id:token\titem_id:token\n", "recbole"),
        ("train.txt", b"0 1 2\n1 3\n", "lightgcn"),
        ("test.txt.gz", gzip.compress(b"0 1 2\n"), "lightgcn"),
        ("train.txt", b"user item\n0 1\n", "csv"),
        ("odd.bin", b"PAR1....", "parquet"),
        ("odd.bin", b"MATLAB 5.0 MAT-file", "mat"),
    ],
)
def test_formats_are_found(tmp_path: Path, name: str, content: bytes, found: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert find_format(tmp_path / name) == found


def test_movielens_100k_shape(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n22\t377\t1\t878887116\n")
    people = "22|40|M|writer|30002\n196|49|M|writer|55105\n"
    (tmp_path / "u.user").write_text(people)
    data = read(tmp_path / "u.data", users=tmp_path / "u.user", numeric_ranges={"age": (0, 120)})
    assert data.frame().rows() == [(22, 377, 1.0, 878887116), (196, 242, 3.0, 881250949)]
    assert list(data.attributes) == ["age", "gender", "occupation", "zip"]
    assert isinstance(data.attributes["zip"], Categorical)
    assert isinstance(data.attributes["age"], Numeric)


def test_movielens_1m_shape_with_latin_1(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_bytes(b'1::Caf\xe9::5::978300760\n2::B "q" A::3::978302109\n')
    (tmp_path / "users.dat").write_bytes(b"1::F::1::10::48067\n2::M::56::16::70072\n")
    data = read(tmp_path / "ratings.dat", users=tmp_path / "users.dat")
    assert data.frame()["item"].to_list() == ["Café", 'B "q" A']
    assert list(data.attributes) == ["gender", "age", "occupation", "zip"]


def test_a_file_named_otherwise_read_as_movielens(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'1|"a|4|5\n')
    assert read(tmp_path / "x.csv", format="movielens").frame().rows() == [(1, '"a', 4.0, 5)]


def _recbole(folder: Path, packed: str = "") -> Path:
    files = {
        "toy.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        '7\t"Tea" time\t4\t100\n8\tmate\t2.5\t90\n',
        "toy.user": "user_id:token\tage:token\tweight:float\n7\t30\t70\n8\t41\t\n",
        "toy.net": "source_id:token\ttarget_id:token\n7\t8\n",
    }
    for name, text in files.items():
        raw = text.encode()
        (folder / (name + packed)).write_bytes(gzip.compress(raw) if packed else raw)
    return folder / ("toy.inter" + packed)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_recbole_with_its_siblings(tmp_path: Path, packed: str) -> None:
    path = _recbole(tmp_path, packed)
    data = read(path)
    assert data.name == "toy"
    assert data.frame().rows() == [(7, '"Tea" time', 4.0, 100), (8, "mate", 2.5, 90)]
    assert isinstance(data.attributes["age"], Categorical)  # declared a token
    assert isinstance(data.attributes["weight"], Numeric)
    assert data.links is not None
    assert len(data.links) == 1
    bare = read(path, users=False, links=False)
    assert not bare.attributes
    assert bare.links is None
    ranged = read(path, numeric_ranges={"age": (0, 120)})
    assert isinstance(ranged.attributes["age"], Numeric)


def test_recbole_without_types_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy.inter").write_text("user_id\titem_id\n1\t2\n")
    with pytest.raises(DataError, match=r"line 1: a RecBole header must be like 'user_id:token'"):
        read(tmp_path / "toy.inter")
    assert len(read(tmp_path / "toy.inter", format="csv")) == 1


def test_lightgcn_as_one_table(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 5 6 \n\n2 6\n")
    data = read(tmp_path / "train.txt")
    assert data.frame().rows() == [(0, 5), (0, 6), (2, 6)]
    (tmp_path / "train.txt").write_text("0 5 6\n\n2 6 6\n")
    with pytest.raises(DataError, match="line 3: a pair of user and item must stand in one row only"):
        read(tmp_path / "train.txt", duplicates="error")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end"])
def test_the_account_of_lists_adds_up(tmp_path: Path, end: str, last: str) -> None:
    """A user without items is a row without an item, as in any other table."""
    lines = ["0 5 6", "1", "", "  ", "2 6 6", "3 "]
    (tmp_path / "train.txt").write_bytes((end.join(lines) + (end if last else "")).encode())
    with pytest.raises(DataError, match="line 2: the item id must be given in every row, got none"):
        read(tmp_path / "train.txt")
    with pytest.warns(DataWarning, match="1 of 4 rows repeat a pair"):
        data = read(tmp_path / "train.txt", missing="drop")
    assert data.frame().rows() == [(0, 5), (0, 6), (2, 6)]
    (report,) = data.provenance
    assert (report.rows, report.kept) == (6, 3)
    assert report.dropped == {"missing item": 2, "repeated pair": 1}
    assert report.lines == Lines(6, 0, 2, 0, {"encoding": "utf-8", "separator": " "}, lists=4)
    assert str(report).startswith(
        "interactions from train.txt: 6 lines in the file (0 header, 2 blank, 4 lists of items), 6 rows read"
    )
    assert load_dataset(save_dataset(data, tmp_path / "kept")).provenance == data.provenance
    for wrong in (3, 5):
        with pytest.raises(DataError, match=f"lines must add up, got 6 .* {wrong} lists of items"):
            replace(report, lines=replace(report.lines, lists=wrong))
    with pytest.raises(DataError, match="4 lists of items with 3 rows"):  # a list gives a row or more
        replace(report, rows=3, dropped={})


def test_old_line_ends_do_not_make_one_list_of_all(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 5 6\r1 7\r", newline="")
    with pytest.raises(DataError, match="lines must end in LF or CR LF, got a CR alone"):
        read(tmp_path / "train.txt", format="lightgcn")


def test_lightgcn_as_a_split(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 5 6\n3\n2 6\n")
    (tmp_path / "test.txt").write_text("2 9\n0 7\n4 1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data, test = read_lightgcn(tmp_path / "train.txt", tmp_path / "test.txt", name="toy")
    assert data.name == "toy"
    assert data.users.values.to_list() == [0, 2, 3, 4]
    assert data.items.values.to_list() == [1, 5, 6, 7, 9]
    assert data.frame().rows() == [(0, 5), (0, 6), (0, 7), (2, 6), (2, 9), (4, 1)]
    assert test.tolist() == [False, False, True, False, True, True]


def test_lightgcn_pairs_in_both_files_belong_to_train(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 5 5\n")
    (tmp_path / "test.txt").write_text("0 5 6\n")
    with pytest.warns(DataWarning, match="2 pairs of user and item repeat an earlier one; left out"):
        data, test = read_lightgcn(tmp_path / "train.txt", tmp_path / "test.txt")
    assert data.frame().rows() == [(0, 5), (0, 6)]
    assert test.tolist() == [False, True]


def test_bad_lightgcn(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0\n1\n")
    (tmp_path / "test.txt").write_text("\n")
    with pytest.raises(
        DataError, match=r"test\.txt: the file must hold lines 'user item item \.\.\.', got none"
    ):
        read_lightgcn(tmp_path / "train.txt", tmp_path / "test.txt")
    with pytest.raises(DataError, match=r"train\.txt: the file must name items"):
        read_lightgcn(tmp_path / "train.txt", tmp_path / "train.txt")
    (tmp_path / "test.txt").write_bytes(b"0 1\n1 \xff\n")
    with pytest.raises(DataError, match=r"test\.txt, line 2: text must be utf-8, got byte 0xff at offset 6"):
        read_lightgcn(tmp_path / "train.txt", tmp_path / "test.txt")
    with pytest.raises(DataError, match="the file does not exist"):
        read_lightgcn(tmp_path / "gone.txt", tmp_path / "train.txt")


def test_matlab(tmp_path: Path) -> None:
    rows = np.array([[1, 9, 3, 5, 2, 1000], [2, 8, 3, 4, 2, 2000]])
    savemat(tmp_path / "six.mat", {"rating": rows, "other": np.eye(3)})
    savemat(tmp_path / "four.mat", {"rating": rows[:, :4]})
    savemat(tmp_path / "three.mat", {"x": rows[:, :3].astype(float)})
    savemat(tmp_path / "trust.mat", {"trustnetwork": np.array([[1, 2], [2, 1]], np.uint16)})
    data = read(tmp_path / "six.mat", links=tmp_path / "trust.mat")
    assert data.frame().rows() == [(1, 9, 5.0, 1000), (2, 8, 4.0, 2000)]
    assert data.links is not None
    assert len(data.links) == 2
    assert read(tmp_path / "four.mat").frame().rows() == [(1, 9, 5.0), (2, 8, 4.0)]
    assert read(tmp_path / "three.mat").frame().rows() == [(1, 9, 3.0), (2, 8, 3.0)]
    with pytest.raises(
        DataError, match=r"must hold the matrix 'rating'.*got rating 2x6, other 3x3 for the users"
    ):
        open_table(tmp_path / "six.mat", "users")
    savemat(tmp_path / "wide.mat", {"rating": np.ones((2, 9))})
    with pytest.raises(DataError, match="got rating 2x9 for the interactions"):
        read(tmp_path / "wide.mat")


def test_parquet_reads_only_what_it_needs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1], "item": ["a"], "blob": [[1, 2]], "rating": [3]})
    frame.write_parquet(tmp_path / "t.pq")
    assert read(tmp_path / "t.pq").frame().rows() == [(1, "a", 3.0)]
    with pytest.raises(DataError, match=r"t\.pq: row 0: rating must be from 4 to 5, got 3"):
        read(tmp_path / "t.pq", rating_range=(4, 5))


@needs_data
def test_gowalla() -> None:
    folder = Path(os.environ["VEILREC_DATA"]) / "gowalla"
    data, test = read_lightgcn(folder / "train.txt.gz", folder / "test.txt.gz")
    assert (data.n_users, data.n_items, len(data), int(test.sum())) == (29_858, 40_981, 1_027_370, 217_242)
    assert data.name == "gowalla"
