"""Link stealing, the attackers: from what is seen and known to a suspicion for each user and item.

Each function prepares an attack on an adversary's view and answers a function from user codes to rows of
suspicions. What it cannot work on it refuses with :class:`NotApplicable`. Nothing is tuned to a data set.

References. Posterior and embedding similarity: He et al., "Stealing links from graph neural networks", USENIX
Security 2021. Influence: Wu et al., "LinkTeller", IEEE S&P 2022: perturb an input node, watch the outputs. In
a recommender the inputs are items in a history, so one account is opened per item, with that item alone, and
one with none; the difference of the scores they are served is the influence of the item. The scores of the
attacked user are then written as a sum of influences, by ridge regression: large coefficients are suspected.
Where the server runs a graph network, it perturbs the vectors of items instead (``links_network.py``); where
it decrypts sums, it works on these (``links_sums.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from veilrec.attacks.links_knowledge import (
    NOTHING,
    OTHERS,
    OWN,
    Attacker,
    Block,
    Codes,
    Knowledge,
    NotApplicable,
    Rows,
    standard,
    tiles,
    unit,
)
from veilrec.attacks.links_network import network_influence
from veilrec.attacks.links_sums import row_recovery, sums

RIDGE = 1e-3
"""Of the mean squared influence on a watched item."""
TINY = 1e-6
"""Of a row of length one: smaller differences are rounding."""


def score(know: Knowledge) -> Rows:
    """The score of the cell itself, in deviations of its row."""
    scores = know.part("scores")
    return lambda users: standard(scores(users))


def score_similarity(know: Knowledge) -> Rows:
    """Is the user's row of scores like those of reference users who have the item?"""
    scores, watched = know.part("scores"), know.watched()
    return _alike(know, lambda users: unit(standard(scores(users)[:, watched])))


def influence(know: Knowledge) -> Rows:
    """Which items' influences add up to the user's scores? Asks for items + 1 own accounts.

    The server needs no accounts: it probes the model that it has, and multiplies the vectors that it holds.
    """
    probe, watched = know.part("probe"), know.watched()
    scores = know.seen.get("scores") or inner_product(know)
    n_items = know.data.n_items
    single = sp.eye(n_items, format="csr", dtype=np.float32)
    nothing = np.array(probe(sp.csr_matrix((1, n_items), dtype=np.float32))[0, watched], np.float32)
    table = np.empty((n_items, len(watched)), np.float32)
    for part in tiles(n_items, n_items):
        table[part] = np.asarray(probe(single[part]))[:, watched] - nothing
    gram = (table.T @ table).astype(np.float64)
    if not np.trace(gram) > 0:
        raise NotApplicable("its scores do not depend on a history")
    gram[np.diag_indices(len(gram))] += RIDGE * np.trace(gram) / len(gram)
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True)

    def rows(users: Codes) -> Block:
        served = scores(users)[:, watched] - nothing
        return standard(
            scipy.linalg.cho_solve(factor, served.T.astype(np.float64)).T.astype(np.float32) @ table.T
        )

    return rows


def masked_list(know: Knowledge) -> Rows:
    """Is the item missing from the user's list, though alike reference users who have not got it see it?

    Items that were seen are left out of lists. What is listed was therefore never seen (suspicion -1); what
    is not listed is suspected by the share of alike lists with it, among users who do not have it themselves.
    Lists are alike by the square of the number of items they share.
    """
    theirs = know.lists(know.reference)
    own = know.lists(know.asked)
    have = know.known
    place = np.full(know.data.n_users, -1, np.int64)
    place[know.asked] = np.arange(len(know.asked))

    def rows(users: Codes) -> Block:
        mine = own[place[users]]
        alike = np.asarray((mine @ theirs.T).todense()) ** 2
        might = alike.sum(axis=1, keepdims=True) - alike @ have
        expected = (alike @ theirs) / np.maximum(might, 1e-6)
        return np.where(mine.toarray() > 0, -1.0, expected)

    return rows


def inner_product(know: Knowledge) -> Rows:
    """The product of the user's and the item's vector."""
    users, items = know.vectors()
    return lambda codes: users[codes] @ items.T


