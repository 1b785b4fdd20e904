"""Link stealing, the sums: what a server gets out of the totals that it decrypts during training.

**Row recovery**, for PF-GNR as published. Among its sums are the rows dL_i / dz_i of single devices, each a
linear equation in the true labels (``rows.py``). The server plays four more rounds with vectors of its own
choice and solves for the labels of the users that it is asked about.

**Sums**, for PF-GNR over noisy sums (``pf-gnr-sums``), where no row of a user is sent. The server has the sum
of every round. Their total has a row per item, the sum over devices of c_ui z_u, and c_ui is below 0 where u
has i: so against the vector of somebody it is lowest at that person's items, and at those of people alike.
What it says about one person is no more than the noise of the sums allows; what it says about taste, the
published item vectors say too.
"""

from __future__ import annotations

import numpy as np

from veilrec.attacks.links_knowledge import Block, Codes, Knowledge, NotApplicable, Rows, standard, unit
from veilrec.attacks.rows import Round, label_weights

ROUNDS = 4
"""Rounds that are played: with vectors of 64 numbers, 256 equations for each user."""
MOST_CELLS = 1 << 24
"""Asked users x items: with more of them, row recovery is not run. On ML-1M these are 4,500 users."""
SHRINKAGE = 0.1
"""The ridge of a device's own fit, of the mean eigenvalue: that of pf-gnr-sums as it comes."""


def row_recovery(know: Knowledge) -> Rows:
    """The weight of the cell among the user's labels, from the user's rows; 1 is an edge.

    It sees the rows and the public number of interactions, by which weights are scaled, and nothing else.
    Time goes with asked users x items; beyond ``MOST_CELLS`` it is not run. Asked are the attacked and the
    labelled users.

    >>> import veilrec as vr
    >>> data, nobody = vr.synthetic(60, 40, 900), np.arange(0)
    >>> model = vr.PFGNRPaper(epochs=1, embedding_size=16).fit(data, progress=False)
    >>> know = Knowledge(model.view("S"), data, nobody, data.matrix()[:0], data.matrix(), np.arange(9), 5, 0)
    >>> found = row_recovery(know)(np.arange(9))
    >>> np.array_equal(found > 0.5, data.matrix()[:9].toarray() > 0)
    True
    """
    if "sums" not in know.seen:
        raise NotApplicable("no sum that this server decrypts has rows of users")
    play, counts = know.seen["sums"], know.data.user_counts
    if (cells := len(know.asked) * know.data.n_items) > MOST_CELLS:
        raise NotApplicable(f"{cells:,} cells of asked users are more than {MOST_CELLS:,}: ask fewer users")
    temperature = play(1, know.asked[:1], know.seed)[0].temperature
    if temperature is None:
        raise NotApplicable("under BPR the other items of a round are secrets of the devices")

    def rows(users: Codes) -> Block:
        seen = [Round(one.users, one.items, one.rows, one.others) for one in play(ROUNDS, users, know.seed)]
        weights = label_weights(seen, temperature)
        whole = weights.sum(axis=1, keepdims=True)
        return np.asarray(weights * (counts[users, None] / np.where(whole > 0, whole, 1)), np.float32)

    return rows


def sums(know: Knowledge) -> Rows:
    """Minus the total of the item's gradients along the vector that the user's known edges give.

    The vector is fitted as a device would, by a ridge on the published item vectors.

    >>> import veilrec as vr
    >>> data, nobody = vr.Dataset.from_arrays(["ann", "ann", "bob"], ["mate", "tea", "mate"]), np.arange(0)
    >>> seen = {"shared": {"item_vectors": np.eye(2)}, "server": {"sums_of_rounds": -np.eye(2)[None]}}
    >>> know = Knowledge(seen, data, nobody, data.matrix()[:0], data.matrix(), nobody, 5, 0)
    >>> sums(know)(np.array([1])).tolist()
    [[1.0, -1.0]]
    """
    arrays = know.arrays()
    if "sums_of_rounds" not in arrays or "item_vectors" not in arrays:
        raise NotApplicable("this server keeps no sum of item gradients")
    vectors = np.asarray(arrays["item_vectors"], np.float64)
    total = arrays["sums_of_rounds"].sum(axis=0, dtype=np.float64)
    gram = vectors.T @ vectors
    ridge = SHRINKAGE * max(float(np.trace(gram)) / len(gram), 1e-12)
    fit = np.linalg.solve(gram + ridge * np.eye(len(gram)), vectors.T).T  # [items, size]
    return lambda users: standard(-unit(know.hints[users] @ fit) @ total.T)
