"""The one shape in which data travels: interactions, user attributes, social links, external ids.

Inside are flat arrays (int32 codes, float32 ratings, int64 seconds), sorted by user and, within a user,
by time or, without times, in the order given. Outside, everything carries the caller's own ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from veilrec.core import DataError, check
from veilrec.data.identity import identity_of
from veilrec.data.ids import Ids, encode, one_kind
from veilrec.data.order import stable_order
from veilrec.data.read_report import ReadReport


@dataclass(frozen=True, eq=False)
class Categorical:
    """A user attribute with named values; ``codes`` are positions in ``categories``, -1 where missing.

    ``declared`` is False where the list of categories was read off the data: then the list itself tells who
    is in them, and statements say so.

    >>> Categorical(np.array([1, -1, 0], np.int32), ("tea", "mate")).column().to_list()
    ['mate', None, 'tea']
    """

    codes: NDArray[np.int32]
    categories: tuple[str, ...]
    declared: bool = True

    def __post_init__(self) -> None:
        good = len(self.codes) == 0 or (self.codes.min() >= -1 and self.codes.max() < len(self.categories))
        check(bool(good), "codes", f"from -1 to {len(self.categories) - 1}", "others")

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the value is not known."""
        return self.codes < 0

    def take(self, users: NDArray[Any]) -> Categorical:
        """The attribute of these users only; the categories stay."""
        return replace(self, codes=self.codes[users])

    def column(self) -> pl.Series:
        """The values as text, null where missing."""
        names = pl.Series([*self.categories], dtype=pl.String)
        codes = pl.Series(self.codes).cast(pl.Int64)
        return names.gather(codes.set(codes < 0, None))


