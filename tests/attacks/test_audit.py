"""Every mechanism on trial, and every mutant caught by name."""

from __future__ import annotations

import numpy as np
import pytest

from veilrec.attacks import MUTANTS, TRIALS, audit, audit_curve, mutant, plot_audit, trial
from veilrec.attacks.bounds import LEVEL
from veilrec.privacy import Noise, mechanisms

# The gate's level is shared among all audits; 95 % is for display.
GATE = LEVEL / (len(TRIALS) + 2 * len(MUTANTS))
NOT_A_RELEASE = {
    "Edges",
    "PairLoss",
    "PaperFunctional",
    "modulus",
    "packed",
    "quantise",
    "unpacked",
    "whole_bounds",
}


def noise_for(name: str) -> Noise:
    return Noise.research(1, "audit", name)


@pytest.mark.parametrize("name", TRIALS)
def test_no_mechanism_spends_more_than_it_claims(name) -> None:
    found = audit(trial(name), noise_for(name), level=GATE)
    assert not found.refuted, found
    assert found.measured > 0, "a trial that shows nothing is dead"


@pytest.mark.parametrize("name", [name for name in TRIALS if trial(name).tight])
def test_a_tight_attack_comes_close_to_the_claim(name) -> None:
    found = audit(trial(name), noise_for(name))
    assert found.share >= 0.8, found


@pytest.mark.parametrize("name", ["laplace", "gaussian", "piecewise", "edge-response", "gamma-shares"])
def test_secure_noise_holds_too(name) -> None:
    found = audit(trial(name, 1.0), Noise.secure(), level=1e-6)
    assert not found.refuted, found
    assert found.share > 0.4


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name) -> None:
    noise = Noise.secure() if name == "float-noise" else noise_for(name)
    level = 1e-6 if name == "float-noise" else GATE
    broken = audit(mutant(name).broken(1.0), noise, level=level)
    assert broken.refuted, f"{name} ({mutant(name).mistake}) was not caught: {broken}"
    assert broken.name == name
    right = audit(mutant(name).right(1.0), noise, level=level)
    assert not right.refuted, f"the right twin of {name} was refuted: {right}"
    assert right.claimed == broken.claimed


def test_every_mechanism_has_a_trial() -> None:
    """A new mechanism without a trial fails here; names are matched by their events' class names."""
    names = {name for name in mechanisms.__all__ if name not in NOT_A_RELEASE}
    assert len(names) == len(TRIALS), (sorted(names), sorted(TRIALS))


def test_a_trial_repeats_itself_in_research() -> None:
    one, other = (audit(trial("laplace", 1.0), Noise.research(5), runs=2000) for _ in range(2))
    assert one == other


class TestCurve:
    @pytest.mark.parametrize("name", ["gaussian", "laplace", "bit-response"])
    def test_points_lie_below_the_line_and_near_it(self, name) -> None:
        curve = audit_curve(trial(name, 1.0), noise_for(name))
        assert not curve.refuted
        assert curve.measured[0] > 0.8 * curve.claimed[0]

    def test_half_the_noise_lies_above(self) -> None:
        assert audit_curve(mutant("half-noise").broken(1.0), noise_for("half")).refuted

    def test_the_plot(self, tmp_path) -> None:
        curve = audit_curve(trial("gaussian", 1.0), noise_for("gaussian"), runs=2000)
        for kind in ("png", "svg"):
            assert plot_audit(curve, tmp_path / f"audit.{kind}").stat().st_size > 1000


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'gaussian'"):
        trial("gausian", 1.0)
    with pytest.raises(ValueError, match="Did you mean 'skipped-clip'"):
        mutant("skiped-clip")


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_bad_budgets(epsilon) -> None:
    with pytest.raises(ValueError, match="epsilon must be"):
        trial("laplace", epsilon)
