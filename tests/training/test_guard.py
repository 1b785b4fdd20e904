"""The private way of fitting: looks at data, draws and claims must answer for each other."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

import veilrec as vr
from veilrec import systems
from veilrec.core import BudgetExhausted, NotFitted
from veilrec.privacy import Claim, Ledger, PureEvent, UnboundedEvent
from veilrec.privacy.mechanisms import Gaussian
from veilrec.training import STOPPING, Closed, DataGuard, Recommender, read_model


@dataclasses.dataclass(eq=False)
class NoisyPopularity(Recommender):
    """Item counts with noise: the smallest private recommender there is."""

    word, summary = "noisy-popularity", "counts with noise, the same list for everybody"
    not_covered = ("test metrics",)
    epsilon: float = 1.0
    flaw: str = ""
    note: object = None

    def mechanism(self):
        return Gaussian.for_budget(self.epsilon, 1e-5, sensitivity=30.0)

    def _claims(self, public):
        event = self.mechanism().event.named("counts")
        about = ("all data of a user", "user", "add-remove", "OX", ("item counts",))
        return (Claim(*about, (event,), 1e-5),)

    def _fit(self, job):
        assert len(job.train) == 0
        assert all(attribute.missing.all() for attribute in job.train.attributes.values())
        data = job.guard.take("interactions", "counts")
        counts = np.bincount(data.item, minlength=data.n_items).astype(float)
        noisy = counts if self.flaw == "no noise" else self.mechanism().release(counts, job.noise, "counts")
        if self.flaw == "second draw":
            noisy = (noisy + self.mechanism().release(counts, job.noise, "counts")) / 2
        if self.flaw == "hidden look":
            job.guard.take("attributes", "curiosity")
        if self.flaw == "second look":
            noisy = job.guard.take("interactions", "counts").item_counts.astype(float)
        if self.flaw == "history":
            noisy = np.asarray(self.history.sum(axis=0)).ravel()
        if self.flaw == "validation":
            noisy = job.valid.item_counts.astype(float)
        if self.flaw == "look at validation":
            noisy = job.validation().item_counts.astype(float)
        if self.flaw == "bare event":
            job.noise.record(UnboundedEvent(reason="exact counts are published", label="more counts"))
        if self.flaw == "bare look":
            job.take_bare("links", UnboundedEvent(reason="friends are read as they are", label="friends"))
        if self.flaw == "second part":
            codes = job.guard.take("attributes", "counts").attributes["gender"].codes
            noisy[:2] = np.bincount(codes, minlength=2)[:2]
        if self.flaw == "purpose of another part":
            noisy = job.guard.take("interactions", STOPPING).item_counts.astype(float)
        if self.flaw == "setting":
            noisy, self.note = (noisy if self.note is None else np.array(self.note)), counts.tolist()
        if self.flaw == "past":
            noisy = getattr(self, "_kept", noisy)
            self._kept = counts
        self.shared["counts"] = noisy.astype(np.float32)

    def _score(self, users):
        return np.tile(self.shared["counts"], (len(users), 1))


@dataclasses.dataclass(eq=False)
class Sly(NoisyPopularity):
    """Draws noise and states nothing."""

    word = "sly"

    def _claims(self, public):
        return ()

    def _fit(self, job):
        counts = np.bincount(job.train.item, minlength=job.train.n_items).astype(float)
        self.shared["counts"] = self.mechanism().release(counts, job.noise).astype(np.float32)


@pytest.fixture
def data():
    return vr.synthetic(users=80, items=40, interactions=900, seed=1)


def fit(data, flaw="", **more):
    return NoisyPopularity(flaw=flaw).fit(data, progress=False, **more)


def test_the_statement_is_composed_from_what_was_drawn(data) -> None:
    model = fit(data)
    assert model.guarantee.epsilon == pytest.approx(1.0, rel=1e-3)
    assert model.guarantee.grade == "secure"
    assert "test metrics" in str(model.guarantee)
    assert NoisyPopularity.is_private()


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ("no noise", r"looks at the data must be covered.*counts"),
        ("second draw", "as often as it was"),
        ("hidden look", r"looks at the data must be covered.*curiosity"),
        ("second look", r"looks at the data must be covered.*counts.*two looks two"),
        ("second part", r"looks at the data must be covered.*attributes.*counts"),
        ("purpose of another part", "purpose must be that of its part, got 'early stopping"),
        ("setting", r"settings must be left as they are by a fit, got \['note'\]"),
        ("look at validation", r"looks at the data must be covered.*validation"),
        ("bare event", r"about every event that was drawn.*exact counts are published"),
        ("bare look", r"about every event that was drawn.*friends are read as they are"),
    ],
)
def test_every_flaw_is_caught(data, flaw, words) -> None:
    parts = vr.split.holdout(data, test=0.1, valid=0.1, seed=1)
    with pytest.raises(ValueError, match=words):
        fit(parts.train, flaw, valid=parts.valid)


def test_histories_are_not_at_hand_while_a_private_system_is_fitted(data) -> None:
    with pytest.raises(NotFitted):
        fit(data, "history")


def test_a_fit_that_fails_leaves_a_model_that_is_not_fitted(data) -> None:
    """Without a statement there is no model, not even one that was fitted before."""
    model = fit(data)
    model.flaw = "second draw"
    with pytest.raises(ValueError, match="as often as it was"):
        model.fit(data, progress=False)
    with pytest.raises(NotFitted):
        _ = model.guarantee
    assert not model.shared


def test_validation_data_that_nobody_asked_for_have_no_facts(data) -> None:
    parts = vr.split.holdout(data, test=0.1, valid=0.1, seed=1)
    model = fit(parts.train, "validation", valid=parts.valid)
    assert len(parts.valid) > 0
    assert not model.shared["counts"].any()


def test_nothing_of_an_earlier_fit_is_within_reach_of_the_next(data) -> None:
    model = NoisyPopularity(flaw="past")
    for _ in range(2):
        model.fit(data, progress=False)
        assert (model.shared["counts"] != np.bincount(data.item, minlength=data.n_items)).any()


def test_nothing_of_an_earlier_fit_is_within_reach_when_claims_are_made(data, monkeypatch) -> None:
    model, held = fit(data), []
    honest = NoisyPopularity._claims

    def watched(self, public):
        held.append((self._history, dict(self.shared)))
        return honest(self, public)

    monkeypatch.setattr(NoisyPopularity, "_claims", watched)
    model.fit(data, progress=False)
    assert held
    assert all(one == (None, {}) for one in held)


def test_looks_cannot_be_forgotten(data) -> None:
    guard = DataGuard(data)
    guard.take("interactions", "counts")
    with pytest.raises(AttributeError):
        guard.looks.clear()
    with pytest.raises(AttributeError):
        guard.looks = ()
    assert guard.unanswered([]) == [("interactions", "counts")]


def test_two_parts_in_one_look_need_one_release(data) -> None:
    guard = DataGuard(data)
    both = guard.take("attributes, interactions", "reports")
    assert len(both) == len(data)
    assert not both.attributes["gender"].missing.all()
    assert both.links is None
    assert guard.unanswered([PureEvent(epsilon=1.0, label="reports")]) == []
    guard.close("attributes")
    with pytest.raises(Closed, match="attributes are closed"):
        guard.take("attributes, interactions", "reports")


def test_public_facts_have_no_hash_of_the_data(data) -> None:
    part = vr.split.holdout(data, test=0.1, seed=1).train
    assert part.origin
    assert DataGuard(part).public.origin == ""


def test_noise_without_a_claim_is_caught(data) -> None:
    with pytest.raises(ValueError, match="only by systems that state claims"):
        Sly().fit(data, progress=False)


def test_research_noise_repeats_and_says_so(data) -> None:
    one, other = (fit(data, seed=3, secure=False) for _ in range(2))
    assert (one.shared["counts"] == other.shared["counts"]).all()
    assert one.guarantee.grade == "research"
    assert (fit(data, seed=3).shared["counts"] != one.shared["counts"]).any()


def test_choices_on_private_data_are_named_in_the_statement(data) -> None:
    """Epochs that validation chose, settings that a search chose; not validation data that nobody read."""
    parts = vr.split.holdout(data, test=0.1, valid=0.1, seed=1)

    def warned(model: Recommender, **how) -> bool:
        model.fit(parts.train, parts.valid, progress=False, **how)
        return any("chosen on private data" in warning for warning in model.guarantee.warnings)

    assert not warned(NoisyPopularity())
    assert warned(NoisyPopularity(), tuned=True)
    assert warned(vr.PFGNR(epochs=1, embedding_size=4, validate_every=1))
    assert not warned(vr.systems.DPGram())


def test_validation_data_bring_interactions_and_nothing_else(data) -> None:
    """A way around the guard that must stay shut: the validation part has the same users."""
    parts = vr.split.holdout(data, test=0.1, valid=0.1, seed=1)
    guard = DataGuard(parts.train, parts.valid)
    found = guard.take("validation", STOPPING)
    assert len(found) == len(parts.valid)
    assert all(attribute.missing.all() for attribute in found.attributes.values())
    assert found.links is None
    assert guard.looks == (("validation", STOPPING),)
    with pytest.raises(ValueError, match="part must be one that the fit was given"):
        DataGuard(parts.train).take("validation", STOPPING)


def test_the_statement_is_saved_and_checked(data, tmp_path) -> None:
    model = fit(data)
    path = model.save(tmp_path / "model", part="shareable")
    loaded = read_model(path, {"noisy-popularity": NoisyPopularity})
    assert loaded.guarantee == model.guarantee
    stated = json.loads((path / "privacy.json").read_text())
    stated["claims"][0]["epsilon"] = 0.1
    (path / "privacy.json").write_text(json.dumps(stated))
    with pytest.raises(ValueError, match="the file was changed"):
        read_model(path, {"noisy-popularity": NoisyPopularity})


def test_the_shareable_part_tells_nothing_without_noise(data, tmp_path) -> None:
    model = fit(data)
    shared = json.loads((model.save(tmp_path / "shared", part="shareable") / "model.json").read_text())
    assert shared["facts"] == {"data": "synthetic"}
    whole = json.loads((model.save(tmp_path / "whole") / "model.json").read_text())
    assert whole["facts"]["data_fingerprint"] == data.fingerprint


class TestBudget:
    def ledger(self, tmp_path, epsilon=1.5):
        ledger = Ledger(tmp_path / "budget.sqlite")
        ledger.set_limit("shop", epsilon=epsilon, delta=1e-4)
        return ledger

    def test_a_fit_reserves_and_releases(self, data, tmp_path) -> None:
        ledger = self.ledger(tmp_path)
        fit(data, ledger=ledger, population="shop")
        (spend,) = [entry for entry in ledger.history("shop") if hasattr(entry, "state")]
        assert spend.state == "released"
        assert spend.epsilon == pytest.approx(1.0, rel=1e-3)
        with pytest.raises(BudgetExhausted):
            fit(data, ledger=ledger, population="shop")

    def test_when_one_claim_is_refused_none_is_paid(self, data, tmp_path) -> None:
        """The second claim of a run does not fit: the first may not stay behind as spent."""
        ledger = self.ledger(tmp_path, epsilon=1.5)
        once = NoisyPopularity()._claims(DataGuard(data).public)
        with pytest.raises(BudgetExhausted):
            ledger.reserve_claims("shop", "f", [*once, *once], run="two")
        assert ledger.accounts("shop")[0].epsilon == 0
        assert len(ledger.reserve_claims("shop", "f", once, run="one")) == 1

    def test_a_refused_fit_has_not_looked(self, data, tmp_path, monkeypatch) -> None:
        looked = []
        monkeypatch.setattr(DataGuard, "take", lambda self, part, purpose, only=None: looked.append(part))
        with pytest.raises(BudgetExhausted):
            fit(data, ledger=self.ledger(tmp_path, 0.5), population="shop")
        assert looked == []

    def test_a_fit_that_goes_on_pays_once(self, data, tmp_path, monkeypatch) -> None:
        ledger, checkpoint = self.ledger(tmp_path), tmp_path / "checkpoints"

        def stop(self, job):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(NoisyPopularity, "_fit", stop)
            with pytest.raises(KeyboardInterrupt):
                fit(data, ledger=ledger, population="shop", checkpoint=checkpoint)
        fit(data, ledger=ledger, population="shop", checkpoint=checkpoint)
        (account,) = ledger.accounts("shop")
        assert account.epsilon == pytest.approx(1.0, rel=1e-3)

    def test_a_fit_that_has_ended_is_read_back_for_nothing(self, data, tmp_path) -> None:
        """Stopped after its end, before its results were saved: the folder has all, and all is paid."""
        ledger, place = self.ledger(tmp_path, epsilon=8.5), tmp_path / "checkpoints"
        again = {"ledger": ledger, "population": "shop", "checkpoint": place, "progress": False}
        first, second = (systems.DPGram().fit(data, **again) for _ in range(2))
        np.testing.assert_array_equal(first.shared["table"], second.shared["table"])
        assert first.guarantee == second.guarantee
        assert ledger.accounts("shop")[0].epsilon == pytest.approx(8.0, rel=1e-3)
        (place / "released-item-counts.safetensors").unlink()
        with pytest.raises(ValueError, match="checkpoint must be whole, got none of released-item-counts"):
            systems.DPGram().fit(data, **again)
        shutil.rmtree(place)  # to start anew is to pay anew
        with pytest.raises(BudgetExhausted):
            systems.DPGram().fit(data, **again)

    def test_splits_of_the_same_data_share_a_budget(self, data, tmp_path) -> None:
        """Another seed makes another training part, of the same people: no other name makes it new data."""
        ledger = self.ledger(tmp_path, epsilon=2.5)
        one, other = (vr.split.holdout(data, test=0.2, seed=seed).train for seed in (1, 2))
        assert one.fingerprint != other.fingerprint
        fit(one, ledger=ledger, population="shop")
        with pytest.raises(ValueError, match="population must be 'shop', got 'stall'"):
            fit(other, ledger=ledger, population="stall")
        fit(other, ledger=ledger, population="shop")
        assert ledger.accounts("shop")[0].epsilon == pytest.approx(2.0, rel=1e-3)

    def test_a_system_that_keeps_nothing_cannot_draw_twice_for_one_price(self, data, tmp_path) -> None:
        again = {"ledger": self.ledger(tmp_path), "population": "shop", "checkpoint": tmp_path / "kept"}
        NoisyPopularity().fit(data, **again)
        with pytest.raises(ValueError, match="noise must be drawn once"):
            NoisyPopularity().fit(data, **again)

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (systems.DPGram(max_items=10), "must have at most 10 items"),
            (systems.BlurMe(attribute="shoe"), "must have the categorical attribute 'shoe'"),
            (systems.RAP(attributes=("shoe",)), "attributes must be categorical ones"),
            (systems.PFGNRSums(delta=0.5), "delta must be below 1 / "),
        ],
        ids=lambda value: getattr(value, "word", ""),
    )
    def test_what_is_refused_costs_nothing(self, data, tmp_path, model, words) -> None:
        ledger = self.ledger(tmp_path)
        with pytest.raises(ValueError, match=words):
            model.fit(data, ledger=ledger, population="shop", checkpoint=tmp_path / "kept", progress=False)
        assert [account.epsilon for account in ledger.accounts("shop")] == [0]
        assert not (tmp_path / "kept").exists()

    def test_a_folder_of_another_fit_costs_nothing(self, data, tmp_path) -> None:
        ledger = self.ledger(tmp_path, epsilon=100)
        again = {"ledger": ledger, "population": "shop", "checkpoint": tmp_path / "kept", "progress": False}
        systems.DPGram(epsilon=2.0).fit(data, **again)
        with pytest.raises(ValueError, match="checkpoint must be of the same model, settings"):
            systems.DPGram(epsilon=3.0).fit(data, **again)
        assert ledger.accounts("shop")[0].epsilon == pytest.approx(2.0, rel=1e-3)

    def test_a_damaged_folder_is_no_way_to_draw_again(self, data, tmp_path, monkeypatch) -> None:
        """To delete the state alone would let epochs be drawn twice for one price."""
        from veilrec.training import loop

        model = systems.PFGNRSums(epochs=3, embedding_size=4)
        saved, calls = loop._save, []

        def killed(*arguments) -> None:
            saved(*arguments)
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(loop, "_save", killed)
            with pytest.raises(KeyboardInterrupt):
                model.fit(data, checkpoint=tmp_path, progress=False)
        state = tmp_path / "state.safetensors"
        state.write_bytes(state.read_bytes()[:100])
        with pytest.raises(ValueError, match=r"must be readable.* or delete the whole folder to start anew"):
            model.fit(data, checkpoint=tmp_path, progress=False)
        state.unlink()
        with pytest.raises(ValueError, match="must be whole, got none of state"):
            model.fit(data, checkpoint=tmp_path, progress=False)


class TestGuard:
    def test_it_hands_out_one_part_at_a_time(self, data) -> None:
        guard = DataGuard(data)
        interactions, attributes = guard.take("interactions", "a"), guard.take("attributes", "b")
        assert len(interactions) == 900
        assert all(attribute.missing.all() for attribute in interactions.attributes.values())
        assert len(attributes) == 0
        assert not any(attribute.missing.all() for attribute in attributes.attributes.values())
        assert guard.unanswered([PureEvent(epsilon=1.0, label="a")]) == [("attributes", "b")]
        assert guard.unanswered([], ["a", "b"]) == []

    def test_closed_is_closed(self, data) -> None:
        guard = DataGuard(data)
        guard.close("links")
        with pytest.raises(Closed, match="links are closed"):
            guard.take("links", "x")

    def test_bad_questions(self, data) -> None:
        with pytest.raises(ValueError, match="Did you mean 'links'"):
            DataGuard(data).take("link", "x")
        with pytest.raises(ValueError, match="purpose must be named"):
            DataGuard(data).take("links", "")
