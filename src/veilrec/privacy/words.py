"""Random 64-bit words, and integers and coins made from them without a single floating-point step.

Two sources. ``secure_words`` takes a fresh key from the operating system for every block and expands it with
AES-256 in counter mode: nothing is kept between calls, so a fork or a copied process never repeats a word.
``seeded_words`` is a NumPy generator: fast, repeatable, and for research only, because whoever knows the
seed knows the noise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_count

Words = NDArray[np.uint64]
Source = Callable[[int], Words]

_BLOCK = 1 << 20
_ZEROS = bytes(8 * _BLOCK)


def secure_words(count: int) -> Words:
    """``count`` words from the operating system's generator, expanded by AES-256-CTR.

    >>> secure_words(3).shape
    (3,)
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    out = np.empty(count, np.uint64)
    view = out.view(np.uint8)
    for start in range(0, 8 * count, len(_ZEROS)):
        size = min(len(_ZEROS), 8 * count - start)
        cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        block = cipher.update(_ZEROS[:size] if size < len(_ZEROS) else _ZEROS)
        view[start : start + size] = np.frombuffer(block, np.uint8)
    return out


def seeded_words(generator: np.random.Generator) -> Source:
    """Words from a seeded generator, for research.

    >>> from veilrec.core import stream
    >>> words = seeded_words(stream(1, "noise"))
    >>> words(2).dtype
    dtype('uint64')
    """
    return lambda count: generator.integers(0, 1 << 64, count, dtype=np.uint64)


def coins(source: Source, probability: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Independent coins of exactly the given probability (of its first 128 binary places).

    >>> coins(secure_words, 1.0, (3,)).all(), coins(secure_words, 0.0, (3,)).any()
    (np.True_, np.False_)
    """
    limit = np.asarray(probability, np.float64)
    good = (limit >= 0) & (limit <= 1)
    check(bool(good.all()), "probability", "from 0 to 1", limit[~good][:1].tolist())
    sure = limit >= 1
    # Scaling by 2^64 is exact: the whole part is compared with one word, the rest with a second at a tie.
    scaled = np.where(sure, 0.0, limit * 2.0**64)
    whole = scaled.astype(np.uint64)
    drawn = source(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    out = np.asarray((drawn < whole) | sure)
    ties = (drawn == whole) & ~sure
    if ties.any():
        rest = np.broadcast_to((scaled - np.floor(scaled)) * 2.0**64, shape)[ties].astype(np.uint64)
        out[ties] = source(len(rest)) < rest
    return out


def below(source: Source, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Uniform whole numbers from 0 to ``limit`` - 1, by rejection, so without any bias.

    >>> set(below(secure_words, 3, (200,)).tolist()) == {0, 1, 2}
    True
    """
    check_count("limit", limit)
    size = int(np.prod(shape, dtype=np.int64))
    mask = np.uint64((1 << (limit - 1).bit_length()) - 1)
    out = np.empty(size, np.int64)
    missing = np.arange(size)
    while len(missing):
        drawn = source(len(missing)) & mask
        good = drawn < np.uint64(limit)
        out[missing[good]] = drawn[good].astype(np.int64)
        missing = missing[~good]
    return out.reshape(shape)


def uniforms(source: Source, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Multiples of 2^-53 from 0 up to but not including 1.

    >>> bool((uniforms(secure_words, (9,)) < 1).all())
    True
    """
    size = int(np.prod(shape, dtype=np.int64))
    return np.asarray((source(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)
