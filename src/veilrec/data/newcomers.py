"""People who were not in the training data, described as those who were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from veilrec.core import DataError, warn
from veilrec.data.dataset import Categorical, Dataset, Numeric, check_inside
from veilrec.data.formats import open_table, siblings
from veilrec.data.frames import kind_of
from veilrec.data.ids import Ids
from veilrec.data.profiles import rating_statistics
from veilrec.data.read import read
from veilrec.data.read_attributes import as_text, attribute

_STRANGE = "attribute {} has {}, which the training data do not know: counted as unknown"
_REMEDY = "That is the range of the training data: correct the value, or leave it out."


def extremes_of(data: Dataset) -> dict[str, list[float]]:
    """The smallest and largest value of each rating statistic, for scaling "observed".

    >>> data = Dataset.from_arrays(["ann", "bob", "ann"], ["tea", "tea", "mate"])
    >>> extremes_of(data)
    {'items': [1.0, 2.0]}
    """
    return {name: [float(c.min()), float(c.max())] for name, c in rating_statistics(data).items()}


def like(people: Dataset, items: Ids, scheme: Mapping[str, Any] | None = None) -> Dataset:
    """The same people with items, attributes and rating range of other data, of which ``scheme`` tells.

    Without a scheme (:func:`scheme_of`) they keep their own attributes and ratings. An attribute that they do
    not have, or a category that the other data do not know, counts as unknown. A rating or a number outside
    of its public range is refused: the noise of a private model is for numbers inside.

    >>> known = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
    >>> new = Dataset.from_arrays(["cem"], ["mate"])
    >>> like(new, known.items, scheme_of(known)).item.tolist()
    [0]
    """
    codes = items.codes(people.items.take(np.arange(people.n_items)).to_list())
    if (codes < 0).any():
        unknown = people.items.take(np.flatnonzero(codes < 0)[:1])[0]
        raise DataError(f"items must be ones that the model knows, got {unknown!r}. Leave it out.")
    people = replace(people, item=codes[people.item].astype(np.int32), items=items)
    if scheme is None:
        return people
    attributes: dict[str, Categorical | Numeric] = {}
    for name, about in scheme["attributes"].items():
        own = people.attributes.get(name)
        if "categories" in about:
            place = {word: code for code, word in enumerate(about["categories"])}
            if isinstance(own, Numeric):
                raise DataError(
                    f"attribute {name} must be categorical, as in the training data, got numbers."
                )
            words = own.categories if own is not None else ()
            held = np.unique(own.codes) if own is not None else ()
            strange = [words[code] for code in held if code >= 0 and words[code] not in place]
            if strange:
                warn(_STRANGE.format(name, ", ".join(map(repr, strange))))
            table = np.array([*(place.get(word, -1) for word in words), -1], np.int32)
            found = table[own.codes] if own is not None else np.full(people.n_users, -1, np.int32)
            attributes[name] = Categorical(found, tuple(about["categories"]))
        else:
            if isinstance(own, Categorical):
                raise DataError(
                    f"attribute {name} must be a number, as in the training data, got categories."
                )
            values = own.values if own is not None else np.full(people.n_users, np.nan, np.float32)
            if about["low"] is not None:
                known = np.flatnonzero(~np.isnan(values))
                span = (about["low"], about["high"])
                check_inside(f"attribute {name}", values[known], span, people.users, known, _REMEDY)
            attributes[name] = Numeric(values, low=about["low"], high=about["high"])
    scale = scheme["rating_range"]
    if scale is not None and people.rating is not None:
        check_inside("rating", people.rating, scale, people.users, people.user, _REMEDY)
    return replace(
        people,
        attributes=attributes,
        rating_range=None if scale is None else tuple(scale),
        rating=None if scale is None else people.rating,
    )


def scheme_of(data: Dataset) -> dict[str, Any]:
    """What of the data anybody may know who is to describe a person in the same way: no person's values.

    >>> scheme_of(Dataset.from_arrays(["ann"], ["tea"], rating=[4], rating_range=(1, 5)))
    {'attributes': {}, 'rating_range': [1, 5]}
    """
    attributes: dict[str, Any] = {}
    for name, found in data.attributes.items():
        if isinstance(found, Categorical):
            attributes[name] = {"categories": list(found.categories)}
        else:
            attributes[name] = {"low": found.low, "high": found.high}
    return {
        "attributes": attributes,
        "rating_range": None if data.rating_range is None else list(data.rating_range),
    }


def read_newcomers(source: Any, users: Any = None, scheme: Mapping[str, Any] | None = None) -> Dataset:
    """Tables of new people, read with the ranges and categories of ``scheme``; see :func:`veilrec.read`.

    So a column of numbers is numbers here too, though the few that new people have would be read as classes.
    A category that the scheme does not know is no error: to :func:`like` it is unknown.

    >>> import polars as pl
    >>> events = pl.DataFrame({"user": ["ann"], "item": ["tea"]})
    >>> people = pl.DataFrame({"user": ["ann"], "age": [31]})
    >>> scheme = {"attributes": {"age": {"low": 1, "high": 100}}, "rating_range": None}
    >>> read_newcomers(events, people, scheme).attributes["age"].high
    100.0
    """
    if scheme is None:
        return read(source, users=users)
    if users is None and kind_of(source) is None:
        users = siblings(Path(source)).get("users")
    ranges: dict[str, tuple[float, float]] = {}
    categories: dict[str, list[str]] = {}
    if users is not None:
        table = open_table(users, "users")
        for name, about in scheme["attributes"].items():
            if name not in table.names:
                continue
            if "categories" not in about:
                declared = about["low"] is not None
                ranges[name] = (about["low"], about["high"]) if declared else (-math.inf, math.inf)
                continue
            column = table.rows([name])[name]
            if isinstance(attribute(table, name, column), Numeric):
                words = as_text(column).drop_nulls().unique(maintain_order=True)
                categories[name] = list(dict.fromkeys([*about["categories"], *words]))
    scale = scheme["rating_range"]
    return read(
        source,
        users=users,
        rating_range=None if scale is None else (scale[0], scale[1]),
        numeric_ranges=ranges,
        categories=categories,
    )