def cosine(know: Knowledge) -> Rows:
    """The cosine of the user's and the item's vector."""
    users, items = (unit(part) for part in know.vectors())
    return lambda codes: users[codes] @ items.T


def vector_similarity(know: Knowledge) -> Rows:
    """Is the user's vector like those of reference users who have the item?"""
    users = unit(know.vectors()[0])
    return _alike(know, lambda codes: users[codes])


def reported_graph(know: Knowledge) -> Rows:
    """Whether the edge is in the perturbed graph that devices report."""
    arrays = know.arrays()
    if "graph_indptr" not in arrays or "graph_indices" not in arrays:
        raise NotApplicable("no graph is reported")
    pointers, columns = arrays["graph_indptr"], arrays["graph_indices"]
    ones = np.ones(len(columns), np.float32)
    graph = sp.csr_matrix((ones, columns, pointers), shape=(know.data.n_users, know.data.n_items))
    return lambda users: graph[users].toarray()


def fold_in(know: Knowledge) -> Rows:
    """The published model's score of the item for somebody with the user's known edges."""
    probe = know.part("probe")
    probe(know.hints[:1])  # refuses here, if it cannot
    return lambda users: standard(probe(know.hints[users]))


def item_similarity(know: Knowledge) -> Rows:
    """The mean cosine of the item's published vector with those of the user's known items."""
    shared = know.part("shared")
    fit = [
        name
        for name, array in sorted(shared.items(), key=lambda pair: (pair[0] != "item_vectors", pair[0]))
        if array.ndim == 2 and len(array) == know.data.n_items and np.issubdtype(array.dtype, np.floating)
    ]
    if not fit:
        raise NotApplicable("no table with a row per item is published")
    vectors = unit(np.asarray(shared[fit[0]]))

    def rows(users: Codes) -> Block:
        mine = know.hints[users]
        return np.asarray((mine @ vectors) @ vectors.T / np.maximum(np.diff(mine.indptr), 1)[:, None])

    return rows


LINK_ATTACKERS = {
    "fold-in": Attacker("OS", "published model", OWN, fold_in),
    "item similarity": Attacker("OS", "published model", OWN, item_similarity),
    "reported graph": Attacker("OS", "reports", NOTHING, reported_graph),
    "score": Attacker("X", "scores", NOTHING, score),
    "score similarity": Attacker("X", "scores", OTHERS, score_similarity),
    "influence": Attacker("XS", "answers to probes", NOTHING, influence),
    "network influence": Attacker("S", "its own network", NOTHING, network_influence),
    "masked list": Attacker("X", "lists", OTHERS, masked_list),
    "inner product": Attacker("S", "vectors", NOTHING, inner_product),
    "cosine": Attacker("S", "vectors", NOTHING, cosine),
    "vector similarity": Attacker("S", "vectors", OTHERS, vector_similarity),
    "row recovery": Attacker("S", "sums", NOTHING, row_recovery),
    "sums": Attacker("S", "sums", OWN, sums),
}


def _alike(know: Knowledge, described: Callable[[Codes], Block]) -> Rows:
    """Likeness to the mean of the reference users who have the item, beyond that to all of them.

    The sum over n holders is divided by n + 1, so that one holder is not taken for the kind. Rows are summed
    around a centre, and what is left of equal rows, by rounding, is nothing.
    """
    parts = list(tiles(len(know.reference), know.data.n_items))
    centre = described(know.reference[parts[0]]).mean(axis=0, dtype=np.float64).astype(np.float32)
    total = np.zeros((know.data.n_items, len(centre)), np.float32)
    middle = np.zeros(len(centre))
    for part in parts:
        rows = described(know.reference[part]) - centre
        total += know.known[part].T @ rows
        middle += rows.sum(axis=0, dtype=np.float64)
    total -= know.fame[:, None] * (middle / len(know.reference)).astype(np.float32)
    total /= know.fame[:, None] + 1
    total[np.abs(total) < TINY] = 0
    return lambda users: described(users) @ total.T
