"""Confidence intervals, paired tests, effect sizes, and the correction for many comparisons.

What is paired is a unit measured under two models: a user (per-user values of a metric) or a seed (means).
Intervals over users say how far the mean would move with other users; intervals over seeds, with other
random numbers in split and training. Neither stands for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_fraction, stream

_CELLS = 1 << 22  # numbers held at a time while resampling


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its confidence interval.

    >>> print(Interval(0.25, 0.2, 0.3, 0.95))
    0.2500 [0.2000, 0.3000]
    """

    mean: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a two-sided paired test.

    >>> paired_t([2, 4, 6], [1, 2, 3]).p_value < 0.1
    True
    """

    test: str
    statistic: float
    p_value: float


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval of the mean: mean -/+ t(n - 1) s / sqrt(n), over users or any independent units.

    >>> print(mean_interval([1, 2, 3]))
    2.0000 [-0.4841, 4.4841]
    """
    from scipy.special import stdtrit

    numbers = _numbers("values", values)
    check_fraction("level", level)
    half = stdtrit(len(numbers) - 1, (1 + level) / 2) * numbers.std(ddof=1) / np.sqrt(len(numbers))
    mean = float(numbers.mean())
    return Interval(mean, float(mean - half), float(mean + half), level)


def seed_interval(runs: Sequence[ArrayLike], level: float = 0.95) -> Interval:
    """The t interval over seeds: each run, the per-user values under one seed, counts as its mean.

    >>> print(seed_interval([[0, 2], [1, 3], [2, 4]]))
    2.0000 [-0.4841, 4.4841]
    """
    check(len(runs) >= 2, "runs", "of two seeds or more", len(runs), "One seed has no spread.")
    return mean_interval([_numbers("runs", run, minimum=1).mean() for run in runs], level)


def bootstrap_interval(
    values: ArrayLike, *, seed: int, level: float = 0.95, n_resamples: int = 2000
) -> Interval:
    """The percentile bootstrap of the mean: quantiles of the means of resamples drawn with replacement.

    >>> interval = bootstrap_interval([0.0] * 50 + [1.0] * 50, seed=1)
    >>> 0.39 < interval.low < 0.42 and 0.58 < interval.high < 0.61
    True
    """
    numbers = _numbers("values", values)
    check_fraction("level", level)
    check_count("n_resamples", n_resamples, 100)
    generator = stream(seed, "bootstrap")
    size = len(numbers)
    means = [
        numbers[generator.integers(0, size, (part, size))].mean(axis=1) for part in _parts(n_resamples, size)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(numbers.mean()), float(low), float(high), level)