@dataclass(frozen=True, eq=False)
class Numeric:
    """A user attribute that is a number, NaN where missing.

    ``low`` and ``high`` are the *declared, public* range. They are never taken from the data: a range
    read off private data is itself a leak. Without a declaration they are None, and mechanisms that need a
    range refuse the attribute.

    >>> age = Numeric(np.array([31, np.nan], np.float32), low=18, high=100)
    >>> age.column().to_list(), age.missing.tolist()
    ([31.0, None], [False, True])
    """

    values: NDArray[np.float32]
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check((self.low is None) == (self.high is None), "range", "declared with both ends", self.low)
        if self.low is not None and self.high is not None:
            check(self.low < self.high, "low", "below high", self.low)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the value is not known."""
        return np.isnan(self.values)

    def take(self, users: NDArray[Any]) -> Numeric:
        """The attribute of these users only; the declared range stays."""
        return Numeric(self.values[users], self.low, self.high)

    def column(self) -> pl.Series:
        """The values, null where missing."""
        return pl.Series(self.values).fill_nan(None)


def check_inside(
    what: str,
    values: NDArray[np.float32],
    span: Sequence[float],
    users: Ids,
    owners: NDArray[Any],
    remedy: str,
) -> None:
    """Refuse a value outside of its range; ``owners`` are the codes of the users whose values these are.

    >>> from veilrec.data.ids import encode
    >>> codes, users = encode(pl.Series(["ann", "bob"]))
    >>> check_inside("rating", np.array([5, 50], np.float32), (1, 5), users, codes, "Correct it.")
    Traceback (most recent call last):
        ...
    veilrec.core.errors.DataError: rating of user 'bob' must be from 1 to 5, got 50. Correct it.
    """
    low, high = span
    inside = (values >= np.float32(low)) & (values <= np.float32(high))  # ends rounded as the values were
    if not inside.all():
        first = int(np.argmin(inside))
        whose = users.take(owners[first : first + 1])[0]
        message = (
            f"{what} of user {whose!r} must be from {low:g} to {high:g}, got {values[first]:g}. {remedy}"
        )
        raise DataError(message)


Attribute = Categorical | Numeric


@dataclass(frozen=True, eq=False)
class Links:
    """Directed social links as user codes: ``source`` follows, trusts or befriends ``target``.

    >>> len(Links(source=np.array([0, 1], np.int32), target=np.array([1, 0], np.int32)))
    2
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Interactions of users with items, and what is known of the users.

    Build one with :func:`veilrec.read`, :func:`veilrec.load`, :func:`veilrec.synthetic` or
    :meth:`from_arrays`; the constructor takes codes that are already sorted.

    >>> data = Dataset.from_arrays(["ann", "bob", "ann"], ["tea", "tea", "mate"], rating=[5, 3, 4])
    >>> data.n_users, data.n_items, len(data)
    (2, 2, 3)
    >>> data.frame()["user"].to_list()
    ['ann', 'ann', 'bob']
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    users: Ids
    items: Ids
    rating: NDArray[np.float32] | None = None
    time: NDArray[np.int64] | None = None
    sensitive: NDArray[np.bool_] | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    links: Links | None = None
    rating_range: tuple[float, float] | None = None
    name: str = "data"
    frame_kind: str = "polars"
    shaped: tuple[str, ...] = ()
    """What was done to the rows by looking at everybody's: no statement about one user covers it."""
    declared_users: int | None = None
    """The public number of users, where it is declared; None: how many there are."""
    origin: str = ""
    """Of a part or a selection: the identity of the data that it comes from."""
    provenance: tuple[ReadReport, ...] = field(default=(), init=False)
    """What became of every row of the tables it was read from; data sets made out of this one have none."""

    def __post_init__(self) -> None:
        if len(self.user) > 1 and bool((np.diff(self.user) < 0).any()):
            raise ValueError(
                "user must be sorted, got unsorted codes. Use Dataset.from_codes or from_arrays."
            )
        for label in ("item", "rating", "time", "sensitive"):
            column = getattr(self, label)
            check(column is None or len(column) == len(self.user), label, "one per interaction", label)
        for label, attribute in self.attributes.items():
            check(len(attribute.missing) == self.n_users, f"attribute {label}", "one value per user", label)

    # -- building ------------------------------------------------------------------------------------

    @classmethod
    def from_codes(
        cls,
        user: NDArray[Any],
        item: NDArray[Any],
        users: Ids,
        items: Ids,
        *,
        rating: NDArray[Any] | None = None,
        time: NDArray[Any] | None = None,
        sensitive: NDArray[Any] | None = None,
        **rest: Any,
    ) -> Dataset:
        """A data set from codes in any order; sorts by user, then time, then the given order.

        A rating outside of ``rating_range`` is refused.
        """
        user = np.asarray(user, dtype=np.int32)
        if time is not None:
            order = stable_order(user, np.asarray(time))
        elif len(user) > 1 and bool((np.diff(user) < 0).any()):
            order = stable_order(user)
        else:
            order = None

        def arrange(column: NDArray[Any] | None, dtype: Any) -> NDArray[Any] | None:
            if column is None:
                return None
            typed = np.asarray(column).astype(dtype, copy=False)
            return typed if order is None else typed[order]

        sorted_user, sorted_item = arrange(user, np.int32), arrange(np.asarray(item), np.int32)
        assert sorted_user is not None
        assert sorted_item is not None
        found = cls(
            user=sorted_user,
            item=sorted_item,
            users=users,
            items=items,
            rating=arrange(rating, np.float32),
            time=arrange(time, np.int64),
            sensitive=arrange(sensitive, np.bool_),
            **rest,
        )
        if found.rating is not None and found.rating_range is not None:
            remedy = "Correct the value, or declare another rating_range."
            check_inside("rating", found.rating, found.rating_range, found.users, found.user, remedy)
        return found

    @classmethod
    def from_arrays(
        cls,
        user: ArrayLike,
        item: ArrayLike,
        *,
        rating: ArrayLike | None = None,
        time: ArrayLike | None = None,
        sensitive: ArrayLike | None = None,
        **rest: Any,
    ) -> Dataset:
        """A data set from columns of external ids, without most checks that :func:`veilrec.read` makes."""
        user_codes, users = encode(pl.Series(_listed("user", user)))
        item_codes, items = encode(pl.Series(_listed("item", item)))
        optional = {"rating": rating, "time": time, "sensitive": sensitive}
        columns = {
            label: None if column is None else np.asarray(column) for label, column in optional.items()
        }
        return cls.from_codes(user_codes, item_codes, users, items, **columns, **rest)

    def read_from(self, *reports: ReadReport) -> Dataset:
        """The same data set with the account of how it was read."""
        found = replace(self)
        object.__setattr__(found, "provenance", reports)
        return found

    # -- size ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_users(self) -> int:
        """Users in the vocabulary (a part of a split keeps the whole vocabulary)."""
        return len(self.users)

    @property
    def public_users(self) -> int:
        """How many users there are said to be: what noise, delta and means are computed from.

        >>> replace(Dataset.from_arrays(["ann"], ["tea"]), declared_users=1000).public_users
        1000
        """
        return self.n_users if self.declared_users is None else self.declared_users

    @property
    def n_items(self) -> int:
        """Items in the vocabulary."""
        return len(self.items)

    @property
    def density(self) -> float:
        """Interactions per possible (user, item) pair; 0 without users or items."""
        cells = self.n_users * self.n_items
        return len(self) / cells if cells else 0.0

    def __repr__(self) -> str:
        extras = [label for label in ("rating", "time", "sensitive") if getattr(self, label) is not None]
        extras += [*self.attributes, *(["links"] if self.links is not None else [])]
        also = f" with {', '.join(extras)}" if extras else ""
        return (
            f"Dataset {self.name!r}: {len(self):,} interactions of {self.n_users:,} users "
            f"with {self.n_items:,} items{also}"
        )

    # -- views ---------------------------------------------------------------------------------------

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """``offsets[u]:offsets[u + 1]`` are the rows of user ``u``."""
        counts = np.bincount(self.user, minlength=self.n_users)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @property
    def user_counts(self) -> NDArray[np.int64]:
        """Interactions of each user."""
        return np.diff(self.offsets)

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """Interactions with each item."""
        return np.bincount(self.item, minlength=self.n_items)

    def matrix(self, values: str = "ones") -> sp.csr_matrix:
        """Users x items as float32 CSR with sorted columns; ``values`` is "ones" or "rating".

        Repeated pairs count once ("ones") or keep the last rating.
        """
        check(values in ("ones", "rating"), "values", "'ones' or 'rating'", values)
        if values == "rating" and self.rating is None:
            raise DataError(f"{self.name} has no ratings. Use a data set with a rating column.")
        cell = self.user.astype(np.int64) * self.n_items + self.item
        # the last row of each repeated pair: unique of the reversed array finds first = last
        kept, last = np.unique(cell[::-1], return_index=True)
        rows = len(cell) - 1 - last
        entries = (
            np.ones(len(kept), np.float32) if self.rating is None or values == "ones" else self.rating[rows]
        )
        counts = np.bincount(kept // max(self.n_items, 1), minlength=self.n_users)
        index = np.int32 if len(kept) < 2**31 else np.int64
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(index)
        columns = (kept % max(self.n_items, 1)).astype(index)
        return sp.csr_matrix((entries, columns, pointers), shape=(self.n_users, self.n_items))

    def take(self, rows: NDArray[Any], *, name: str | None = None) -> Dataset:
        """The same vocabularies, attributes and links, with only these interactions (mask or positions).

        >>> data = Dataset.from_arrays(["ann", "bob"], ["tea", "mate"])
        >>> data.take(np.array([0])).identity == data.identity  # a part, and its budget is that of the whole
        True
        """
        if rows.dtype != np.bool_:
            rows = np.sort(rows)
        chosen: dict[str, Any] = {
            label: None if getattr(self, label) is None else getattr(self, label)[rows]
            for label in ("user", "item", "rating", "time", "sensitive")
        }
        origin = self.identity if len(chosen["user"]) else self.origin  # of no row, nothing to answer for
        return replace(self, **chosen, name=name or self.name, origin=origin)

    def without(self, user: Any) -> Dataset:
        """The data set as it would be had this person never come: no id, no row, no link.

        The catalogue and the public number of users stay: they are declared, not read off the rows.

        >>> data = Dataset.from_arrays(["ann", "bob", "cid"], ["tea", "mate", "rum"])
        >>> gone = data.without("bob")
        >>> gone.users.values.to_list(), gone.n_items, gone.public_users
        (['ann', 'cid'], 3, 3)
        """
        code = int(self.users.codes([user])[0])
        check(code >= 0, "user", "one of the data", user)
        rest, stays = self.take(self.user != code), np.delete(np.arange(self.n_users), code)
        links = self.links
        if links is not None:
            kept = (links.source != code) & (links.target != code)
            links = Links(*((ends[kept] - (ends[kept] > code)) for ends in (links.source, links.target)))
        return replace(
            rest,
            user=rest.user - (rest.user > code),
            users=Ids(self.users.take(stays)),
            attributes={name: one.take(stays) for name, one in self.attributes.items()},
            links=links,
            declared_users=self.public_users,
            origin=self.identity,
        )

    def frame(self) -> pl.DataFrame:
        """The interactions as a Polars frame with the caller's own ids."""
        columns: dict[str, Any] = {"user": self.users.take(self.user), "item": self.items.take(self.item)}
        for label in ("rating", "time", "sensitive"):
            if getattr(self, label) is not None:
                columns[label] = getattr(self, label)
        return pl.DataFrame(columns)

    def user_frame(self) -> pl.DataFrame:
        """The users' attributes as a Polars frame with the caller's own ids."""
        columns = {label: attribute.column() for label, attribute in self.attributes.items()}
        return pl.DataFrame({"user": self.users.values, **columns})

    # -- identity ------------------------------------------------------------------------------------

    @cached_property
    def identity(self) -> str:
        """Which data these are, or are a part of: a sha256 over their pairs of user and item id, as a set.

        Budgets go by it. Ratings, times, attributes, declarations, names and the order of rows leave it as it
        is, unlike the fingerprint.

        >>> data = Dataset.from_arrays(["7", "8"], ["tea", "mate"], rating=[5, 3])
        >>> data.identity == Dataset.from_arrays([8, 7], ["mate", "tea"]).identity
        True
        """
        return self.origin or identity_of(self.user, self.item, self.users, self.items)

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 over everything but name, origin and what shaped it: equal data, equal fingerprint."""
        digest = hashlib.sha256(b"veilrec dataset 1")

        def add(label: str, value: Any) -> None:
            digest.update(f"\x1e{label}\x1f".encode())
            if isinstance(value, Ids):
                if value.numeric:
                    digest.update(value.values.to_numpy().astype("<i8").tobytes())
                else:
                    digest.update("\x1f".join(value.values.to_list()).encode())
            elif isinstance(value, np.ndarray):
                little = value.dtype.newbyteorder("<")
                digest.update(np.ascontiguousarray(value, dtype=little).data)
            elif value is not None:
                digest.update(repr(value).encode())

        for label in ("users", "items", "user", "item", "rating", "time", "sensitive", "rating_range"):
            add(label, getattr(self, label))
        for label in sorted(self.attributes):
            attribute = self.attributes[label]
            if isinstance(attribute, Categorical):
                add(f"categorical {label}", attribute.codes)
                add("categories", attribute.categories)
            else:
                add(f"numeric {label}", attribute.values)
                add("range", (attribute.low, attribute.high))
        if self.links is not None:
            add("source", self.links.source)
            add("target", self.links.target)
        return digest.hexdigest()


def _listed(name: str, column: ArrayLike) -> list[Any]:
    """Ids as Python values of one kind: NumPy would make text of numbers beside text, and say nothing."""
    values = list(column) if isinstance(column, list | tuple) else np.asarray(column).tolist()
    return one_kind(name, [value.item() if isinstance(value, np.generic) else value for value in values])
