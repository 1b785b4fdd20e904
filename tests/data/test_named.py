"""Named sets: where they are looked for, what is said when they are not there, and their known counts."""

from __future__ import annotations

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from veilrec.core import DataError
from veilrec.data.dataset import Categorical, Dataset, Numeric
from veilrec.data.fetch import RECIPES
from veilrec.data.named import SETS, available, cache_dir, imported_dir, load, predefined_split
from veilrec.data.store import save_dataset

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")
RATINGS = "1\t10\t5\t881250949\n1\t11\t3\t881250950\n2\t10\t1\t881250951\n"
PEOPLE = "1|24|M|technician|85711\n2|53|F|other|94043\n"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data anywhere but below tmp_path."""
    monkeypatch.delenv("VEILREC_DATA", raising=False)
    monkeypatch.setenv("VEILREC_CACHE", str(tmp_path / "cache"))
    return tmp_path


def small_ml_100k(root: Path, ratings: str = RATINGS, zipped: bool = False) -> Path:
    folder = root / "ml-100k"
    folder.mkdir(parents=True)
    if zipped:
        (folder / "u.data.gz").write_bytes(gzip.compress(ratings.encode()))
    else:
        (folder / "u.data").write_text(ratings)
    (folder / "u.user").write_text(PEOPLE)
    return root


def test_cache_dir_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEILREC_CACHE", str(tmp_path / "a"))
    assert cache_dir() == tmp_path / "a"
    monkeypatch.delenv("VEILREC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_dir() == tmp_path / "b" / "veilrec"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_dir() == tmp_path / "c" / ".cache" / "veilrec"


def test_declared_ranges_are_public_ones(empty: Path) -> None:
    data = load("ml-100k", data_dir=small_ml_100k(empty / "mine"))
    assert data.name == "ml-100k"
    assert data.rating_range == (1, 5)
    assert set(data.attributes) == {"age", "gender", "occupation"}  # no zip code
    age, occupation = data.attributes["age"], data.attributes["occupation"]
    assert isinstance(age, Numeric)
    assert (age.low, age.high, age.values.tolist()) == (1, 100, [24, 53])
    assert isinstance(occupation, Categorical)
    assert len(occupation.categories) == 21
    assert data.user_frame()["gender"].to_list() == ["M", "F"]


def test_folders_are_tried_in_order(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_ml_100k(cache_dir() / "data", RATINGS)
    assert len(load("ml-100k")) == 3
    monkeypatch.setenv(
        "VEILREC_DATA", str(small_ml_100k(empty / "env", RATINGS + "2\t11\t2\t9\n", zipped=True))
    )
    assert len(load("ml-100k")) == 4
    mine = small_ml_100k(empty / "mine", RATINGS + "2\t11\t2\t9\n2\t12\t2\t9\n")
    assert len(load("ml-100k", data_dir=mine)) == 5
    (mine / "ml-100k" / "u.user").unlink()  # an incomplete folder is passed over
    assert len(load("ml-100k", data_dir=mine)) == 4


def test_repeated_pairs_follow_the_policy_of_the_set_or_of_the_caller(empty: Path) -> None:
    root = small_ml_100k(empty / "mine", RATINGS + "1\t10\t2\t990000000\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load("ml-100k", data_dir=root)
    assert data.frame().filter(user=1, item=10)["rating"].to_list() == [2.0]
    first = load("ml-100k", data_dir=root, duplicates="first")
    assert first.frame().filter(user=1, item=10)["rating"].to_list() == [5.0]
    assert len(load("ml-100k", data_dir=root, duplicates="keep")) == 4
    with pytest.raises(DataError):
        load("ml-100k", data_dir=root, duplicates="error")


def test_absent_files_say_where_to_put_them(empty: Path) -> None:
    with pytest.raises(DataError, match="data_dir must be a folder"):
        load("ml-100k", data_dir=empty / "mine")
    (empty / "mine").mkdir()
    with pytest.raises(
        DataError, match=r"got none with u\.data and u\.user\. Run `veilrec data get ml-100k`"
    ) as e:
        load("ml-100k", data_dir=empty / "mine")
    assert str(empty / "mine" / "ml-100k") in str(e.value)
    assert str(cache_dir() / "data" / "ml-100k") in str(e.value)
    with pytest.raises(DataError, match=r"Get it from https://.* and put train\.txt and test\.txt there"):
        load("gowalla")


def test_unknown_names_name_the_nearest_and_the_imported(empty: Path) -> None:
    save_dataset(Dataset.from_arrays([1, 2], [1, 1]), imported_dir() / "shop")
    with pytest.raises(ValueError, match=r"completejourney, shop, got 'shpo'\. Did you mean 'shop'\?"):
        load("shpo")
    with pytest.raises(ValueError, match=r"got '\.\./data'"):
        load("../data")
    with pytest.raises(ValueError, match=r"Did you mean 'gowalla'\?"):
        predefined_split("gowala")


def test_imported_sets_load_by_name(empty: Path) -> None:
    data = Dataset.from_arrays(["a", "b"], ["x", "y"], rating=[1, 2])
    save_dataset(data, imported_dir() / "shop")
    assert load("shop").fingerprint == data.fingerprint
    assert predefined_split("shop") is None
    with pytest.raises(ValueError, match="duplicates must be left out for imported data"):
        load("shop", duplicates="first")


def test_available_lists_everything(empty: Path) -> None:
    save_dataset(Dataset.from_arrays([1, 2], [1, 1]), imported_dir() / "shop")
    rows = {row.name: row for row in available(small_ml_100k(empty / "mine"))}
    assert list(rows) == [*SETS, "shop"]
    assert rows["ml-100k"].found == empty / "mine" / "ml-100k"
    assert rows["ml-1m"].found is None
    assert rows["shop"].found == imported_dir() / "shop"
    assert all(row.description and row.publisher and row.terms for row in rows.values())


@pytest.mark.parametrize("name", ["gowalla", "yelp2018"])
def test_a_published_split_is_kept(empty: Path, name: str) -> None:
    folder = empty / "mine" / name
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("0 5 6\n1 6\n")
    (folder / "test.txt").write_text("0 7\n1 5\n")
    split = predefined_split(name, data_dir=empty / "mine")
    assert split is not None
    assert split.train.frame().rows() == [(0, 5), (0, 6), (1, 6)]
    assert split.test.frame().rows() == [(0, 7), (1, 5)]
    assert split.source_fingerprint == load(name, data_dir=empty / "mine").fingerprint
    with pytest.raises(ValueError, match=f"duplicates must be left out for {name}"):
        load(name, data_dir=empty / "mine", duplicates="first")


def test_fetchable_sets_have_recipes_for_the_files_they_need() -> None:
    assert {known.name for known in SETS.values() if known.fetchable} == set(RECIPES)
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        assert tuple(recipe.published) == SETS[name].files


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "users", "items", "links"),
    [
        ("ml-100k", 100_000, 943, 1682, None),
        ("ml-1m", 1_000_209, 6040, 3706, None),
        ("gowalla", 1_027_370, 29_858, 40_981, None),
        ("ciao", 284_086 - 1436, 7375, 105_114, 111_781),
        ("epinions", 922_267 - 9826, 22_164, 296_277, 355_407),
        ("filmtrust", 35_497 - 3, 1508, 2071, 1632),
        ("lastfm", 92_834, 1892, 17_632, 25_434),
        ("completejourney", 1_469_307, 2469, 68_509, None),
    ],
)
def test_known_counts(name: str, rows: int, users: int, items: int, links: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load(name)
    assert (len(data), data.n_users, data.n_items) == (rows, users, items)
    assert (None if data.links is None else len(data.links)) == links
    assert next(row for row in available() if row.name == name).found is not None


def counts(data: Dataset, label: str) -> dict[str, int]:
    attribute = data.attributes[label]
    assert isinstance(attribute, Categorical)
    found = np.bincount(attribute.codes[~attribute.missing], minlength=len(attribute.categories))
    return dict(zip(attribute.categories, found.tolist()))


def days(data: Dataset) -> tuple[str, str]:
    assert data.time is not None
    first, last = (np.datetime64(int(end), "s") for end in (data.time.min(), data.time.max()))
    return str(first)[:10], str(last)[:10]


@needs_data
def test_ml_100k_in_detail() -> None:
    data = load("ml-100k")
    assert data.rating is not None
    assert np.bincount(data.rating.astype(int))[1:].tolist() == [6110, 11370, 27145, 34174, 21201]
    assert counts(data, "gender") == {"F": 273, "M": 670}
    age = data.attributes["age"]
    assert isinstance(age, Numeric)
    assert (age.values.min(), age.values.max()) == (7, 73)
    assert all(counts(data, "occupation").values())
    assert days(data) == ("1997-09-20", "1998-04-22")


@needs_data
def test_ml_1m_in_detail() -> None:
    data = load("ml-1m")
    assert data.rating is not None
    assert np.bincount(data.rating.astype(int))[1:].tolist() == [56174, 107557, 261197, 348971, 226310]
    assert counts(data, "gender") == {"F": 1709, "M": 4331}
    assert list(counts(data, "age").values()) == [222, 1103, 2096, 1193, 550, 496, 380]
    assert len(counts(data, "occupation")) == 21
    # the first user of users.dat: a woman under 18, in school
    assert data.user_frame().rows()[0] == (1, "F", "under 18", "K-12 student")
    assert days(data) == ("2000-04-25", "2003-02-28")
    assert data.user_counts.min() == 20


@needs_data
def test_gowalla_in_detail() -> None:
    split = predefined_split("gowalla")
    assert split is not None
    assert (len(split.train), len(split.test)) == (810_128, 217_242)


@needs_data
def test_ciao_and_epinions_in_detail() -> None:
    ciao, epinions = load("ciao"), load("epinions")
    assert ciao.rating is not None
    assert epinions.rating is not None
    assert (ciao.rating.min(), ciao.rating.max()) == (0, 5)
    assert (epinions.rating.min(), epinions.rating.max()) == (1, 5)
    assert days(ciao) == ("2000-05-30", "2011-04-12")
    assert epinions.time is None
    assert epinions.links is not None
    assert not (epinions.links.source == epinions.links.target).any()


@needs_data
def test_lastfm_and_completejourney_in_detail() -> None:
    lastfm = load("lastfm")
    assert lastfm.rating is not None
    assert (lastfm.rating.min(), lastfm.rating.max(), lastfm.rating_range) == (1, 352_698, None)
    journey = load("completejourney")
    assert journey.rating is None
    assert len(journey.attributes) == 7
    assert sum(counts(journey, "age").values()) == 801
    assert sum(counts(journey, "home_ownership").values()) == 801 - 233
    assert sum(counts(journey, "marital_status").values()) == 801 - 137
    known = ~journey.attributes["age"].missing
    assert int(known[journey.user].sum()) == 828_850
    assert days(journey) == ("2017-01-01", "2018-01-01")
