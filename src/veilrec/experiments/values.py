"""YAML and ``key=value`` overrides into frozen dataclasses, checked: nothing is evaluated, nothing ignored.

An unknown key, a repeated key or a value of the wrong type is an error that names where it stands (the file
or the flag), the key, the value and the nearest known key.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml

from veilrec.core import DataError

_T = TypeVar("_T")


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads 1e-3 as a number, as YAML 1.2 does, and refuses a repeated key."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                problem = f"the key {key!r} stands twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclasses.dataclass
class Values:
    """A tree of plain values, and for each dotted key where it came from."""

    tree: dict[str, Any]
    origin: str | None = None
    origins: dict[str, str] = dataclasses.field(default_factory=dict)

    def where(self, key: str) -> str | None:
        """The file or flag that gave ``key``."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key.rpartition(".")[0]
        return self.origin

    def put(self, key: str, value: Any, origin: str) -> None:
        """Set the dotted ``key``; mappings on the way are made."""
        *path, last = key.split(".")
        branch = self.tree
        for step in path:
            inner = branch.setdefault(step, {})
            if not isinstance(inner, dict):
                raise DataError(
                    f"{key} must be inside a mapping, got {step}: {inner!r}. Write {step} out.", file=origin
                )
            branch = inner
        branch[last] = value
        self.origins[key] = origin


def read_values(path: str | Path | None) -> Values:
    """The tree in a YAML file; None gives an empty one."""
    if path is None:
        return Values({})
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError("the configuration must be a file, got none. Check the path.", file=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the configuration must be a text file ({error}).", file=path) from error
    tree = _parse(text, str(path))
    if tree is None:
        tree = {}
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise DataError(
            "the configuration must be a mapping of keys to values, got something else.", file=path
        )
    return Values(tree, str(path))


def parse_override(text: str) -> tuple[str, Any]:
    """``key=value`` with the value read as YAML.

    >>> parse_override("settings.learning_rate=1e-3"), parse_override("k=[5, 10]")
    (('settings.learning_rate', 0.001), ('k', [5, 10]))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise DataError("an override must be key=value. Write, say, --set epochs=20.", file=f"--set {text}")
    return key.strip(), _parse(value, f"--set {text}")


def _parse(text: str, origin: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise DataError(f"YAML cannot be read: {error.problem}.", file=origin, line=line) from error
    except yaml.YAMLError as error:
        raise DataError(f"YAML cannot be read: {error}.", file=origin) from error


# -- checking ----------------------------------------------------------------------------------------


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like ``word``, as a question; empty where there is nothing to choose from.

    >>> nearest("modl", ["data", "model"])
    "Did you mean 'model'?"
    """
    found = get_close_matches(word, list(known), n=1, cutoff=0.0)
    return f"Did you mean {found[0]!r}?" if found else ""


def check_keys(
    values: Values, branch: Mapping[str, Any], prefix: str, known: Iterable[str], what: str
) -> None:
    """Refuse a key of ``branch`` that is not among ``known``."""
    known = list(known)
    for key in branch:
        if key not in known:
            wanted = (
                f"a {what}: one of {', '.join(known)}" if known else f"absent, because there is no {what}"
            )
            message = f"{prefix}{key} must be {wanted}, got {key!r}. {nearest(str(key), known)}"
            raise DataError(message.strip(), file=values.where(f"{prefix}{key}"))


def build(cls: type[_T], values: Values, branch: Any, prefix: str, what: str, **done: Any) -> _T:
    """A dataclass from a branch of the tree; fields in ``done`` are already made."""
    if branch is None:
        branch = {}
    if not isinstance(branch, dict):
        message = f"{prefix.rstrip('.')} must be a mapping of {what}s, got {branch!r}."
        raise DataError(message, file=values.where(prefix.rstrip(".")))
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls)) if f.init}
    check_keys(values, branch, prefix, fields, what)
    hints = typing.get_type_hints(cls)
    made = {
        key: convert(value, hints[key], f"{prefix}{key}", values.where(f"{prefix}{key}"))
        for key, value in branch.items()
        if key not in done
    }
    try:
        return cls(**made, **done)
    except TypeError as error:
        missing = [n for n, f in fields.items() if _required(f) and n not in made and n not in done]
        if not missing:
            raise
        raise DataError(f"{prefix}{missing[0]} must be given.", file=values.origin) from error


def _required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def convert(value: Any, hint: Any, key: str, origin: str | None) -> Any:
    """``value`` as the type ``hint``, or an error that names the key, the value and the type.

    >>> convert(3, float, "learning_rate", None), convert(10, tuple[int, ...], "k", None)
    (3.0, (10,))
    >>> convert("ten", int, "epochs", "my.yaml")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: my.yaml: epochs must be a whole number, got 'ten'.
    """
    good, made = _convert(value, hint)
    if not good:
        close = nearest(value, typing.get_args(hint)) if _is_choice(hint) and isinstance(value, str) else ""
        raise DataError(f"{key} must be {_words(hint)}, got {value!r}. {close}".strip(), file=origin)
    return made


def _is_choice(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


def _options(hint: Any) -> tuple[Any, ...] | None:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else None


def _convert(value: Any, hint: Any) -> tuple[bool, Any]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float:
        return number, float(value) if number else value
    if hint is int:
        whole = number and float(value).is_integer()
        return whole, int(value) if whole else value
    if hint is bool or hint is str:
        return isinstance(value, hint), value
    if hint is type(None):
        return value is None, value
    if _is_choice(hint):
        return value in typing.get_args(hint), value
    if (options := _options(hint)) is not None:
        for option in sorted(options, key=lambda option: option is not type(value)):
            good, made = _convert(value, option)
            if good:
                return True, made
        return False, value
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        parts = value if isinstance(value, list | tuple) else [value]
        if inner[-1] is not Ellipsis and len(inner) != len(parts):
            return False, value
        each = [
            _convert(part, inner[0] if inner[-1] is Ellipsis else inner[i]) for i, part in enumerate(parts)
        ]
        return all(good for good, _ in each), tuple(made for _, made in each)
    return True, value


def _words(hint: Any) -> str:
    plain = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    if hint in plain:
        return plain[hint]
    if _is_choice(hint):
        return "one of " + ", ".join(str(choice) for choice in typing.get_args(hint))
    if (options := _options(hint)) is not None:
        return " or ".join(_words(option) for option in options)
    if typing.get_origin(hint) is tuple:
        return "a list, each " + _words(typing.get_args(hint)[0])
    return str(hint)
