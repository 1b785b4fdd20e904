from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path

import pytest

# ruff: noqa: PT012  (what fails must fail inside the block that is tested)
from veilrec.core import atomic_dir, atomic_path, sha256_file, write_json, write_text


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with atomic_dir(target) as folder:
        (folder / "x").write_text("old")
    with pytest.raises(RuntimeError), atomic_dir(target) as folder:
        (folder / "x").write_text("half")
        raise RuntimeError
    assert (target / "x").read_text() == "old"
    with atomic_dir(target) as folder:
        (folder / "y").write_text("new")
    assert [p.name for p in target.iterdir()] == ["y"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_json_is_strict_and_checked_before_writing(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_json(target, {"ä": 1})
    with pytest.raises(ValueError):
        write_json(target, {"x": math.nan})
    assert json.loads(target.read_text(encoding="utf-8")) == {"ä": 1}


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_sha256(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "abc")
    assert sha256_file(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
