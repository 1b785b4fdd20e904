"""Clipping: what bounds the sensitivity before noise is added.

Every function leaves what is within its bound as it is, never enlarges anything, keeps zero vectors zero,
and refuses NaN and infinity: a NaN compares false with every bound and would slip through. After clipping a
norm is at most its bound times 1 + 1e-6, whatever the size of the numbers (they are scaled before
squaring).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_positive

Floats = NDArray[np.float64]


def clip_values(x: ArrayLike, bound: float) -> Floats:
    """Every number cut to [-bound, bound].

    >>> clip_values([3.0, -0.5, -9.0], 1.0).tolist()
    [1.0, -0.5, -1.0]
    """
    check_positive("bound", bound)
    return np.clip(_finite(x), -bound, bound)


def check_clip_norm(value: float) -> None:
    """A bound to which gradients in single precision can be cut.

    >>> check_clip_norm(1e-35)
    Traceback (most recent call last):
        ...
    ValueError: clip_norm must be large enough for single precision, 1e-30, got 1e-35.
    """
    check_positive("clip_norm", value)
    check(value >= 1e-30, "clip_norm", "large enough for single precision, 1e-30", value)


def clip_rows(x: ArrayLike, norm: float, order: int = 2) -> Floats:
    """Every vector along the last axis scaled down to ``norm``: L2, or L1 with ``order=1``.

    >>> clip_rows([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], 1.0).round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]
    >>> clip_rows([3.0, -1.0], 2.0, order=1).tolist()
    [1.5, -0.5]
    """
    check_positive("norm", norm)
    check(order in (1, 2), "order", "1 or 2", order)
    rows = _finite(x)
    check(rows.ndim >= 1, "x", "a vector or rows of vectors", x)
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(under="ignore"):
        scaled = rows / np.where(largest > 0, largest, 1.0)
        size = np.abs(scaled).sum(-1, keepdims=True) if order == 1 else _length(scaled)
    return _shrunk(rows, scaled, largest, size, norm)


def clip_parts(parts: Mapping[str, ArrayLike], norms: Mapping[str, float]) -> dict[str, Floats]:
    """The components of one unit (the tables of one user's update, say), each scaled down to its own L2 norm.

    Together with noise ``sigmas`` they cost what ``joint_norm(norms, sigmas)`` says.

    >>> clipped = clip_parts({"items": [[3.0], [4.0]], "head": [0.1]}, {"items": 1.0, "head": 0.5})
    >>> clipped["items"].round(6).tolist(), clipped["head"].tolist()
    ([[0.6], [0.8]], [0.1])
    """
    check(set(parts) == set(norms), "norms", f"given for {sorted(parts)}", sorted(norms))
    clipped = {}
    for name, part in parts.items():
        whole = np.asarray(part, np.float64)
        clipped[name] = clip_rows(whole.reshape(-1), norms[name]).reshape(whole.shape)
    return clipped


def joint_norm(norms: Mapping[str, float], sigmas: Mapping[str, float]) -> float:
    """sqrt(sum of C_g^2 / sigma_g^2): the L2 distance of one unit, each component divided by its sigma.

    One noisy sum of clipped components is a single Gaussian event of multiplier 1 / joint_norm, however the
    noise is shared out among the components.

    >>> round(1 / joint_norm({"items": 1.0, "head": 0.5}, {"items": 2.0, "head": 1.0}), 4)
    1.4142
    """
    check(bool(norms) and set(norms) == set(sigmas), "sigmas", f"given for {sorted(norms)}", sorted(sigmas))
    for name in norms:
        check_positive(f"norms[{name!r}]", norms[name])
        check_positive(f"sigmas[{name!r}]", sigmas[name])
    return float(np.linalg.norm([norms[name] / sigmas[name] for name in norms]))


def clip_users(x: ArrayLike, user: ArrayLike, norm: float) -> Floats:
    """Rows (or single values) of many users; all rows of one user together scaled down to the L2 ``norm``.

    ``user[i]`` owns row i; a user may own any number of rows, in any order.

    >>> clip_users([[3.0], [0.5], [4.0]], [7, 2, 7], 1.0).round(6).tolist()
    [[0.6], [0.5], [0.8]]
    """
    check_positive("norm", norm)
    rows = _finite(x)
    owner = np.asarray(user)
    whole = owner.ndim == 1 and (np.issubdtype(owner.dtype, np.integer) or owner.size == 0)
    check(whole, "user", "one whole number per row", user)
    check(rows.ndim >= 1 and len(rows) == len(owner), "user", f"{len(rows)} whole numbers", len(owner))
    flat = rows.reshape(len(rows), int(np.prod(rows.shape[1:], dtype=np.int64)))
    users, code = np.unique(owner, return_inverse=True)
    largest = np.zeros(len(users))
    np.maximum.at(largest, code, np.abs(flat).max(axis=1, initial=0.0))
    with np.errstate(under="ignore"):
        scaled = flat / np.where(largest > 0, largest, 1.0)[code, None]
        squares = np.bincount(code, np.einsum("ij,ij->i", scaled, scaled), len(users))
    clipped = _shrunk(flat, scaled, largest[code, None], np.sqrt(squares)[code, None], norm)
    return clipped.reshape(rows.shape)


def _shrunk(rows: Floats, scaled: Floats, largest: Floats, size: Floats, norm: float) -> Floats:
    """``rows`` where largest x size is within ``norm``, else the same direction with that norm."""
    with np.errstate(over="ignore", under="ignore"):
        over = largest * size > norm
        return np.where(over, scaled * (norm / np.where(size > 0, size, 1.0)), rows)


def _length(rows: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None])


def _finite(x: ArrayLike) -> Floats:
    values = np.asarray(x, np.float64)
    bad = values[~np.isfinite(values)]
    check(not bad.size, "x", "finite numbers", float(bad.flat[0]) if bad.size else None)
    return values
