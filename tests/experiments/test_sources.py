from __future__ import annotations

import os
from dataclasses import replace

import pytest

from veilrec.core import DataError
from veilrec.data import load, synthetic
from veilrec.experiments import DataSpec, SplitSpec, load_data, make_split
from veilrec.experiments.sources import import_data, is_file

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VEILREC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    rows = [f"u{u};i{(u * 3 + n) % 17};{1 + n % 5}" for u in range(30) for n in range(8)]
    path = tmp_path / "shop.csv"
    path.write_text("wer;was;sterne\n" + "\n".join(rows) + "\n")
    return path


def test_synthetic_by_word():
    assert load_data(DataSpec("synthetic")).fingerprint == synthetic().fingerprint
    assert load_data(DataSpec("synthetic:60,40,900")).fingerprint == synthetic(60, 40, 900).fingerprint
    for source in ("synthetic:60", "synthetic:a,b,c", "synthetic:60,40,-9"):
        with pytest.raises(DataError, match="data must be synthetic or synthetic:users,items,interactions"):
            load_data(DataSpec(source))


def test_files_with_columns_and_filters(table):
    spec = DataSpec(str(table), user="wer", item="was", rating="sterne", separator=";")
    assert len(load_data(spec)) == 240
    assert load_data(replace(spec, min_rating=4)).rating.min() == 4
    assert load_data(replace(spec, k_core=5)).user_counts.min() >= 5
    assert load_data(replace(spec, rating=False)).rating is None


def test_what_is_no_data(table):
    with pytest.raises(
        DataError, match=r"data must be a file or one of .*, got 'ml-100'. Did you mean 'ml-100k'\?"
    ):
        load_data(DataSpec("ml-100"))
    with pytest.raises(DataError):
        load_data(DataSpec("absent.csv"))
    with pytest.raises(
        DataError, match=r"data\.user must be given with a file only, got 'wer' with synthetic"
    ):
        load_data(DataSpec("synthetic", user="wer"))


def test_imported_tables_have_a_name(table):
    reading = {"user": "wer", "item": "was", "rating": "sterne"}
    data = import_data(table, **reading)
    assert data.name == "shop"
    assert load("shop").fingerprint == load_data(DataSpec("shop")).fingerprint == data.fingerprint
    with pytest.raises(ValueError, match="name must be new, got 'shop'"):
        import_data(table, **reading)
    assert import_data(table, overwrite=True, duplicates="error", **reading).name == "shop"
    for name in ("../up", "a/b", "", ".hidden", "a b"):
        with pytest.raises(ValueError, match="name must be letters, digits"):
            import_data(table, name, **reading)
    for name in ("synthetic", "ml-100k"):
        with pytest.raises(ValueError, match="not that of a known data set"):
            import_data(table, name, **reading)


def test_a_name_wins_over_a_folder_called_so(tmp_path, monkeypatch):
    (tmp_path / "ml-100k").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_file("ml-100k")
    assert is_file("./ml-100k")
    assert is_file("events.csv")


@pytest.mark.parametrize("method", ["auto", "holdout", "leave_one_out", "temporal", "global_temporal"])
def test_every_method(method):
    data = synthetic(users=60, items=40, interactions=900)
    split = make_split(SplitSpec(method, 0.2, 0.1), data, seed=4)
    assert split.method == ("holdout" if method == "auto" else method)
    assert split.valid is not None
    without = make_split(SplitSpec(method, 0.2, 0.0), data, seed=4)
    assert without.valid is None


def test_the_split_follows_the_seed_unless_fixed():
    data = synthetic(users=60, items=40, interactions=900)
    prints = [make_split(SplitSpec(), data, seed).fingerprint for seed in (1, 1, 2)]
    assert prints[0] == prints[1] != prints[2]
    fixed = [make_split(SplitSpec(seed=9), data, seed).fingerprint for seed in (1, 2)]
    assert fixed[0] == fixed[1]


@needs_data
def test_gowalla_comes_with_its_split():
    spec = DataSpec("gowalla")
    data = load_data(spec)
    split = make_split(SplitSpec(), data, 0, spec)
    assert len(split.test) == 217_242
    assert split.valid is not None
    assert len(split.train) + len(split.valid) == 810_128
    assert len(make_split(SplitSpec(valid=0.0), data, 0, spec).train) == 810_128
    assert make_split(SplitSpec("holdout"), data, 0, spec).method == "holdout"
