from __future__ import annotations

import numpy as np
import pytest

from veilrec.core import stream
from veilrec.data.synthetic_draw import Catalogue, draw_items

SMALL = Catalogue(
    weight=np.array([1.0, 2.0, 3.0, 4.0, 0.5]),
    group=np.array([1, 0, 1, 0, 2], dtype=np.int32),
    centre=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]),
)


def chances(catalogue: Catalogue, mood: np.ndarray) -> np.ndarray:
    """The slow oracle: the chance of each item is its weight times exp(mood . centre of its group)."""
    likely = [w * np.exp(mood @ catalogue.centre[g]) for w, g in zip(catalogue.weight, catalogue.group)]
    return np.array(likely) / sum(likely)


def draw(catalogue: Catalogue, counts: list[int], moods: np.ndarray, seed: int = 0) -> list[list[int]]:
    """Each user in one session of their own."""
    first = np.concatenate([[0], np.cumsum(counts)])
    session = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    item, _ = draw_items(catalogue, first, session, moods, moods, seed=seed)
    return [part.tolist() for part in np.split(item, first[1:-1])]


@pytest.mark.parametrize("mood", [[0.0, 0.0], [1.0, -0.5], [-2.0, 1.0]])
def test_first_draws_follow_the_oracle(mood: list[float]) -> None:
    n = 20_000
    drawn = np.array(draw(SMALL, [1] * n, np.tile(mood, (n, 1)))).ravel()
    expected = chances(SMALL, np.array(mood))
    error = np.abs(np.bincount(drawn, minlength=5) / n - expected)
    assert (error < 4 * np.sqrt(expected * (1 - expected) / n) + 5 / n).all()
    wrong = chances(SMALL, -np.array(mood) + 0.2)  # the negative control: another mood
    assert (np.abs(np.bincount(drawn, minlength=5) / n - wrong) > 5 * np.sqrt(wrong / n)).any()


def test_worked_shares() -> None:
    # shelf: group 0 has items 1 and 3 (2 + 4), group 1 items 0 and 2 (1 + 3), group 2 item 4
    assert SMALL.shelf.tolist() == [1, 3, 0, 2, 4]
    assert SMALL.mass.tolist() == [6, 4, 0.5]
    np.testing.assert_allclose(SMALL.item_shares, [1 / 3, 1, 1.25, 2, 3])
    np.testing.assert_allclose(SMALL.group_shares(np.zeros((2, 2)))[3:], [1 + 6 / 10.5, 1 + 10 / 10.5, 2])


def test_a_user_may_meet_everything_even_the_nearly_impossible() -> None:
    shy = Catalogue(np.array([1.0, 1e-9, 1e-12, 1e-15]), np.zeros(4, np.int32), np.zeros((4, 2)))
    for lists in (draw(shy, [4, 4, 3], np.zeros((3, 2))), draw(shy, [4, 1], np.full((2, 2), 500.0))):
        assert sorted(lists[0]) == [0, 1, 2, 3]
        assert all(len(set(items)) == len(items) for items in lists)


def test_the_exact_draw_prefers_what_the_rounds_prefer() -> None:
    # 300 users meet 3 of 4 items and the rounds cannot find the rare two: item 1 must win far more often
    rare = Catalogue(np.array([1.0, 1e-5, 1e-7, 1.0]), np.zeros(4, np.int32), np.zeros((1, 1)))
    lists = draw(rare, [3] * 300, np.zeros((300, 1)))
    third = [next(i for i in items if i not in (0, 3)) for items in lists if {0, 3} <= set(items)]
    assert len(third) > 290
    assert third.count(1) > 0.95 * len(third)


def test_empty_groups_and_far_moods_are_harmless() -> None:
    hollow = Catalogue(np.ones(6), np.full(6, 2, np.int32), np.array([[9.0], [-9.0], [0.0], [3.0]]))
    lists = draw(hollow, [3, 3, 3], np.array([[1000.0], [-1000.0], [0.0]]))
    assert all(len(set(items)) == 3 for items in lists)


def test_blocks_draw_independently_and_repeatably() -> None:
    big = Catalogue.random(50, 4, stream(0, "items"))
    moods = np.zeros((1200, 4))  # three blocks of users
    lists = draw(big, [5] * 1200, moods)
    assert lists == draw(big, [5] * 1200, moods)
    assert lists != draw(big, [5] * 1200, moods, seed=1)
    assert lists[:512] != lists[512:1024]
    assert {i for items in lists for i in items} == set(range(50))


def test_catalogue_has_a_tail_and_enough_groups() -> None:
    for items, groups in ((2, 4), (400, 25), (20_000, 256)):
        catalogue = Catalogue.random(items, 8, stream(0, "items"))
        assert catalogue.centre.shape == (groups, 8)
        assert (catalogue.weight > 0).all()
    top = np.sort(catalogue.weight)[-2000:].sum() / catalogue.weight.sum()
    assert top > 0.4
