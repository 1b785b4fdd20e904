"""GERAI: what each form promises, and the audits that hold it to it."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import torch

import veilrec as vr
from veilrec.attacks import one_run_epsilon, two_world_epsilon
from veilrec.core import DataError, DataWarning, stream
from veilrec.data import Categorical, Dataset
from veilrec.models import AttentionGCN
from veilrec.privacy import Noise
from veilrec.privacy.mechanisms import PaperFunctional
from veilrec.systems import GCN, GERAI, GERAIFunctional, GERAIPaper, GERAIUsers
from veilrec.systems.attention import taylor_loss
from veilrec.systems.gerai import unary_reports
from veilrec.systems.gerai_users import UserTower, drawn_rows
from veilrec.training import NegativeSampler, torch_stream

SMALL = {"embedding_size": 8, "epochs": 3, "batch_size": 256}


@cache
def world() -> vr.Split:
    data = vr.synthetic(users=120, items=60, interactions=3000, seed=2)
    return vr.split.holdout(data, test=0.2, valid=0.1, seed=1)


def fit(model, data=None, **more):
    about = {"seed": 3, "progress": False, "secure": False}
    return model.fit(data or world().train, **{**about, **more})


# -- statements --------------------------------------------------------------------------------------------


def test_the_paper_form_says_what_holds_and_what_does_not() -> None:
    guarantee = fit(GERAIPaper(**SMALL)).guarantee
    found = {claim.secret: claim.epsilon for claim in guarantee.claims}
    assert found["the whole profile of a user"] == pytest.approx(20.0)
    assert found["all attributes of a user"] == pytest.approx(7.5)
    for name in ("gender", "age", "occupation"):
        assert found[f"{name} of a user"] == pytest.approx(2.5)
    assert math.isinf(found["one interaction"])
    text = str(guarantee)
    assert "the paper claims: 20-LDP for the profile, 0.4-DP for training" in text
    assert "without noise" in text


def test_500_for_h_at_batch_64() -> None:
    """0.4 claimed; the batch mean of 64 pairs under noise of 1 / 80,000 costs 500 in every pass."""
    event = PaperFunctional(0.4, 60, 80_000, 64).event
    assert event.epsilon == pytest.approx(500.0)
    guarantee = fit(GERAIPaper(**SMALL)).guarantee
    of_h = next(claim for claim in guarantee.claims if "for h alone" in claim.secret)
    per_pass = 0.4 * len(world().train) / 64
    assert of_h.epsilon == pytest.approx(3 * per_pass)


def test_the_twin_for_attributes() -> None:
    guarantee = fit(GERAI(epsilon=0.5, **SMALL)).guarantee
    assert guarantee.claims[0].epsilon == pytest.approx(1.5)
    assert [claim.epsilon for claim in guarantee.claims[1:]] == [0.5, 0.5, 0.5]
    assert set(guarantee.claims[0].adversaries) == set("OXSF")
    assert "training on interactions" in guarantee.reads


def test_the_twin_for_users() -> None:
    model = fit(GERAIUsers(epsilon=4.0, epochs=2, embedding_size=4))
    user = model.guarantee.claims[0]
    assert (user.unit, user.neighbours, user.adversaries) == ("user", "add-remove", "OF")
    assert 3.99 < user.epsilon <= 4.0
    assert model.guarantee.claims[1].epsilon == pytest.approx(3.0)


@pytest.mark.parametrize(
    "model", [GERAI(**SMALL), GERAIPaper(**SMALL), GERAIUsers(epochs=1, embedding_size=4)]
)
def test_an_adaptive_attacker_gets_the_reports_and_nothing_truer(model) -> None:
    seen = fit(model).view("X")["reports"]["reports"]
    assert len(seen) == world().train.n_users
    truth = world().train.attributes["gender"].codes
    told = [np.corrcoef(column, truth)[0, 1] ** 2 for column in seen.T if column.std() > 0]
    assert max(told) < 0.9


def test_forms_and_variants() -> None:
    assert isinstance(GERAI.paper(ablation="NL"), GERAIPaper)
    assert GERAI.variants() == {"attributes": GERAI, "users": GERAIUsers, "functional": GERAIFunctional}


# -- structure: who reads what ---------------------------------------------------------------------------


def poisoned(data: Dataset) -> Dataset:
    """The same data with every attribute set to its last category."""
    last = {
        name: Categorical(np.full_like(a.codes, len(a.categories) - 1), a.categories)
        for name, a in data.attributes.items()
    }
    return dataclasses.replace(data, attributes=last)


@pytest.mark.parametrize("model", [GERAI, GERAIPaper])
def test_taint_after_the_reports_nobody_reads_an_attribute(model, monkeypatch) -> None:
    """The reports pinned, the raw attributes poisoned: the model must not differ in a single bit."""
    from veilrec.systems import gerai

    kept = {}

    def pinned(job, label, draw):
        if label not in kept:
            kept[label] = draw()
        else:
            draw()
        return kept[label]

    monkeypatch.setattr(gerai, "release_once", pinned)
    clean = fit(model(**SMALL))
    tainted = fit(model(**SMALL), poisoned(world().train))
    for name, array in {**clean.shared, **clean.private}.items():
        np.testing.assert_array_equal(array, {**tainted.shared, **tainted.private}[name])


def test_the_taint_test_can_fail() -> None:
    clean, tainted = (fit(GCN(**SMALL), data) for data in (world().train, poisoned(world().train)))
    assert (clean.shared["item_side"] != tainted.shared["item_side"]).any()


def test_noise_on_the_loss_moves_h_and_nothing_else() -> None:
    """The flaw of the paper form: one batch, two draws; only the gradient of h differs."""
    random = torch.Generator().manual_seed(1)
    weight = torch.randn(8, 8, generator=random, requires_grad=True)
    h = torch.randn(8, generator=random, requires_grad=True)
    pairs = torch.randn(20, 8, generator=random)
    found = []
    for seed in (1, 2):
        noise = PaperFunctional(0.4, 8, 1000, 20).perturb(np.zeros(8), np.zeros((8, 8)), Noise.research(seed))
        linear, quadratic = (torch.from_numpy(part.astype(np.float32)) for part in noise)
        loss = taylor_loss(h, pairs @ weight) + linear @ h + h @ quadratic @ h
        found.append(torch.autograd.grad(loss, [h, weight]))
    assert (found[0][0] != found[1][0]).any()
    assert torch.equal(found[0][1], found[1][1])


def test_reports_are_drawn_once(tmp_path) -> None:
    """Stopped and taken up again with secure noise: the same reports."""
    first = GERAI(**SMALL).fit(world().train, seed=3, progress=False, checkpoint=tmp_path)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert "released-profile-reports.safetensors" in kept
    again = GERAI(**SMALL).fit(world().train, seed=3, progress=False, checkpoint=tmp_path)
    assert first.guarantee.claims == again.guarantee.claims
    np.testing.assert_array_equal(first.shared["item_side"], again.shared["item_side"])


# -- audits -----------------------------------------------------------------------------------------------


def guessed_right(epsilon: float, report) -> int:
    """Canaries with a fair coin for their gender; the attacker takes the likelier one."""
    truth = stream(5, "canaries").integers(0, 2, 2000)
    about = vr.data.Profiles(np.zeros((2000, 0)), truth[:, None], (), ("gender",), (("F", "M"),))
    reports = report(about, epsilon, Noise.research(6))
    gap = reports[:, 1] - reports[:, 0]
    guess = np.where(gap == 0, stream(7, "ties").integers(0, 2, 2000), gap > 0)
    return int((guess == truth).sum())


def test_one_run_audit_of_the_reports() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        bound = one_run_epsilon(2000, guessed_right(epsilon, unary_reports), level=1e-3)
        assert 0 < bound < epsilon


def test_the_audit_catches_twice_the_budget() -> None:
    def leaky(about, epsilon, noise):
        return unary_reports(about, 6 * epsilon, noise)

    assert one_run_epsilon(2000, guessed_right(0.5, leaky), level=1e-3) > 0.5


def toy(with_canary: bool) -> Dataset:
    """30 users and 40 items; item 0 is had by user 0 alone, or by nobody."""
    data = vr.synthetic(users=30, items=40, interactions=450, seed=4)
    keep = data.item != 0
    user, item, rating = data.user[keep], data.item[keep], data.rating[keep]
    if with_canary:
        user, item, rating = np.append(user, 0), np.append(item, 0), np.append(rating, 5.0)
    about = {"rating_range": (1, 5), "attributes": data.attributes}
    return Dataset.from_codes(user, item, data.users, data.items, rating=rating, **about)


@pytest.fixture
def no_negative_canary(monkeypatch):
    """The canary is never drawn as a negative: without its interaction nothing moves its row."""
    drawn = NegativeSampler.draw
    monkeypatch.setattr(NegativeSampler, "draw", lambda *about: np.maximum(drawn(*about), 1))


def canary_scores(make, runs: int = 24) -> tuple[list[float], list[float]]:
    """How far the row of the canary has moved from its start, which is public, in the released table."""
    worlds = []
    for with_canary in (True, False):
        data, found = toy(with_canary), []
        for run in range(runs):
            model = make().fit(data, seed=run, progress=False, secure=False)
            start = torch_stream(run, model.word, "init")
            if isinstance(model, GERAIUsers):
                width, name = model.shared["net.profile.weight"].shape[1], "net.items.weight"
                table = UserTower(width, 40, 8, start).items.weight
            else:
                width, name = model.shared["net.user_table"].shape[0], "net.item_table"
                table = AttentionGCN(width, 40, 8, start).item_table
            found.append(float(np.linalg.norm(model.shared[name][0] - table[0].detach().numpy())))
        worlds.append(found)
    return worlds[0], worlds[1]


@pytest.mark.usefixtures("no_negative_canary")
class TestCanary:
    """24 runs in each world can show an epsilon of 1.1 at most: the claims are smaller."""

    def test_it_breaks_the_paper_form(self) -> None:
        """0.4-DP is claimed for training; a single interaction is read off the model."""
        settings = {"embedding_size": 8, "epochs": 8, "batch_size": 512, "weight_decay": 0.0}
        ours, theirs = canary_scores(lambda: GERAIPaper(**settings))
        assert max(theirs) == 0
        assert np.mean(np.array(ours) > 0) > 0.9  # a row may start behind a dead unit
        assert two_world_epsilon(ours, theirs) > 0.4

    settings: ClassVar = {"embedding_size": 8, "epochs": 4, "sampling_rate": 0.5, "most_items": 16}

    def test_it_does_not_break_the_twin_for_users(self) -> None:
        ours, theirs = canary_scores(lambda: GERAIUsers(epsilon=0.5, **self.settings))
        assert two_world_epsilon(ours, theirs, level=1e-3) <= 0.5

    def test_it_would_without_noise(self, monkeypatch) -> None:
        """The control: the same run, the same claim, the noise left out."""
        monkeypatch.setattr(Noise, "add_gaussian", lambda self, values, *about: values)
        ours, theirs = canary_scores(lambda: GERAIUsers(epsilon=0.5, **self.settings))
        assert two_world_epsilon(ours, theirs) > 0.5


# -- utility and inputs ----------------------------------------------------------------------------------


def test_it_learns() -> None:
    """Better than popularity, with and without privacy for attributes."""
    settings = {"embedding_size": 16, "epochs": 25, "batch_size": 256}
    data = vr.synthetic(users=300, items=200, interactions=9_000, seed=2)
    parts = vr.split.holdout(data, test=0.2, seed=1)
    null = vr.evaluate(vr.Popularity().fit(parts.train), parts, k=10).mean()["ndcg@10"]
    for model in (GCN(**settings), GERAI(**settings)):
        found = vr.evaluate(fit(model, parts.train, seed=1), parts, k=10, progress=False).mean()["ndcg@10"]
        assert found > 1.05 * null


def test_data_without_attributes() -> None:
    bare = dataclasses.replace(world().train, attributes={})
    with pytest.raises(DataError, match="must have a categorical attribute to protect"):
        fit(GERAI(**SMALL), bare)
    assert len(fit(GERAIUsers(epochs=1, embedding_size=4), bare).guarantee.claims) == 1
    assert fit(GCN(**SMALL), bare).shared["net.user_table"].shape[0] == 18


def test_half_of_the_users_say_nothing() -> None:
    data = world().train
    gender = data.attributes["gender"]
    codes = gender.codes.copy()
    codes[::2] = -1
    half = dataclasses.replace(
        data, attributes={**data.attributes, "gender": Categorical(codes, gender.categories)}
    )
    assert fit(GERAI(**SMALL), half).guarantee.claims[1].epsilon == 1.0


def test_attributes_of_one_class_and_of_too_many() -> None:
    data = world().train
    one = Categorical(np.zeros(data.n_users, np.int32), ("all",))
    with pytest.warns(DataWarning, match="one category and tells nothing"):
        model = fit(GERAI(**SMALL), dataclasses.replace(data, attributes={**data.attributes, "planet": one}))
    assert len(model.guarantee.claims) == 4
    many = Categorical(np.arange(data.n_users, dtype=np.int32), tuple(f"c{j}" for j in range(1000)))
    with pytest.raises(ValueError, match="of at most 256 categories, got 1000"):
        fit(GERAI(**SMALL), dataclasses.replace(data, attributes={"postcode": many}))


def test_no_ratings_and_users_without_history() -> None:
    data = world().train
    bare = dataclasses.replace(data, rating=None)
    assert fit(GERAI(**SMALL), bare).shared["net.user_table"].shape[0] == 1 + 2 + 7 + 21
    keep = data.user != 5
    silent = data.take(np.flatnonzero(keep))
    name = data.users.take([5])[0]
    for model in (GERAI(**SMALL), GERAIUsers(epochs=1, embedding_size=4)):
        assert len(fit(model, silent).recommend([name], k=5)) == 5


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_bad_budgets(epsilon) -> None:
    for make in (
        lambda: GERAI(epsilon=epsilon),
        lambda: GERAIPaper(profile_epsilon=epsilon),
        lambda: GERAIPaper(loss_epsilon=epsilon),
        lambda: GERAIUsers(epsilon=epsilon),
        lambda: GERAIUsers(attribute_epsilon=epsilon),
    ):
        with pytest.raises(ValueError, match="epsilon must be"):
            make()


def test_ablations() -> None:
    true_profiles = fit(GERAIPaper(ablation="NL", **SMALL)).guarantee
    assert all("profile" not in claim.secret for claim in true_profiles.claims)
    quiet = fit(GERAIPaper(ablation="NF", **SMALL)).guarantee
    assert not any("for h alone" in claim.secret for claim in quiet.claims)
    once = fit(GERAIPaper(loss_noise="once", **SMALL)).guarantee
    assert math.isinf(next(c.epsilon for c in once.claims if c.secret == "one interaction"))


def test_rows_are_drawn_evenly() -> None:
    import scipy.sparse as sp

    rows = sp.csr_matrix(np.ones((4000, 6)))
    ids, on = drawn_rows(rows, 2, stream(1, "rows"))
    assert on.all()
    assert (ids[:, 0] != ids[:, 1]).all()
    counts = np.bincount(ids.ravel(), minlength=6)
    assert counts.min() > 0.9 * 8000 / 6


def test_pairs_of_the_user_twin_are_drawn_like_the_noise(monkeypatch) -> None:
    """From the public seed they would shift for all other users when one comes or goes."""
    drawn: list[np.ndarray] = []
    original = NegativeSampler.draw

    def watch(self, users, random):
        found = original(self, users, random)
        drawn.append(found)
        return found

    monkeypatch.setattr(NegativeSampler, "draw", watch)

    def pairs(secure: bool) -> list[list[int]]:
        drawn.clear()
        fit(GERAIUsers(epochs=1, embedding_size=4, sampling_rate=1.0), secure=secure)
        return [array.ravel().tolist() for array in drawn]

    assert pairs(secure=False) == pairs(secure=False)
    assert pairs(secure=True) != pairs(secure=True)


# -- new people ----------------------------------------------------------------------------------------------


def newcomers() -> Dataset:
    """Some of the training users under other names: what they get can be compared."""
    data = world().train
    few = data.take(np.flatnonzero(data.user < 6))
    return Dataset.from_arrays(
        [f"new {code}" for code in few.user],
        few.items.take(few.item).to_list(),
        rating=few.rating,
        rating_range=few.rating_range,
        attributes={name: found.take(np.arange(6)) for name, found in few.attributes.items()},
    )


def test_a_new_user_with_profile_and_history_is_served_like_a_known_one() -> None:
    """Without noise the new user's vector is computed from the same profile and items: the same scores."""
    model, people = fit(GCN(**SMALL)), newcomers()
    with_profile = model.recommend(history=people, reports=model.report(people), k=5)
    known = world().train.users.take(np.arange(6)).to_list()
    assert with_profile["item"].to_list() == model.recommend(known, k=5)["item"].to_list()
    blank = model.recommend(history=people, k=5)
    assert not np.allclose(blank["score"].to_numpy(), with_profile["score"].to_numpy())


