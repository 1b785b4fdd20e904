from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from veilrec.training import NegativeSampler

HISTORY = sp.random(50, 40, 0.3, format="csr", random_state=1)


def test_never_a_positive_and_uniform_over_the_rest() -> None:
    sampler = NegativeSampler(HISTORY)
    users = np.repeat(np.arange(50), 4000)
    drawn = sampler.draw(users, np.random.default_rng(0))
    dense = HISTORY.toarray() > 0
    assert not dense[users, drawn].any()
    counts = np.zeros((50, 40))
    np.add.at(counts, (users, drawn), 1)
    for user in range(50):
        rest = counts[user][~dense[user]]
        expected = 4000 / len(rest)
        statistic = ((rest - expected) ** 2 / expected).sum()
        assert statistic < len(rest) - 1 + 5 * np.sqrt(2 * len(rest)), "chi-square far beyond its spread"


def test_shape_is_kept() -> None:
    users = np.arange(12).reshape(3, 4)
    assert NegativeSampler(HISTORY).draw(users, np.random.default_rng(0)).shape == (3, 4)


def test_seen_is_the_matrix() -> None:
    sampler = NegativeSampler(HISTORY)
    users, items = np.meshgrid(np.arange(50), np.arange(40), indexing="ij")
    np.testing.assert_array_equal(
        sampler.seen(users.ravel(), items.ravel()).reshape(50, 40), HISTORY.toarray() > 0
    )
