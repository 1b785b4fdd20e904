"""Link stealing: can a user's training interactions be read off what a recommender shows?

Threat models, by the letters of the privacy statements. **O** has the published part of the model and no
output for the attacked user. **X** sees the attacked user's lists and scores as well, and may open accounts
of its own. **S** is the server: it has what O has, and what it holds itself: vectors, reported graphs, the
graph network that it runs, the sums that it decrypts; of what is shown to a user it sees nothing. All know
some other users with all their edges, as somebody does who bought a part of the data; some are also told half
of the attacked user's edges, and asked for the others.

The task is to tell *training edges* from cells where the user did nothing. An edge of the test part is a true
interest but not in the training data: it is left out here, and is the other side of the honest, harder task,
:func:`veilrec.attacks.membership_attack`. A model that recommends well ranks interests high whether trained
on or not, so high numbers here are not by themselves a leak of the training data; look at both.

Beside the attackers stand those who see no model: random, popularity, the known edges alone, and the same
supervised attackers on these. An attack that finds nothing proves nothing: another may do better.
"""

from __future__ import annotations

from collections.abc import Iterable

from veilrec.attacks.links_knowledge import Linkable
from veilrec.attacks.links_result import LinkAttack
from veilrec.attacks.links_run import steal
from veilrec.attacks.links_settings import Settings
from veilrec.data import Dataset, Split


def link_attack(
    model: Linkable,
    data: Dataset | Split,
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
    """Attack a fitted recommender: which cells of users x items did it train on?

    ``data`` are what the model was fitted on; of a split, the training part, and its other parts are left out
    of the question. ``adversaries`` are of O, X and S (None: all), ``attackers`` words of ``LINK_ATTACKERS``,
    or "logistic" and "boosting", which learn from all that their adversary can do (None: all), but for those
    that ``leave_out`` names. ``known`` of the users are known to the attacker, half of them to train on; of
    at most ``users`` others about ``cells`` cells are asked.
    ``own`` of a user's edges are given to attackers who need a start; only the rest is asked. ``k`` is the
    length of the lists. Intervals are over ``resamples`` of the attacked users. Where the server runs a graph
    network with weights, "network influence" takes a backward pass for each of the attacked users and of as
    many labelled ones: ``users`` bounds its time. "row recovery" is not run for more than 2^24 asked users x
    items.

    >>> import veilrec as vr
    >>> parts = vr.split.holdout(vr.synthetic(users=90, items=60, interactions=1800))
    >>> model = vr.EASE().fit(parts.train, progress=False)
    >>> found = link_attack(model, parts, attackers=["score", "influence"], cells=4000)
    >>> found.outcome("X", "influence").value("auc") > 0.95
    True
    >>> [row.attacker for row in found.outcomes]
    ['random', 'popularity', 'known edges', 'score', 'influence']
    """
    given = Settings.of(adversaries, attackers, known, own, users, cells, k, resamples, seed, leave_out)
    return steal("links", model, data, given, progress)
