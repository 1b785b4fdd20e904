"""The largest data a model takes: one sentence for what is larger, from public facts, before any work."""

from __future__ import annotations

from veilrec.core import DataError
from veilrec.data import Dataset


def check_size(
    public: Dataset, word: str, got: float, most: int, what: str, *, because: str, remedy: str
) -> None:
    """Refuse ``public`` unless it has at most ``most`` of ``what``.

    >>> shop = Dataset.from_arrays(["ann", "ann"], ["tea", "mate"], name="shop")
    >>> check_size(shop, "ease", 2, 1, "items", because="it holds their pairs", remedy="Raise max_items.")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: shop must have at most 1 items for ease, got 2: it holds their pairs. \
Raise max_items.
    """
    if got > most:
        raise DataError(
            f"{public.name} must have at most {most:,} {what} for {word}, got {round(got):,}: {because}. "
            f"{remedy}"
        )
