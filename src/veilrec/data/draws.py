"""Draws that belong to an id: the same for a person or an item whoever else is in the data.

A stream of random numbers that is dealt out by position, or by code, moves everybody's numbers when one
person leaves: then a neighbouring data set differs in all rows and no sensitivity holds. So whatever is drawn
for a user from a public seed is a function of the seed and the user's id alone.
"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri

from veilrec.core import stream_seed
from veilrec.data.ids import Ids


def id_draws(ids: Ids, seed: int, *names: str | int) -> NDArray[np.uint64]:
    """64 bits for each id, from the seed, the purpose ``names`` and the id alone.

    >>> few, many = Ids(["bob", "cid"]), Ids(["ann", "bob", "cid"])
    >>> bool((id_draws(few, 1, "demo") == id_draws(many, 1, "demo")[1:]).all())
    True
    """
    texts = ids.values.cast(pl.String).to_list()
    digest = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    words = np.frombuffer(digest, "<u8").astype(np.uint64)
    return mixed(words ^ np.uint64(stream_seed(seed, *names)))


def id_normals(ids: Ids, width: int, seed: int, *names: str | int) -> NDArray[np.float64]:
    """``width`` standard normal numbers for each id, from the seed, the purpose and the id alone.

    >>> few, many = Ids(["bob", "cid"]), Ids(["ann", "bob", "cid"])
    >>> bool((id_normals(few, 4, 1, "demo") == id_normals(many, 4, 1, "demo")[1:]).all())
    True
    """
    words = mixed(id_draws(ids, seed, *names)[:, None] ^ mixed(np.arange(width, dtype=np.uint64)))
    return np.asarray(ndtri(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53))


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit depends on every bit.

    >>> int(mixed(np.array([0], np.uint64))[0]) == 0xE220A8397B1DCDAF
    True
    """
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
