"""Saved models, damaged in every way, are read in this process: it must end well, in bounded memory.

Run as a script by test_damaged.py, because a segmentation fault or an exhausted memory would take the suite
with it. Prints one line of JSON: how many files of each kind of damage were refused, and how many served.
"""

from __future__ import annotations

import copy
import io
import json
import resource
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

import veilrec as vr
from veilrec.core import CannotFoldIn, DataError, NotFitted
from veilrec.systems import SYSTEMS

MORE_MEMORY = 1 << 30
SLOWEST = 20.0
WORDS = {
    "popularity": {},
    "item-knn": {},
    "gf-cf": {"rank": 3},
    "bpr": {"epochs": 1},
    "neumf": {"epochs": 1},
    "gat": {"epochs": 1, "layers": 1},
    "gcn": {"epochs": 1},
    "blurme": {"epochs": 1},
    "dp-gram": {},
    "gerai-functional": {"epsilon": 50.0},
    "gerai-users": {"epochs": 1, "epsilon": 50.0},
    "gerai-paper": {"epochs": 1},
    "pf-gnr": {"epochs": 1},
    "pf-gnr-sums": {"epochs": 1},
    "dpmf": {},
}
"""Models with indices, with networks, with claims of every unit."""
JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1e-300, 1e300, 2**31, 2**63, 10**24, 10**400),
    *("", "secure", "none", "\ud800", "x" * 300, [], {}, [[]], {"a": 1}, ["O"], [1, 2, 3], ["a", "a"]),
    *(float("nan"), float("inf"), "NaN", 1e-9, 1e9),
]
JSONS = ("model.json", "ids.json", "privacy.json", "private/users.json")
ARRAYS = ("model.safetensors", "private/state.safetensors")


def corpus() -> dict[str, dict[str, bytes]]:
    data, found = vr.synthetic(users=25, items=20, interactions=200, seed=1), {}
    for word, more in WORDS.items():
        kind = SYSTEMS[word]
        small = {"embedding_size": 4} if hasattr(kind, "embedding_size") else {}
        model = kind(**small, **more).fit(data, progress=False, secure=False)
        for part in ("whole", "shareable"):
            path = model.save(Path(sys.argv[1]) / f"{word}-{part}.veil", part=part)
            with zipfile.ZipFile(path) as archive:
                found[f"{word}-{part}"] = {name: archive.read(name) for name in archive.namelist()}
            assert outcome(path) == "served"  # compiles kernels too
    return found


def asked(known: Any, model: Any) -> dict[str, Any]:
    if known is not None:
        return {"k": 3}
    return {"k": 3, "history": {"new": model.items.take([0]).to_list()}} if folds(model) else {"k": 3}


def folds(model: Any) -> bool:
    return type(model)._score_histories is not vr.training.Recommender._score_histories


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


# -- damage ----------------------------------------------------------------------------------------------


def truncated(members: dict[str, bytes], draw: Any) -> bytes:
    whole = zipped(members)
    return whole[: draw(st.integers(0, len(whole) - 1))]


