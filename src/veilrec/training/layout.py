"""What arrays a model has: each by name, with its kind, its axes and what its indices point into.

A model declares its :class:`Layout`; what is saved and what is read must have it. So no kernel ever meets an
index out of range or a row of another length, whatever stands in a file. Arrays of a model that declares no
layout may be floating-point numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Axis = int | str
_WHOLE = ("int32", "int64")


class Misfit(ValueError):
    """Arrays that are not those of a model."""


@dataclass(frozen=True)
class Spec:
    """One array: its kinds, its axes, and for whole numbers what they may be.

    An axis is a length, or a name: "items" and "users", sums such as "items+1", and any other, which stands
    for one length wherever it occurs. ``below`` names the axis that the numbers are places of; ``into`` the
    array that they are pointers to. ``rising``: every number is larger than the one before ("strictly"), or
    at least as large ("weakly"); for an array with pointers, within the rows.

    >>> floats("items", 8).axes
    ('items', 8)
    """

    kinds: tuple[str, ...]
    axes: tuple[Axis, ...]
    below: str = ""
    into: str = ""
    rising: str = ""
    optional: bool = False


def floats(*axes: Axis, wide: bool = False, optional: bool = False) -> Spec:
    """Finite floating-point numbers, of 32 bits or, if ``wide``, of 64.

    >>> floats("items", wide=True).kinds
    ('float64',)
    """
    return Spec(("float64" if wide else "float32",), axes, optional=optional)


def whole(*axes: Axis) -> Spec:
    """Whole numbers of any size.

    >>> whole("items").kinds
    ('int32', 'int64')
    """
    return Spec(_WHOLE, axes)


def places(of: str, *axes: Axis, rising: str = "", optional: bool = False) -> Spec:
    """Codes of items or users.

    >>> places("items", "kept", rising="strictly").below
    'items'
    """
    return Spec(_WHOLE, axes, below=of, rising=rising, optional=optional)


def pointers(rows: str, into: str, *, rising: str = "", optional: bool = False) -> Spec:
    """Where the entries of each row begin in the array ``into``, from 0 to its length; of CSR.

    >>> pointers("items", "neighbours").axes
    ('items+1',)
    """
    return Spec(_WHOLE, (f"{rows}+1",), into=into, rising=rising, optional=optional)


@dataclass(frozen=True)
class Layout:
    """The arrays that may be published, and those of the owner.

    >>> layout = Layout({"count": floats("items")})
    >>> layout.check({"count": np.ones(3, np.float32)}, None, items=3, users=0)
    >>> layout.check({"count": np.ones(2, np.float32)}, None, items=3, users=0)
    Traceback (most recent call last):
        ...
    veilrec.training.layout.Misfit: 'count' must have the shape (items) = (3), got (2)
    """

    shared: Mapping[str, Spec]
    private: Mapping[str, Spec] = field(default_factory=dict)

    def check(
        self,
        shared: Mapping[str, NDArray[Any]],
        private: Mapping[str, NDArray[Any]] | None,
        *,
        items: int,
        users: int,
    ) -> None:
        """Refuse other arrays than these; ``private`` is None where only the shareable part is there."""
        known = {"items": items, "users": users}
        _check_all(self.shared, shared, known)
        if private is not None:
            _check_all(self.private, private, known)

    def __or__(self, other: Layout) -> Layout:
        return Layout({**self.shared, **other.shared}, {**self.private, **other.private})


def check_floats(arrays: Mapping[str, NDArray[Any]]) -> None:
    """What is asked of arrays that no layout describes: finite floating-point numbers.

    >>> check_floats({"count": np.ones(3, np.int32)})
    Traceback (most recent call last):
        ...
    veilrec.training.layout.Misfit: 'count' must be floating-point numbers, got int32
    """
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise Misfit(f"{name!r} must be floating-point numbers, got {array.dtype.name}")
        _check_finite(name, array)


def check_rows(pointer: NDArray[Any], entries: NDArray[Any], rows: int, columns: int) -> None:
    """That two arrays are a table in CSR with so many rows and columns, its entries in order, each once.

    >>> check_rows(np.array([0, 2]), np.array([1, 0]), 1, 2)
    Traceback (most recent call last):
        ...
    veilrec.training.layout.Misfit: 'indices' must rise strictly within a row, got others
    """
    about = {
        "indptr": pointers("rows", "indices", rising="strictly"),
        "indices": places("columns", "entries"),
    }
    _check_all(about, {"indptr": pointer, "indices": entries}, {"rows": rows, "columns": columns})


def _check_all(specs: Mapping[str, Spec], arrays: Mapping[str, NDArray[Any]], known: dict[str, int]) -> None:
    for name, spec in specs.items():
        if name in arrays:
            _check_one(name, spec, arrays[name], known)
        elif not spec.optional:
            raise Misfit(f"arrays must have {name!r}, and it is missing")
    for name, spec in specs.items():
        if spec.into and name in arrays:
            if spec.into not in arrays:
                raise Misfit(f"arrays must have {spec.into!r}, and it is missing")
            _check_pointers(name, spec, arrays[name], arrays[spec.into])
    strange = next((name for name in arrays if name not in specs), None)
    if strange is not None:
        raise Misfit(f"arrays must be {', '.join(specs) or 'none'}, got {strange[:100]!r}")


def _check_one(name: str, spec: Spec, array: NDArray[Any], known: dict[str, int]) -> None:
    if array.dtype.name not in spec.kinds:
        raise Misfit(f"{name!r} must be of kind {' or '.join(spec.kinds)}, got {array.dtype.name}")
    lengths = list(array.shape)
    if array.ndim == len(spec.axes):
        lengths = [_length(axis, got, known) for axis, got in zip(spec.axes, array.shape, strict=True)]
    if tuple(lengths) != array.shape or array.ndim != len(spec.axes):
        words = f"({', '.join(map(str, spec.axes))})"
        if array.ndim == len(spec.axes):
            words += f" = ({', '.join(map(str, lengths))})"
        raise Misfit(f"{name!r} must have the shape {words}, got ({', '.join(map(str, array.shape))})")
    if array.dtype.kind == "f":
        _check_finite(name, array)
    if spec.below and array.size:
        most = known[spec.below]
        if int(array.min()) < 0 or int(array.max()) >= most:
            raise Misfit(f"{name!r} must have codes from 0 to {most - 1}, got {array.min()} to {array.max()}")
    if spec.rising and not spec.into:
        _check_rising(name, spec.rising, array)


def _length(axis: Axis, got: int, known: dict[str, int]) -> int:
    if isinstance(axis, int):
        return axis
    parts = axis.split("+")
    if len(parts) > 1:
        return sum(int(part) if part.isdigit() else known[part] for part in parts)
    return known.setdefault(axis, got if axis == "entries" else max(got, 1))  # ragged rows may have none


def _check_finite(name: str, array: NDArray[Any]) -> None:
    if not np.isfinite(array).all():
        raise Misfit(f"{name!r} must be finite numbers, got others: the model has diverged, or was changed")


def _check_rising(name: str, how: str, array: NDArray[Any]) -> None:
    lower, upper = array[:-1], array[1:]
    if not (lower < upper if how == "strictly" else lower <= upper).all():
        raise Misfit(f"{name!r} must rise {how}, got others")


def _check_pointers(name: str, spec: Spec, pointer: NDArray[Any], entries: NDArray[Any]) -> None:
    good = pointer[0] == 0 and pointer[-1] == len(entries) and bool((pointer[:-1] <= pointer[1:]).all())
    if not good:
        raise Misfit(f"{name!r} must rise from 0 to {len(entries)}, the length of {spec.into!r}, got others")
    if spec.rising and len(entries) > 1:
        rises = entries[:-1] < entries[1:]
        starts = pointer[1:-1]
        rises[starts[(starts > 0) & (starts < len(entries))] - 1] = True  # a new row begins anew
        if not rises.all():
            raise Misfit(f"{spec.into!r} must rise {spec.rising} within a row, got others")
