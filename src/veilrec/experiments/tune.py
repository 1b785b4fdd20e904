"""Search for settings by validation alone: the test part is taken away before the first trial.

Each trial draws from a sampler seeded by the number of finished trials, so a search that was stopped and goes
on proposes what an uninterrupted one would have.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from veilrec.core import DataError, check, check_choice, check_count, require, stream_seed, track, write_text
from veilrec.data import Dataset, Split
from veilrec.experiments.config import make_model
from veilrec.experiments.records import new_record, write_record
from veilrec.experiments.run import portable_spec
from veilrec.experiments.sources import load_data, make_split
from veilrec.experiments.spaces import SPACES, Choice, Range
from veilrec.experiments.specs import Experiment
from veilrec.systems import SYSTEMS
from veilrec.training import evaluate

STATEMENT = (
    "Tuning reads the training and validation data without noise in every trial. Choosing settings on "
    "private data is outside any privacy guarantee: the chosen values tell something about the people in it."
)
RESEARCH = " Trials draw research noise, which no ledger books: nothing but the settings may leave the house."


@dataclass(frozen=True, eq=False)
class Tuning:
    """The result of :func:`tune`: the record, the folder, and the file that ``--config`` takes.

    >>> found = {"best": {"settings": {"regularization": 300.0}, "value": 0.2}}
    >>> Tuning(found, Path("runs/tune"), Path("runs/tune/best.yaml")).best
    {'regularization': 300.0}
    """

    record: dict[str, Any]
    folder: Path
    config: Path

    @property
    def best(self) -> dict[str, Any]:
        """The settings of the best trial."""
        settings: dict[str, Any] = self.record["best"]["settings"]
        return settings


def tune(
    spec: Experiment,
    out: str | Path,
    *,
    trials: int = 20,
    metric: str = "ndcg@10",
    space: Mapping[str, Range | Choice] | None = None,
    progress: bool = True,
    command: str | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Tuning:
    """Try settings until ``trials`` are done, going on from those in ``out``; settings in ``spec`` are fixed.

    ``metric`` is measured on the validation part. Writes the trials (``trials.sqlite``), a record, and
    ``best.yaml`` for ``veilrec fit --config``.

    >>> import tempfile
    >>> from veilrec.experiments.specs import DataSpec
    >>> spec = Experiment("ease", data=DataSpec("synthetic:60,40,900"))
    >>> found = tune(spec, Path(tempfile.mkdtemp()) / "tune", trials=2, progress=False)
    >>> list(found.best), found.config.name
    (['regularization'], 'best.yaml')
    """
    optuna = require("optuna", extra="tune", purpose="tuning")
    check_count("trials", trials)
    length = _length(metric)
    if space is None:
        check_choice("model", spec.model, SPACES)
        space = SPACES[spec.model]
    free = {name: about for name, about in space.items() if name not in spec.settings}
    check(
        len(free) > 0, "space", "left with one setting or more to search", list(space), "Fix fewer settings."
    )
    make_model(spec.model, {**spec.settings, **{name: _example(about) for name, about in free.items()}})
    data = load_data(spec.data)
    split = without_test(make_split(spec.split, data, spec.seed, spec.data))
    study = _open(optuna, Path(out), _key(spec, metric, free, split), metric)
    todo = max(0, trials - len(_done(optuna, study)))
    for _ in track(range(todo), f"tuning {spec.model}", show=progress):
        value, settings = _trial(optuna, study, spec, split, metric, length, free)
        say(f"trial {len(_done(optuna, study))} of {trials}: {metric} {value:.4f} with {_short(settings)}")
    done = _done(optuna, study)
    sign = _sign(metric)
    best = max(done, key=lambda trial: (sign * trial.value, -trial.number))
    settings = {**spec.settings, **best.params}
    note = STATEMENT + (RESEARCH if SYSTEMS[spec.model].is_private() else "")
    record = new_record(
        "tuning",
        Path(out).name,
        data,
        split,
        command,
        model=spec.model,
        seed=spec.seed,
        metric=metric,
        best={"settings": settings, "value": best.value},
        trials=[
            {
                "number": number,
                "settings": trial.params,
                "value": trial.value,
                "seconds": trial.user_attrs["seconds"],
            }
            for number, trial in enumerate(done)
        ],
        note=note,
    )
    write_record(out, record)
    config = Path(out) / "best.yaml"
    plain = portable_spec(dataclasses.replace(spec, settings=settings, tuned=True))
    plain["settings"] = settings
    plain["data"] = {key: value for key, value in plain["data"].items() if value is not None}
    head = f"# {metric} {best.value:.4f} on the validation part, best of {len(done)} trials.\n"
    write_text(config, head + "".join(f"# {line}\n" for line in _wrapped(note)) + _yaml(plain))
    return Tuning(record, Path(out), config)


def without_test(split: Split) -> Split:
    """The same split with an empty test part: what is not there cannot be looked at.

    >>> from veilrec.data import split, synthetic
    >>> blind = without_test(split.holdout(synthetic(users=60, items=40, interactions=900), 0.1, 0.1))
    >>> len(blind.test), blind.valid is not None
    (0, True)
    """
    if split.valid is None:
        raise DataError(
            "the split must have a validation part to tune on, got none. Set split.valid=0.1, say."
        )
    empty: Dataset = split.train.take(np.empty(0, np.int64))
    return dataclasses.replace(split, test=empty)


# -- the study ---------------------------------------------------------------------------------------


def _sign(metric: str) -> int:
    """-1 where less is better."""
    return -1 if metric in ("mae", "rmse") else 1


def _length(metric: str) -> int:
    """The list length a metric needs; any for an error of ratings."""
    word, _, length = metric.partition("@")
    if metric in ("mae", "rmse"):
        return 10
    known = ("recall", "ndcg", "hit", "precision", "map", "mrr")
    good = word in known and length.isdigit() and int(length) > 0
    check(good, "metric", "one like ndcg@10, or rmse or mae", metric)
    return int(length)


def _open(optuna: Any, folder: Path, key: str, metric: str) -> Any:
    """The study in ``folder``, new or old; one of another search is refused."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if folder.exists() and not folder.is_dir():
        raise DataError("out must be a folder, got a file. Choose another name.", file=folder)
    file = folder / "trials.sqlite"
    if folder.exists() and any(folder.iterdir()) and not file.exists():
        raise DataError("out must be a new folder or a search, got a folder with other files.", file=folder)
    folder.mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
    way = "maximize" if _sign(metric) > 0 else "minimize"
    study = optuna.create_study(storage=storage, study_name="veilrec", direction=way, load_if_exists=True)
    if study.user_attrs.get("key", key) != key:
        message = (
            "out holds a search with another model, data, split, metric or ranges. Choose another folder."
        )
        raise DataError(message, file=folder)
    study.set_user_attr("key", key)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(
            trial.number, state=optuna.trial.TrialState.FAIL
        )  # it was running when the search was stopped
    return study


