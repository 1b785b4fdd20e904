"""The exact privacy curve of Gaussian noise: mu = sensitivity / sigma, k releases add as mu sqrt(k).

Reference: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8:
delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
"""

from __future__ import annotations

import math
from collections.abc import Callable


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of a release with mean shift ``mu`` at ``epsilon``.

    >>> round(gaussian_delta(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    plus = log_ndtr(mu / 2 - epsilon / mu)
    minus = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(plus) * -math.expm1(min(minus - plus, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of a release with mean shift ``mu`` at ``delta``.

    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0:
        return math.inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    return _crossing(lambda e: gaussian_delta(mu, e) <= delta, 0.0, high)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mean shift that (epsilon, delta) allows.

    >>> round(gaussian_mu(4.377, 1e-5), 3)
    1.0
    """
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    return _crossing(lambda mu: gaussian_delta(mu, epsilon) > delta, 0.0, high)[0]


def _crossing(beyond: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The two neighbours of the point from which on ``beyond`` holds."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high
