"""Splits: which interactions a model may learn from, and which it is judged by.

Every part keeps the vocabularies, attributes and links of the whole (:meth:`Dataset.take`). A split is a
function of the data, the settings and the seed; its fingerprint covers all three and the part of each row.

The seed of a split is public. If it drove one stream for all rows, a user more or less would move everybody's
rows between the parts, and no claim about a user who is added or removed would hold of the data as they were
before the split. So the place of a row is drawn from the seed, the user's id, the item's id and nothing else:
without one user all others keep their parts, and without one interaction only rows of the same user change
theirs: at most three, at the borders between the parts (of repeated pairs, more). Splits that look at
everybody's rows say so in ``Dataset.shaped``, and statements repeat it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import DataError, atomic_path, check, check_count, check_fraction, stream
from veilrec.data.dataset import Dataset
from veilrec.data.draws import id_draws, mixed

_TRAIN, _VALID, _TEST = 0, 1, 2
_ALONE, _CARVED_ALONE = {"draw": "each user alone"}, {"carve_draw": "each user alone"}
_JOINT = "a split drawn for all users together: one user more or less moves everybody's rows"
_CUT = "the cut in time of the split, read off everybody's rows"


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Train, test and perhaps validation part of one data set, and how they were made.

    ``parts`` says for each row of the source: 0 train, 1 validation, 2 test.

    >>> data = Dataset.from_arrays([1, 1, 1, 1, 1], [1, 2, 3, 4, 5])
    >>> holdout(data, test=0.2)
    Split of 'data' by holdout: 4 train, 1 test
    """

    train: Dataset
    test: Dataset
    valid: Dataset | None
    method: str
    settings: Mapping[str, Any]
    source_fingerprint: str
    parts: NDArray[np.uint8]

    def __repr__(self) -> str:
        middle = "" if self.valid is None else f"{len(self.valid):,} validation, "
        sizes = f"{len(self.train):,} train, {middle}{len(self.test):,} test"
        return f"Split of {self.train.name!r} by {self.method}: {sizes}"

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 over the method, its settings, the source and the part of each row."""
        head = [self.method, self.settings, self.source_fingerprint]
        digest = hashlib.sha256(b"veilrec split 1")
        digest.update(json.dumps(head, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(self.parts).data)
        return digest.hexdigest()

    def save(self, folder: str | Path) -> Path:
        """Write ``<first 16 digits of the fingerprint>.split`` into ``folder`` and return its path."""
        from safetensors.numpy import save_file

        target = Path(folder) / f"{self.fingerprint[:16]}.split"
        header = {
            "method": self.method,
            "settings": json.dumps(dict(self.settings), sort_keys=True),
            "source_fingerprint": self.source_fingerprint,
            "fingerprint": self.fingerprint,
        }
        with atomic_path(target) as temporary:
            save_file({"parts": self.parts}, temporary, metadata=header)
        return target


def load_split(path: str | Path, data: Dataset) -> Split:
    """The split saved at ``path``, of the very data set it was made from; any other is refused.

    >>> import tempfile
    >>> data = Dataset.from_arrays([1, 1, 1, 1, 1], [1, 2, 3, 4, 5])
    >>> load_split(holdout(data).save(tempfile.mkdtemp()), data)
    Split of 'data' by holdout: 4 train, 1 test
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise DataError("the split must be a file, got none. Check the path.", file=path)
    try:
        with safe_open(path, framework="numpy") as opened:
            header, parts = opened.metadata() or {}, opened.get_tensor("parts")
        method, settings = header["method"], json.loads(header["settings"])
        source, written = header["source_fingerprint"], header["fingerprint"]
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise DataError(f"this is not a saved split ({error}). Make the split again.", file=path) from error
    if source != data.fingerprint:
        raise DataError(
            f"the split must belong to this data set, got a split of {source[:16]} for {data.name!r} with "
            f"fingerprint {data.fingerprint[:16]}. Load the data the split was made from, or split again.",
            file=path,
        )
    if len(parts) != len(data) or parts.dtype != np.uint8:
        raise DataError("the split must name a part for each row. Make the split again.", file=path)
    split = _split(data, parts, method, settings)
    if split.fingerprint != written:
        raise DataError("the split differs from its own fingerprint. Make the split again.", file=path)
    return split


