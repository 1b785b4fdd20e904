"""Link stealing on the sums of training: rows tell the paper form's server all, twin B's total nothing."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch

import veilrec as vr
from veilrec.attacks import link_attack, links_sums, membership_attack
from veilrec.core import stream
from veilrec.metrics import Interval
from veilrec.privacy import Ledger, Noise
from veilrec.systems import SYSTEMS, PFGNRPaper, PFGNRSums, pf_gnr_rounds, pf_gnr_sums
from veilrec.training.softmax import softmax_loss

FAST = {"cells": 6000, "resamples": 40}
TINY = {"epochs": 2, "embedding_size": 16}


@pytest.fixture(scope="module")
def parts() -> vr.Split:
    return vr.split.holdout(vr.synthetic(users=120, items=100, interactions=2400, seed=3), test=0.2, seed=1)


def paper(parts, **settings) -> PFGNRPaper:
    model = PFGNRPaper(**TINY | settings)
    return model.fit(parts.train, seed=1, progress=False, secure=False)


@pytest.fixture(scope="module")
def published(parts) -> PFGNRPaper:
    return paper(parts)


def recovered(model, parts, **more):
    about = {"adversaries": "S", "attackers": "row recovery", **FAST}
    return link_attack(model, parts, **about | more).outcome("S", "row recovery")


# -- rows of the paper form --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{}, {"ablation": "HE"}, {"sums": "plain"}, {"backbone": "ngcf"}, {"user_power": 1.0, "negatives": 30}],
    ids=str,
)
def test_four_rounds_tell_the_server_of_the_paper_form_its_edges(parts, settings) -> None:
    row = recovered(paper(parts, **settings), parts)
    assert row.value("auc") > 0.99
    assert row.value("precision") > 0.95
    assert row.knows == "nothing"


def test_membership_and_learners_have_it_too(parts, published) -> None:
    few = {"adversaries": "S", "resamples": 40}
    found = membership_attack(published, parts, attackers=["row recovery", "boosting"], **few)
    for name in ("row recovery", "boosting"):
        assert found.outcome("S", name).value("auc") > 0.99
        assert found.leak("S", name).low > 0.4
    less = membership_attack(published, parts, attackers="boosting", leave_out="row recovery", **few)
    assert less.outcome("S", "boosting").value("auc") < 0.95


@dataclasses.dataclass(eq=False)
class Hushed(PFGNRPaper):
    """The control: its rows are noise."""

    word: ClassVar[str] = "hushed"

    def _play(self, rounds, devices=None, seed=0):
        found = super()._play(rounds, devices, seed)
        random = stream(1, "hushed")
        return [one._replace(rows=random.normal(size=one.rows.shape)) for one in found]


def test_it_reads_the_rows_and_nothing_else(parts) -> None:
    model = Hushed(**TINY).fit(parts.train, seed=1, progress=False, secure=False)
    about = {"adversaries": "S", "attackers": "row recovery", "resamples": 40}
    interval = membership_attack(model, parts, **about).outcome("S", "row recovery").interval("auc")
    assert interval.low <= 0.5 <= interval.high
    assert recovered(model, parts).value("auc") < 0.6  # by the public numbers of interactions


NO_ROWS = "no sum that this server decrypts has rows of users"


@pytest.mark.parametrize(
    ("word", "settings", "why"),
    [
        ("pf-gnr", {}, NO_ROWS),
        ("pf-gnr-sums", {}, NO_ROWS),
        ("lightgcn", {}, NO_ROWS),
        ("pf-gnr-paper", {"ablation": "GNR"}, NO_ROWS),
        ("pf-gnr-paper", {"ablation": "LDP"}, NO_ROWS),
        ("pf-gnr-paper", {"loss": "bpr"}, "under BPR the other items of a round are secrets of the devices"),
    ],
)
def test_where_there_are_no_rows_it_says_so(parts, word: str, settings, why: str) -> None:
    model = SYSTEMS[word](**TINY, **settings).fit(parts.train, seed=1, progress=False, secure=False)
    found = link_attack(
        model, parts, adversaries="S", attackers=["row recovery", "fold-in", "cosine"], **FAST
    )
    assert found.not_applicable["S", "row recovery"] == why
    assert why in str(found)


def test_too_many_cells_are_refused_and_fewer_users_help(parts, published, monkeypatch) -> None:
    monkeypatch.setattr(links_sums, "MOST_CELLS", 4000)
    found = link_attack(published, parts, adversaries="S", attackers=["row recovery", "cosine"], **FAST)
    why = "9,000 cells of asked users are more than 4,000: ask fewer users"
    assert found.not_applicable["S", "row recovery"] == why
    assert recovered(published, parts, users=20, known=0.5).value("auc") > 0.99


def test_the_rows_are_the_gradient_of_the_loss(parts, published) -> None:
    labels, devices = parts.train.matrix(), np.array([3, 50, 7])
    (seen,) = published.view("S")["sums"](1, devices)
    weights = labels[devices]
    weights.data = np.repeat(np.diff(weights.indptr) ** -0.5, np.diff(weights.indptr)).astype(np.float32)
    own = torch.from_numpy(seen.users).requires_grad_()
    others = torch.from_numpy(seen.others)
    loss = softmax_loss(own, torch.from_numpy(seen.items), weights, others, seen.temperature)
    (loss * float(weights.sum())).backward()
    np.testing.assert_allclose(seen.rows, own.grad.numpy(), atol=1e-4)
    step = pf_gnr_rounds.grid(100, 120, 0.5, 5.0).step
    np.testing.assert_allclose(seen.rows / step, np.rint(seen.rows / step), atol=1e-6)


def test_rounds_are_those_of_all_devices_and_differ(published) -> None:
    play = published.view("S")["sums"]
    whole, part = play(2), play(2, np.array([5, 9]))
    for one, few in zip(whole, part):
        step = pf_gnr_rounds.grid(100, 120, 0.5, 5.0).step  # products of another size round otherwise
        np.testing.assert_allclose(one.rows[[5, 9]], few.rows, rtol=0, atol=1.001 * step)
        assert np.array_equal(one.items, few.items)
    assert not np.array_equal(whole[0].items, whole[1].items)
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1"):
        play(0)


def test_nobody_else_sees_sums(parts, published, tmp_path) -> None:
    assert "sums" in published.view("S")
    assert not {"sums"} & ({*published.view("O")} | {*published.view("X")})
    whole = vr.load_model(published.save(tmp_path / "whole"))
    assert np.array_equal(recovered(whole, parts).draws, recovered(published, parts).draws)
    theirs = vr.load_model(published.save(tmp_path / "theirs.veil", part="shareable"))
    assert "sums" not in theirs.view("S")


# -- the sums of twin B -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few() -> vr.Split:
    return vr.split.holdout(
        vr.synthetic(users=60, items=120, interactions=2400, seed=3), test=0.3, seed=1, joint=True
    )


def totals(few) -> dict[str, Interval]:
    """The AUC of "sums" by attack, with epsilon 1."""
    model = PFGNRSums(epsilon=1.0, epochs=5, embedding_size=64, sampling_rate=1.0)
    model.fit(few.train, seed=1, progress=False, secure=False)
    about = {"adversaries": "S", "attackers": "sums", "resamples": 40}
    return {
        kind: vr.attack(model, few, kind, **about).outcome("S", "sums").interval("auc")
        for kind in ("links", "membership")
    }


def test_the_total_tells_nothing_with_its_noise_and_much_without(few, monkeypatch) -> None:
    """The twin without noise is read beyond chance; in membership, where popularity is chance, too."""
    for interval in totals(few).values():
        assert interval.low <= 0.5
    monkeypatch.setattr(Noise, "skellam", lambda self, variance, shape: np.zeros(shape, np.int64))
    broken = totals(few)
    assert broken["links"].low > 0.7
    assert broken["membership"].low > 0.55


def test_the_server_has_the_sum_of_every_round_and_no_user_is_in_it(few, monkeypatch, tmp_path) -> None:
    """With validation, vectors of an earlier epoch may be kept; the server has heard all rounds the same."""
    honest, heard = PFGNRSums.round, []

    def listening(self, *given):
        heard.append(honest(self, *given))
        return heard[-1]

    monkeypatch.setattr(PFGNRSums, "round", listening)
    model = PFGNRSums(embedding_size=4, epochs=4, sampling_rate=0.5, validate_every=1)
    model.fit(few.train, few.test, seed=1, progress=False, secure=False)
    assert len(heard) == 8
    for one in (model, vr.load_model(model.save(tmp_path / "sums.veil"))):
        seen = one.view("S")
        assert [*seen["server"]] == ["sums_of_rounds"]
        np.testing.assert_array_equal(seen["server"]["sums_of_rounds"], heard)
        assert all("sums_of_rounds" not in one.view(side)["shared"] for side in "OXS")
        assert not one.view("O")["reports"]


def test_the_vectors_follow_from_the_sums_that_the_server_has(few) -> None:
    """Adam over the sums of the view gives the item vectors, bit by bit: it is all that training heard."""
    model = PFGNRSums(embedding_size=4, epochs=3, sampling_rate=0.5)
    model.fit(few.train, seed=1, progress=False, secure=False)
    start = stream(1, model.word, "items").standard_normal((120, 4)) * 0.1
    vectors = torch.nn.Parameter(torch.from_numpy(start))
    adam = torch.optim.Adam([vectors], lr=model.learning_rate)
    scale = model.step * model.clip_norm / (model.sampling_rate * few.train.n_users)
    for total in model.view("S")["server"]["sums_of_rounds"]:
        vectors.grad = torch.from_numpy(total * scale)
        adam.step()
    assert np.array_equal(vectors.detach().numpy(), model.shared["item_vectors"])


def test_sums_too_many_to_keep_are_refused_before_they_are_paid(few, tmp_path, monkeypatch) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    model = PFGNRSums(embedding_size=4, epochs=4, sampling_rate=0.5)
    monkeypatch.setattr(pf_gnr_sums, "MOST_HEARD", 8 * 120 * 4 * 4)  # rounds, items, size, bytes
    model.fit(few.train, progress=False, ledger=ledger)
    assert model.private["sums_of_rounds"].nbytes == pf_gnr_sums.MOST_HEARD
    monkeypatch.setattr(pf_gnr_sums, "MOST_HEARD", 8 * 120 * 4 * 4 - 1)
    with pytest.raises(ValueError, match="epochs must be so few that the server's sums have at most"):
        model.fit(few.train, progress=False, ledger=ledger)
    assert len(ledger.history()) == 1


def test_the_kept_numbers_are_wide_enough_for_any_sum() -> None:
    """All devices at their bound, in the same coordinate: 30 fit 32 bits, two hundred thousand do not."""
    model = PFGNRSums()
    for users, kind in ((30, np.int32), (200_000, np.int64)):
        one = model.mechanisms(users, 50)[1]
        assert model._whole(one, users) == kind
        assert users * one.l2 + 12 * np.sqrt(one.variance) < np.iinfo(kind).max


@pytest.mark.parametrize("at", [3, 5, 8])
def test_a_fit_that_goes_on_has_the_same_sums(few, tmp_path, monkeypatch, at: int) -> None:
    about = {"seed": 1, "progress": False, "secure": False}
    settings = {"embedding_size": 4, "epochs": 4, "sampling_rate": 0.5}
    through = PFGNRSums(**settings).fit(few.train, **about)
    honest, calls = PFGNRSums.round, []

    def interrupted(self, *given):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return honest(self, *given)

    monkeypatch.setattr(PFGNRSums, "round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PFGNRSums(**settings).fit(few.train, checkpoint=tmp_path, **about)
    again = PFGNRSums(**settings).fit(few.train, checkpoint=tmp_path, **about)
    assert through.private["sums_of_rounds"].any(axis=(1, 2)).all()
    assert np.array_equal(again.private["sums_of_rounds"], through.private["sums_of_rounds"])
    assert np.array_equal(again.shared["item_vectors"], through.shared["item_vectors"])


def test_others_keep_no_total(parts, published) -> None:
    for model in (published, SYSTEMS["lightgcn"](**TINY).fit(parts.train, progress=False)):
        found = link_attack(model, parts, adversaries="S", attackers=["sums", "cosine"], **FAST)
        assert found.not_applicable == {("S", "sums"): "this server keeps no sum of item gradients"}
