"""Laplace noise made of shares: each of n parties adds its own, and only the sum is Laplace.

Guarantee. Of the *sum*, for somebody who sees the sum and no share: pure epsilon = sensitivity / scale, as
for ``Laplace``. A single share hides little, a party that knows its own share removes it, and where some
parties collude the rest of the noise is thinner: this covers the outsider, not the other parties.

- ``ExponentialNormalShares``: b sqrt(2 h) (c_1 + ... + c_n), one h ~ Exp(1) known to all, c_i ~ N(0, 1/n).
  Reference: Meng et al., "Personalized privacy-preserving social recommendation", AAAI 2018, lemma 1.
- ``GammaShares``: the sum of n differences of two Gamma(1/n, b); nothing is shared. Reference: Kotz,
  Kozubowski and Podgorski, "The Laplace distribution and generalizations", 2001, section 2.4.

Shares are floating-point ingredients in both grades of noise: their low bits are not protected. A sum that is
to be published for good takes whole-number shares (``Skellam.share``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_choice, check_count, check_non_negative, check_positive
from veilrec.privacy.events import RELATIONS, LaplaceEvent, Neighbours
from veilrec.privacy.noise import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Shares:
    scale: float
    parties: int
    sensitivity: float = 1.0
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_count("parties", self.parties)
        check_positive("sensitivity", self.sensitivity)
        check_choice("neighbours", self.neighbours, RELATIONS)

    @property
    def event(self) -> LaplaceEvent:
        """One release of the sum of all shares; a party that draws its share records nothing."""
        return LaplaceEvent(noise_multiplier=self.scale / self.sensitivity, neighbours=self.neighbours)

    def _contributions(self, values: ArrayLike) -> Floats:
        x = np.asarray(values, np.float64)
        good = x.ndim >= 1 and len(x) == self.parties
        check(good, "contributions", f"{self.parties} along the first axis, one per party", x.shape)
        check(bool(np.isfinite(x).all()), "contributions", "finite numbers", x[~np.isfinite(x)][:1].tolist())
        return x


@dataclass(frozen=True)
class ExponentialNormalShares(_Shares):
    """Shares b sqrt(2 h) c_i with a common h. To be used where a paper asks for it; else ``GammaShares``.

    Whoever knows h (every party, and in PrivSR the recommender that hands it out) knows how much noise there
    is. To them the sum is normal with deviation b sqrt(2 h), which for a small h is next to nothing: no
    finite epsilon holds, only the (epsilon, delta) of ``delta_knowing``.

    >>> shares = ExponentialNormalShares(scale=2.0, parties=3)
    >>> noise = Noise.research(1)
    >>> h = shares.common((4,), noise)
    >>> shares.share(h, noise).shape, len(noise.events)
    ((4,), 0)
    >>> round(shares.delta_knowing(shares.sensitivity / shares.scale), 3)   # the sum alone has delta 0 here
    0.098
    """

    def common(self, shape: tuple[int, ...], noise: Noise) -> Floats:
        """The h of each coordinate, drawn once and told to every party."""
        return noise.exponentials(shape)

    def share(self, common: ArrayLike, noise: Noise) -> Floats:
        """The share of one party."""
        h = np.asarray(common, np.float64)
        check(bool((h >= 0).all()), "common", "numbers, 0 or above, drawn by common()", h)
        return np.asarray(self.scale * np.sqrt(2 * h / self.parties) * noise.normals(h.shape))

    def release(self, contributions: ArrayLike, noise: Noise, label: str = "") -> Floats:
        """The sum of the parties' contributions (first axis) and shares."""
        x = self._contributions(contributions)
        h = self.common(x.shape[1:], noise)
        out = sum((row + self.share(h, noise) for row in x), np.zeros(x.shape[1:]))
        noise.record(self.event.named(label), in_floats=True)
        return np.asarray(out)

    def delta_knowing(self, epsilon: float) -> float:
        """The delta of one coordinate against somebody who knows h: the mean over h of the Gaussian one.

        With r = sensitivity / scale the mean of ``gaussian_delta(r / sqrt(2 h), epsilon)`` has a closed form,
        1 - exp(-r^2 / 2 / (epsilon + sqrt(epsilon^2 + r^2))). Integrate by parts; what is left is the
        integral of h^-3/2 exp(-p / h - q h), which is sqrt(pi / p) exp(-2 sqrt(p q)).
        """
        check_non_negative("epsilon", epsilon)
        r = self.sensitivity / self.scale
        e = epsilon / r if r > 0 else math.inf
        return -math.expm1(-r / 2 / (e + math.hypot(e, 1)))


@dataclass(frozen=True)
class GammaShares(_Shares):
    """Shares that need no common secret: differences of two gamma numbers of shape 1/n.

    >>> shares = GammaShares(scale=2.0, parties=100)
    >>> noise = Noise.research(1)
    >>> shares.share((5,), noise).shape, shares.share_variance
    ((5,), 0.08)
    >>> shares.release(np.ones((100, 2)), noise).shape, len(noise.events)
    ((2,), 1)
    """

    @property
    def share_variance(self) -> float:
        """The variance of one share, 2 b^2 / n."""
        return 2 * self.scale**2 / self.parties

    def share(self, shape: tuple[int, ...], noise: Noise) -> Floats:
        """The share of one party."""
        plus, minus = _gammas(1 / self.parties, (2, *shape), noise)
        return np.asarray(self.scale * (plus - minus))

    def release(self, contributions: ArrayLike, noise: Noise, label: str = "") -> Floats:
        """The sum of the parties' contributions (first axis) and shares."""
        x = self._contributions(contributions)
        out = (x + self.share(x.shape, noise)).sum(axis=0)
        noise.record(self.event.named(label), in_floats=True)
        return np.asarray(out)


def _gammas(alpha: float, shape: tuple[int, ...], noise: Noise) -> Floats:
    """Gamma numbers of shape ``alpha``: by Marsaglia and Tsang (2000) at alpha + 1, times U^(1/alpha)."""
    d = alpha + 2 / 3
    c = 1 / math.sqrt(9 * d)
    size = math.prod(shape)
    out = np.empty(size)
    missing = np.arange(size)
    while len(missing):
        x = noise.normals(missing.shape)
        v = np.maximum(1 + c * x, 0) ** 3
        with np.errstate(divide="ignore"):
            good = -noise.exponentials(missing.shape) < 0.5 * x**2 + d - d * v + d * np.log(v)
        out[missing[good]] = d * v[good]
        missing = missing[~good]
    return np.asarray(out * np.exp(-noise.exponentials((size,)) / alpha)).reshape(shape)
