"""Lists for people: recommendations with a glimpse of the history they rest on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from veilrec.core import DataError, atomic_path, check
from veilrec.data import Dataset
from veilrec.data.frames import to_polars
from veilrec.privacy import Ledger
from veilrec.training import Array, Recommender

NEW_USER = "new user"
_NONE = "{} knows new users by their history alone."
_OTHERS = {
    "people": "of other people",
    "model": "for another model",
    "settings": "for other settings",
    "profile": "for profiles of another scheme",
}


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
    new: Dataset | None = None,
    reports: str | Path | None = None,
    ledger: Ledger | None = None,
    population: str | None = None,
    new_population: bool = False,
    candidates: str | Path | None = None,
    k: int = 10,
    exclude_seen: bool = True,
) -> Lists:
    """Recommend to ``users`` (None: all), to one new user with this ``history``, or to those of ``new`` data.

    ``candidates`` is a file with one item per line; ``reports`` one that keeps the reports of new users,
    whose draw is booked in ``ledger`` as :meth:`Recommender.report` says.

    >>> from veilrec.data import Dataset
    >>> from veilrec.systems import Popularity
    >>> model = Popularity().fit(Dataset.from_arrays(["a", "b", "b"], ["x", "x", "y"]))
    >>> found = lists(model, users=["a"])
    >>> found.frame["item"].to_list(), found.histories
    (['y'], {'a': ['x']})
    """
    allowed = None if candidates is None else _lines(Path(candidates))
    if history is not None:
        one = {NEW_USER: history}
        frame = model.recommend(k=k, exclude_seen=exclude_seen, candidates=allowed, history=one)
        return Lists(to_polars(frame), {NEW_USER: list(history)})
    if new is not None:
        kept = None
        if reports is not None:
            booking = {"population": population, "new_population": new_population}
            kept = kept_reports(model, new, Path(reports), ledger, **booking)
        frame = model.recommend(k=k, exclude_seen=exclude_seen, candidates=allowed, history=new, reports=kept)
        return Lists(to_polars(frame), {})
    frame = to_polars(model.recommend(users, k, exclude_seen=exclude_seen, candidates=allowed))
    seen = model.history
    glimpses = {}
    if users is not None:
        for user, code in zip(users, model.user_codes(users)):
            row = seen.indices[seen.indptr[code] : seen.indptr[code + 1]]
            glimpses[str(user)] = [str(item) for item in model.items.take(row)]
    return Lists(frame, glimpses)


def kept_reports(
    model: Recommender, new: Dataset, file: Path, ledger: Ledger | None = None, **booking: Any
) -> Array:
    """The reports of new users, read from ``file``, or drawn and written there: a second draw costs again.

    They are reports of these people to this model, with its settings and its scheme of profiles: no others
    are taken from ``file``. With a ``ledger`` the draw is booked there (``population``, ``new_population``).

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.GERAI(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
    >>> people, file = vr.synthetic(5, 40, 60, seed=3), Path(tempfile.mkdtemp()) / "reports.safetensors"
    >>> bool((kept_reports(model, people, file) == kept_reports(model, people, file)).all())
    True
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save_file

    about = {
        "people": new.fingerprint,
        "model": model.word,
        "settings": json.dumps(model.settings(), sort_keys=True),
        "profile": hashlib.sha256(
            json.dumps(model.facts.get("profile"), sort_keys=True).encode()
        ).hexdigest(),
    }
    check(model.takes_reports(), "--reports", "left out", str(file), _NONE.format(model.word))
    if not file.exists():
        asked = list((model.facts.get("profile") or {}).get("attributes", ()))
        told = [name for name in asked if name in new.attributes]
        remedy = "Give a table of them with --users, or leave --reports out: it would spend for nothing."
        words = f"with one of the attributes {', '.join(asked)}"
        check(bool(told) or not asked, "new users", words, sorted(new.attributes), remedy)
        found = model.report(new, ledger=ledger, **booking)
        with atomic_path(file) as temporary:
            save_file({"reports": found}, temporary, metadata=about)
        return found
    try:
        with safe_open(file, framework="numpy") as saved:
            found_about, kept = saved.metadata() or {}, saved.get_tensor("reports")
    except SafetensorError as error:
        raise DataError(f"the file of reports cannot be read ({error}).", file=file) from error
    others = [_OTHERS[key] for key, value in about.items() if found_about.get(key) != value]
    if others:
        raise DataError(
            f"the reports must be of these people and for this model, got those {' and '.join(others)}. "
            "Name another file.",
            file=file,
        )
    return np.asarray(kept)


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"candidates must be a text file ({error}).", file=path) from error
    if not any(found):
        raise DataError("candidates must name one item or more, got none.", file=path)
    return [line for line in found if line]
