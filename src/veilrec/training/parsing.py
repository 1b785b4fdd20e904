"""JSON and safetensors from bytes that nobody vouches for: one sentence for whatever is wrong with them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veilrec.core import DataError
from veilrec.data import Ids
from veilrec.training.members import AGAIN, Bytes

_DIGITS = 25
_MOST_HEADER = 1 << 22
_MOST_AXES = 4
_KINDS: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


class Parser:
    """Reads members of the model at ``path``, which its errors name.

    >>> parser = Parser(Path("shop.veil"))
    >>> parser.json(np.frombuffer(b'{"a": [1, 2]}', np.uint8), "model.json")
    {'a': [1, 2]}
    >>> parser.json(np.frombuffer(b'{"a": 1, "a": 2}', np.uint8), "model.json")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: shop.veil: model.json must name 'a' once, got it twice. Save it again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def refuse(self, what: str, wanted: str, got: str) -> NoReturn:
        """The error, in a sentence.

        >>> Parser(Path("a")).refuse("ids.json", "a list", "a number")
        Traceback (most recent call last):
            ...
        veilrec.core.errors.DataError: a: ids.json must be a list, got a number. Save it again.
        """
        raise DataError(f"{what} must be {wanted}, got {got[:200]}. {AGAIN}", file=self.path)

    def json(self, data: Bytes, name: str) -> Any:
        """The value, without anything that JSON leaves open: names once, numbers finite and short."""

        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                names = [key for key, _ in pairs]
                twice = next(key for key in names if names.count(key) > 1)
                raise DataError(
                    f"{name} must name {twice[:100]!r} once, got it twice. {AGAIN}", file=self.path
                )
            return found

        def whole(text: str) -> int:
            if len(text) > _DIGITS:
                self.refuse(f"a number in {name}", f"of at most {_DIGITS} digits", f"{len(text)}")
            return int(text)

        def real(text: str) -> float:
            value = float(text)
            if not math.isfinite(value):
                self.refuse(f"a number in {name}", "finite", text)
            return value

        try:
            text = bytes(data).decode("utf-8")
            value = json.loads(
                text, object_pairs_hook=once, parse_int=whole, parse_float=real, parse_constant=real
            )
            if "\\u" in text:
                json.dumps(value, ensure_ascii=False).encode("utf-8")  # half of a character is no text
        except DataError:
            raise
        except (ValueError, RecursionError) as error:
            words = "nested too deep" if isinstance(error, RecursionError) else str(error)
            raise DataError(f"{name} cannot be read ({words[:200]}). {AGAIN}", file=self.path) from error
        return value

    def fields(self, value: Any, name: str, **kinds: Callable[[Any], bool]) -> dict[str, Any]:
        """The value, if it is an object with just these fields, each of its kind.

        >>> Parser(Path("a")).fields({"n": 1}, "model.json", n=is_whole)
        {'n': 1}
        >>> Parser(Path("a")).fields({"n": "1"}, "model.json", n=is_whole)
        Traceback (most recent call last):
            ...
        veilrec.core.errors.DataError: a: n of model.json must be whole, got '1'. Save it again.
        """
        if not isinstance(value, dict):
            self.refuse(name, "names and values", _shown(value))
        for key in kinds:
            if key not in value:
                self.refuse(name, f"with {key!r}", "none")
        for key, found in value.items():
            if key not in kinds:
                self.refuse(name, f"made of {', '.join(kinds)}", repr(key))
            if not kinds[key](found):
                self.refuse(
                    f"{key} of {name}", kinds[key].__name__.lstrip("_")[3:].replace("_", " "), _shown(found)
                )
        return value

    def ids(self, data: Bytes, name: str) -> Ids:
        """The ids, if they are texts or whole numbers, each once and in order."""
        found = self.fields(self.json(data, name), name, kind=is_text, ids=is_list)
        values, numbers = found["ids"], found["kind"] == "number"
        if found["kind"] not in ("number", "text"):
            self.refuse(f"kind of {name}", "number or text", _shown(found["kind"]))
        wanted = is_code if numbers else is_text
        wrong = [value for value in values if not wanted(value)][:1]
        if wrong or not values:
            got = _shown(wrong[0]) if wrong else "none"
            self.refuse(name, f"a list of {'whole numbers' if numbers else 'texts'}", got)
        ids = Ids(values)
        if len(ids) != len(values) or ids.numeric != numbers or ids.values.to_list() != values:
            self.refuse(name, "ids in order, each once", "others")
        return ids

    def arrays(self, data: Bytes, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a safetensors file: views of its bytes, which must be theirs to the last one."""
        length = int.from_bytes(bytes(data[:8]), "little") if len(data) >= 8 else 0
        if len(data) < 8 or not 2 <= length <= min(_MOST_HEADER, len(data) - 8) or length % 8:
            self.refuse(name, "arrays in the safetensors format", "a damaged header")
        header = self.json(data[8 : 8 + length], name)
        if not isinstance(header, dict):
            self.refuse(name, "arrays by name", _shown(header))
        body, arrays, ends = data[8 + length :], {}, [(0, 0)]
        for key, about in header.items():
            if key == "__metadata__":
                continue
            of = f"{key[:100]!r} in {name}"
            self.fields(about, of, dtype=is_text, shape=is_sizes, data_offsets=is_sizes)
            kind, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
            if kind not in _KINDS:
                self.refuse(of, f"of kind {', '.join(_KINDS)}", _shown(kind))
            if len(offsets) != 2 or len(shape) > _MOST_AXES:
                self.refuse(of, f"an array of at most {_MOST_AXES} axes with two ends", _shown(about))
            begin, end = offsets
            size = _KINDS[kind].itemsize
            if not begin <= end <= len(body) or begin % size or math.prod(shape) * size != end - begin:
                self.refuse(of, "as long as its shape says and inside of the file", _shown(about))
            ends.append((begin, end))
            try:
                arrays[key] = body[begin:end].view(_KINDS[kind]).reshape(shape)
            except ValueError:  # no numbers, of a shape beyond all bounds
                self.refuse(of, "of a shape that can be", _shown(about))
        ends.sort()
        gaps = any(left[1] != right[0] for left, right in pairwise(ends))
        if gaps or ends[-1][1] != len(body):
            self.refuse(name, "arrays side by side", "gaps or overlaps")
        return arrays


def is_text(value: Any) -> bool:
    """Whether a value is a text.

    >>> is_text("a"), is_text(1)
    (True, False)
    """
    return isinstance(value, str)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number.

    >>> is_whole(1), is_whole(True)
    (True, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def is_code(value: Any) -> bool:
    """Whether a value is a whole number of 64 bits.

    >>> is_code(2**63), is_code(-1)
    (False, True)
    """
    return is_whole(value) and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    """Whether a value is a number.

    >>> is_number(1.5), is_number("1.5")
    (True, False)
    """
    return is_whole(value) or isinstance(value, float)


def is_yes_or_no(value: Any) -> bool:
    """Whether a value is true or false.

    >>> is_yes_or_no(True), is_yes_or_no(1)
    (True, False)
    """
    return isinstance(value, bool)


def is_list(value: Any) -> bool:
    """Whether a value is a list.

    >>> is_list([]), is_list({})
    (True, False)
    """
    return isinstance(value, list)


def is_texts(value: Any) -> bool:
    """Whether a value is a list of texts.

    >>> is_texts(["a"]), is_texts([1])
    (True, False)
    """
    return is_list(value) and all(map(is_text, value))


def is_sizes(value: Any) -> bool:
    """Whether a value is a list of whole numbers from 0 to 2^40.

    >>> is_sizes([3]), is_sizes([-3])
    (True, False)
    """
    return is_list(value) and all(is_whole(size) and 0 <= size <= 1 << 40 for size in value)


def is_span(value: Any) -> bool:
    """Whether a value is two numbers, the smaller one first.

    >>> is_span([1, 5]), is_span([5, 1])
    (True, False)
    """
    return is_list(value) and len(value) == 2 and all(map(is_number, value)) and value[0] <= value[1]


def is_named(value: Any) -> bool:
    """Whether a value is an object: names and values.

    >>> is_named({}), is_named([])
    (True, False)
    """
    return isinstance(value, dict)


def is_scheme(value: Any) -> bool:
    """Whether a value says of attributes which categories, or which range, they have.

    >>> is_scheme({"gender": {"categories": ["F", "M"]}, "age": {"low": 1, "high": 99}})
    True
    """
    return is_named(value) and all(_is_attribute(about) for about in value.values())


def _is_attribute(about: Any) -> bool:
    if not is_named(about):
        return False
    if "categories" in about:
        named, rest = about["categories"], about.keys() - {"categories", "declared"}
        good = is_texts(named) and len(set(named)) == len(named)
        return good and not rest and is_yes_or_no(about.get("declared", True))
    if about.keys() != {"low", "high"}:
        return False
    low, high = about["low"], about["high"]
    return (low is None and high is None) or (is_span([low, high]) and low < high)


def _shown(value: Any) -> str:
    words: Mapping[type, str] = {dict: "names and values", list: "a list"}
    return words.get(type(value), repr(value)[:100])