def holdout(
    data: Dataset, test: float = 0.2, valid: float = 0.0, seed: int = 0, *, joint: bool = False
) -> Split:
    """Of each user's n rows, round(test * n) drawn at random are the test part, round(valid * n) validation.

    Halves round up. Each user keeps at least one row for training; validation gives way first. The test
    part depends on the seed but not on ``valid``. ``joint`` draws for all users from one stream, as the
    splits of the recorded tables were: for repeating those, on public data.

    >>> data = Dataset.from_arrays([1] * 10 + [2], range(11))
    >>> holdout(data, test=0.2, valid=0.1)
    Split of 'data' by holdout: 8 train, 1 validation, 2 test
    """
    _check_fractions(test, valid)
    parts = _by_rank(data, _random_rank(data, seed, "holdout", joint), test, valid)
    settings = {"test": test, "valid": valid, "seed": int(seed), **({} if joint else _ALONE)}
    return _split(data, parts, "holdout", settings, expect=valid > 0)


def default_split(data: Dataset, seed: int = 0) -> Split:
    """The split used when none is named: 80 % train, 10 % validation, 10 % test of each user's rows.

    >>> default_split(Dataset.from_arrays([1] * 10, range(10)))
    Split of 'data' by holdout: 8 train, 1 validation, 1 test
    """
    return holdout(data, test=0.1, valid=0.1, seed=seed)


def k_fold(data: Dataset, k: int = 5, seed: int = 0) -> Sequence[Split]:
    """``k`` splits whose test parts cover each row once; sizes differ by at most one, also within a user.

    A user with a single row has no training row in the fold that tests it. A fold is made when it is asked
    for, so that there is one in memory at a time. Folds of even size are drawn for all users together.

    >>> [len(split.test) for split in k_fold(Dataset.from_arrays([1, 1, 1, 2, 2], [1, 2, 3, 1, 2]), k=2)]
    [3, 2]
    """
    check_count("k", k, 2)
    check(k <= len(data), "k", f"at most the number of interactions, {len(data):,}", k)
    order = _random_order(data, seed, "k_fold", joint=True)
    fold = np.empty(len(data), np.int32)
    fold[order] = np.arange(len(data), dtype=np.int32) % k
    return _Folds(data, fold, k, int(seed))


@dataclass(frozen=True, eq=False)
class _Folds(Sequence[Split]):
    """What :func:`k_fold` answers; ``fold`` says for each row which split tests it."""

    data: Dataset
    fold: NDArray[np.int32]
    k: int
    seed: int

    def __len__(self) -> int:
        return self.k

    @overload
    def __getitem__(self, place: int) -> Split: ...
    @overload
    def __getitem__(self, place: slice) -> list[Split]: ...
    def __getitem__(self, place: int | slice) -> Split | list[Split]:
        if isinstance(place, slice):
            return [self[number] for number in range(self.k)[place]]
        number = range(self.k)[place]
        parts = _TEST * (self.fold == number).astype(np.uint8)
        settings = {"k": self.k, "fold": number, "seed": self.seed}
        return _split(self.data, parts, "k_fold", settings)


def leave_one_out(data: Dataset, valid: bool = True) -> Split:
    """Each user's last row is the test part, the one before it validation.

    Last means latest; rows of equal time, and all rows of data without times, count in the order given.
    A user with two rows gives one for testing and none for validation; a user with one row gives none.

    >>> data = Dataset.from_arrays([1, 1, 1, 2], ["a", "b", "c", "a"], time=[3, 1, 2, 5])
    >>> leave_one_out(data).test.frame()["item"].to_list()
    ['a']
    """
    size = data.user_counts
    n_test = (size >= 2).astype(np.int64)
    n_valid = (size >= 3).astype(np.int64) * bool(valid)
    parts = _assign(data, _rank_from_last(data), n_test, n_valid)
    return _split(data, parts, "leave_one_out", {"valid": bool(valid)}, expect=bool(valid))


def temporal(data: Dataset, test: float = 0.2, valid: float = 0.0) -> Split:
    """Of each user's rows the latest are the test part, those before them validation; counts as in holdout.

    >>> data = Dataset.from_arrays([1] * 5, ["a", "b", "c", "d", "e"], time=[5, 4, 3, 2, 1])
    >>> temporal(data, test=0.2).test.frame()["item"].to_list()
    ['a']
    """
    _check_fractions(test, valid)
    _check_times(data, "temporal")
    parts = _by_rank(data, _rank_from_last(data), test, valid)
    return _split(data, parts, "temporal", {"test": test, "valid": valid}, expect=valid > 0)


