"""Attacks and audits: what an adversary gets out of a release, and the epsilon that this refutes."""

from veilrec.attacks.audit import Curve, Finding, audit, audit_curve, plot_audit
from veilrec.attacks.bounds import (
    count_bounds,
    delta_points,
    gaussian_mu_bound,
    histogram_epsilon,
    one_run_epsilon,
    two_world_epsilon,
)
from veilrec.attacks.mutants import MUTANTS, Mutant, mutant
from veilrec.attacks.trials import TRIALS, Trial, trial

__all__ = [
    "Curve",
    "Finding",
    "MUTANTS",
    "Mutant",
    "TRIALS",
    "Trial",
    "audit",
    "audit_curve",
    "count_bounds",
    "delta_points",
    "gaussian_mu_bound",
    "histogram_epsilon",
    "mutant",
    "one_run_epsilon",
    "plot_audit",
    "trial",
    "two_world_epsilon",
]
