"""Lists for people: recommendations with a glimpse of the history they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from veilrec.core import DataError
from veilrec.data.frames import to_polars
from veilrec.training import Recommender

NEW_USER = "new user"


@dataclass(frozen=True, eq=False)
class Lists:
    """Recommendations (user, item, rank, score) and the items each user has interacted with."""

    frame: pl.DataFrame
    histories: dict[str, list[str]]


def lists(
    model: Recommender,
    *,
    users: Sequence[str] | None = None,
    history: Sequence[str] | None = None,
    candidates: str | Path | None = None,
    k: int = 10,
    exclude_seen: bool = True,
) -> Lists:
    """Recommend to ``users`` (None: all), or to one new user with this ``history``.

    ``candidates`` is a file with one item per line.

    >>> from veilrec.data import Dataset
    >>> from veilrec.systems import Popularity
    >>> model = Popularity().fit(Dataset.from_arrays(["a", "b", "b"], ["x", "x", "y"]))
    >>> found = lists(model, users=["a"])
    >>> found.frame["item"].to_list(), found.histories
    (['y'], {'a': ['x']})
    """
    allowed = None if candidates is None else _lines(Path(candidates))
    if history is not None:
        new = {NEW_USER: history}
        frame = model.recommend(k=k, exclude_seen=exclude_seen, candidates=allowed, history=new)
        return Lists(to_polars(frame), {NEW_USER: list(history)})
    frame = to_polars(model.recommend(users, k, exclude_seen=exclude_seen, candidates=allowed))
    seen = model.history
    glimpses = {}
    if users is not None:
        for user, code in zip(users, model.user_codes(users)):
            row = seen.indices[seen.indptr[code] : seen.indptr[code + 1]]
            glimpses[str(user)] = [str(item) for item in model.items.take(row)]
    return Lists(frame, glimpses)


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"candidates must be a text file ({error}).", file=path) from error
    if not any(found):
        raise DataError("candidates must name one item or more, got none.", file=path)
    return [line for line in found if line]