def global_temporal(data: Dataset, test: float = 0.2, valid: float = 0.0) -> Split:
    """One cut in time for everybody: the latest ``test`` of all rows are tested, ``valid`` before them.

    Rows of equal time stay together on the later side of the cut, so that a part can be larger than asked.
    Users and items that appear only after the cut stay in the later parts; models see them as new ones.

    >>> data = Dataset.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 2, 3], time=[1, 2, 3, 4, 5])
    >>> global_temporal(data, test=0.2).test.frame()["user"].to_list()
    [3]
    """
    _check_fractions(test, valid)
    time = _check_times(data, "global_temporal")

    def cut(before: int, fraction: float) -> int:
        """The time from which on lie ``fraction`` of all rows, counted back from the earliest ``before``."""
        place = max(before - max(int(_rounded(fraction, np.array(len(data)))), 1), 0)
        return int(np.partition(time, place)[place])

    parts = np.full(len(data), _TRAIN, np.uint8)
    test_from = cut(len(data), test)
    if valid > 0:
        parts[time >= cut(int((time < test_from).sum()), valid)] = _VALID
    parts[time >= test_from] = _TEST
    settings = {"test": test, "valid": valid}
    return _split(data, parts, "global_temporal", settings, expect=valid > 0)


def predefined(data: Dataset, test_mask: ArrayLike, valid: float = 0.0, seed: int = 0) -> Split:
    """The test rows are given as a mask over the rows of ``data``; ``valid`` is carved from the others.

    >>> data = Dataset.from_arrays([1, 1, 2], ["a", "b", "a"])
    >>> predefined(data, data.item == data.items.codes(["b"]))
    Split of 'data' by predefined: 2 train, 1 test
    """
    mask = np.asarray(test_mask)
    good = mask.dtype == np.bool_ and mask.shape == (len(data),)
    check(good, "test_mask", f"{len(data):,} booleans, one per interaction", f"{mask.dtype} {mask.shape}")
    split = _split(data, np.where(mask, _TEST, _TRAIN).astype(np.uint8), "predefined", {})
    return carve_validation(split, valid, seed) if valid != 0 else split


def carve_validation(
    split: Split, fraction: float = 0.1, seed: int = 0, *, last: bool = False, joint: bool = False
) -> Split:
    """Move round(fraction * n) of each user's n training rows to a validation part.

    They are drawn at random, or are the ``last`` ones: by time or, without times, in the order given. Carve
    the last rows when the test part follows the training part in time, as it does in Gowalla's given split:
    a validation part should differ from training as the test part does. ``joint`` as in :func:`holdout`.

    >>> data = Dataset.from_arrays([1] * 11, range(11))
    >>> carve_validation(predefined(data, data.item == 10), 0.1)
    Split of 'data' by predefined: 9 train, 1 validation, 1 test
    """
    check_fraction("fraction", fraction)
    if split.valid is not None:
        raise DataError("the split must have no validation part yet, got one. Carve from a split without it.")
    check(not (last and joint), "joint", "False with last=True, which draws nothing", joint)
    train = split.train
    rank = _rank_from_last(train) if last else _random_rank(train, seed, "validation", joint)
    carved = _by_rank(train, rank, 0.0, fraction)
    how = {"last": True} if last else {"carve_seed": int(seed), **({} if joint else _CARVED_ALONE)}
    settings = {**split.settings, "carved": fraction, **how}
    train = _shaped(train, split.method, settings)
    parts = split.parts.copy()
    parts[parts == _TRAIN] = carved
    _check_parts(split.train.name, parts, expect=True)
    return Split(
        train=train.take(carved == _TRAIN),
        test=split.test,
        valid=train.take(carved == _VALID),
        method=split.method,
        settings=settings,
        source_fingerprint=split.source_fingerprint,
        parts=parts,
    )


# -- the pieces --------------------------------------------------------------------------------------


def _check_fractions(test: float, valid: float) -> None:
    check_fraction("test", test)
    check(isinstance(valid, int | float) and 0 <= valid < 1, "valid", "0 or above and below 1", valid)
    check(test + valid < 1, "test + valid", "below 1", test + valid, "Leave something to train on.")


def _check_times(data: Dataset, method: str) -> NDArray[np.int64]:
    if data.time is None:
        raise DataError(f"{method} needs times, and {data.name!r} has none. Use holdout or leave_one_out.")
    if len(data) == 0:
        raise DataError(f"{data.name!r} has no interactions to split.")
    return data.time