def paired_t(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Student's paired t test of "the mean difference is zero".

    No difference anywhere gives p = 1; the same non-zero difference everywhere gives an infinite t and p = 0.

    >>> paired_t([2, 4, 6], [1, 2, 3]).statistic
    3.4641016151377544
    """
    from scipy.special import stdtr

    difference = _differences(a, b)
    statistic = cohen_dz(a, b) * np.sqrt(len(difference))
    return PairedTest("paired t", float(statistic), float(2 * stdtr(len(difference) - 1, -abs(statistic))))


def wilcoxon(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Wilcoxon's signed-rank test; pairs without a difference are left out, and if none is left p = 1.

    The statistic is the smaller of the two rank sums. The p-value is exact for few pairs (up to 50 without
    ties), else from the normal approximation.

    >>> wilcoxon([2, 4, 6, 8, 10], [1, 2, 3, 4, 5])
    PairedTest(test='Wilcoxon signed-rank', statistic=0.0, p_value=0.0625)
    """
    difference = _differences(a, b)
    if not difference.any():
        return PairedTest("Wilcoxon signed-rank", 0.0, 1.0)
    from scipy import stats

    found = stats.wilcoxon(difference[difference != 0])
    return PairedTest("Wilcoxon signed-rank", float(found.statistic), float(found.pvalue))


def sign_flip_test(a: ArrayLike, b: ArrayLike, *, seed: int, n_permutations: int = 10_000) -> PairedTest:
    """The permutation test of paired differences: under the null each may as well have the other sign.

    The statistic is the mean difference; p is the share of sign patterns whose mean is at least as far from
    zero. All patterns are taken when they are no more than ``n_permutations``; otherwise that many are drawn,
    and p = (1 + as far) / (1 + n_permutations), which is never 0.

    >>> sign_flip_test([2, 4, 6, 8, 10], [1, 2, 3, 4, 5], seed=1).p_value
    0.0625
    """
    check_count("n_permutations", n_permutations, 100)
    difference = _differences(a, b)
    moving = difference[difference != 0]  # a zero keeps its value under either sign
    observed = abs(float(moving.sum())) * (1 - 1e-12)  # so that rounding cannot part equal patterns
    exact = len(moving) < 63 and 2 ** len(moving) <= n_permutations
    as_far = 0
    for signs in _all_signs(len(moving)) if exact else _drawn_signs(len(moving), n_permutations, seed):
        as_far += int(np.count_nonzero(np.abs(signs @ moving) >= observed))
    p_value = as_far / 2 ** len(moving) if exact else (1 + as_far) / (1 + n_permutations)
    return PairedTest("sign-flip permutation", float(difference.mean()), p_value)


def cohen_dz(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's d_z of paired values: the mean difference over the standard deviation of the differences.

    0 when there is no difference anywhere; infinite when all differences are the same and not zero.

    >>> cohen_dz([2, 4, 6], [1, 2, 3])
    2.0
    """
    difference = _differences(a, b)
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if bool((difference == difference[0]).all()):
        return float(np.sign(difference[0]) * np.inf) if difference[0] != 0 else 0.0
    return mean / spread


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float:
    """Cliff's delta: P(a > b) - P(a < b) over all pairs of a value of ``a`` and one of ``b``, unpaired.

    >>> cliffs_delta([1, 2, 3], [0, 2])
    0.5
    """
    first, second = _numbers("a", a, minimum=1), np.sort(_numbers("b", b, minimum=1))
    below = np.searchsorted(second, first, side="left").sum()
    above = (len(second) - np.searchsorted(second, first, side="right")).sum()
    return float((below - above) / (len(first) * len(second)))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjusted p-values, in the given order: reject where they are at most the wanted error rate.

    The i-th smallest of m is multiplied by m - i + 1, made no smaller than the one before, and cut at 1.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    numbers = _numbers("p_values", p_values, minimum=1)
    check(bool(((numbers >= 0) & (numbers <= 1)).all()), "p_values", "from 0 to 1", p_values)
    order = np.argsort(numbers, kind="stable")
    raised = np.maximum.accumulate(numbers[order] * np.arange(len(numbers), 0, -1))
    adjusted = np.empty(len(numbers))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


def _numbers(name: str, values: ArrayLike, minimum: int = 2) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    check(numbers.ndim == 1 and len(numbers) >= minimum, name, f"{minimum} numbers or more", numbers.shape)
    strange = numbers[~np.isfinite(numbers)]
    check(strange.size == 0, name, "finite numbers", strange[:3].tolist())
    return numbers


def _differences(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    first, second = _numbers("a", a), _numbers("b", b)
    check(len(first) == len(second), "b", f"as long as a, {len(first)}", len(second), "Pair the same users.")
    return first - second


def _parts(total: int, width: int) -> Iterator[int]:
    """``total`` rows of ``width`` numbers, in parts that fit in memory."""
    step = max(1, _CELLS // max(width, 1))
    for start in range(0, total, step):
        yield min(step, total - start)


def _all_signs(width: int) -> Iterator[NDArray[np.float64]]:
    patterns = np.arange(2**width)[:, None] >> np.arange(width)
    yield (1 - 2 * (patterns & 1)).astype(np.float64)


def _drawn_signs(width: int, total: int, seed: int) -> Iterator[NDArray[np.float64]]:
    generator = stream(seed, "sign flips")
    for part in _parts(total, width):
        bits = np.unpackbits(
            np.frombuffer(generator.bytes(part * width // 8 + 1), np.uint8), count=part * width
        )
        yield bits.reshape(part, width) * np.float64(-2.0) + np.float64(1.0)
