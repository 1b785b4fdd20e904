"""Exact samplers of integer noise, compiled, fed with random words.

The discrete Laplace and the discrete Gaussian are drawn by the algorithms of Canonne, Kamath and Steinke
("The discrete Gaussian for differential privacy", 2020, algorithms 1 to 3): every step compares whole
numbers, so the distribution is exact and no floating-point pattern can betray the value underneath. Poisson
(for Skellam noise) is drawn by Hoermann's transformed rejection, whose acceptance test is in double
precision: the output is an integer, and each of its probabilities is off by some 1e-13 of itself at small
rates and by 3e-9 at the largest.

A kernel stops when its words run out, in the middle of a value if need be. That value is started again with
the same words followed by fresh ones: throwing it away would favour values that need few words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilrec.core import check, check_positive
from veilrec.privacy.words import Source

LARGEST_GAUSSIAN = 1 << 26
LARGEST_LAPLACE = 1 << 40
LARGEST_POISSON = 1e15
_FINE = 1 << 24


def discrete_laplace(source: Source, scale: float, size: int) -> NDArray[np.int64]:
    """``size`` whole numbers with P(x) proportional to exp(-|x| / scale); the scale is rounded up to a
    fraction of 2^24 (or to a whole number, when it is larger).

    >>> from veilrec.privacy.words import secure_words
    >>> len(discrete_laplace(secure_words, 2.5, 4))
    4
    """
    check_positive("scale", scale)
    check(scale <= LARGEST_LAPLACE, "scale", "at most 2^40 on the lattice", scale, "Choose a coarser one.")
    low = 1 << min(62, max(0, int(math.log2(_FINE / scale)))) if scale < _FINE else 1
    top = math.ceil(scale * low)
    return _drawn(_kernels()["laplace"], source, size, 12, (top, low))


def discrete_gaussian(source: Source, sigma: float, size: int) -> NDArray[np.int64]:
    """``size`` whole numbers with P(x) proportional to exp(-x^2 / (2 sigma^2)); sigma is rounded up, by less
    than one part in 2,000 (the variance to a multiple of 2^-24, which matters to a sigma below 0.01 only).

    >>> from veilrec.privacy.words import secure_words
    >>> len(discrete_gaussian(secure_words, 10.0, 4))
    4
    """
    check_positive("sigma", sigma)
    check(sigma <= LARGEST_GAUSSIAN, "sigma", "at most 2^26 on the lattice", sigma, "Choose a coarser one.")
    if sigma >= 4096:  # a whole sigma keeps every product below 2^63
        whole = math.ceil(sigma)
        return _drawn(_kernels()["gaussian_whole"], source, size, 16, (whole,))
    low = 1 << max(0, int(math.log2(_FINE / max(sigma, 1.0) ** 2)))
    return _drawn(
        _kernels()["gaussian"], source, size, 20, (math.ceil(sigma**2 * low), low, math.floor(sigma) + 1)
    )


def poisson(source: Source, rate: float, size: int) -> NDArray[np.int64]:
    """``size`` Poisson counts.

    >>> from veilrec.privacy.words import secure_words
    >>> int(poisson(secure_words, 5.0, 4).min()) >= 0
    True
    """
    check_positive("rate", rate)
    check(rate <= LARGEST_POISSON, "rate", "at most 1e15", rate, "Choose a coarser lattice.")
    name = "poisson_large" if rate >= 10 else "poisson_small"
    return _drawn(_kernels()[name], source, size, 4 if rate >= 10 else 2, (float(rate),))


def skellam(source: Source, variance: float, size: int) -> NDArray[np.int64]:
    """``size`` differences of two Poisson counts, of the given variance.

    >>> from veilrec.privacy.words import secure_words
    >>> len(skellam(secure_words, 9.0, 4))
    4
    """
    check_positive("variance", variance)
    return poisson(source, variance / 2, size) - poisson(source, variance / 2, size)


def _drawn(
    kernel: Any, source: Source, size: int, words_each: int, parameters: tuple[Any, ...]
) -> NDArray[np.int64]:
    out = np.empty(size, np.int64)
    done, words = 0, np.empty(0, np.uint64)
    while done < size:
        words = np.concatenate([words, source(min((size - done) * words_each + 64, 1 << 20))])
        done, used = kernel(out, done, words, *parameters)
        words = words[used:]
    return out


@cache
def _kernels() -> dict[str, Callable[..., tuple[int, int]]]:
    """Compiled on first use, so that importing the room costs nothing."""
    from veilrec.privacy import kernels

    return {
        "laplace": kernels.laplace,
        "gaussian": kernels.gaussian,
        "gaussian_whole": kernels.gaussian_whole,
        "poisson_small": kernels.poisson_small,
        "poisson_large": kernels.poisson_large,
    }
