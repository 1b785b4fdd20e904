"""The compiled parts of the samplers. ``place[0]`` is the next word; ``place[1]`` is 1 when words ran out."""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

_jit: Any = nb.njit(cache=True, nogil=True)

# exp(-1) in base 2^64.
_INVERSE_OF_E = (
    np.uint64(0x5E2D58D8B3BCDF1A),
    np.uint64(0xBADEC7829054F90D),
    np.uint64(0xDA9805AAB56C7733),
    np.uint64(0x3024B9D0A507DAED),
)

# Proposals beyond this many scales would be kept with less than exp(-700); squared they could overflow.
_FAR = 40


@_jit
def _word(words, place):  # type: ignore[no-untyped-def]
    if place[0] >= len(words):
        place[1] = 1
        return np.uint64(0)
    place[0] += 1
    return words[place[0] - 1]


@_jit
def _ones(number):  # type: ignore[no-untyped-def]
    """The smallest 2^k - 1 that is not below ``number``."""
    for shift in (1, 2, 4, 8, 16, 32):
        number |= number >> np.uint64(shift)
    return number


@_jit
def _below(limit, words, place):  # type: ignore[no-untyped-def]
    """A uniform whole number below ``limit``."""
    mask = _ones(np.uint64(limit - 1))
    while True:
        drawn = _word(words, place) & mask
        if drawn < np.uint64(limit) or place[1]:
            return np.int64(drawn)


@_jit
def _exp_coin_small(top, low, words, place):  # type: ignore[no-untyped-def]
    """True with probability exp(-top / low), for top <= low (algorithm 1 of the paper, first case)."""
    k = np.int64(1)
    while not place[1]:
        if _below(low * k, words, place) >= top:
            break
        k += 1
    return k % 2 == 1


@_jit
def _coin_of_e(words, place):  # type: ignore[no-untyped-def]
    """True with probability exp(-1), compared bit by bit to 256 bits; a draw seldom needs a second word."""
    for digit in _INVERSE_OF_E:
        drawn = _word(words, place)
        if drawn != digit:
            return drawn < digit
    return False


@_jit
def _exp_coin(top, low, words, place):  # type: ignore[no-untyped-def]
    """True with probability exp(-top / low)."""
    while top > low:
        if place[1] or not _coin_of_e(words, place):
            return False
        top -= low
    return _exp_coin_small(top, low, words, place)


@_jit
def _laplace_one(top, low, words, place):  # type: ignore[no-untyped-def]
    """One discrete Laplace of scale top / low (algorithm 2)."""
    mask = _ones(np.uint64(top - 1))
    while not place[1]:
        drawn = _word(words, place)  # the top bit is the sign, the low bits are the part
        part, negative = np.int64(drawn & mask), drawn >> np.uint64(63)
        if part >= top or not _exp_coin_small(part, top, words, place):
            continue
        turns = np.int64(0)
        while not place[1] and _coin_of_e(words, place):
            turns += 1
        size = (part + top * turns) // low
        if negative and size == 0:
            continue
        return -size if negative else size
    return np.int64(0)


@_jit
def laplace(out, done, words, top, low):  # type: ignore[no-untyped-def]
    """Discrete Laplace values of scale ``top`` / ``low`` into ``out`` from ``done`` on."""
    place = np.zeros(2, np.int64)
    while done < len(out):
        start = place[0]
        value = _laplace_one(np.int64(top), np.int64(low), words, place)
        if place[1]:
            return done, start
        out[done] = value
        done += 1
    return done, place[0]


@_jit
def gaussian(out, done, words, top, low, scale):  # type: ignore[no-untyped-def]
    """Discrete Gaussian values of variance ``top`` / ``low`` (algorithm 3) with proposals of ``scale``."""
    place = np.zeros(2, np.int64)
    low_of_coin = 2 * top * low * scale * scale
    while done < len(out):
        start = place[0]
        value = _laplace_one(np.int64(scale), np.int64(1), words, place)
        gap = abs(value) * scale * low - top
        good = abs(value) <= _FAR * scale and _exp_coin(gap * gap, low_of_coin, words, place)
        if place[1]:
            return done, start
        if good:
            out[done] = value
            done += 1
    return done, place[0]