def flipped(content: bytes, draw: Any) -> bytes:
    out = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        out[draw(st.integers(0, len(out) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(out)


def flipped_file(members: dict[str, bytes], draw: Any) -> bytes:
    return flipped(zipped(members), draw)


def flipped_member(members: dict[str, bytes], draw: Any) -> bytes:
    name = draw(st.sampled_from(sorted(members)))
    return zipped(members | {name: flipped(members[name], draw)})


def edited_json(members: dict[str, bytes], draw: Any) -> bytes:
    """A value anywhere in the tree is replaced, left out, or joined by another."""
    name = draw(st.sampled_from([name for name in JSONS if name in members]))
    value = json.loads(members[name])
    places = list(_places(value))
    holder, key = draw(st.sampled_from(places))
    junk = copy.deepcopy(draw(st.sampled_from(JUNK)))
    how = draw(st.sampled_from(["replaced", "replaced", "replaced", "left out", "added", "nudged"]))
    if how == "nudged" and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] *= draw(st.sampled_from([0.5, 0.999, 1.001, 2, -1]))
    elif how == "left out":
        del holder[key]
    elif how == "added" and isinstance(holder, dict):
        holder[draw(st.text(max_size=5))] = junk
    else:
        holder[key] = junk
    return zipped(members | {name: json.dumps(value).encode("utf-8", "surrogatepass")})


def _places(value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


def odd_json(members: dict[str, bytes], draw: Any) -> bytes:
    name = draw(st.sampled_from([name for name in JSONS if name in members]))
    odd = [b"[" * 200_000, b'{"a":' * 5000, b"\xff\xfe", b"", b"1", b"null", b'"' + b"a" * 9, b"[1e999]"]
    odd += [members[name].replace(b"{", b'{"kind": "x", "kind": "y", ', 1), b"9" * 100_000, b"\x00" * 100]
    return zipped(members | {name: draw(st.sampled_from(odd))})


def edited_arrays(members: dict[str, bytes], draw: Any) -> bytes:
    """Values out of range, other kinds, other shapes, arrays too many or too few."""
    name = draw(st.sampled_from([name for name in ARRAYS if name in members]))
    arrays = {key: array.copy() for key, array in load(members[name]).items()}
    if not arrays:
        return zipped(members | {name: save({"a": np.ones(2, np.float32)})})
    key = draw(st.sampled_from(sorted(arrays)))
    array = arrays[key]
    how = draw(st.sampled_from(["value", "value", "kind", "cut", "shape", "gone", "added", "other", "order"]))
    extremes = [-1, 2**31 - 1, -(2**31), 25, 20, 19, 21, 10**6, 0, 1]
    if how == "value" and array.size:
        wild = [np.nan, np.inf, 1e38, -1e38, *extremes] if array.dtype.kind == "f" else extremes
        for _ in range(draw(st.integers(1, 3))):
            array.reshape(-1)[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(wild))
    elif how == "kind":
        kinds = ["float32", "float64", "int32", "int64", "uint8", "bool", "float16", "uint64"]
        arrays[key] = array.astype(draw(st.sampled_from(kinds)))
    elif how == "cut":
        arrays[key] = array[: draw(st.integers(0, max(0, len(array) - 1)))]
    elif how == "shape":
        arrays[key] = array.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1)]))) if array.size else array
    elif how == "gone":
        del arrays[key]
    elif how == "added":
        arrays[draw(st.sampled_from(["more", "state.more", "net.more"]))] = array
    elif how == "other":
        arrays[key] = arrays[draw(st.sampled_from(sorted(arrays)))]
    else:
        arrays[key] = np.ascontiguousarray(array[::-1])
    return zipped(members | {name: save(arrays)})


def odd_header(members: dict[str, bytes], draw: Any) -> bytes:
    name = draw(st.sampled_from([name for name in ARRAYS if name in members]))
    content = members[name]
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    how = draw(st.sampled_from(["length", "edit", "edit"]))
    if how == "length" or not header:
        wild = [0, 1, 8, length - 8, length + 8, 2**20, 2**32, 2**63, 2**64 - 1]
        return zipped(members | {name: draw(st.sampled_from(wild)).to_bytes(8, "little") + content[8:]})
    about = header[draw(st.sampled_from(sorted(header)))]
    key = draw(st.sampled_from(["dtype", "shape", "data_offsets"]))
    kinds = ["F64", "I64", "BF16", "BOOL", "U8", "X", 5, None]
    sizes = [[], [0], [-1], [2**40, 2**40], [0, 2**60], [1] * 30, "x", [0.5], [2**63], [0, 8], [8, 0], [3, 7]]
    about[key] = draw(st.sampled_from(kinds if key == "dtype" else sizes))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return zipped(members | {name: len(text).to_bytes(8, "little") + text + content[8 + length :]})


