"""Models on disk: safetensors and JSON, never pickle; a folder, or a zip of the same members (``.veil``).

``model.json`` (class, settings, plan, versions, facts), ``ids.json`` (the items), ``model.safetensors``
(shareable arrays), ``privacy.json`` (the statement), ``private/`` (the owner's part: histories, users and
their vectors), and, if it was signed, ``signature.json``. Reading trusts none of them: see ``members.py``
(bytes), ``parsing.py`` (values), ``layout.py`` (arrays), ``plan.py`` (the statement).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
import types
import typing
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors.numpy import save_file

from veilrec.core import DataError, atomic_dir, atomic_path, check_choice, environment, write_json
from veilrec.crypto import SigningKey, VerifyKey
from veilrec.data import Ids
from veilrec.data.frames import KINDS
from veilrec.training.folder import hold_folder
from veilrec.training.job import check_sizes
from veilrec.training.layout import Misfit, check_floats, check_rows
from veilrec.training.members import MEMBERS, SHAREABLE, SIGNATURE, Bytes, read_members
from veilrec.training.parsing import (
    Parser,
    is_list,
    is_named,
    is_number,
    is_scheme,
    is_span,
    is_text,
    is_texts,
    is_whole,
)
from veilrec.training.plan import Plan, check_stated
from veilrec.training.recommender import Recommender
from veilrec.training.signing import check_signature, signature_of

_FORMAT = 2
_NOT_UNDERSTOOD = (TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError)


def save_model(
    model: Recommender,
    path: str | Path,
    *,
    part: str = "whole",
    sign: SigningKey | str | Path | None = None,
) -> Path:
    """Write ``model`` to a folder or a ``.veil`` file, whole or its shareable part; signed, given a key.

    A folder with the shareable part holds nothing else: where other files are, it is refused.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.EASE().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> path = save_model(model, Path(tempfile.mkdtemp()) / "ease.veil", part="shareable")
    >>> zipfile.ZipFile(path).namelist()
    ['model.json', 'ids.json', 'model.safetensors', 'privacy.json']
    """
    check_choice("part", part, ["whole", "shareable"])
    path, key = Path(path), _signing_key(sign)
    try:
        _check_arrays(model, model.private, len(model.items), len(model.users))
    except Misfit as error:
        raise DataError(f"arrays of {model.word} cannot be saved: {error}. Fit it again.") from error
    if path.suffix == ".veil":
        with tempfile.TemporaryDirectory() as folder:
            _write(model, Path(folder), part, key)
            with (
                atomic_path(path) as temporary,
                zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
            ):
                for member in MEMBERS:
                    if (Path(folder) / member).exists():
                        archive.write(Path(folder) / member, member)
        return path
    _check_target(path, part)
    at_work = path / "checkpoints"  # a fit there would go on in a folder that is gone
    with hold_folder(at_work) if at_work.is_dir() else nullcontext(), atomic_dir(path) as folder_path:
        _write(model, folder_path, part, key)
        if path.is_dir() and part == "whole":  # a run keeps its record, log and checkpoints beside the model
            for other in path.iterdir():
                if other.name in {*MEMBERS, "private"}:
                    continue
                if other.is_dir():
                    ignored = shutil.ignore_patterns("*-held*")  # locks are of one folder
                    shutil.copytree(other, folder_path / other.name, ignore=ignored)
                else:
                    shutil.copy2(other, folder_path / other.name)
    return path


def sign_model(path: str | Path, sign: SigningKey | str | Path) -> Path:
    """Sign the model in a folder as it lies there; returns the file of the signature.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.Popularity().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> folder = model.save(Path(tempfile.mkdtemp()) / "run")
    >>> sign_model(folder, SigningKey.generate()).name
    'signature.json'
    """
    key = _signing_key(sign)
    assert key is not None
    write_json(Path(path) / SIGNATURE, signature_of(read_members(Path(path)), key))
    return Path(path) / SIGNATURE


def signer_of(path: str | Path, key: VerifyKey | str | Path | None = None) -> VerifyKey | None:
    """The key that signed a saved model, None where nobody did; a broken signature is refused.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.Popularity().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> signer_of(model.save(Path(tempfile.mkdtemp()) / "run"))
    """
    return check_signature(read_members(Path(path)), Path(path), _verify_key(key))


def read_model(
    path: str | Path,
    classes: Mapping[str, type[Recommender]],
    *,
    key: VerifyKey | str | Path | None = None,
) -> Recommender:
    """Read a model that :meth:`Recommender.save` wrote; its class is looked up by its word in ``classes``.

    Nothing in the file is executed or taken on trust: arrays must be those of the model, the statement what
    its settings and its plan come to, a signature unbroken. ``key``: it must be signed by this public key.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.Popularity().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> path = model.save(Path(tempfile.mkdtemp()) / "popularity")
    >>> read_model(path, {"popularity": vr.Popularity}).word
    'popularity'
    """
    path = Path(path)
    members = read_members(path)
    signer = check_signature(members, path, _verify_key(key))
    model = _read(members, Parser(path), classes)
    model.signed_by = None if signer is None else signer.fingerprint
    return model


def _signing_key(sign: SigningKey | str | Path | None) -> SigningKey | None:
    return sign if sign is None or isinstance(sign, SigningKey) else SigningKey.load(sign)


def _verify_key(key: VerifyKey | str | Path | None) -> VerifyKey | None:
    return key if key is None or isinstance(key, VerifyKey) else VerifyKey.load(key)


# -- writing ---------------------------------------------------------------------------------------------


def _check_target(path: Path, part: str) -> None:
    if path.exists() and not path.is_dir():
        raise DataError("path must be a folder or a name ending in .veil, got a file.", file=path)
    inside = sorted(one.name for one in path.iterdir()) if path.is_dir() else []
    if inside and "model.json" not in inside:
        raise DataError("path must be a new folder or one that holds a model, got something else.", file=path)
    other = [name for name in inside if name not in (*SHAREABLE, SIGNATURE)]
    if part == "shareable" and other:
        shown = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
        message = f"a folder to publish must hold a shareable model and nothing else, got {shown} in it. "
        raise DataError(message + "Choose a new folder, or a name ending in .veil.", file=path)


def _write(model: Recommender, folder: Path, part: str, key: SigningKey | None) -> None:
    from veilrec import __version__

    about = {
        "format": _FORMAT,
        "model": model.word,
        "settings": model.settings(),
        "plan": None if model._plan is None else model._plan.to_dict(),
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
    if key is not None:
        there = [member for member in MEMBERS if (folder / member).exists()]
        members = {member: np.memmap(folder / member, np.uint8, "r") for member in there}
        _dump(folder / SIGNATURE, signature_of(members, key))


def _facts(model: Recommender, part: str) -> dict[str, Any]:
    """What is known of a fit. Of a private model the shareable part has only the name of the data: losses,
    validation figures, the number of interactions and the fingerprint are functions of the data, un-noised.
    """
    if part == "whole" or not model.is_private():
        return model.facts
    return {name: model.facts[name] for name in ("data", "profile") if name in model.facts}


def _whole(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _ids_to_json(ids: Ids) -> dict[str, Any]:
    return {"kind": "number" if ids.numeric else "text", "ids": ids.values.to_list()}


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")


# -- reading ---------------------------------------------------------------------------------------------


def _read(
    members: Mapping[str, Bytes], parser: Parser, classes: Mapping[str, type[Recommender]]
) -> Recommender:
    about = parser.json(members["model.json"], "model.json")
    found = about.get("format") if isinstance(about, dict) else None
    if not is_whole(found) or found != _FORMAT:
        raise DataError(
            f"model format must be {_FORMAT}, got {repr(found)[:50]}. Use the version that wrote it.",
            file=parser.path,
        )
    parser.fields(
        about,
        "model.json",
        format=is_whole,
        model=is_text,
        settings=is_named,
        plan=_is_named_or_null,
        facts=is_named,
        frame_kind=_is_kind_of_frame,
        part=_is_whole_or_shareable,
        version=is_text,
        environment=is_named,
    )
    if about["model"] not in classes:
        parser.refuse("model", "one veilrec knows", repr(about["model"]))
    model = _with_settings(classes[about["model"]], about["settings"], parser)
    _check_facts(about["facts"], model.describes, parser)
    model.facts, model._frame_kind = about["facts"], about["frame_kind"]
    model._items, model._users = parser.ids(members["ids.json"], "ids.json"), Ids([])
    model.shared = parser.arrays(members["model.safetensors"], "model.safetensors")
    private = None
    try:
        if "private/users.json" in members:
            if about["part"] == "shareable":
                parser.refuse("a shareable model", "without private members", "some")
            model._users = parser.ids(members["private/users.json"], "private/users.json")
            state = parser.arrays(members["private/state.safetensors"], "private/state.safetensors")
            private = model.private = _own(model, state)
        _check_arrays(model, private, len(model._items), len(model._users))
    except Misfit as error:
        raise DataError(
            f"arrays must be those of the model: {error}. Save it again.", file=parser.path
        ) from error
    _check_statement(model, about["plan"], parser.json(members["privacy.json"], "privacy.json"), parser)
    return model


def _is_named_or_null(value: Any) -> bool:
    return value is None or is_named(value)


def _is_kind_of_frame(value: Any) -> bool:
    return is_text(value) and value in KINDS


def _is_whole_or_shareable(value: Any) -> bool:
    return is_text(value) and value in ("whole", "shareable")


def _own(model: Recommender, state: dict[str, Any]) -> dict[str, Any]:
    """Sets the histories; gives the private arrays."""
    names = ("history.indptr", "history.indices")
    for name in names:
        if name not in state:
            raise Misfit(f"arrays must have {name!r}, and it is missing")
    indptr, indices = (state.pop(name) for name in names)
    shape = (len(model.users), len(model.items))
    check_rows(indptr, indices, *shape)
    model._history = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=shape)
    strange = next((name for name in state if not name.startswith("state.")), None)
    if strange is not None:
        raise Misfit(f"arrays must be of the histories or of the state, got {strange[:100]!r}")
    return {name.removeprefix("state."): array for name, array in state.items()}


def _check_arrays(model: Recommender, private: dict[str, Any] | None, items: int, users: int) -> None:
    layout = model._layout()
    if layout is None:
        check_floats({**model.shared, **(private or {})})
    else:
        layout.check(model.shared, private, items=items, users=users)


def _check_statement(model: Recommender, plan: Any, stated: Any, parser: Parser) -> None:
    try:
        if (plan is not None) != model.is_private():
            words = "with a plan" if model.is_private() else "without a plan"
            parser.refuse(f"a model {model.word}", words, "it the other way round")
        model._plan = None if plan is None else Plan.from_dict(plan, parser)
        model._statement = check_stated(model, stated, model._plan)
    except DataError as error:
        raise error if error.file is not None else DataError(str(error), file=parser.path) from error
    except ValueError as error:
        raise DataError(str(error), file=parser.path) from error
    except _NOT_UNDERSTOOD as error:
        words = f"privacy.json cannot be understood ({type(error).__name__}: {str(error)[:100]})"
        raise DataError(f"{words}. Save the model again.", file=parser.path) from error


def _with_settings(kind: type[Recommender], settings: dict[str, Any], parser: Parser) -> Recommender:
    """A model with these settings, which must be all that it has, each of its type."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    for name in names:
        if name not in settings:
            parser.refuse(f"settings of {kind.word}", f"with {name!r}", "none")
    for name, value in settings.items():
        if name not in names:
            parser.refuse(f"settings of {kind.word}", f"{', '.join(names) or 'none'}", repr(name))
        if not _fits(value, hints[name]):
            parser.refuse(
                f"{name} of {kind.word}",
                f"of type {kind.__annotations__.get(name, hints[name])}",
                repr(value),
            )
    try:
        model = kind(**settings)
        check_sizes(model.settings())
    except (ValueError, TypeError, ArithmeticError) as error:
        raise DataError(f"settings of {kind.word} must be right: {error}", file=parser.path) from error
    return model


