"""Clipping: never above the bound, never enlarged, the direction kept, NaN refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from veilrec.core import stream
from veilrec.privacy.clipping import clip_parts, clip_rows, clip_users, clip_values, joint_norm

LIMIT = 1 + 1e-6
wild = st.floats(-1e300, 1e300, allow_nan=False)
rows = arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(1, 4)), elements=wild)
bounds = st.floats(1e-9, 1e9)


def _norm(x: NDArray[np.float64], order: int = 2) -> float:
    """Without overflow."""
    return math.hypot(*x.ravel()) if order == 2 else math.fsum(np.abs(x).ravel())


@given(rows, bounds)
def test_values(x: NDArray[np.float64], bound: float) -> None:
    out = clip_values(x, bound)
    assert (np.abs(out) <= bound).all()
    within = np.abs(x) <= bound
    assert (out[within] == x[within]).all()


@pytest.mark.parametrize("order", [1, 2])
@given(x=rows, norm=bounds)
def test_rows(order: int, x: NDArray[np.float64], norm: float) -> None:
    out = clip_rows(x, norm, order)
    for before, after in zip(x, out):
        assert _norm(after, order) <= norm * LIMIT
        assert (np.abs(after) <= np.abs(before) * LIMIT).all()
        assert (np.sign(after) * np.sign(before) >= 0).all()
        if _norm(before, order) <= norm * (1 - 1e-12):
            assert (after == before).all()
        else:
            assert _norm(after, order) >= norm * (1 - 1e-6)


@given(x=rows, norm=bounds, seed=st.integers(0, 99))
def test_users_are_clipped_as_if_each_were_alone(x: NDArray[np.float64], norm: float, seed: int) -> None:
    user = stream(seed, "owner").integers(0, 3, len(x)) * 1_000_000_007
    out = clip_users(x, user, norm)
    for one in np.unique(user):
        mine = user == one
        alone = clip_rows(x[mine].reshape(-1), norm).reshape(x[mine].shape)
        assert np.allclose(out[mine], alone, rtol=1e-9, atol=0)
        assert _norm(out[mine]) <= norm * LIMIT


def test_users_hold_their_norm_together_not_row_by_row() -> None:
    x, user = np.full((4, 2), 1.0), np.array([5, 5, 5, 9])
    out = clip_users(x, user, 1.0)
    assert _norm(out[user == 5]) == pytest.approx(1.0)
    # the negative control: clipping each row alone gives user 5 sqrt(3)
    assert _norm(clip_rows(x, 1.0)[user == 5]) == pytest.approx(math.sqrt(3))
    assert clip_users([3.0, 4.0, 2.0], [0, 0, 1], 1.0).tolist() == pytest.approx([0.6, 0.8, 1.0])
    assert clip_users(np.zeros((0, 2)), np.zeros(0, int), 1.0).shape == (0, 2)


def test_zero_vectors_stay_zero_without_a_warning() -> None:
    assert clip_rows(np.zeros((2, 3)), 1.0).tolist() == np.zeros((2, 3)).tolist()
    assert clip_users(np.zeros((2, 3)), [0, 1], 1.0).tolist() == np.zeros((2, 3)).tolist()
    assert clip_rows(np.zeros((2, 0)), 1.0).shape == (2, 0)


def test_parts_have_their_own_norms_and_a_joint_one() -> None:
    norms, sigmas = {"items": 1.0, "head": 0.5}, {"items": 4.0, "head": 1.0}
    parts = {"items": np.full((10, 3), 7.0), "head": np.full(4, -2.0)}
    out = clip_parts(parts, norms)
    assert out["items"].shape == (10, 3)
    scaled = np.concatenate([(out[name] / sigmas[name]).ravel() for name in out])
    assert np.linalg.norm(scaled) == pytest.approx(joint_norm(norms, sigmas))
    assert joint_norm(norms, sigmas) == pytest.approx(math.sqrt(1 / 16 + 1 / 4))


def test_allocation_of_noise_does_not_change_the_joint_norm() -> None:
    """sigma_g^2 = z^2 C_g / sqrt(w_g) x sum of C_h sqrt(w_h) keeps 1 / z for every choice of weights."""
    norms, z = {"a": 1.0, "b": 0.3, "c": 2.0}, 2.28
    for seed in range(20):
        weight = dict(zip(norms, stream(seed, "weights").uniform(0.01, 100, 3)))
        total = sum(norms[g] * math.sqrt(weight[g]) for g in norms)
        sigmas = {g: z * math.sqrt(norms[g] / math.sqrt(weight[g]) * total) for g in norms}
        assert 1 / joint_norm(norms, sigmas) == pytest.approx(z)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_a_number_is_refused(bad: float) -> None:
    for call in (
        lambda: clip_values([0.0, bad], 1.0),
        lambda: clip_rows([[0.0, bad]], 1.0),
        lambda: clip_users([[0.0, bad]], [0], 1.0),
        lambda: clip_parts({"a": [bad]}, {"a": 1.0}),
    ):
        with pytest.raises(ValueError, match="x must be finite numbers"):
            call()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="norm must be a finite number above 0"):
        clip_rows([1.0], 0.0)
    with pytest.raises(ValueError, match="order must be 1 or 2"):
        clip_rows([1.0], 1.0, order=3)
    with pytest.raises(ValueError, match=r"norms must be given for \['a'\]"):
        clip_parts({"a": [1.0]}, {"b": 1.0})
    with pytest.raises(ValueError, match="sigmas"):
        joint_norm({"a": 1.0}, {"a": 0.0})
    with pytest.raises(ValueError, match="user must be 2 whole numbers"):
        clip_users([[1.0], [2.0]], [0], 1.0)
    with pytest.raises(ValueError, match="user must be one whole number per row"):
        clip_users([[1.0]], [0.5], 1.0)