def odd_zip(members: dict[str, bytes], draw: Any) -> bytes:
    """Bombs, links, strangers, doubles, comments, encryption, sizes that lie."""
    how = draw(
        st.sampled_from(["bomb", "deflated", "extra", "double", "link", "locked", "comment", "lie", "many"])
    )
    name = draw(st.sampled_from(sorted(members)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, content in members.items():
            about = zipfile.ZipInfo(member)
            if member == name and how in ("bomb", "deflated"):
                about.compress_type = zipfile.ZIP_DEFLATED
                if how == "bomb":
                    with archive.open(about, "w") as member:
                        for _ in range(64):
                            member.write(bytes(1 << 20))
                    continue
            if member == name and how == "link":
                about.external_attr, content = 0o120777 << 16, b"/etc/passwd"
            archive.writestr(about, content)
        if how == "extra":
            strangers = [
                "../escaped",
                "/etc/passwd",
                "private/../model.json",
                "notes.txt",
                "private/",
                "MODEL.JSON",
            ]
            archive.writestr(draw(st.sampled_from(strangers)), b"hello")
        elif how == "double":
            archive.writestr(name, members[name])
        elif how == "many":
            for number in range(2000):
                archive.writestr(str(number), b"")
        elif how == "comment":
            archive.comment = b"PK\5\6" + b"\0" * 18
    found = bytearray(out.getvalue())
    at = found.rindex(b"PK\1\2")
    if how == "locked":
        found[at + 8] |= 1
    elif how == "lie":
        wild = draw(st.sampled_from([0, 1, 2**16, 2**31, 2**32 - 1])).to_bytes(4, "little")
        for place in draw(st.sampled_from([(20,), (24,), (20, 24), (42,)])):
            found[at + place : at + place + 4] = wild
    return bytes(found)


def mixed_up(members: dict[str, bytes], draw: Any) -> bytes:
    """Members of another model, or none."""
    name = draw(st.sampled_from(sorted(members)))
    other = draw(st.sampled_from(sorted(CORPUS)))
    if name in CORPUS[other] and draw(st.booleans()):
        return zipped(members | {name: CORPUS[other][name]})
    return zipped({member: content for member, content in members.items() if member != name})


DAMAGE = (truncated, flipped_file, flipped_member, edited_json, edited_json, odd_json, edited_arrays)
DAMAGE += (edited_arrays, odd_header, odd_zip, mixed_up)


# -- what becomes of it ----------------------------------------------------------------------------------


def check_sentence(said: str, has: str) -> None:
    assert "\n" not in said, said
    assert has in said, said
    assert len(said) < 1000, said


def outcome(path: Path) -> str:
    """Either "refused" in one sentence, or "served": every answer is an answer or a sentence."""
    try:
        model = vr.load_model(path)
    except DataError as error:
        check_sentence(str(error), str(path))
        return "refused"
    first = model.items.take([0]).to_list()
    whole = model._history is not None
    asks = [
        lambda: model.recommend(**asked(model if whole else None, model)),
        lambda: model.similar_items(first, k=3),
        lambda: str(model.guarantee) + model.guarantee.to_markdown(),
    ]
    for ask in asks:
        try:
            ask()
        except (ValueError, NotFitted, CannotFoldIn) as error:
            check_sentence(str(error), "")
        except TypeError as error:
            check_sentence(str(error), "no notion of similar items")
    return "served"


def main() -> None:
    global CORPUS
    CORPUS = corpus()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    count: Counter[str] = Counter()
    slowest, path = 0.0, Path(sys.argv[1]) / "damaged.veil"

    @seed(int(sys.argv[3]))
    @settings(
        max_examples=int(sys.argv[2]),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def each(data: Any) -> None:
        nonlocal slowest
        members = CORPUS[data.draw(st.sampled_from(sorted(CORPUS)))]
        damage = data.draw(st.sampled_from(DAMAGE))
        path.write_bytes(damage(members, data.draw))
        began = time.perf_counter()
        count[f"{damage.__name__} {outcome(path)}"] += 1
        slowest = max(slowest, time.perf_counter() - began)
        assert slowest < SLOWEST

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    each()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    print(json.dumps({"files": sum(count.values()), "slowest": slowest, "grown_mib": grown, "count": count}))


CORPUS: dict[str, dict[str, bytes]] = {}

if __name__ == "__main__":
    main()