def _fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of a type of settings."""
    parts, origin = typing.get_args(kind), typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return is_text(value) and value in parts
    if origin in (tuple, list):
        return is_list(value) and all(_fits(one, parts[0]) for one in value)
    if origin is dict:
        return is_named(value) and all(_fits(one, parts[1]) for one in value.values())
    if kind is float:
        return is_number(value) and abs(value) < 1e300
    if kind is int:
        return is_whole(value) and abs(value) < 2**62
    return isinstance(value, kind)


def _check_facts(facts: dict[str, Any], describes: tuple[str, ...], parser: Parser) -> None:
    """What of the facts is read later must be of its kind."""
    kinds = {"data": is_text, "data_fingerprint": is_text, "interactions": is_whole, "seed": is_whole}
    kinds |= {"seconds": is_number, "log": is_list, "epochs": is_whole, "profile": is_named}
    for name, is_right in kinds.items():
        if name in facts and not is_right(facts[name]):
            parser.refuse(f"{name} of the facts", is_right.__name__[3:], repr(facts[name]))
    profile = facts.get("profile", {})
    for name in describes:
        if name not in profile:
            parser.refuse("the profile of the facts", f"with {name!r}", "none")

    def are_spans(value: Any) -> bool:
        return value is None or (is_named(value) and all(map(is_span, value.values())))

    def is_scale(value: Any) -> bool:
        return value is None or is_span(value)

    wanted = {"attributes": is_scheme, "rating_range": is_scale, "numbers": is_texts, "extremes": are_spans}
    for name, value in profile.items():
        if name not in wanted or not wanted[name](value):
            parser.refuse(f"{name[:50]!r} of the profile", "what describes people", repr(value))
