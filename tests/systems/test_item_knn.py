from __future__ import annotations

import numpy as np
import pytest

import veilrec as vr
from veilrec.systems.item_knn import ItemKNN, single_items


def data() -> vr.Dataset:
    return vr.synthetic(users=70, items=40, interactions=900, seed=1)


def slow_table(history: np.ndarray, neighbours: int, shrinkage: float) -> np.ndarray:
    """Cosine of every pair, the nearest of each row kept; equal ones by code."""
    together = history.T @ history
    own = together.diagonal()
    table = together / (np.sqrt(np.outer(own, own)) + shrinkage)
    np.fill_diagonal(table, 0)
    for row in table:
        order = np.lexsort((np.arange(len(row)), -row.astype(np.float32)))
        row[order[neighbours:]] = 0
    return table


@pytest.mark.parametrize(("neighbours", "shrinkage"), [(5, 0.0), (12, 20.0), (1000, 3.0)])
def test_scores_are_those_of_the_table(neighbours: int, shrinkage: float) -> None:
    model = ItemKNN(neighbours, shrinkage).fit(data())
    history = model.history.toarray().astype(np.float64)
    table = slow_table(history, neighbours, shrinkage)
    np.testing.assert_allclose(model.scores(), history @ table, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model._item_similarity(np.arange(40)), table, rtol=1e-4, atol=1e-6)


def test_worked_values() -> None:
    """tea: a b c, mate: a b, cocoa: c. cos(tea, mate) = 2 / sqrt 6, cos(tea, cocoa) = 1 / sqrt 3."""
    pairs = [("a", "tea"), ("b", "tea"), ("c", "tea"), ("a", "mate"), ("b", "mate"), ("c", "cocoa")]
    table = vr.Dataset.from_arrays(*zip(*pairs, strict=True))
    both = ItemKNN(shrinkage=0.0).fit(table).similar_items(["tea"])
    assert both["similar"].to_list() == ["mate", "cocoa"]
    assert both["score"].to_list() == pytest.approx([2 / 6**0.5, 1 / 3**0.5])
    assert ItemKNN(1, 0.0).fit(table).similar_items(["tea"], k=1)["similar"].to_list() == ["mate"]
    assert ItemKNN(shrinkage=1.0).fit(table).similar_items(["tea"])["score"][0] == pytest.approx(
        2 / (6**0.5 + 1)
    )


def test_a_known_history_folds_in_to_the_known_scores() -> None:
    model = ItemKNN().fit(data())
    user = model.users.take([3])[0]
    history = {"new": model.items.take(model.history[3].indices).to_list()}
    listed, known = model.recommend(history=history, k=8), model.recommend([user], k=8)
    assert listed["item"].to_list() == known["item"].to_list()
    np.testing.assert_allclose(listed["score"], known["score"], rtol=1e-5)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="neighbours must be a whole number of at least 1, got 0"):
        ItemKNN(neighbours=0)
    with pytest.raises(ValueError, match="shrinkage must be a finite number, 0 or above, got nan"):
        ItemKNN(shrinkage=float("nan"))


def test_single_items() -> None:
    assert single_items(np.array([], np.int64), 3).shape == (0, 3)
