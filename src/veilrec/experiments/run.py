"""A spec in, a run folder out: model, statement, record, log, and enough to find data and split again.

A run that was stopped goes on when the same command is given again. ``record.json`` is written last: a folder
that has it is finished.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veilrec.core import DataError, write_json, write_text
from veilrec.crypto import SigningKey
from veilrec.data import Dataset, Split
from veilrec.experiments.config import make_model
from veilrec.experiments.records import new_record, portable, write_record
from veilrec.experiments.sources import is_file, load_data, make_split
from veilrec.experiments.specs import DataSpec, EvaluateSpec, Experiment, SplitSpec
from veilrec.privacy import Ledger
from veilrec.systems import load_model
from veilrec.training import Evaluation, Recommender, evaluate, sign_model
from veilrec.training.folder import hold_folder

_PATHS = ("source", "dir", "users", "links")
_STAGING, _CHECKPOINTS = ".model.part", "checkpoints"
_MEMBERS = (
    "record.json",
    "model.json",
    "run.json",
    "ids.json",
    "model.safetensors",
    "privacy.json",
    "signature.json",
    "log.jsonl",
    "attack.json",
    "attack-links.json",
    "attack-membership.json",
    "private",
    _CHECKPOINTS,
    _STAGING,
)


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, spec and model.

    >>> import tempfile
    >>> spec = Experiment("popularity", data=DataSpec("synthetic:60,40,900"))
    >>> run = open_run(fit_run(spec, Path(tempfile.mkdtemp()) / "pop", progress=False))
    >>> data, split = run.parts()
    >>> split.train.n_users
    60
    """

    folder: Path
    spec: Experiment
    model: Recommender

    def parts(self, data: str | None = None, data_dir: str | None = None) -> tuple[Dataset, Split]:
        """The data and the split the model was fitted on, made again and checked by fingerprint.

        ``data`` and ``data_dir`` say where the data is now, if it has moved.
        """
        old = self.spec.data
        source = dataclasses.replace(old, source=data or old.source, dir=data_dir or old.dir)
        loaded = load_data(source)
        split = make_split(self.spec.split, loaded, self.spec.seed, source)
        about = _read_json(self.folder / "run.json")
        _check_same(self.folder, about, loaded, split)
        return loaded, split


