"""From the ids that callers use to the codes and rows that models use, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from veilrec.data import Ids
from veilrec.training.job import Array


def codes_of(what: str, ids: Ids, wanted: Iterable[Any] | None, model: str, remedy: str) -> Array:
    """Codes of the ``wanted`` ids (None: all); an unknown one is an error that names it.

    >>> from veilrec.data import Dataset
    >>> items = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"]).items
    >>> codes_of("item", items, "mate", "ease", "").tolist()
    [0]
    """
    if wanted is None:
        return np.arange(len(ids), dtype=np.int64)
    if isinstance(wanted, str | bytes):
        wanted = [wanted]
    listed = list(wanted)
    codes = ids.codes(listed).astype(np.int64)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        example = listed[int(unknown[0])]
        raise ValueError(f"{what} must be one that {model} was fitted on, got {example!r}. {remedy}")
    return codes


def rows_of(histories: Sequence[Array], items: int) -> sp.csr_matrix:
    """Item codes of each user as a matrix of ones, users x items.

    >>> rows_of([np.array([2, 0, 2]), np.array([], int)], items=3).toarray().tolist()
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    rows = [np.unique(codes) for codes in histories]
    columns = np.concatenate([*rows, np.empty(0, np.int64)]).astype(np.int32)
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, pointers), shape=(len(rows), items))


def list_frame(asked: pl.Series, what: str, ids: Ids, ranked: Array, values: Array) -> pl.DataFrame:
    """Ranked codes (-1: none) and their scores, a row for each that was ``asked``, as a frame with ids.

    >>> from veilrec.data import Dataset
    >>> items = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"]).items
    >>> found = list_frame(pl.Series("user", ["ann"]), "item", items, np.array([[1, -1]]), np.ones((1, 2)))
    >>> found.rows()
    [('ann', 'tea', 1, 1.0)]
    """
    keep = ranked >= 0
    row, column = np.nonzero(keep)
    return pl.DataFrame(
        {
            asked.name: asked.gather(row),
            what: ids.take(ranked[keep]),
            "rank": (column + 1).astype(np.int32),
            "score": values[keep].astype(np.float32),
        }
    )
