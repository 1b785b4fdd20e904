from __future__ import annotations

import json
from pathlib import Path

import pytest

from veilrec.core import DataError
from veilrec.data import split as splits
from veilrec.data import synthetic
from veilrec.experiments import command_line, find_records, leading_metrics, read_record, write_record
from veilrec.experiments.records import metric_parts, new_record, portable


def test_a_record_has_what_its_docstring_says():
    data = synthetic(users=60, items=40, interactions=900)
    split = splits.holdout(data, 0.2, 0.1, seed=3)
    record = new_record("run", "a", data, split, "veilrec fit a", extra=1)
    assert set(record) == {
        "format",
        "kind",
        "name",
        "data",
        "split",
        "extra",
        "command",
        "made",
        "environment",
    }
    assert record["data"]["interactions"] == 900
    assert sum(record["split"]["sizes"].values()) == 900
    about = {"test": 0.2, "valid": 0.1, "seed": 3, "draw": "each user alone"}
    assert record["split"]["settings"] == about
    assert record["made"].endswith("+00:00")
    json.dumps(record, allow_nan=False)


def test_no_user_or_host_in_records(monkeypatch):
    import getpass
    import socket

    data = synthetic(users=60, items=40, interactions=900)
    text = json.dumps(new_record("run", "a", data, splits.holdout(data), None))
    assert str(Path.home()) not in text or str(Path.home()) == "/"
    assert socket.gethostname() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_round_trip_and_bad_records(tmp_path):
    write_record(tmp_path / "a", {"format": 1, "kind": "run", "name": "a"})
    assert read_record(tmp_path / "a") == read_record(tmp_path / "a" / "record.json")
    for text, words in [
        ("{", "a record must be JSON"),
        ("[]", "the format of a record must be 1, got 'list'"),
        ('{"format": 7}', "the format of a record must be 1, got 7"),
    ]:
        (tmp_path / "record.json").write_text(text)
        with pytest.raises(DataError, match=words):
            read_record(tmp_path)
    with pytest.raises(DataError, match="a record must be a file, got none"):
        read_record(tmp_path / "absent.json")


def test_records_are_found_at_any_depth_but_not_in_hidden_folders(tmp_path):
    for place in ("b", "a/c", ".model.part"):
        write_record(tmp_path / place, {"format": 1})
    found = [path.relative_to(tmp_path).as_posix() for path in find_records(tmp_path)]
    assert found == ["a/c/record.json", "b/record.json"]
    with pytest.raises(DataError, match="runs must be a folder, got none"):
        find_records(tmp_path / "absent")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["fit", "ease"], "veilrec fit ease"),
        (["fit", "--data=/srv/ann/e.csv"], "veilrec fit --data=e.csv"),
        (["fit", "--data", "../ann/e.csv"], "veilrec fit --data e.csv"),
        (["fit", "--set", "a=my file"], "veilrec fit --set 'a=my file'"),
        (["fit", "--set", "rate=1/2"], "veilrec fit --set rate=1/2"),
    ],
)
def test_commands_are_shown_without_paths_of_the_machine(words, shown):
    assert command_line(words) == shown


def test_portable_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert portable(str(tmp_path / "in" / "e.csv")) == "in/e.csv"
    assert portable("in/e.csv") == "in/e.csv"
    assert portable("~/e.csv") == "e.csv"
    assert portable("ml-100k") == "ml-100k"


def test_leading_metrics_and_their_parts():
    names = ["popularity@10", "ndcg@5", "mrr@10", "recall@10", "coverage@10", "rmse"]
    assert leading_metrics(names) == ["recall@10", "mrr@10", "ndcg@5"]
    assert leading_metrics(["hit@5 (one positive)"]) == ["hit@5 (one positive)"]
    assert metric_parts("hit@5 (one positive)") == ("hit", 5, " (one positive)")
