"""The perturber of whole user profiles: numbers and categories, a few drawn at random, the rest left out.

Guarantee. Unit: the profile of one user, replaced. Local: the output is epsilon-DP in the whole profile,
whoever sees it. Of the d features ``chosen`` are drawn per user, independently of the data, and reported with
epsilon / chosen each (numbers by ``Piecewise``, categories by ``UnaryEncoding``); the others become 0. For a
given draw at most min(s, chosen) of any s features are reported, and a mixture over draws is no worse than
its worst part: s features together are min(s, chosen) epsilon / chosen -DP, one alone epsilon / chosen.
References: Zhang et al., "Graph embedding for recommendation against attribute inference attacks" (GERAI),
WWW 2021, algorithms 1 and 2, with the condition of algorithm 2 on the true bit; Hu and Fang,
"Towards differential privacy in sequential recommendation" (DIPSGNN).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_count, check_positive
from veilrec.privacy.events import PureEvent
from veilrec.privacy.mechanisms.piecewise import Outside, Piecewise
from veilrec.privacy.mechanisms.unary import UnaryEncoding
from veilrec.privacy.noise import Noise

# The budget per feature from which on the papers report one more of them.
BUDGET_PER_FEATURE = 2.5


@dataclass(frozen=True)
class MixedPerturber:
    """Perturbs ``numeric`` numbers of [-1, 1] and categories of the given ``sizes`` per user.

    ``selected``: how many features a user reports; by default max(1, min(d, floor(epsilon / 2.5))).
    ``rescale``: bits become unbiased estimates, (b - q) / (p - q) x d / chosen; the papers leave them bits.
    ``names``: of all features, numbers first; by default "number 0", ..., "category 0", ...

    >>> perturber = MixedPerturber(numeric=18, sizes=(2, 21, 3), epsilon=20.0)
    >>> perturber.chosen, perturber.epsilon_of(1), perturber.epsilon_of(3), perturber.epsilon_of(21)
    (8, 2.5, 7.5, 20.0)
    >>> numbers, codes = np.zeros((5, 18)), np.zeros((5, 3), np.int64)
    >>> perturber.perturb(numbers, codes, Noise.research(1)).shape
    (5, 44)
    """

    numeric: int
    sizes: tuple[int, ...]
    epsilon: float
    selected: int | None = None
    rescale: bool = False
    outside: Outside = "refuse"
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_count("numeric", self.numeric, 0)
        object.__setattr__(self, "sizes", tuple(self.sizes))
        for size in self.sizes:
            check_count("sizes", size, 2)
        check_positive("epsilon", self.epsilon)
        check(self.features > 0, "features", "at least one", 0)
        if self.selected is not None:
            check_count("selected", self.selected)
            check(self.selected <= self.features, "selected", f"at most {self.features}", self.selected)
        if not self.names:
            numbers = [f"number {j}" for j in range(self.numeric)]
            object.__setattr__(self, "names", (*numbers, *(f"category {j}" for j in range(len(self.sizes)))))
        good = len(set(self.names)) == len(self.names) == self.features
        check(good, "names", f"{self.features} different names", self.names)
        Piecewise(self.epsilon / self.chosen, self.outside)  # has checks of its own

    @property
    def features(self) -> int:
        """d: numbers and categories together."""
        return self.numeric + len(self.sizes)

    @property
    def width(self) -> int:
        """The coordinates of the output: one per number, one per value of a category."""
        return self.numeric + sum(self.sizes)

    @property
    def chosen(self) -> int:
        """How many features each user reports."""
        if self.selected is not None:
            return self.selected
        return max(1, int(min(self.features, self.epsilon // BUDGET_PER_FEATURE)))

    def epsilon_of(self, count: int) -> float:
        """The epsilon of any ``count`` features of one user, the others fixed."""
        check_count("count", count)
        return min(count, self.chosen) * self.epsilon / self.chosen

    @property
    def event(self) -> PureEvent:
        """One report of the whole profile."""
        return PureEvent(epsilon=self.epsilon, neighbours="replace")

    def event_of(self, *names: str) -> PureEvent:
        """The same report as an event in the named features alone; it replaces ``event``, it adds nothing.

        >>> MixedPerturber(1, (2, 7), 20.0, names=("mean", "gender", "age")).event_of("age").epsilon
        6.666666666666667
        """
        unknown = sorted(set(names) - set(self.names))
        check(not unknown and bool(names), "names", f"some of {', '.join(self.names)}", unknown or names)
        return PureEvent(
            epsilon=self.epsilon_of(len(set(names))), neighbours="replace", label=", ".join(names)
        )

    def perturb(
        self, numbers: ArrayLike, codes: ArrayLike, noise: Noise, label: str = ""
    ) -> NDArray[np.float64]:
        """The reports: ``numbers`` [users, numeric] and ``codes`` [users, categories] to [users, width].

        Called once per user: every further call is a further event.
        """
        x, c = np.asarray(numbers, np.float64), np.asarray(codes)
        good = x.ndim == 2 and c.ndim == 2 and len(x) == len(c)
        good = good and (x.shape[1], c.shape[1]) == (self.numeric, len(self.sizes))
        wanted = f"tables of {self.numeric} numbers and {len(self.sizes)} codes for the same users"
        check(good, "numbers and codes", wanted, (x.shape, c.shape))
        reported = np.zeros((len(x), self.features), bool)
        np.put_along_axis(reported, noise.subsets(len(x), self.features, self.chosen), True, axis=1)
        each, scale = self.epsilon / self.chosen, self.features / self.chosen
        out = np.empty((len(x), self.width))
        # np.where, not a product: 0 x -1.5 is -0.0, whose sign bit would tell of a report that was left out
        drawn = Piecewise(each, self.outside).draw(x, noise) * scale
        out[:, : self.numeric] = np.where(reported[:, : self.numeric], drawn, 0.0)
        start = self.numeric
        for j, size in enumerate(self.sizes):
            coder = UnaryEncoding(each, size)
            bits = coder.draw(c[:, j], noise).astype(np.float64)
            if self.rescale:
                bits = (bits - coder.false) / (coder.truth - coder.false) * scale
            out[:, start : start + size] = np.where(reported[:, self.numeric + j, None], bits, 0.0)
            start += size
        noise.record(self.event.named(label), [self.event_of(name) for name in self.names])
        return out

    def variance(self, x: ArrayLike) -> NDArray[np.float64]:
        """The variance of a reported number, draw included: (d / chosen) (Var + x^2) - x^2; its mean is x.

        >>> round(float(MixedPerturber(18, (2, 21, 3), 20.0).variance(0.3)), 3)
        1.157
        """
        x = np.asarray(x, np.float64)
        plain = Piecewise(self.epsilon / self.chosen).variance(x)
        return np.asarray(self.features / self.chosen * (plain + x**2) - x**2)
