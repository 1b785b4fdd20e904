"""No row is lost in silence: what was read, dropped and kept adds up, is printed and is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilrec.core import DataError, DataWarning
from veilrec.data.dataset import Dataset
from veilrec.data.format_table import Lines
from veilrec.data.format_text import open_text
from veilrec.data.read import read
from veilrec.data.read_report import ReadReport
from veilrec.data.store import load_dataset, save_dataset

BOOKS = r""""User-ID";"ISBN";"Book-Rating"
"276725";"034545104X";"0"
"276726";"0155061224\"";"5"
"276727";"Caf\"\\xe9 &amp; Bar";"0"
"276729";"052165615X";"3"
"276733";"\"2080674722";"7"
"276736";"3257224281";"8"
""".replace(r"\\xe9", "é")


def put(folder: Path, text: str, name: str = "t.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def refused(folder: Path, text: str, pattern: str, **arguments: Any) -> DataError:
    with pytest.raises(DataError, match=pattern) as caught:
        read(put(folder, text), **arguments)
    return caught.value


def test_a_semicolon_file_of_the_2000s_comes_back_row_by_row(tmp_path: Path) -> None:
    """Doubled quotes are not escapes here: read so, an id swallows rows until the next odd quote."""
    path = put(tmp_path, BOOKS, encoding="latin-1")
    with pytest.raises(DataError, match=r'text must be utf-8.*encoding="latin-1" \(--encoding latin-1\)'):
        read(path)
    data = read(path, encoding="latin-1")
    assert data.frame().rows() == [
        (276725, "034545104X", 0.0),
        (276726, '0155061224"', 5.0),
        (276727, 'Caf"é &amp; Bar', 0.0),
        (276729, "052165615X", 3.0),
        (276733, '"2080674722', 7.0),
        (276736, "3257224281", 8.0),
    ]
    (report,) = data.provenance
    assert (report.rows, report.dropped, report.kept) == (6, {}, 6)
    assert report.lines == Lines(7, 1, 0, 0, {"encoding": "latin-1", "separator": ";", "escape": "backslash"})
    assert str(report) == (
        "interactions from t.csv: 7 lines in the file (1 header, 0 blank), 6 rows read, 0 dropped, 6 kept; "
        "encoding 'latin-1', separator ';', escape 'backslash'"
    )


def test_people_of_such_a_file_keep_their_nulls(tmp_path: Path) -> None:
    people = '"User-ID";"Location";"Age"\n"1";"nyc, \\"new york\\", usa";NULL\n"2";"bonn";"18"\n'
    events = put(tmp_path, '"User-ID";"ISBN"\n"1";"x"\n"2";"y"\n', "e.csv")
    data = read(events, users=put(tmp_path, people), numeric_ranges={"Age": (0, 120)})
    assert data.user_frame().rows() == [(1, 'nyc, "new york", usa', None), (2, "bonn", 18.0)]
    assert [report.what for report in data.provenance] == ["interactions", "users"]


def test_every_reason_is_counted(tmp_path: Path) -> None:
    events = put(
        tmp_path,
        "\nuser,item,rating,note\na,x,1,\na,x,2,\n\n,y,3,\nNULL,y,3,\nb,NA,3,\nb,y,,\nb,y,NA,\nb,z,4,\n",
        "e.csv",
    )
    people = put(tmp_path, "user,age\na,1\nb,2\nstranger,3\n,4\n", "p.csv")
    links = put(tmp_path, "source,target\na,b\na,b\na,a\na,stranger\na,\n", "l.csv")
    with pytest.warns(DataWarning):
        data = read(events, users=people, links=links, missing="drop", unknown_users="drop")
    rows, users, ties = data.provenance
    assert data.frame().rows() == [("a", "x", 2.0), ("b", "z", 4.0)]
    assert rows.lines is not None
    assert (rows.lines.total, rows.lines.header, rows.lines.blank, rows.lines.inside) == (11, 1, 2, 0)
    assert (rows.rows, rows.kept) == (8, 2)
    assert rows.dropped == {"missing user": 2, "missing item": 1, "missing rating": 2, "repeated pair": 1}
    assert (users.rows, users.dropped, users.kept) == (4, {"missing id": 1, "unknown user": 1}, 2)
    assert ties.dropped == {"missing id": 1, "unknown user": 1, "link to oneself": 1, "repeated link": 1}
    assert (ties.rows, ties.kept) == (5, 1)


def test_lines_are_named_after_rows_were_dropped(tmp_path: Path) -> None:
    text = "user,item,rating\n,x,1\na,x,2\nb,x,five\n"
    assert refused(tmp_path, text, "rating must be a number", missing="drop").line == 4
    frame = pl.DataFrame({"user": [None, "a", "b"], "item": [1, 2, 3], "rating": ["1", "2", "five"]})
    with pytest.raises(DataError, match="interactions frame, row 2: rating must be a number, got 'five'"):
        read(frame, missing="drop")


def test_a_table_of_missing_values_only(tmp_path: Path) -> None:
    refused(tmp_path, "user,item\n,x\n", 'or leave such rows out with missing="drop"')
    refused(tmp_path, "user,item\n,x\n", "a row without missing values", missing="drop")
    with pytest.raises(ValueError, match="missing must be one of error, drop, got 'skip'"):
        read(tmp_path / "t.csv", missing="skip")


@pytest.mark.parametrize("word", ["NULL", "NA"])
def test_null_words_are_ids_only_in_quotes(tmp_path: Path, word: str) -> None:
    assert refused(tmp_path, f"user,item\na,x\n{word},y\n", "the user id must be given").line == 3
    assert refused(tmp_path, f'"user","item"\n"a","x"\n{word},"y"\n', "the user id must be given").line == 3
    quoted = read(put(tmp_path, f'"user","item"\n"a","x"\n"{word}","y"\n'))
    assert sorted(quoted.frame()["user"]) == sorted(["a", word])
    literal = read(put(tmp_path, f"user,item\na,x\n{word},y\n"), escape="none")
    assert sorted(literal.frame()["user"]) == sorted(["a", word])


def test_the_account_is_kept_with_the_data_and_only_with_it(tmp_path: Path) -> None:
    data = read(put(tmp_path, 'user,item,note\na,"x, y","1\n2"\n'))
    (report,) = data.provenance
    assert report.lines is not None
    assert report.lines.inside == 1
    folder = save_dataset(data, tmp_path / "kept")
    assert load_dataset(folder).provenance == data.provenance
    card = json.loads((folder / "dataset.json").read_text())
    assert card["provenance"][0]["lines"]["total"] == 3
    assert data.take(data.user >= 0).provenance == ()  # it has other rows, and no say in exact counts
    assert Dataset.from_arrays(["a"], ["b"]).provenance == ()
    del card["provenance"]  # as older versions wrote it
    (folder / "dataset.json").write_text(json.dumps(card))
    assert load_dataset(folder).provenance == ()


def test_an_account_that_does_not_add_up_is_refused(tmp_path: Path) -> None:
    lines = Lines(10, 1, 0, 2, {})
    assert ReadReport("interactions", "t", 7, {}, 7, lines).kept == 7
    with pytest.raises(
        DataError, match="lines must add up, got 10 in the file, 1 as header, 0 blank, 2 inside"
    ):
        ReadReport("interactions", "t", 6, {}, 6, lines)
    with pytest.raises(DataError, match="rows must add up, got 7 read, 1 dropped and 7 kept"):
        ReadReport("interactions", "t", 7, {"repeated pair": 1}, 7)
    table = open_text(put(tmp_path, "user,item\na,x\nb,y\n"), "t.csv")
    with pytest.raises(DataError, match="lines must add up, got 3 in the file"):
        ReadReport.of("interactions", table, rows=1, dropped={}, kept=1)


@pytest.mark.parametrize("wrong", ["two\nlines", "two\rlines", "x" * 1001])
def test_ids_of_several_lines_or_too_long(tmp_path: Path, wrong: str) -> None:
    text = f'user,item,note\na,x,"1\n2"\nb,"{wrong}","m,n"\n'
    error = refused(tmp_path, text, "item ids must be one line of at most 1,000 characters, got")
    assert error.line == 4
    assert len(str(error)) < 500
    events = put(tmp_path, "user,item\na,x\n", "e.csv")
    for name, other in (
        ("users", f'"user","job"\n"a","x,y"\n"{wrong}","p"\n'),
        ("links", f'"user","friend"\n"a","{wrong}"\n'),
    ):
        with pytest.raises(DataError, match="user ids must be one line of at most 1,000 characters"):
            read(events, unknown_users="drop", **{name: put(tmp_path, other, "o.csv")})
    with pytest.raises(DataError, match="row 0: item ids must be one line"):
        read(pl.DataFrame({"user": ["a"], "item": [wrong]}))
    assert read(pl.DataFrame({"user": ["a"], "item": ["x" * 1000]})).n_items == 1


def test_a_backslash_at_the_end_is_settled_by_the_rest_of_the_file(tmp_path: Path) -> None:
    ending = '"user","item"\n"a\\","b"\n'
    assert read(put(tmp_path, ending)).frame().rows() == [
        ("a\\", "b")
    ]  # as an escape it would leave one field
    both = '"user","item"\n"a\\","b"\n"c","say \\"hi\\""\n'
    assert refused(tmp_path, both, "fields must be properly quoted, but").line in (2, 3)
    rows = '"user","item"\n"a\\\\b","c"\n'
    error = refused(tmp_path, rows, r"one meaning in the whole file, got a value that is 'a\\\\\\\\b' with")
    assert error.line == 2
    assert "escape= (--escape): double, backslash, backslash-quote" in str(error)
    for escape, user in (("double", "a\\\\b"), ("backslash", "a\\b"), ("backslash-quote", "a\\\\b")):
        data = read(tmp_path / "t.csv", escape=escape)
        assert data.frame().rows() == [(user, "c")]
    with pytest.raises(ValueError, match=r"escape must be one of double, backslash, .*got 'slash'"):
        read(tmp_path / "t.csv", escape="slash")


def test_quotes_that_may_be_letters(tmp_path: Path) -> None:
    text = 'user,item\n"a""b",x\nc,y\n'
    refused(
        tmp_path, text, r"""a value that is 'a"b' with escape="double" and '"a""b"' with escape="none"\."""
    )
    assert read(tmp_path / "t.csv", escape="double").frame()["user"].to_list() == ['a"b', "c"]
    assert read(tmp_path / "t.csv", escape="none").frame()["user"].to_list() == ['"a""b"', "c"]
    unused = read(put(tmp_path, 'user,item,title\na,x,"Tea"\nc,y,z\n'))  # not in a column that is read
    assert unused.frame().rows() == [("a", "x"), ("c", "y")]
    assert read(put(tmp_path, '"1","2","3"\n"4","5","1"\n')).frame().rows() == [(1, 2, 3.0), (4, 5, 1.0)]


@pytest.mark.parametrize("pairs", [1, 9, 10, 12, 40])
@pytest.mark.parametrize("names", ["user,item,title", '"user","item","title"'])
def test_titles_that_open_and_close_quotes_swallow_no_rows(tmp_path: Path, pairs: int, names: str) -> None:
    """Every second line would be gone, and regular quotes were taken for a proof that none is."""
    rows = "".join(f'{i},{i},"Foo\n{i + 100},{i + 100},Bar"\n' for i in range(pairs))
    words = rf'got {pairs} rows with escape="double" and {2 * pairs} with escape="none"'
    refused(tmp_path, f"{names}\n{rows}", words)
    roles = {"user": '"user"', "item": '"item"'} if '"' in names else {}
    assert len(read(tmp_path / "t.csv", escape="none", **roles)) == 2 * pairs
    assert len(read(tmp_path / "t.csv", escape="double")) == pairs


def test_titles_of_several_lines_stay_where_nothing_else_fits(tmp_path: Path) -> None:
    rows = "".join(f'{i},{i},"Foo\nBar, and {i}"\n' for i in range(12))
    data = read(put(tmp_path, "user,item,title\n" + rows))
    assert len(data) == 12
    assert data.provenance[0].lines is not None
    assert data.provenance[0].lines.inside == 12


@pytest.mark.parametrize(
    ("row", "separator"), [(",,", ","), ('"","",""', ","), ("\t\t", "\t"), (";;", ";"), ("::::", "::")]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_row_of_nothing_but_separators_is_a_row(tmp_path: Path, row: str, separator: str, end: str) -> None:
    names, good = (separator.join(cells) for cells in (("user", "item", "rating"), ("a", "x", "1")))
    text = f"\n{names}\n{good}\n  \n{row}{end}"
    assert refused(tmp_path, text, "the user id must be given in every row, got none").line == 5
    report = read(tmp_path / "t.csv", missing="drop").provenance[0]
    assert (report.rows, report.dropped, report.kept) == (2, {"missing user": 1}, 1)
    assert report.lines is not None
    assert (report.lines.total, report.lines.header, report.lines.blank) == (5, 1, 2)
    people = put(tmp_path, text.replace("item", "job").replace("rating", "age"), "p.csv")
    with pytest.raises(DataError, match="the user id must be given in every row"):
        read(put(tmp_path, "user,item\na,x\n", "e.csv"), users=people)


def test_white_space_before_the_names_is_blank(tmp_path: Path) -> None:
    data = read(put(tmp_path, '\t\t\nuser\titem\tnote\na\tx\t"1"\n'))
    assert data.frame().rows() == [("a", "x")]
    assert data.provenance[0].lines is not None
    assert data.provenance[0].lines.blank == 1


def test_a_second_mark_at_the_beginning_is_refused(tmp_path: Path) -> None:
    mark, text = "\ufeff", "user,item\na,x\n"
    for encoding in ("utf-8", "utf-16-le"):
        one = put(tmp_path, mark + text, encoding=encoding)
        assert read(one, encoding=encoding).frame().columns == ["user", "item"]
        two = put(tmp_path, 2 * mark + text, encoding=encoding)
        with pytest.raises(DataError, match="line 1: a file must begin with one byte order mark at most"):
            read(two, encoding=encoding)
    assert len(read(put(tmp_path, text, encoding="utf-16"), encoding="utf-16")) == 1
    refused_too = put(tmp_path, mark + text, encoding="utf-16")  # its own mark and another
    with pytest.raises(DataError, match="one byte order mark at most, got two"):
        read(refused_too, encoding="utf-16")
    lists = put(tmp_path, 2 * mark + "0 1 2\n", "train.txt")
    with pytest.raises(DataError, match="one byte order mark at most, got two"):
        read(lists, format="lightgcn")


def test_names_that_are_one_short_are_refused(tmp_path: Path) -> None:
    """R writes row names without a name for them: the columns would be off by one."""
    refused(
        tmp_path,
        '"user" "item"\n"1" "a" "b"\n',
        r"line 2: a row must have 2 columns, got 3.*row\.names=FALSE",
    )
    refused(
        tmp_path, "user,item,rating\n1,a,\\,5\n", "a row must have 3 columns, got 4"
    )  # or an escaped comma
    refused(tmp_path, 'user,item\n1,"a,b"\n', 'rows of 2 fields with escape="double" and of 3 with')
    assert read(tmp_path / "t.csv", escape="double").frame().rows() == [(1, "a,b")]
    data = read(put(tmp_path, '"","user","item"\n"1","a, c","b"\n'))
    assert data.frame().rows() == [("a, c", "b")]


def test_a_database_dump_by_tabs(tmp_path: Path) -> None:
    text = 'ann\ta\\\tb\t5\nbob\t\\N\t4\ncem\t12" disc\t3\n'
    data = read(put(tmp_path, text), header=False, missing="drop")
    assert data.frame().rows() == [("ann", "a\tb", 5.0), ("cem", '12" disc', 3.0)]
    assert data.provenance[0].dropped == {"missing item": 1}


def test_separators_that_both_fit_a_file_without_names(tmp_path: Path) -> None:
    refused(
        tmp_path, "a::b\tc\t1\n", r"must have one separator, got '::' and '\\t', which both fit", header=False
    )
    data = read(tmp_path / "t.csv", header=False, separator="\t")
    assert data.frame().rows() == [("a::b", "c", 1.0)]


def test_line_ends(tmp_path: Path) -> None:
    good = 'user,item\r\na,b\r\n"c","d, e"\r\n'
    assert read(put(tmp_path, "\ufeff" + good)).frame().rows() == [("a", "b"), ("c", "d, e")]
    refused(tmp_path, "user,item\na,b\r\nc,d\n", "lines must end alike, but some lines end in CR LF")
    refused(tmp_path, "user,item\ra,b\rc,d\r", "a column name must be of one line")


def test_spaces_inside_quotes_stay(tmp_path: Path) -> None:
    data = read(put(tmp_path, '"user"  "item"\n"a  b" "c"\n d   e \n'))
    assert data.frame().rows() == [("a  b", "c"), ("d", "e")]


def test_encodings_are_never_guessed_in_silence(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("user,item\na,“x”\n".encode("cp1252"))
    with pytest.raises(DataError, match=r'encoding="cp1252" \(--encoding cp1252\)'):
        read(tmp_path / "t.csv")
    (tmp_path / "t.dat").write_bytes("1::“x”::3\n".encode("cp1252"))
    with pytest.raises(DataError, match=r'encoding="cp1252"'):  # in Latin-1 these would be control characters
        read(tmp_path / "t.dat")
    with pytest.warns(DataWarning, match="is called latin-1 but reads as utf-8 too"):
        read(put(tmp_path, "user,item\na,é\n"), encoding="latin-1")
