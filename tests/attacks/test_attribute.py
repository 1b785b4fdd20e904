from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as oracle

import veilrec as vr
from veilrec.attacks import ATTACKERS, attribute_attack, class_metrics
from veilrec.attacks import attribute_models as models
from veilrec.attacks.attribute_inputs import evidence_of, lists_of, popular_lists, reports_of
from veilrec.attacks.attribute_metrics import METRICS, repeats_interval
from veilrec.attacks.attribute_targets import target_of, targets_of
from veilrec.core import DataError, MissingExtra, stream
from veilrec.data import Categorical, Numeric
from veilrec.metrics import mean_interval

FAST = ("bayes", "logistic")


@pytest.fixture(scope="module")
def world():
    return vr.synthetic(users=300, items=120, interactions=9000, seed=3)


def with_attributes(data, **attributes):
    return dataclasses.replace(data, attributes=attributes)


def shuffled(data, name, seed):
    old = data.attributes[name]
    return with_attributes(
        data, **{name: Categorical(stream(seed, "shuffle").permutation(old.codes), old.categories)}
    )


class Told(vr.Popularity):
    """A recommender whose list of a user is what ``tell`` says, seen or not."""

    def tell(self, choose):
        self.choose = choose
        return self

    def recommend(self, users=None, k=10, **more):
        rows = [(u, i, r + 1, -float(r)) for u in users for r, i in enumerate(self.choose(u)[:k])]
        return pl.DataFrame(rows, schema=["user", "item", "rank", "score"], orient="row")


def leaker(data):
    """The list is chosen by the gender alone."""
    gender = dict(zip(data.users.values, data.attributes["gender"].codes))
    items = data.items.values.to_list()
    return Told().fit(data).tell(lambda u: items[:10] if gender[u] else items[10:20])


# -- the score --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_metrics_equal_scikit_learn(classes) -> None:
    g = stream(1, "metrics", classes)
    truth = np.concatenate([np.arange(classes), g.integers(0, classes, 60)])
    scores = g.dirichlet(np.ones(classes), len(truth)).round(1) + 0.01  # rounded: ties
    scores /= scores.sum(axis=1, keepdims=True)
    guessed = scores.argmax(axis=1)
    found = class_metrics(truth, guessed, scores)
    assert found["micro_f1"] == pytest.approx(oracle.f1_score(truth, guessed, average="micro"))
    assert found["micro_f1"] == pytest.approx(oracle.accuracy_score(truth, guessed))
    for way in ("macro", "weighted"):
        assert found[f"{way}_f1"] == pytest.approx(
            oracle.f1_score(truth, guessed, average=way, zero_division=0)
        )
    assert found["balanced_accuracy"] == pytest.approx(oracle.balanced_accuracy_score(truth, guessed))
    asked = scores[:, 1] if classes == 2 else scores
    assert found["auc"] == pytest.approx(oracle.roc_auc_score(truth, asked, multi_class="ovr"))
    assert tuple(found) == METRICS


def test_interval_over_repeats_is_wider_than_the_plain_one() -> None:
    plain = mean_interval([1.0, 2.0, 4.0])
    ours = repeats_interval([1.0, 2.0, 4.0], 0.25)
    s = np.std([1, 2, 4], ddof=1)
    assert ours.high - ours.mean == pytest.approx(4.302653 * s * np.sqrt(1 / 3 + 0.25), rel=1e-6)
    assert ours.high > plain.high
    assert repeats_interval([1.0], 0.25) is None
    same = repeats_interval([0.1] * 5, 0.25)
    assert same.low == same.high == same.mean


# -- the secrets ------------------------------------------------------------------------------------------


def test_split_is_by_class_and_exact() -> None:
    codes = np.repeat([0, 1, 2, -1], [670, 266, 7, 57]).astype(np.int32)
    data = with_attributes(
        vr.Dataset.from_arrays(range(1000), range(1000)), job=Categorical(codes, ("a", "b", "c"))
    )
    target = target_of(data, "job", {})
    assert (target.missing, target.rare, target.counts.tolist()) == (57, 0, [670, 266, 7])
    train, test = target.split(0.8, stream(1, "x"))
    assert len(test) == 189
    assert np.bincount(target.codes[test]).tolist() == [134, 53, 2]
    assert np.array_equal(np.sort(np.concatenate([train, test])), target.users)


