"""The members of a saved model as bytes, read with suspicion: whoever wrote the file may mean harm.

A ``.veil`` file is a zip whose members are stored as they are. Anything compressed is refused, so nothing
unpacks to more than the file has; names, sizes and their number are checked before a byte is read, and the
sizes again while reading, because a directory can lie. A folder may hold other files of a run beside the
members, and no links.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError

SHAREABLE = ("model.json", "ids.json", "model.safetensors", "privacy.json")
PRIVATE = ("private/users.json", "private/state.safetensors")
SIGNATURE = "signature.json"
MEMBERS = (*SHAREABLE, *PRIVATE, SIGNATURE)

Bytes = NDArray[np.uint8]
_MIB = 1 << 20
_MOST = {
    "model.json": 64 * _MIB,
    "privacy.json": 16 * _MIB,
    SIGNATURE: _MIB,
    "ids.json": 1024 * _MIB,
    "private/users.json": 1024 * _MIB,
    "model.safetensors": 1 << 38,
    "private/state.safetensors": 1 << 38,
}
_END, _END64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR = 20
_MOST_DIRECTORY = 4096
_ODD = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    NotImplementedError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
)
AGAIN = "Save it again."


def read_members(path: Path) -> dict[str, Bytes]:
    """The bytes of each member by its name, of a folder or a ``.veil`` file.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.Popularity().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> found = read_members(model.save(Path(tempfile.mkdtemp()) / "shop.veil", part="shareable"))
    >>> sorted(found)
    ['ids.json', 'model.json', 'model.safetensors', 'privacy.json']
    """
    if path.is_file():
        found = _from_zip(path)
    elif path.is_dir() and os.path.lexists(path / "model.json"):
        found = _from_folder(path)
    else:
        raise DataError("path must be a saved model, and there is none. Fit and save one first.", file=path)
    pair = [name for name in PRIVATE if name in found]
    for name in (*SHAREABLE, *(PRIVATE if pair else ())):
        if name not in found:
            raise DataError(f"the model must have {name}, and it is missing. {AGAIN}", file=path)
    return found


def _from_zip(path: Path) -> dict[str, Bytes]:
    try:
        with path.open("rb") as raw:
            _check_end(raw, path)
            with zipfile.ZipFile(raw) as archive:
                listed = archive.infolist()
                _check_directory(listed, path)
                return {entry.filename: _unpacked(archive, entry, path) for entry in listed}
    except DataError:
        raise
    except _ODD as error:
        # not in the words of zipfile, which quotes the file
        raise DataError(f"the zip must be whole, got a damaged one. {AGAIN}", file=path) from error


def _check_end(raw: Any, path: Path) -> None:
    """The record at the end: no comment, few entries, a short directory, before any of it is parsed."""
    size = raw.seek(0, os.SEEK_END)
    raw.seek(max(0, size - _END.size))
    tail = raw.read(_END.size)
    if len(tail) < _END.size or tail[:4] != b"PK\5\6":
        raise DataError("path must be a veilrec model (.veil), got another kind of file.", file=path)
    _, _, _, _, entries, directory, _, comment = _END.unpack(tail)
    counts = [(entries, directory)]
    raw.seek(max(0, size - _END.size - _LOCATOR - _END64.size))
    before = raw.read(_LOCATOR + _END64.size)
    if before[-_LOCATOR:].startswith(b"PK\6\7"):  # of a file above 4 GiB
        if len(before) < _LOCATOR + _END64.size or before[:4] != b"PK\6\6":
            raise DataError(f"the zip must be whole, got a damaged end. {AGAIN}", file=path)
        counts.append(_END64.unpack(before[: _END64.size])[7:9])
    good = comment == 0 and all(n <= len(MEMBERS) and length <= _MOST_DIRECTORY for n, length in counts)
    if not good:
        raise DataError(
            f"the zip must hold the {len(MEMBERS)} members of a model at most, got others. {AGAIN}", file=path
        )


def _check_directory(listed: list[zipfile.ZipInfo], path: Path) -> None:
    names = [entry.filename for entry in listed]
    for entry in listed:
        name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
        problem = ""
        if name not in MEMBERS or entry.orig_filename != name:
            problem = f"members must be those of a model, got {name[:100]!r}"
        elif names.count(name) > 1:
            problem = f"members must be there once, got {name} twice"
        elif kind not in (0, stat.S_IFREG):
            problem = f"{name} must be a file, got a link or something else"
        elif entry.flag_bits & ~0x800:
            problem = f"{name} must be stored as it is, got it encrypted or streamed"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            problem = f"{name} must be stored as it is, got it compressed"
        elif entry.file_size > _MOST[name]:
            problem = f"{name} must have at most {_MOST[name]:,} bytes, got {entry.file_size:,}"
        if problem:
            raise DataError(f"{problem}. {AGAIN}", file=path)
    total, there = sum(entry.file_size for entry in listed), path.stat().st_size
    if total > there:
        raise DataError(f"members must have at most {there:,} bytes, got {total:,}. {AGAIN}", file=path)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> Bytes:
    with archive.open(entry) as member:
        return _exactly(member, entry.file_size, entry.filename, path)


def _from_folder(path: Path) -> dict[str, Bytes]:
    found: dict[str, Bytes] = {}
    _refuse_links(path, path)
    if (path / "private").is_dir():
        _refuse_links(path / "private", path)
    for name in MEMBERS:
        if not os.path.lexists(path / name):
            continue
        try:
            handle = os.open(path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            reason = (error.strerror or "an error").lower()
            raise DataError(f"{name} must be a file that can be read, got {reason}.", file=path) from error
        with os.fdopen(handle, "rb") as member:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise DataError(f"{name} must be a file, got something else. {AGAIN}", file=path)
            if about.st_size > _MOST[name]:
                limit = f"at most {_MOST[name]:,} bytes, got {about.st_size:,}"
                raise DataError(f"{name} must have {limit}. {AGAIN}", file=path)
            found[name] = _exactly(member, about.st_size, name, path)
    return found


def _refuse_links(folder: Path, path: Path) -> None:
    with os.scandir(folder) as inside:
        for entry in inside:
            if entry.is_symlink():
                message = (
                    f"a saved model must be without links, got {entry.name!r}. Put the file itself there."
                )
                raise DataError(message, file=path)


def _exactly(member: Any, size: int, name: str, path: Path) -> Bytes:
    """As many bytes as were announced, and no more."""
    buffer = np.empty(size, np.uint8)
    view, at = memoryview(buffer.data), 0
    while at < size:
        got = member.readinto(view[at : at + (1 << 24)])
        if not got:
            raise DataError(f"{name} must have {size:,} bytes, got {at:,}. {AGAIN}", file=path)
        at += got
    if member.read(1):
        raise DataError(f"{name} must have {size:,} bytes, got more. {AGAIN}", file=path)
    return buffer
