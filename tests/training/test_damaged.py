"""Files that somebody damaged or forged end in one sentence, or in a model that works; never in a crash."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import veilrec as vr
from veilrec.core import DataError
from veilrec.systems import SYSTEMS
from veilrec.training.layout import Layout as LayoutOf
from veilrec.training.layout import Misfit, floats, places, pointers

SCRIPT = Path(__file__).with_name("damaged.py")


def fuzz(tmp_path: Path, examples: int, seed: int) -> dict[str, Any]:
    words = [sys.executable, str(SCRIPT), str(tmp_path), str(examples), str(seed)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1500)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_damaged_files(tmp_path: Path) -> None:
    found = fuzz(tmp_path, 250, 1)
    assert found["files"] >= 250
    assert found["grown_mib"] < 300
    refused = sum(n for name, n in found["count"].items() if name.endswith("refused"))
    assert 0.5 < refused / found["files"] < 1  # a reader that refused everything would pass all else


@pytest.mark.long
def test_thousands_of_damaged_files(tmp_path: Path) -> None:
    found = fuzz(tmp_path, 4000, 2)
    assert found["files"] >= 4000
    assert found["grown_mib"] < 600
    assert len(found["count"]) >= 12  # kinds of damage and what became of them


# -- bytes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> vr.Dataset:
    return vr.synthetic(users=25, items=20, interactions=200, seed=1)


@pytest.fixture
def members(data: vr.Dataset, tmp_path: Path) -> dict[str, bytes]:
    path = vr.ItemKNN().fit(data).save(tmp_path / "honest.veil")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_gibibyte_in_a_megabyte_is_refused_unpacked(members: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "bomb.veil"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in members:
            with archive.open(name, "w", force_zip64=True) as out:
                for _ in range(64 if name == "model.safetensors" else 0):
                    out.write(bytes(1 << 24))
    assert path.stat().st_size < 6_000_000
    tracemalloc.start()
    with pytest.raises(DataError, match=r"bomb\.veil: .* must be stored as it is, got it"):
        vr.load_model(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_a_directory_that_lies_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    """A size that the file does not have costs nothing, whatever was announced."""
    whole = bytearray(written(tmp_path / "m.veil", members).read_bytes())
    at = whole.index(b"PK\1\2")
    while whole[at + 46 :][: len("model.safetensors")] != b"model.safetensors":
        at = whole.index(b"PK\1\2", at + 1)
    for place in (20, 24):
        whole[at + place : at + place + 4] = (1 << 31).to_bytes(4, "little")
    (tmp_path / "m.veil").write_bytes(whole)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"members must have at most [\d,]+ bytes, got"):
        vr.load_model(tmp_path / "m.veil")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("stranger", "said"),
    [
        ("../escaped.txt", "members must be those of a model"),
        ("/etc/passwd", "members must be those of a model"),
        ("record.json", "members must be those of a model"),
        ("model.json", "must be there once"),
    ],
)
def test_members_are_those_of_a_model_and_there_once(
    members, tmp_path: Path, stranger: str, said: str
) -> None:
    path = written(tmp_path / "m.veil", members)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")  # zipfile says that it writes a name twice
        archive.writestr(stranger, b"no")
    with pytest.raises(DataError, match=said):
        vr.load_model(path)
    assert not (tmp_path.parent / "escaped.txt").exists()


def test_links_are_refused_in_zips_and_folders(members: dict[str, bytes], data, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            about = zipfile.ZipInfo(name)
            about.external_attr = (0o120777 if name == "ids.json" else 0o100644) << 16
            archive.writestr(about, content)
    (tmp_path / "m.veil").write_bytes(out.getvalue())
    with pytest.raises(DataError, match=r"ids\.json must be a file, got a link"):
        vr.load_model(tmp_path / "m.veil")
    folder = vr.Popularity().fit(data).save(tmp_path / "run")
    vr.load_model(folder)
    elsewhere = tmp_path / "elsewhere"
    (folder / "private").rename(elsewhere)
    (folder / "private").symlink_to(elsewhere)
    with pytest.raises(DataError, match="must be without links, got 'private'"):
        vr.load_model(folder)
    (folder / "private").unlink()
    os.mkfifo(folder / "signature.json")  # reading it would wait for ever
    with pytest.raises(DataError, match=r"signature\.json must be a file"):
        vr.load_model(folder)


# -- arrays ----------------------------------------------------------------------------------------------


def test_every_system_declares_its_arrays() -> None:
    for word, kind in SYSTEMS.items():
        assert kind()._layout() is not None, word


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neighbours", lambda a: np.full_like(a, 10**6)),
        ("neighbours", lambda a: a - 100),
        ("pointers", lambda a: a * 1000),
        ("pointers", lambda a: a[::-1].copy()),
        ("similarity", lambda a: a[:3].copy()),
        ("similarity", lambda a: a.astype(np.float64)),
        ("similarity", lambda a: a * np.nan),
    ],
)
def test_arrays_out_of_range_are_refused_before_any_kernel_runs(
    members, tmp_path: Path, name, change
) -> None:
    arrays = load(members["model.safetensors"])
    forged = members | {
        "model.safetensors": save(arrays | {name: np.ascontiguousarray(change(arrays[name]))})
    }
    with pytest.raises(DataError, match=r"arrays must be those of the model: '\w+' must"):
        vr.load_model(written(tmp_path / "m.veil", forged))


@pytest.mark.parametrize("name", ["history.indices", "history.indptr"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_histories_out_of_range_are_refused(members: dict[str, bytes], tmp_path: Path, name, value) -> None:
    """What ended in a segmentation fault at recommend."""
    arrays = load(members["private/state.safetensors"])
    arrays[name] = arrays[name].copy()
    arrays[name][3] = value
    forged = members | {"private/state.safetensors": save(arrays)}
    with pytest.raises(DataError, match=r"arrays must be those of the model: 'ind\w+' must"):
        vr.load_model(written(tmp_path / "m.veil", forged))


def test_a_layout_names_what_is_wrong() -> None:
    layout = LayoutOf(
        {"kept": places("items", "kept", rising="strictly"), "table": floats("kept", "kept")},
        {"start": pointers("users", "seen", rising="strictly"), "seen": places("items", "entries")},
    )
    good = {"kept": np.array([0, 2]), "table": np.zeros((2, 2), np.float32)}
    own = {"start": np.array([0, 1, 2]), "seen": np.array([2, 0])}
    layout.check(good, own, items=3, users=2)
    layout.check(good, own | {"start": np.array([0, 0, 0]), "seen": np.zeros(0, int)}, items=3, users=2)
    for change, said in [
        ({"kept": np.array([2, 0])}, "'kept' must rise strictly"),
        ({"kept": np.array([0, 3])}, "from 0 to 2, got 0 to 3"),
        ({"kept": np.array([0, 1, 2])}, r"'table' must have the shape \(kept, kept\) = \(3, 3\)"),
        ({"kept": np.zeros(0, int), "table": np.zeros((0, 0), np.float32)}, "must have the shape"),
        ({"more": np.zeros(1)}, "got 'more'"),
    ]:
        with pytest.raises(Misfit, match=said):
            layout.check(good | change, own, items=3, users=2)
    for change, said in [
        ({"start": np.array([0, 2, 1])}, "must rise from 0 to 2"),
        ({"start": np.array([1, 1, 2])}, "must rise from 0 to 2"),
        ({"start": np.array([0, 2, 2])}, "'seen' must rise strictly within a row"),
    ]:
        with pytest.raises(Misfit, match=said):
            layout.check(good, own | change, items=3, users=2)


# -- values ----------------------------------------------------------------------------------------------


def edited(members: dict[str, bytes], name: str, **changes: Any) -> dict[str, bytes]:
    return members | {name: json.dumps(json.loads(members[name]) | changes).encode()}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"neighbours": 100}, "must be with 'shrinkage', got none"),
        ({"neighbours": 100, "shrinkage": 10.0, "more": 1}, "got 'more'"),
        ({"neighbours": "100", "shrinkage": 10.0}, "neighbours of item-knn must be of type int, got '100'"),
        ({"neighbours": True, "shrinkage": 10.0}, "must be of type int, got True"),
        ({"neighbours": -3, "shrinkage": 10.0}, "settings of item-knn must be right"),
        ({"neighbours": 100, "shrinkage": [1]}, "must be of type float"),
    ],
)
def test_settings_are_all_there_and_of_their_types(members, tmp_path: Path, settings, said: str) -> None:
    with pytest.raises(DataError, match=said):
        vr.load_model(written(tmp_path / "m.veil", edited(members, "model.json", settings=settings)))


def test_layers_without_end_are_refused_at_once(data: vr.Dataset, tmp_path: Path) -> None:
    path = vr.NGCF(epochs=1, embedding_size=4).fit(data, progress=False).save(tmp_path / "n.veil")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    settings = json.loads(members["model.json"])["settings"] | {"layers": 2**61}
    with pytest.raises(DataError, match="layers must be at most 1000"):
        vr.load_model(written(path, edited(members, "model.json", settings=settings)))


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["i1", "i1"], "ids in order, each once"),
        (["i2", "i1"], "ids in order, each once"),
        ([1, "a"], "a list of texts, got 1"),
        ([None], "a list of texts"),
        ([], "a list of texts"),
        (["1", "2"], "ids in order"),
        (["\ud800"], "cannot be read"),
    ],
)
def test_ids_are_in_order_and_each_is_there_once(members, tmp_path: Path, ids, said: str) -> None:
    with pytest.raises(DataError, match=said):
        vr.load_model(written(tmp_path / "m.veil", edited(members, "ids.json", ids=ids)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": 2, "format": 2}', "must name 'format' once"),
        ('{"format": NaN}', "must be finite"),
        ('{"format": 1e999}', "must be finite"),
        ('{"format": ' + "9" * 5000 + "}", "of at most 25 digits"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "model format must be 2"),
        ('{"format": 2}', "must be with 'model', got none"),
        ('{"format": 1}', "Use the version that wrote it"),
    ],
)
def test_json_that_leaves_something_open_is_refused(members, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        vr.load_model(written(tmp_path / "m.veil", members | {"model.json": text.encode()}))


def test_a_composition_that_nothing_could_hold_is_called_infinite() -> None:
    """An event in a file must not cost gigabytes: this one did."""
    from veilrec.privacy import GaussianEvent, LaplaceEvent, epsilon_of

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wild = GaussianEvent(noise_multiplier=0.01, sampling_rate=0.1, count=300)
    assert epsilon_of([wild], 1e-5) == float("inf")
    assert epsilon_of([LaplaceEvent(noise_multiplier=1.0, count=10**6)], 1e-5) == 10**6  # by simple addition
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
