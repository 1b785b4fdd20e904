"""A data set as a folder: Parquet for the arrays, JSON for what they mean, checked by fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from veilrec.core import DataError, atomic_dir, check, environment, write_json
from veilrec.data.dataset import Attribute, Categorical, Dataset, Links, Numeric
from veilrec.data.ids import Ids
from veilrec.data.read_report import ReadReport

_CARD = "dataset.json"
_LAYOUT = 1


def save_dataset(dataset: Dataset, folder: str | Path) -> Path:
    """Write a data set into ``folder``, whole or not at all; an older one there is replaced.

    >>> import tempfile
    >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"], rating=[5, 3])
    >>> folder = save_dataset(data, Path(tempfile.mkdtemp()) / "shop")
    >>> load_dataset(folder).fingerprint == data.fingerprint
    True
    """
    folder = Path(folder)
    ours = not folder.exists() or (
        folder.is_dir() and ((folder / _CARD).is_file() or not any(folder.iterdir()))
    )
    check(ours, "folder", "new, empty or a saved data set", str(folder), "Name another folder.")
    with atomic_dir(folder) as temporary:
        columns = {"user": dataset.user, "item": dataset.item}
        for label in ("rating", "time", "sensitive"):
            column = getattr(dataset, label)
            if column is not None:
                columns[label] = column
        _write(temporary / "interactions.parquet", columns)
        _write(temporary / "items.parquet", {"id": dataset.items.values})
        people: dict[str, Any] = {"id": dataset.users.values}
        cards: list[dict[str, Any]] = []
        for place, (name, attribute) in enumerate(dataset.attributes.items()):
            if isinstance(attribute, Categorical):
                people[f"attribute_{place}"] = attribute.codes
                known = {"categories": list(attribute.categories), "declared": attribute.declared}
                cards.append({"name": name, **known})
            else:
                people[f"attribute_{place}"] = attribute.values
                cards.append({"name": name, "low": attribute.low, "high": attribute.high})
        _write(temporary / "users.parquet", people)
        if dataset.links is not None:
            links = {"source": dataset.links.source, "target": dataset.links.target}
            _write(temporary / "links.parquet", links)
        card = {
            "layout": _LAYOUT,
            "veilrec": environment()["veilrec"],
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "frame_kind": dataset.frame_kind,
            "rating_range": None if dataset.rating_range is None else list(dataset.rating_range),
            "attributes": cards,
            "links": dataset.links is not None,
            "shaped": list(dataset.shaped),
            "declared_users": dataset.declared_users,
            "origin": dataset.origin,
            "provenance": [report.to_dict() for report in dataset.provenance],
        }
        write_json(temporary / _CARD, card)
    return folder


def load_dataset(folder: str | Path) -> Dataset:
    """Read a data set that :func:`save_dataset` wrote; a changed one is refused.

    >>> import tempfile
    >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"], name="shop")
    >>> load_dataset(save_dataset(data, Path(tempfile.mkdtemp()) / "shop"))
    Dataset 'shop': 2 interactions of 2 users with 2 items
    """
    folder = Path(folder)
    if not (folder / _CARD).is_file():
        raise DataError(f"the folder must hold a saved data set, got one without {_CARD}.", file=folder)
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
        dataset = _assemble(folder, card)
        fingerprint = card["fingerprint"]
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, pl.exceptions.PolarsError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"the data set must be whole, but {reason}. Import it again.", file=folder) from None
    if dataset.fingerprint != fingerprint:
        raise DataError(
            f"the fingerprint must be {fingerprint[:12]}..., got {dataset.fingerprint[:12]}...: "
            "the files were changed after they were saved. Import the data again.",
            file=folder,
        )
    return dataset


def _assemble(folder: Path, card: dict[str, Any]) -> Dataset:
    if card["layout"] != _LAYOUT:
        message = (
            f"layout must be {_LAYOUT}, got {card['layout']!r}. Import the data again with this version."
        )
        raise DataError(message, file=folder / _CARD)
    rows = pl.read_parquet(folder / "interactions.parquet", glob=False)
    people = pl.read_parquet(folder / "users.parquet", glob=False)
    items = pl.read_parquet(folder / "items.parquet", glob=False)
    optional: dict[str, Any] = {
        label: rows[label].to_numpy() for label in ("rating", "time", "sensitive") if label in rows.columns
    }
    attributes: dict[str, Attribute] = {}
    for place, one in enumerate(card["attributes"]):
        values = people[f"attribute_{place}"].to_numpy()
        if "categories" in one:
            declared = one.get("declared", False)
            attributes[one["name"]] = Categorical(values, tuple(one["categories"]), declared)
        else:
            attributes[one["name"]] = Numeric(values, one["low"], one["high"])
    links = None
    if card["links"]:
        ends = pl.read_parquet(folder / "links.parquet", glob=False)
        links = Links(ends["source"].to_numpy(), ends["target"].to_numpy())
    span = card["rating_range"]
    reports = (ReadReport.from_dict(report) for report in card.get("provenance", ()))
    return Dataset(
        user=rows["user"].to_numpy(),
        item=rows["item"].to_numpy(),
        users=Ids(people["id"]),
        items=Ids(items["id"]),
        attributes=attributes,
        links=links,
        rating_range=None if span is None else (span[0], span[1]),
        name=card["name"],
        frame_kind=card["frame_kind"],
        shaped=tuple(card.get("shaped", ())),
        declared_users=card.get("declared_users"),
        origin=card.get("origin", ""),
        **optional,
    ).read_from(*reports)


def _write(path: Path, columns: dict[str, Any]) -> None:
    pl.DataFrame({name: _series(column) for name, column in columns.items()}).write_parquet(
        path, compression="zstd"
    )


def _series(column: pl.Series | np.ndarray[Any, Any]) -> pl.Series:
    return column if isinstance(column, pl.Series) else pl.Series(column)
