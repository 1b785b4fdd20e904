"""Link stealing without a model: what chance, public counts and known edges tell by themselves."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from veilrec.attacks.links_knowledge import NOTHING, OWN, Attacker, Knowledge, Rows
from veilrec.core import stream


def random(know: Knowledge) -> Rows:
    """Any number."""
    return lambda users: np.stack(
        [stream(know.seed, "links", "random", int(user)).random(know.data.n_items) for user in users]
    )


def popularity(know: Knowledge) -> Rows:
    """The item's number of reference users times the user's number of interactions: public counts.

    The counts leave the attacked users out, so that they tell nothing about a single edge.
    """
    fame, degrees = know.fame, know.data.user_counts.astype(np.float32)
    return lambda users: degrees[users, None] * fame


def known_edges(know: Knowledge) -> Rows:
    """The cosine, over reference users, of the item with the user's known items, added up."""
    length = np.sqrt(np.maximum(know.fame, 1))
    scaled = sp.csr_matrix(know.known @ sp.diags_array(1 / length))
    return lambda users: np.asarray((know.hints[users] @ scaled.T).toarray() @ scaled)


NULLS = {
    "random": Attacker("", "no model", NOTHING, random),
    "popularity": Attacker("", "no model", NOTHING, popularity),
    "known edges": Attacker("", "no model", OWN, known_edges),
}