def _check_parts(name: str, parts: NDArray[np.uint8], expect: bool) -> None:
    wanted = {"train": _TRAIN, "test": _TEST, **({"validation": _VALID} if expect else {})}
    for part, code in wanted.items():
        if not bool((parts == code).any()):
            raise DataError(
                f"the {part} part must have at least one row, got 0 of the {len(parts):,} of {name!r}. "
                "Change the fractions, or use data with more interactions per user."
            )


def _split(
    data: Dataset,
    parts: NDArray[np.uint8],
    method: str,
    settings: Mapping[str, Any],
    expect: bool = False,
) -> Split:
    _check_parts(data.name, parts, expect)
    source = data.fingerprint
    data = replace(_shaped(data, method, settings), origin=data.identity)  # once, for all parts
    valid = parts == _VALID
    return Split(
        train=data.take(parts == _TRAIN),
        test=data.take(parts == _TEST),
        valid=data.take(valid) if bool(valid.any()) else None,
        method=method,
        settings=dict(settings),
        source_fingerprint=source,
        parts=parts,
    )


def _rounded(fraction: float, size: NDArray[Any]) -> NDArray[np.int64]:
    """round(fraction * size), halves up; the inner rounding undoes 0.29 * 50 = 14.499999999999998."""
    return np.floor(np.round(fraction * size, 9) + 0.5).astype(np.int64)


def _shaped(data: Dataset, method: str, settings: Mapping[str, Any]) -> Dataset:
    """The data with what the split has done by looking at everybody's rows."""
    together = method == "k_fold" or (method == "holdout" and not settings.keys() >= _ALONE.keys())
    together |= "carve_seed" in settings and not settings.keys() >= _CARVED_ALONE.keys()
    words = [*([_JOINT] if together else []), *([_CUT] if method == "global_temporal" else [])]
    new = [one for one in words if one not in data.shaped]
    return replace(data, shaped=(*data.shaped, *new)) if new else data


def _random_order(data: Dataset, seed: int, purpose: str, joint: bool) -> NDArray[np.int64]:
    """The rows in the order of their users, shuffled within each user."""
    if joint:
        draws = stream(seed, "split", purpose).integers(0, 2**32, len(data), dtype=np.uint32)
    else:
        draws = (_own_draws(data, seed, purpose) >> np.uint64(32)).astype(np.uint32)
    keys = (data.user.astype(np.uint64) << np.uint64(32)) | draws
    return np.argsort(keys, kind="stable")


def _own_draws(data: Dataset, seed: int, purpose: str) -> NDArray[np.uint64]:
    """64 bits for each row, from the seed, its two ids and how often its pair stood before."""
    users, items = (
        id_draws(ids, seed, "split", purpose, side)
        for ids, side in ((data.users, "users"), (data.items, "items"))
    )
    cell = data.user.astype(np.int64) * data.n_items + data.item
    order = np.argsort(cell, kind="stable")
    first = np.concatenate([[True], np.diff(cell[order]) != 0])[: len(cell)]
    place = np.arange(len(cell))
    before = np.empty(len(cell), np.uint64)
    before[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    return mixed(mixed(users[data.user] + items[data.item]) + before)


def _random_rank(data: Dataset, seed: int, purpose: str, joint: bool) -> NDArray[np.int64]:
    """The place of each row in a random order of its user's rows, from 0."""
    rank = np.empty(len(data), np.int64)
    rank[_random_order(data, seed, purpose, joint)] = np.arange(len(data))
    rank -= data.offsets[data.user]
    return rank


def _rank_from_last(data: Dataset) -> NDArray[np.int64]:
    """The place of each row counted from its user's last one, from 0."""
    return data.offsets[data.user.astype(np.int64) + 1] - 1 - np.arange(len(data))


def _by_rank(data: Dataset, rank: NDArray[np.int64], test: float, valid: float) -> NDArray[np.uint8]:
    size = data.user_counts
    n_test = np.minimum(_rounded(test, size), np.maximum(size - 1, 0))
    n_valid = np.minimum(_rounded(valid, size), np.maximum(size - 1 - n_test, 0))
    return _assign(data, rank, n_test, n_valid)


def _assign(
    data: Dataset, rank: NDArray[np.int64], n_test: NDArray[np.int64], n_valid: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The first ``n_test`` ranks of each user are tested, the next ``n_valid`` validate, the rest train."""
    parts = np.full(len(data), _TRAIN, np.uint8)
    parts[rank < (n_test + n_valid)[data.user]] = _VALID
    parts[rank < n_test[data.user]] = _TEST
    return parts
