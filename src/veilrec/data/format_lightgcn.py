"""The layout of the LightGCN data: one line per user, `user item item ...`, in `train.txt` and `test.txt`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilrec.core import DataError, warn
from veilrec.data.dataset import Dataset
from veilrec.data.format_bytes import check_file, decode, read_bytes, unmarked
from veilrec.data.format_table import Lines
from veilrec.data.ids import Ids
from veilrec.data.order import stable_order


def adjacency_lines(path: Path, label: str, encoding: str = "utf-8") -> tuple[pl.DataFrame, Lines]:
    """Its pairs as columns line, user, item (null for a user without items), and the account of its lines."""
    source, encoding = read_bytes(path, label, encoding)
    raw = unmarked(source if isinstance(source, bytes) else source.read_bytes(), label)
    text = decode(raw, "utf-8", label)
    if text.count("\r") != text.count("\r\n"):
        raise DataError("lines must end in LF or CR LF, got a CR alone. Convert the line ends.", file=label)
    lines = pl.Series("fields", text.removesuffix("\n").split("\n")).str.extract_all(r"\S+")
    frame = pl.DataFrame({"line": np.arange(1, len(lines) + 1), "fields": lines})
    frame = frame.filter(pl.col("fields").list.len() > 0)
    if frame.height == 0:
        raise DataError("the file must hold lines 'user item item ...', got none.", file=label)
    fields = pl.col("fields")
    pairs = frame.select("line", user=fields.list.first(), item=fields.list.slice(1))
    pairs = pairs.explode("item", empty_as_null=True)
    how = {"encoding": encoding, "separator": " "}
    total = text.count("\n") + (not text.endswith("\n"))
    return pairs, Lines(total, 0, len(lines) - frame.height, 0, how, lists=frame.height)


def read_lightgcn(
    train: str | Path, test: str | Path, *, name: str | None = None
) -> tuple[Dataset, NDArray[np.bool_]]:
    """Both files as one data set, and which of its rows belong to the test part.

    The vocabularies hold every user and item of either file. Repeated pairs count once, and a pair that
    stands in both files belongs to train only; both are warned about.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("0 5 6\\n1 6\\n")
    >>> _ = (folder / "test.txt").write_text("0 7\\n1\\n")
    >>> data, test = read_lightgcn(folder / "train.txt", folder / "test.txt")
    >>> len(data), data.n_items, test.tolist()
    (4, 3, [False, False, True, False])
    """
    parts = [adjacency_lines(check_file(path), str(path)) for path in (train, test)]
    rows = pl.concat([pairs.with_columns(test=pl.lit(place == 1)) for place, (pairs, _) in enumerate(parts)])
    users = Ids(rows["user"])
    rows = rows.filter(pl.col("item").is_not_null())
    if rows.height == 0:
        raise DataError("the file must name items, got lines with a user only.", file=train)
    items = Ids(rows["item"])
    user, item = users.codes(rows["user"]), items.codes(rows["item"])
    held = rows["test"].to_numpy()
    order = stable_order(user.astype(np.int64) * len(items) + item)
    again = np.zeros(len(order), np.bool_)
    again[order[1:]] = (user[order[1:]] == user[order[:-1]]) & (item[order[1:]] == item[order[:-1]])
    if again.any():
        message = f"{train}: {int(again.sum()):,} pairs of user and item repeat an earlier one; left out."
        warn(message)
    kept = np.flatnonzero(~again)
    kept = kept[stable_order(user[kept])]
    label = name or Path(train).resolve().parent.name or "data"
    return Dataset(user[kept], item[kept], users, items, name=label), held[kept]
