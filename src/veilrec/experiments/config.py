"""From YAML files, flags and overrides to checked specs and models."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilrec.core import DataError, check, check_count
from veilrec.experiments.specs import NULL_MODEL, DataSpec, Entry, EvaluateSpec, Experiment, Plan, SplitSpec
from veilrec.experiments.values import (
    Values,
    build,
    check_keys,
    convert,
    nearest,
    parse_override,
    read_values,
)

if TYPE_CHECKING:
    from veilrec.training import Recommender

# -- from files, flags and overrides -----------------------------------------------------------------


def load_config(
    path: str | Path | None, overrides: Iterable[str] = (), *, flags: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment in a YAML file; flags go over the file, and ``key=value`` overrides over both.

    An override of a bare name that is no key of the file is a setting of the model.

    >>> load_config(None, ["k_core=5"], flags={"model": "popularity"})
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: --set k_core=5: k_core must be a key of the configuration or a setting of \
popularity, got 'k_core'. Did you mean 'device'?
    >>> load_config(None, ["data.k_core=5"], flags={"model": "popularity"}).data.k_core
    5
    """
    values = _read(path, flags or {})
    known = [f.name for f in dataclasses.fields(Experiment)]
    for text in overrides:
        key, value = parse_override(text)
        head, dot, _ = key.partition(".")
        if not dot and head not in known:
            word = str(values.tree.get("model"))
            settings = _setting_hints(word, values)
            if head not in settings:
                message = f"{key} must be a key of the configuration or a setting of {word}, got {key!r}. "
                raise DataError(message + nearest(key, [*known, *settings]), file=f"--set {text}")
            key = f"settings.{key}"
        values.put(*_long(key, value), f"--set {text}")
    tree = values.tree
    if not isinstance(tree.get("model"), str):
        message = (
            f"model must be the word of a model, got {tree.get('model')!r}. `veilrec models` lists them."
        )
        raise DataError(message, file=values.where("model"))
    settings = _settings(values, tree["model"], tree.get("settings"), "settings.")
    return build(Experiment, values, tree, "", "key", settings=settings, **_sections(values, tree))


def load_plan(
    path: str | Path | None,
    overrides: Iterable[str] = (),
    *,
    models: Iterable[str] = (),
    null: bool = True,
    flags: Mapping[str, Any] | None = None,
) -> Plan:
    """The comparison in a YAML file, or of the words in ``models``; ``null`` adds popularity.

    In the file, ``models`` is a list of words, or a mapping of labels to settings (the word under ``model``
    if it is not the label). An override ``label.setting=value`` changes one model.

    >>> [entry.label for entry in load_plan(None, models=["popularity"]).models]
    ['popularity']
    """
    values = _read(path, flags or {})
    words = list(models)
    if words:
        values.put("models", words, "the command line")
    listed = values.tree.get("models")
    if isinstance(listed, list):
        values.tree["models"] = {str(word): {} for word in listed}
        if len(values.tree["models"]) < len(listed):
            raise DataError(
                f"models must differ from each other, got {listed!r}.", file=values.where("models")
            )
    if not isinstance(values.tree.get("models"), dict) or not values.tree["models"]:
        message = f"models must be a list or a mapping of models, got {listed!r}. Name one or more."
        raise DataError(message, file=values.where("models"))
    known = [f.name for f in dataclasses.fields(Plan)]
    for text in overrides:
        key, value = parse_override(text)
        head, dot, _ = key.partition(".")
        if head not in known:
            labels = list(values.tree["models"])
            if not dot or head not in labels:
                message = f"{key} must be a key of the comparison or label.setting, got {key!r}. "
                raise DataError(message + nearest(head, [*known, *labels]), file=f"--set {text}")
            key = f"models.{key}"
        values.put(*_long(key, value), f"--set {text}")
    if isinstance(seeds := values.tree.get("seeds"), int) and not isinstance(seeds, bool):
        check_count("seeds", seeds)
        values.tree["seeds"] = list(range(seeds))
    entries = tuple(_entry(values, label, about) for label, about in values.tree["models"].items())
    if null and all(entry.model != NULL_MODEL for entry in entries):
        entries = (*entries, Entry(NULL_MODEL, NULL_MODEL))
    return build(Plan, values, values.tree, "", "key", models=entries, **_sections(values, values.tree))


def make_model(word: str, settings: Mapping[str, Any] | None = None) -> Recommender:
    """A model by its word; unknown words and settings are errors that name the nearest known one.

    >>> make_model("popularity").word
    'popularity'
    """
    from veilrec.systems import SYSTEMS

    values = Values({})
    checked = _settings(values, word, dict(settings or {}), "settings.")
    return SYSTEMS[word](**checked)


# -- the pieces --------------------------------------------------------------------------------------

_SHORT = {"data": "source", "split": "method", "evaluate": "k"}
_FLAGS = {
    "model": "the command line",
    "data.dir": "--data-dir",
    "evaluate.k": "--k",
    "evaluate.protocol": "--protocol",
}


def _long(key: str, value: Any) -> tuple[str, Any]:
    """``data: ml-100k`` is short for ``data.source: ml-100k``, and so on."""
    if key in _SHORT and not isinstance(value, dict):
        remedy = f"For the setting of a model that is called so, write settings.{key}={value}."
        check(key != "split" or not isinstance(value, int | float), key, "a way to split data", value, remedy)
        return f"{key}.{_SHORT[key]}", value
    return key, value


def _read(path: str | Path | None, flags: Mapping[str, Any]) -> Values:
    values = read_values(path)
    for key, short in _SHORT.items():
        if key in values.tree and not isinstance(values.tree[key], dict):
            values.tree[key] = {} if values.tree[key] is None else {short: values.tree[key]}
    for key, value in flags.items():
        if value is not None:
            values.put(*_long(key, value), _FLAGS.get(key, f"--{key}"))
    return values


def _sections(values: Values, tree: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "data": build(DataSpec, values, tree.get("data"), "data.", "key of data"),
        "split": build(SplitSpec, values, tree.get("split"), "split.", "key of split"),
        "evaluate": build(EvaluateSpec, values, tree.get("evaluate"), "evaluate.", "key of evaluate"),
    }


def _entry(values: Values, label: str, about: Any) -> Entry:
    prefix = f"models.{label}."
    if about is None:
        about = {}
    if not isinstance(about, dict):
        message = f"models.{label} must be a mapping of settings, got {about!r}."
        raise DataError(message, file=values.where(prefix.rstrip(".")))
    word = str(about.get("model", label))
    settings = {key: value for key, value in about.items() if key != "model"}
    return Entry(str(label), word, _settings(values, word, settings, prefix))


def _setting_hints(word: str, values: Values) -> dict[str, Any]:
    """The settings of a model and their types."""
    from veilrec.systems import SYSTEMS

    if word not in SYSTEMS:
        message = f"model must be one of {', '.join(SYSTEMS)}, got {word!r}. {nearest(word, SYSTEMS)}"
        raise DataError(message, file=values.where("model"))
    hints = typing.get_type_hints(SYSTEMS[word])
    return {f.name: hints[f.name] for f in dataclasses.fields(SYSTEMS[word]) if f.init}


def _settings(values: Values, word: str, given: Any, prefix: str) -> dict[str, Any]:
    hints = _setting_hints(word, values)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise DataError(
            f"{prefix}: must be a mapping of settings, got {given!r}.", file=values.where(prefix[:-1])
        )
    check_keys(values, given, prefix, hints, f"setting of {word}")
    return {
        key: convert(value, hints[key], f"{prefix}{key}", values.where(f"{prefix}{key}"))
        for key, value in given.items()
    }
