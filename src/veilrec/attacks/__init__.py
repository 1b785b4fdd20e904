"""Attacks and audits: what an adversary gets out of a release, and the epsilon that this refutes."""

from veilrec.attacks.attribute import attribute_attack
from veilrec.attacks.attribute_inputs import Attackable
from veilrec.attacks.attribute_metrics import class_metrics
from veilrec.attacks.attribute_models import ATTACKERS
from veilrec.attacks.attribute_result import AttributeAttack, Outcome
from veilrec.attacks.audit import Curve, Finding, audit, audit_curve, plot_audit
from veilrec.attacks.bounds import (
    count_bounds,
    delta_points,
    gaussian_mu_bound,
    histogram_epsilon,
    one_run_epsilon,
    two_world_epsilon,
)
from veilrec.attacks.kinds import ATTACKS, attack
from veilrec.attacks.links import link_attack
from veilrec.attacks.links_attackers import LINK_ATTACKERS
from veilrec.attacks.links_knowledge import Linkable
from veilrec.attacks.links_metrics import link_metrics
from veilrec.attacks.links_result import LinkAttack, LinkOutcome
from veilrec.attacks.membership import membership_attack
from veilrec.attacks.mutants import MUTANTS, Mutant, mutant
from veilrec.attacks.rows import Round, recover_edges, undo_spreading
from veilrec.attacks.trials import TRIALS, Trial, trial

__all__ = [
    "ATTACKERS",
    "ATTACKS",
    "Attackable",
    "AttributeAttack",
    "Curve",
    "Finding",
    "LINK_ATTACKERS",
    "LinkAttack",
    "LinkOutcome",
    "Linkable",
    "MUTANTS",
    "Mutant",
    "Outcome",
    "Round",
    "TRIALS",
    "Trial",
    "attack",
    "attribute_attack",
    "audit",
    "audit_curve",
    "class_metrics",
    "count_bounds",
    "delta_points",
    "gaussian_mu_bound",
    "histogram_epsilon",
    "link_attack",
    "link_metrics",
    "membership_attack",
    "mutant",
    "one_run_epsilon",
    "plot_audit",
    "recover_edges",
    "trial",
    "two_world_epsilon",
    "undo_spreading",
]