def test_numbers_are_binned_by_public_edges() -> None:
    ages = np.array([34, 35, 45, 46, 34.9, np.nan] * 5, np.float32)
    data = with_attributes(vr.Dataset.from_arrays(range(30), range(30)), age=Numeric(ages, 1, 100))
    target = target_of(data, "age", {"age": (35, 46)})
    assert target.classes == ("under 35", "35 to under 46", "46 and over")
    assert target.counts.tolist() == [10, 10, 5]
    assert target.missing == 5
    for bins, sentence in (
        ({}, "bins must be given for 'age'"),
        ({"age": (46, 35)}, "rising finite edges"),
        ({"age": ()}, "rising finite edges"),
        ({"wage": (1,)}, "bins must be one of age"),
    ):
        with pytest.raises(ValueError, match=sentence):
            targets_of(data, "age", bins)


def test_targets_that_cannot_be_attacked() -> None:
    n = 1000
    data = vr.Dataset.from_arrays(range(n), range(n))
    names = tuple(map(str, range(n)))
    each = Categorical(np.arange(n, dtype=np.int32), names)
    many = Categorical((np.arange(n) // 5).astype(np.int32), names)
    one = Categorical(np.zeros(n, np.int32), ("all", "none"))
    few = Categorical(np.where(np.arange(n) < 3, 1, 0).astype(np.int32), ("most", "three"))
    fine = Categorical((np.arange(n) % 2).astype(np.int32), ("x", "y"))
    number = Numeric(np.arange(n, dtype=np.float32))
    data = with_attributes(data, each=each, many=many, one=one, few=few, number=number, fine=fine)
    for name, sentence in (
        ("each", "at least two classes of 5 users or more, got 'each' with 1,000 classes"),
        ("many", "at most 100 classes, got 'many' with 200 classes"),
        ("one", "got 'one' with 1 classes among 1,000 users"),
        ("few", "got 'few' with 2 classes"),
        ("number", "'number' is a number"),
        ("fin", "Did you mean 'fine'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            target_of(data, name, {})
    found, passed = targets_of(data, None, {})
    assert [target.name for target in found] == ["fine"]
    assert sorted(passed) == ["each", "few", "many", "number", "one"]
    with pytest.raises(ValueError, match="bins must be given for numeric attributes only, got 'fine'"):
        target_of(data, "fine", {"fine": (1,)})
    with pytest.raises(DataError, match="has no user attributes"):
        targets_of(with_attributes(data), None, {})
    with pytest.raises(ValueError, match="at least two classes"):
        targets_of(with_attributes(data, one=one), None, {})


def test_missing_and_rare_users_are_left_out_and_counted(world) -> None:
    gender = world.attributes["gender"]
    codes = gender.codes.copy()
    codes[::2] = -1
    codes[1:6:2] = 2
    data = with_attributes(world, gender=Categorical(codes, ("F", "M", "X")))
    found = attribute_attack(vr.Popularity().fit(data), data, attackers="bayes", repeats=1)
    assert (found.targets[0].missing, found.targets[0].rare) == (150, 3)
    assert len(found.targets[0].users) == 147
    assert "147 users; left out: 150 without a value and 3 in classes of fewer than 5" in str(found)


# -- what is seen ------------------------------------------------------------------------------------------


def test_lists_and_popular_lists(world) -> None:
    model = vr.ItemKNN().fit(world)
    lists = lists_of(model, world, [3, 10])
    frame = model.recommend(["u7"], k=3)
    row = lists[3][world.users.codes(["u7"])[0]]
    assert sorted(world.items.take(row.indices)) == sorted(frame["item"])
    popular, seen = popular_lists(world, [5])[5], world.matrix()
    assert popular.multiply(seen).nnz == 0
    fame = np.asarray(seen.sum(axis=0)).ravel()
    for user in (0, 17):
        unseen = np.setdiff1d(np.argsort(-fame, kind="stable"), seen[user].indices, assume_unique=True)
        assert sorted(popular[user].indices) == sorted(unseen[:5])


def test_kinds_of_evidence(world) -> None:
    history, lists = world.matrix(), popular_lists(world, [5])[5]
    both = evidence_of("both", history, lists)
    assert both.items.sum() == history.sum() + lists.sum()
    reports = np.stack([np.arange(300), np.ones(300)], axis=1).astype(np.float32)
    adaptive = evidence_of("adaptive", history, lists, reports)
    assert adaptive.items.shape == (300, 240)
    assert adaptive.reports.shape == (300, 1)


def test_a_model_without_the_owners_part_is_asked_by_history(world, tmp_path) -> None:
    model = vr.EASE().fit(world)
    shared = vr.load_model(model.save(tmp_path / "shared.veil", part="shareable"))
    assert (lists_of(shared, world, [5])[5] != lists_of(model, world, [5])[5]).nnz == 0


def test_data_of_other_users_are_refused(world) -> None:
    model = vr.Popularity().fit(vr.synthetic(users=60, items=120, interactions=1000))
    with pytest.raises(ValueError, match="data must be of users that the model knows"):
        attribute_attack(model, world, "gender", attackers="bayes")


# -- the attack ----------------------------------------------------------------------------------------------


def test_every_attacker_learns_from_history_and_beats_the_majority() -> None:
    data = vr.synthetic(users=500, items=150, interactions=20_000, seed=1, attribute_strength=2.0)
    found = attribute_attack(
        vr.Popularity().fit(data), data, "gender", inputs="history", repeats=3, labelled=0.8
    )
    majority = found.outcome("gender", "", "majority class")
    for attacker in ATTACKERS:
        row = found.outcome("gender", attacker, "history")
        assert row.interval("auc").low > 0.55, attacker
        assert row.mean("balanced_accuracy") > 0.54, attacker
    for attacker in ("network", "gp", "svc", "logistic"):
        gap = found.outcome("gender", attacker, "history").minus(majority)
        assert gap.interval("micro_f1").low > 0, attacker
        assert gap.users_interval().low > 0, attacker


def test_on_shuffled_labels_nobody_beats_the_majority(world) -> None:
    data = shuffled(world, "gender", 1)
    found = attribute_attack(vr.EASE().fit(data), data, "gender", inputs=("list", "both"), repeats=4)
    majority = found.outcome("gender", "", "majority class")
    for row in found.outcomes:
        if row.attacker:
            assert row.minus(majority).interval("micro_f1").low <= 0, (row.attacker, row.sees)
            assert row.interval("auc").low <= 0.5, (row.attacker, row.sees)


def test_a_list_made_from_gender_is_caught(world) -> None:
    data = shuffled(world, "gender", 2)  # the history says nothing, the list all
    found = attribute_attack(leaker(data), data, "gender", inputs=("list", "both", "adaptive"), repeats=3)
    for attacker in ATTACKERS:
        assert found.outcome("gender", attacker, "list").mean("auc") > 0.99, attacker
        assert found.leak("gender", attacker, "list").low > 0, attacker
        assert found.outcome("gender", attacker, "popular list").mean("auc") < 0.65, attacker
        assert found.leak("gender", attacker, "adaptive", metric="micro_f1").low > 0, attacker


def test_one_list_for_everybody_leaks_exactly_nothing(world) -> None:
    items = world.items.values.to_list()
    model = Told().fit(world).tell(lambda user: items[5:25])
    found = attribute_attack(model, world, "gender", inputs=("list", "both"), k=5, repeats=2)
    majority = found.outcome("gender", "", "majority class")
    for attacker in ATTACKERS:
        history, both = (found.outcome("gender", attacker, sees) for sees in ("history", "both"))
        assert np.array_equal(both.values, history.values)
        assert np.array_equal(found.outcome("gender", attacker, "list").values, majority.values)
        leak = found.leak("gender", attacker, "both")
        assert (leak.low, leak.mean, leak.high) == (0, 0, 0)


class Reporter(vr.Popularity):
    """Lists that tell nothing, and a released report of the gender, right with probability 0.9."""

    def view(self, adversary="X"):
        return super().view(adversary) | {"reports": {"gender": self.report}}


def test_the_adaptive_attacker_uses_what_is_released(world) -> None:
    data = shuffled(world, "gender", 3)
    truth = data.attributes["gender"].codes
    model = Reporter().fit(data)
    model.report = np.where(stream(1, "lies").random(300) < 0.9, truth, 1 - truth)[:, None]
    found = attribute_attack(model, data, "gender", attackers=FAST, inputs=("both", "adaptive"), repeats=3)
    for attacker in FAST:
        assert found.outcome("gender", attacker, "both").mean("auc") < 0.65
        assert found.outcome("gender", attacker, "adaptive").mean("auc") > 0.75
        assert found.leak("gender", attacker, "adaptive").low > 0
    model.report = model.report[:-1]
    with pytest.raises(ValueError, match="report gender must be an array with 300 rows"):
        attribute_attack(model, data, "gender", attackers="bayes", inputs="adaptive")


def test_results_do_not_depend_on_order_and_repeat_themselves(world) -> None:
    mixed = world.frame().sample(fraction=1, shuffle=True, seed=1)
    people = world.user_frame().sample(fraction=1, shuffle=True, seed=2)
    categories = {name: one.categories for name, one in world.attributes.items()}
    again = vr.read(mixed, users=people, categories=categories)
    items = world.items.values.to_list()
    backwards = Told().fit(again).tell(lambda user: items[int(user[1:]) % 30 :][:10])
    first = Told().fit(world).tell(backwards.choose)
    settings = {"target": "gender", "attackers": ("network", "svc", "boosting"), "repeats": 2, "seed": 5}
    given = attribute_attack(first, world, **settings).to_dict()
    for model, data in ((backwards, again), (first, world)):
        found = attribute_attack(model, data, **settings).to_dict()
        assert found["rows"] == given["rows"]
    other = attribute_attack(first, world, "gender", repeats=2, seed=6, attackers="boosting").to_dict()
    assert other["rows"][-1] != given["rows"][-1]


def test_with_many_users_the_kernels_learn_from_some(world, monkeypatch) -> None:
    monkeypatch.setattr(models, "MOST_KERNEL_USERS", 100)
    found = attribute_attack(
        vr.Popularity().fit(world), world, "occupation", attackers=("gp", "svc"), inputs="history", repeats=1
    )
    assert found.outcome("occupation", "gp", "history").mean("auc") > 0.4


def test_the_record_is_json_and_the_table_has_every_row(world) -> None:
    parts = vr.split.holdout(world, test=0.2, seed=1)
    found = vr.attack(vr.EASE().fit(parts.train), parts, "attribute", attackers=FAST, repeats=2, k=(5, 10))
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [target["name"] for target in record["targets"]] == ["gender", "age", "occupation"]
    assert len(record["rows"]) == 3 * (2 + 2 * (1 + 2 * 2))
    row = next(row for row in record["rows"] if row["sees"] == "both" and row["k"] == 5)
    assert set(row["metrics"]) == set(row["leak"]) == set(METRICS)
    low, high = row["metrics"]["micro_f1"]["users"]
    assert low < row["metrics"]["micro_f1"]["mean"] < high
    text = str(found)
    assert text.count("popular both @5") == 6
    assert "leak, AUC" in text
    with pytest.raises(ValueError, match="with k if there are several"):
        found.leak("gender", "bayes", "both")
    with pytest.raises(ValueError, match="sees must be an input with a list, got 'history'"):
        found.leak("gender", "bayes", "history")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"attackers": "netwrok"}, "Did you mean 'network'"),
        ({"inputs": "lists"}, "Did you mean 'list'"),
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"repeats": 0}, "repeats must be"),
        ({"labelled": 1.0}, "labelled must be strictly between 0 and 1"),
        ({"target": "shoe"}, "target must be one of gender, age, occupation"),
        ({"kind": "atribute"}, "Did you mean 'attribute'"),
    ],
)
def test_wrong_arguments_in_one_sentence(world, settings, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        vr.attack(vr.Popularity().fit(world), world, **settings)


def test_without_scikit_learn_a_network_or_a_sentence(world, monkeypatch) -> None:
    def absent(module, *, extra, purpose):
        raise MissingExtra(f"{purpose} needs {module}: veilrec[{extra}]")

    monkeypatch.setattr(models, "require", absent)
    with pytest.raises(MissingExtra, match=r"veilrec\[attacks\]"):
        attribute_attack(vr.Popularity().fit(world), world, "gender", attackers="tree")
    found = attribute_attack(vr.Popularity().fit(world), world, "gender", attackers="network", repeats=1)
    assert found.outcome("gender", "network", "both").k == 10


def test_a_report_of_the_history_is_nothing_new() -> None:
    """PF-GNR releases a noisy graph: who holds the history itself has no use for it."""
    data = vr.synthetic(users=60, items=40, interactions=900)
    model = vr.PFGNR(epochs=1, embedding_size=4).fit(data, progress=False, secure=False)
    assert reports_of(model, data) is None
