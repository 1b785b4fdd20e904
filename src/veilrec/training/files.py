"""Models on disk: safetensors and JSON, never pickle; a folder, or a zip of the same members (``.veil``).

``model.json`` (class, settings, versions, facts), ``ids.json`` (the items), ``model.safetensors``
(shareable arrays), ``privacy.json`` (the statement), ``private/`` (the owner's part: histories, users and
their vectors).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file

from veilrec.core import DataError, atomic_dir, atomic_path, check_choice, environment
from veilrec.data import Ids
from veilrec.privacy import Guarantee
from veilrec.training.recommender import Recommender

_FORMAT = 1
_MEMBERS = ("model.json", "ids.json", "model.safetensors", "privacy.json")
_PRIVATE = ("private/users.json", "private/state.safetensors")


def save_model(model: Recommender, path: str | Path, *, part: str = "whole") -> Path:
    """Write ``model`` to a folder or a ``.veil`` file, whole or its shareable part.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.EASE().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> path = save_model(model, Path(tempfile.mkdtemp()) / "ease.veil", part="shareable")
    >>> zipfile.ZipFile(path).namelist()
    ['model.json', 'ids.json', 'model.safetensors', 'privacy.json']
    """
    check_choice("part", part, ["whole", "shareable"])
    path = Path(path)
    _ = model.items  # refuses a model that is not fitted, before anything is written
    if path.suffix == ".veil":
        with tempfile.TemporaryDirectory() as folder:
            _write(model, Path(folder), part)
            with (
                atomic_path(path) as temporary,
                zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
            ):
                for member in (*_MEMBERS, *_PRIVATE):
                    if (Path(folder) / member).exists():
                        archive.write(Path(folder) / member, member)
        return path
    if path.exists() and not path.is_dir():
        raise DataError("path must be a folder or a name ending in .veil, got a file.", file=path)
    if path.is_dir() and any(path.iterdir()) and not (path / "model.json").exists():
        raise DataError("path must be a new folder or one that holds a model, got something else.", file=path)
    with atomic_dir(path) as folder_path:
        _write(model, folder_path, part)
        if path.is_dir():  # a run keeps its record, log and checkpoints beside the model
            for other in path.iterdir():
                if other.name in {*_MEMBERS, "private"}:
                    continue
                if other.is_dir():
                    shutil.copytree(other, folder_path / other.name)
                else:
                    shutil.copy2(other, folder_path / other.name)
    return path


def read_model(path: str | Path, classes: Mapping[str, type[Recommender]]) -> Recommender:
    """Read a model that :meth:`Recommender.save` wrote; its class is looked up by its word in ``classes``.

    Nothing in the file is executed.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.Popularity().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> path = model.save(Path(tempfile.mkdtemp()) / "popularity")
    >>> read_model(path, {"popularity": vr.Popularity}).word
    'popularity'
    """
    path = Path(path)
    if path.is_file():
        if not zipfile.is_zipfile(path):
            raise DataError("path must be a veilrec model (.veil), got another kind of file.", file=path)
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            for member in (*_MEMBERS, *_PRIVATE):
                if member in names:  # only these names are ever unpacked
                    archive.extract(member, folder)
            return _read(Path(folder), path, classes)
    if not (path / "model.json").exists():
        raise DataError("path must be a saved model, and there is none. Fit and save one first.", file=path)
    return _read(path, path, classes)


def _write(model: Recommender, folder: Path, part: str) -> None:
    from veilrec import __version__

    about = {
        "format": _FORMAT,
        "model": model.word,
        "settings": model.settings(),
        "facts": _facts(model, part),
        "frame_kind": model._frame_kind,
        "part": part,
        "version": __version__,
        "environment": environment(),
    }
    _dump(folder / "model.json", about)
    _dump(folder / "ids.json", _ids_to_json(model.items))
    _dump(folder / "privacy.json", model.guarantee.to_dict())
    save_file(_whole(model.shared), folder / "model.safetensors")
    if part == "whole":
        (folder / "private").mkdir()
        history = model.history
        state = {f"state.{name}": array for name, array in model.private.items()}
        state |= {"history.indptr": history.indptr, "history.indices": history.indices}
        _dump(folder / "private" / "users.json", _ids_to_json(model.users))
        save_file(_whole(state), folder / "private" / "state.safetensors")


def _facts(model: Recommender, part: str) -> dict[str, Any]:
    """What is known of a fit. Of a private model the shareable part has only the name of the data: losses,
    validation figures, the number of interactions and the fingerprint are functions of the data, un-noised.
    """
    if part == "whole" or not model.is_private():
        return model.facts
    return {name: model.facts[name] for name in ("data", "profile") if name in model.facts}


def _read(folder: Path, shown: Path, classes: Mapping[str, type[Recommender]]) -> Recommender:
    about = _load(folder / "model.json", shown)
    if about.get("format") != _FORMAT:
        found = about.get("format")
        raise DataError(
            f"model format must be {_FORMAT}, got {found!r}. Use the version that wrote it.", file=shown
        )
    if about["model"] not in classes:
        raise DataError(f"model must be one veilrec knows, got {about['model']!r}.", file=shown)
    model = classes[about["model"]](**about["settings"])
    model.facts = about["facts"]
    model._frame_kind = about["frame_kind"]
    model._items = _ids_from_json(_load(folder / "ids.json", shown))
    stated = _load(folder / "privacy.json", shown)
    if stated.get("claims"):
        model._statement = Guarantee.from_dict(stated)
    try:
        model.shared = load_file(folder / "model.safetensors")
        if (folder / "private" / "state.safetensors").exists():
            model._users = _ids_from_json(_load(folder / "private" / "users.json", shown))
            state = load_file(folder / "private" / "state.safetensors")
            model.private = {n.removeprefix("state."): a for n, a in state.items() if n.startswith("state.")}
            indptr, indices = state["history.indptr"], state["history.indices"]
            shape = (len(model._users), len(model._items))
            model._history = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=shape)
        else:
            model._users = Ids([])
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"the model's arrays cannot be read ({error}). Save it again.", file=shown) from error
    return model


def _whole(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _ids_to_json(ids: Ids) -> dict[str, Any]:
    return {"kind": "number" if ids.numeric else "text", "ids": ids.values.to_list()}


def _ids_from_json(value: dict[str, Any]) -> Ids:
    return Ids(value["ids"])


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def _load(path: Path, shown: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"the model must have {path.name}, and it is missing. Save it again.", file=shown
        ) from error
    except json.JSONDecodeError as error:
        raise DataError(f"{path.name} cannot be read ({error}). Save it again.", file=shown) from error