def fit_run(
    spec: Experiment,
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    command: str | None = None,
    ledger: Ledger | None = None,
    population: str | None = None,
    new_population: bool = False,
    sign: SigningKey | str | Path | None = None,
) -> Path:
    """Fit, judge and save; returns the folder. An unfinished run of the same spec is continued.

    A finished run of the same spec and data is left as it is. A run of another spec is refused, before any
    work, unless ``overwrite``. What a private model draws securely is always booked: in ``ledger``, else in
    the user's own, under ``population``, else the name of the data; ``new_population`` as in
    :meth:`Recommender.fit`. ``sign`` is a secret key or its file: the model is signed with it, also one that
    was finished before.

    >>> import tempfile
    >>> spec = Experiment("popularity", data=DataSpec("synthetic:60,40,900"))
    >>> folder = fit_run(spec, Path(tempfile.mkdtemp()) / "pop", progress=False)
    >>> open_run(folder).model.word, evaluate_run(folder, k=(5,), progress=False).part
    ('popularity', 'test')
    """
    folder = Path(out)
    key = sign if sign is None or isinstance(sign, SigningKey) else SigningKey.load(sign)
    plain = portable_spec(spec)
    finished = _check_folder(folder, plain, overwrite)
    model = make_model(spec.model, spec.settings)
    clock = _Clock()
    data = load_data(spec.data)
    clock.lap("load")
    split = make_split(spec.split, data, spec.seed, spec.data)
    clock.lap("split")
    if finished:
        _check_same(folder, _read_json(folder / "run.json"), data, split)
        if key is not None:
            sign_model(folder, key)
        return folder
    if overwrite:
        with hold_folder(folder / _CHECKPOINTS):  # nobody is at work there
            _clear(folder)
    if ledger is None and spec.secure and model.is_private():
        ledger = Ledger()
    resumed = (folder / "run.json").exists()
    if resumed:
        _check_same(folder, _read_json(folder / "run.json"), data, split)
    prints = {"data_fingerprint": data.fingerprint, "split_fingerprint": split.fingerprint}
    write_json(folder / "run.json", {"format": 1, "spec": plain, **prints})
    _log(folder, "resumed" if resumed else "started", command=command)
    try:
        model.fit(
            split.train,
            split.valid,
            seed=spec.seed,
            device=spec.device,
            checkpoint=folder / _CHECKPOINTS,
            progress=progress,
            secure=spec.secure,
            ledger=ledger,
            population=population or data.name,
            new_population=new_population,
            tuned=spec.tuned,
        )
    except Exception:
        if not resumed and not (folder / _CHECKPOINTS).exists():  # refused: nothing is spent or kept
            _clear(folder)
            folder.rmdir()
        raise
    clock.lap("fit")
    _save(model, folder, spec.data, key)
    judged = evaluate(model, split, spec.evaluate.k, protocol=spec.evaluate.protocol, progress=progress)
    clock.lap("evaluate")
    record = new_record(
        "run",
        folder.name,
        data,
        split,
        command,
        model=model.word,
        settings=model.settings(),
        seed=spec.seed,
        evaluation=judged.to_dict(),
        guarantee=model.guarantee.to_dict(),
        statement=str(model.guarantee),
        seconds=clock.seconds | {"fit": model.facts["seconds"]},
        curve=model.facts.get("log", []),
    )
    _log(folder, "finished", epochs=record["curve"])
    write_record(folder, record)
    shutil.rmtree(folder / _CHECKPOINTS, ignore_errors=True)  # user vectors; the model has what is needed
    return folder


def open_run(path: str | Path) -> Run:
    """The run in a folder that :func:`fit_run` wrote.

    >>> import tempfile
    >>> spec = Experiment("popularity", data=DataSpec("synthetic:60,40,900"))
    >>> run = open_run(fit_run(spec, Path(tempfile.mkdtemp()) / "pop", progress=False))
    >>> run.model.word, run.spec.seed
    ('popularity', 0)
    """
    folder = Path(path)
    if not (folder / "run.json").exists():
        raise DataError("the run must be a folder that `veilrec fit` wrote, got none.", file=folder)
    if not (folder / "model.json").exists():
        raise DataError(
            "the run must be finished, got one that was stopped. Fit it again to go on.", file=folder
        )
    plain = _read_json(folder / "run.json")["spec"]
    try:
        spec = Experiment(
            **plain
            | {
                "data": DataSpec(**plain["data"]),
                "split": SplitSpec(**plain["split"]),
                "evaluate": EvaluateSpec(**plain["evaluate"] | {"k": tuple(plain["evaluate"]["k"])}),
            }
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"run.json cannot be understood ({error}). Fit it again.", file=folder) from error
    where = folder / "private" / "source.json"
    if where.exists():
        spec = dataclasses.replace(spec, data=dataclasses.replace(spec.data, **_read_json(where)))
    return Run(folder, spec, load_model(folder))


def evaluate_run(
    path: str | Path,
    *,
    k: tuple[int, ...] | None = None,
    protocol: str | None = None,
    part: str = "test",
    data: str | None = None,
    data_dir: str | None = None,
    progress: bool = True,
) -> Evaluation:
    """Judge a finished run again, on its own split; None takes what the run was fitted with.

    >>> import tempfile
    >>> spec = Experiment("popularity", data=DataSpec("synthetic:60,40,900"))
    >>> folder = fit_run(spec, Path(tempfile.mkdtemp()) / "pop", progress=False)
    >>> "recall@3" in evaluate_run(folder, k=(3,), part="valid", progress=False).mean()
    True
    """
    run = open_run(path)
    if not (run.folder / "private").is_dir():
        message = "the run must have its private folder (histories, user vectors) to be judged, got none. "
        raise DataError(message + "This is its shareable part: ask its owner.", file=run.folder)
    _, split = run.parts(data, data_dir)
    lengths = run.spec.evaluate.k if k is None else k
    way = protocol or run.spec.evaluate.protocol
    return evaluate(run.model, split, lengths, part=part, protocol=way, progress=progress)