@_jit
def gaussian_whole(out, done, words, sigma):  # type: ignore[no-untyped-def]
    """The same for a whole ``sigma``, also the scale of the proposals: exp(-(|y| - sigma)^2 / 2 sigma^2)."""
    place = np.zeros(2, np.int64)
    while done < len(out):
        start = place[0]
        value = _laplace_one(np.int64(sigma), np.int64(1), words, place)
        gap = abs(value) - sigma
        good = abs(value) <= _FAR * sigma and _exp_coin(gap * gap, 2 * sigma * sigma, words, place)
        if place[1]:
            return done, start
        if good:
            out[done] = value
            done += 1
    return done, place[0]


@_jit
def _uniform(words, place):  # type: ignore[no-untyped-def]
    return (float(_word(words, place) >> np.uint64(11)) + 0.5) * 2.0**-53


@_jit
def poisson_small(out, done, words, rate):  # type: ignore[no-untyped-def]
    """Poisson counts of a rate below 10, by inversion."""
    place = np.zeros(2, np.int64)
    first = math.exp(-rate)
    while done < len(out):
        start = place[0]
        left, term, count = _uniform(words, place), first, 0
        while left > term and (count < rate or term > 1e-17):  # beyond lies less than a uniform can tell
            left -= term
            count += 1
            term *= rate / count
        if place[1]:
            return done, start
        out[done] = count
        done += 1
    return done, place[0]


@_jit
def log_poisson(count, rate):  # type: ignore[no-untyped-def]
    """The logarithm of the Poisson probability, in Loader's saddle-point form.

    The textbook sum -rate + count log(rate) - lgamma(count + 1) loses all its digits at large rates.
    Reference: C. Loader, "Fast and accurate computation of binomial probabilities", 2000.
    """
    if count < 16:
        return -rate + count * math.log(rate) - math.lgamma(count + 1.0)
    off = count - rate
    if abs(off) < 0.1 * (count + rate):
        v = off / (count + rate)
        deviance, term, j = off * v, 2 * count * v, 1
        v *= v
        while True:
            term *= v
            better = deviance + term / (2 * j + 1)
            if better == deviance:
                break
            deviance, j = better, j + 1
    else:
        deviance = count * math.log(count / rate) - off
    inverse = 1 / (count * count)
    stirling = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / count
    return -deviance - stirling - 0.5 * math.log(2 * math.pi * count)


@_jit
def poisson_large(out, done, words, rate):  # type: ignore[no-untyped-def]
    """Poisson counts of a rate of 10 and above: PTRS (Hoermann, 1993)."""
    place = np.zeros(2, np.int64)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while done < len(out):
        start = place[0]
        count = np.int64(-1)
        while not place[1]:
            u = _uniform(words, place) - 0.5
            v = _uniform(words, place)
            us = 0.5 - abs(u)
            k = math.floor((2 * a / us + b) * u + rate + 0.43)
            if us >= 0.07 and v <= v_r:
                count = np.int64(k)
                break
            if k < 0 or (us < 0.013 and v > us):
                continue
            left = math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
            if left <= log_poisson(float(k), rate):
                count = np.int64(k)
                break
        if place[1]:
            return done, start
        out[done] = count
        done += 1
    return done, place[0]


@_jit
def mark_largest(start, stop, values, ends, keep, marks):  # type: ignore[no-untyped-def]
    """Mark the ``keep`` largest values of the groups from ``start`` to ``stop``; ties go to the first."""
    for group in range(start, stop):
        first, last = ends[group], ends[group + 1]
        left = min(keep[group], last - first)
        if left < 1:
            continue
        smallest = np.partition(values[first:last], last - first - left)[last - first - left]
        for place in range(first, last):
            if values[place] > smallest:
                marks[place] = True
                left -= 1
        for place in range(first, last):
            if left and values[place] == smallest:
                marks[place] = True
                left -= 1