def _done(optuna: Any, study: Any) -> list[Any]:
    found: list[Any] = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    return found


def _trial(
    optuna: Any,
    study: Any,
    spec: Experiment,
    split: Split,
    metric: str,
    k: int,
    space: Mapping[str, Range | Choice],
) -> tuple[float, dict[str, Any]]:
    number = len(_done(optuna, study))
    seed = stream_seed(spec.seed, "tune", number) % 2**32
    study.sampler = optuna.samplers.TPESampler(seed=seed)
    trial = study.ask()
    settings = {name: _suggest(trial, name, about) for name, about in space.items()}
    model = make_model(spec.model, {**spec.settings, **settings})
    model.fit(split.train, split.valid, seed=spec.seed, device=spec.device, progress=False, secure=False)
    found = evaluate(model, split, k, part="valid", progress=False).mean()
    check_choice("metric", metric, found)
    value = found[metric]
    trial.set_user_attr("seconds", model.facts["seconds"])
    study.tell(trial, value)
    return value, settings


def _suggest(trial: Any, name: str, about: Range | Choice) -> Any:
    if isinstance(about, Choice):
        return trial.suggest_categorical(name, list(about.values))
    if about.whole:
        return trial.suggest_int(name, int(about.low), int(about.high), log=about.log)
    return trial.suggest_float(name, about.low, about.high, log=about.log)


def _example(about: Range | Choice) -> Any:
    return about.values[0] if isinstance(about, Choice) else about.low


def _key(spec: Experiment, metric: str, space: Mapping[str, Range | Choice], split: Split) -> str:
    fixed = make_model(spec.model, spec.settings).settings()
    about = [spec.model, fixed, spec.seed, metric, {n: repr(a) for n, a in space.items()}, split.fingerprint]
    return json.dumps(about, sort_keys=True)


def _short(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{n}={v:.4g}" if isinstance(v, float) else f"{n}={v}" for n, v in settings.items())


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 100)


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text
