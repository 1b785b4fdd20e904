"""Attacks and audits: what an adversary gets out of a release, and the epsilon that this refutes."""

from veilrec.attacks.bounds import (
    count_bounds,
    delta_points,
    gaussian_mu_bound,
    histogram_epsilon,
    one_run_epsilon,
    two_world_epsilon,
)

__all__ = [
    "count_bounds",
    "delta_points",
    "gaussian_mu_bound",
    "histogram_epsilon",
    "one_run_epsilon",
    "two_world_epsilon",
]
