"""Renyi curves for what has no privacy loss distribution: Skellam noise, alone or beside Gaussian noise.

- Skellam on whole-number vectors (Agarwal, Kairouz, Liu, "The Skellam mechanism for differentially private
  federated learning", NeurIPS 2021, theorem 3.5), with mu the variance, D2 and D1 the L2 and L1 distances:
  alpha D2^2 / (2 mu) + min(((2 alpha - 1) D2^2 + 6 D1) / (4 mu^2), 3 D1 / (2 mu)).
- Poisson sampling, adding or removing one unit, whole orders: :func:`sampled_renyi`.
- From Renyi to (epsilon, delta): Canonne, Kamath and Steinke, 2020, proposition 12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veilrec.privacy.events import Event, GaussianEvent, SkellamEvent

ORDERS = (*range(2, 65), *range(72, 257, 8), *range(320, 2049, 64))


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """The epsilon at ``delta`` of Skellam and un-sampled Gaussian events together.

    >>> event = SkellamEvent(variance=1e8, l2=1e4, l1=1e6)
    >>> 4.37 < renyi_epsilon([event], 1e-5) < 5.0
    True
    """
    best = math.inf
    for order in ORDERS:
        rho = math.fsum(event.count * renyi_of(event, order) for event in events)
        found = rho + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        best = min(best, found)
    return max(best, 0.0)


def renyi_of(event: Event, order: int) -> float:
    """The Renyi divergence of one release at a whole order.

    >>> renyi_of(GaussianEvent(noise_multiplier=2.0), 4)
    0.5
    """
    if isinstance(event, GaussianEvent):
        assert event.sampling_rate == 1
        return order / (2 * event.noise_multiplier**2)
    assert isinstance(event, SkellamEvent)
    if event.sampling_rate == 1:
        return float(_skellam(event, order))
    return sampled_renyi(_skellam(event, np.arange(2, order + 1)), event.sampling_rate)


def sampled_renyi(curve: ArrayLike, sampling_rate: float) -> float:
    """The bound at order len(curve) + 1 under Poisson sampling, from the curve at orders 2, 3, ...

    For noise that is added and symmetric. Let P be what is released without a unit, Q with it, r = Q / P, and
    M = (1 - q) P + q Q. The mean of (M / P)^a under P is a binomial sum of means of r^j, which the curve
    bounds (Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian mechanism", 2019):
    that is the divergence of M from P. The divergence of P from M is no larger (their theorem 5, for
    densities). Proof. Reflecting about half of the shift swaps P and Q, so it pairs outcomes with ratios r
    and 1 / r and chances p and r p. With h(t) = t^a - t^(1 - a), what is to be shown of each pair with r > 1
    is h(A) + r h(B) >= 0, for A = 1 - q + q r and B = 1 - q + q / r. Since h(1 / t) = -h(t) / t, that is
    h(A) >= c h(d) with c = r B >= 1 and d = 1 / B. Now A - 1 = q (r - 1) = c (d - 1): d lies between 1 and A,
    at (1 - 1 / c) 1 + (1 / c) A; h is convex from 1 on, and h(1) = 0.

    >>> sampled_renyi([0.1], 1e-3) < 0.1
    True
    """
    from scipy.special import gammaln, logsumexp

    found = np.asarray(curve, np.float64)
    order, q = len(found) + 1, sampling_rate
    keep, drop = math.log(q), math.log1p(-q)
    j = np.arange(2, order + 1)
    choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    terms = choose + (order - j) * drop + j * keep + (j - 1) * found
    first = (order - 1) * drop + math.log(order * q - q + 1)  # j = 0 and 1
    return max(0.0, float(logsumexp(np.append(terms, first))) / (order - 1))


def _skellam(event: SkellamEvent, order: Any) -> Any:
    """At one order or an array of them."""
    mu, d2, d1 = event.variance, event.l2, event.l1
    first = ((2 * order - 1) * d2**2 + 6 * d1) / (4 * mu**2)
    return order * d2**2 / (2 * mu) + np.minimum(first, 3 * d1 / (2 * mu))