def portable_spec(spec: Experiment) -> dict[str, Any]:
    """The spec without paths of the machine; what two runs are compared by."""
    plain = spec.to_dict()
    for name in _PATHS:
        if plain["data"][name] is not None:
            plain["data"][name] = portable(plain["data"][name])
    plain["settings"] = make_model(spec.model, spec.settings).settings()
    as_json: dict[str, Any] = json.loads(json.dumps(plain))
    return as_json


# -- the pieces --------------------------------------------------------------------------------------


class _Clock:
    """Seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self._last, 3)
        self._last = now


def _check_folder(folder: Path, plain: Mapping[str, Any], overwrite: bool) -> bool:
    """Whether a finished run of the same spec is there; anything else that would be lost is refused."""
    if folder.exists() and not folder.is_dir():
        raise DataError("out must be a folder, got a file. Choose another name.", file=folder)
    if not folder.exists() or not any(folder.iterdir()):
        return False
    if not (folder / "run.json").exists():
        raise DataError("out must be a new folder or a run, got a folder with other files.", file=folder)
    if overwrite:
        return False
    finished = (folder / "record.json").exists()
    changed = _difference(_read_json(folder / "run.json")["spec"], plain)
    if changed:
        state = "a finished" if finished else "an unfinished"
        message = f"out holds {state} run of another experiment ({changed}). "
        message += "Choose another folder, or replace it with --overwrite."
        raise DataError(message, file=folder)
    return finished


def _difference(old: Any, new: Any, key: str = "") -> str:
    """The first place where two specs differ, in words; empty where they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            found = _difference(old.get(name), new.get(name), f"{key}.{name}".lstrip("."))
            if found:
                return found
        return ""
    return "" if old == new else f"{key} was {old!r} and is {new!r}"


def _check_same(folder: Path, about: Mapping[str, Any], data: Dataset, split: Split) -> None:
    for what, found in (("data", data.fingerprint), ("split", split.fingerprint)):
        wanted = about[f"{what}_fingerprint"]
        if wanted != found:
            message = (
                f"the {what} must be what the run was fitted on ({wanted[:12]}), got {found[:12]}. "
                "Give the same data, or fit into another folder or with --overwrite."
            )
            raise DataError(message, file=folder)


def _save(model: Recommender, folder: Path, data: DataSpec, key: SigningKey | None) -> None:
    """Write the model beside the other files of the run; ``model.json`` comes last and makes it whole."""
    staging = folder / _STAGING
    shutil.rmtree(staging, ignore_errors=True)
    model.save(staging, sign=key)
    paths = {name: value for name in _PATHS if (value := getattr(data, name)) is not None}
    there = {
        name: str(Path(value).resolve())
        for name, value in paths.items()
        if Path(value).exists() and (name != "source" or is_file(value))
    }
    if there:
        write_json(staging / "private" / "source.json", there)
    for name in ("model.json", "signature.json"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "private", ignore_errors=True)
    for member in sorted(staging.iterdir(), key=lambda path: path.name == "model.json"):
        member.replace(folder / member.name)
    staging.rmdir()


def _clear(folder: Path) -> None:
    for name in _MEMBERS:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _log(folder: Path, event: str, **about: Any) -> None:
    """Add to ``log.jsonl``: one line per event, and one per epoch."""
    path = folder / "log.jsonl"
    epochs = about.pop("epochs", [])
    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [*epochs, {"event": event, "time": now, **about}]
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    write_text(path, old + "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read ({error}). Fit again.", file=path.parent) from error
    if not isinstance(value, dict):
        raise DataError(f"{path.name} must hold names and values, got others. Fit again.", file=path.parent)
    return value
