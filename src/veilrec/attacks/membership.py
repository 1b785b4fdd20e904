"""Membership inference on interactions: was this interaction trained on, or only true?

The twin of link stealing (``links.py``: the same adversaries, attackers and nulls) with the honest, harder
question. Asked are training edges and as many held-out edges *of the same users*: both are true interests of
the same people, so that taste, popularity and activity tell next to nothing, and what is left is what the
model remembers. A model that generalises and does not memorise gives 0.5. In a random holdout the two kinds
are alike; after a split by time they are not, and the attackers who see no model show by how much.

The masked list is the strongest of simple attackers here: a service that leaves out what was seen shows
held-out items and hides trained ones. Reference: Shokri et al., "Membership inference attacks against machine
learning models", IEEE S&P 2017; for the low false positive rates, Carlini et al., IEEE S&P 2022.
"""

from __future__ import annotations

from collections.abc import Iterable

from veilrec.attacks.links_knowledge import Linkable
from veilrec.attacks.links_result import LinkAttack
from veilrec.attacks.links_run import steal
from veilrec.attacks.links_settings import Settings
from veilrec.core import check
from veilrec.data import Split


def membership_attack(
    model: Linkable,
    data: Split,
    *,
    adversaries: str | Iterable[str] | None = None,
    attackers: str | Iterable[str] | None = None,
    known: float = 0.5,
    own: float = 0.5,
    users: int = 2_000,
    cells: int = 200_000,
    k: int = 50,
    resamples: int = 200,
    seed: int = 0,
    leave_out: str | Iterable[str] = (),
    progress: bool = False,
) -> LinkAttack:
    """Attack a fitted recommender: which of a user's interactions did it train on?

    ``data`` is the split whose training part the model was fitted on; validation and test part are the
    held-out edges. The settings are those of :func:`veilrec.attacks.link_attack`.

    >>> import veilrec as vr
    >>> parts = vr.split.holdout(vr.synthetic(users=90, items=60, interactions=1800))
    >>> model = vr.EASE().fit(parts.train, progress=False)
    >>> found = membership_attack(model, parts, adversaries="X", attackers="influence")
    >>> found.outcome("X", "influence").value("auc") > 0.9
    True
    >>> found.counts["density"]
    0.5
    """
    remedy = "Held-out edges are needed to compare with: use veilrec.split."
    check(isinstance(data, Split), "data", "a split", type(data).__name__, remedy)
    given = Settings.of(adversaries, attackers, known, own, users, cells, k, resamples, seed, leave_out)
    return steal("membership", model, data, given, progress)