@pytest.mark.parametrize(
    "model", [GERAI(**SMALL), GERAIPaper(**SMALL), GERAIUsers(epochs=1, embedding_size=4)]
)
def test_a_new_user_reports_with_noise(model, tmp_path) -> None:
    fit(model)
    published = vr.load_model(model.save(tmp_path / "m.veil", part="shareable"))
    people = newcomers()
    report = published.report(people)
    assert report.shape == model.report(people).shape
    assert not np.array_equal(report, published.report(people))  # another draw: another release
    again = published.report(people, secure=False, seed=1)
    assert np.array_equal(again, published.report(people, secure=False, seed=1))
    assert len(published.recommend(history=people, reports=report, k=5)) == 30


def test_reports_that_do_not_fit() -> None:
    people = newcomers()
    model = fit(GERAI(**SMALL))
    with pytest.raises(ValueError, match="reports must be 6 rows"):
        model.recommend(history=people, reports=model.report(people)[:3])
    with pytest.raises(ValueError, match="reports must be rows of"):
        model.recommend(history=people, reports=model.report(people)[:, :3])
    with pytest.raises(ValueError, match="left out for known users"):
        model.recommend(["u1"], reports=model.report(people))
    plain = vr.EASE().fit(world().train, progress=False)
    with pytest.raises(TypeError, match="takes no report"):
        plain.report(people)
    with pytest.raises(TypeError, match="Leave reports= out"):
        plain.recommend(history=people, reports=np.zeros((6, 1)))
    assert len(plain.recommend(history=people, k=5)) == 30
