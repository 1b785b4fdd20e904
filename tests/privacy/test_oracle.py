"""Our integer samplers beside OpenDP's, which are written in Rust by other people.

OpenDP is large and slow per value, so it is an oracle and not a dependency: `pip install 'veilrec[oracle]'`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from veilrec.privacy import Noise

opendp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed (extra: oracle)")
SIZE = 20_000
ALARM = 1e-7


def peer(make, scale):
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T=int))
    metric = opendp.l1_distance(T=int) if make is opendp.m.make_laplace else opendp.l2_distance(T=float)
    return np.array(make(domain, metric, scale=scale)([0] * SIZE))


def same(ours, theirs) -> bool:
    """A chi-square test of two samples, cells of fewer than 20 put together."""
    edges = np.unique(np.quantile(theirs, np.linspace(0, 1, 40)))
    table = np.array([np.histogram(x, [-np.inf, *edges, np.inf])[0] for x in (ours, theirs)])
    table = table[:, table.sum(axis=0) >= 20]
    return bool(stats.chi2_contingency(table).pvalue > ALARM)


@pytest.mark.parametrize("scale", [0.7, 3.0, 250.0])
def test_discrete_laplace(scale) -> None:
    theirs = peer(opendp.m.make_laplace, scale)
    assert same(Noise.secure().discrete_laplace(scale, (SIZE,)), theirs)
    assert not same(Noise.secure().discrete_laplace(scale / 2, (SIZE,)), theirs)


@pytest.mark.parametrize("sigma", [0.7, 3.0, 250.0])
def test_discrete_gaussian(sigma) -> None:
    theirs = peer(opendp.m.make_gaussian, sigma)
    assert same(Noise.secure().discrete_gaussian(sigma, (SIZE,)), theirs)
    assert not same(Noise.secure().discrete_gaussian(sigma / 2, (SIZE,)), theirs)
