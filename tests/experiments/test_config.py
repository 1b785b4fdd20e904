from __future__ import annotations

import pytest

from veilrec.core import DataError
from veilrec.experiments import load_config, load_plan, make_model
from veilrec.experiments.specs import Entry, Plan

FILE = """
model: lightgcn
data: ml-100k
split: {method: temporal, test: 0.2}
settings: {layers: 2, learning_rate: 1e-2}
evaluate: 10
seed: 3
out: runs/mine
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    return path


def test_a_file_becomes_a_spec(file):
    spec = load_config(file)
    assert spec.model == "lightgcn"
    assert spec.data.source == "ml-100k"
    assert (spec.split.method, spec.split.test, spec.split.valid) == ("temporal", 0.2, 0.1)
    assert spec.settings == {"layers": 2, "learning_rate": 0.01}
    assert spec.evaluate.k == (10,)
    assert (spec.seed, spec.out) == (3, "runs/mine")


def test_overrides_beat_flags_beat_the_file(file):
    flags = {"seed": 5, "data": "synthetic", "device": None}
    spec = load_config(file, ["seed=7", "layers=4", "settings.epochs=2", "evaluate.k=[5, 20]"], flags=flags)
    assert (spec.seed, spec.data.source, spec.device) == (7, "synthetic", "auto")
    assert spec.settings == {"layers": 4, "learning_rate": 0.01, "epochs": 2}
    assert spec.evaluate.k == (5, 20)


def test_short_forms_keep_the_rest_of_their_section(file):
    spec = load_config(file, ["data=events.csv", "data.k_core=5", "split=holdout"])
    assert (spec.data.source, spec.data.k_core) == ("events.csv", 5)
    assert (spec.split.method, spec.split.test) == ("holdout", 0.2)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["sed=1"], "--set sed=1: sed must be a key of the configuration or a setting of lightgcn"),
        (["sed=1"], "Did you mean 'seed'?"),
        (["layer=1"], "Did you mean 'layers'?"),
        (["settings.layer=1"], "settings.layer must be a setting of lightgcn"),
        (["settings.layer=1"], "Did you mean 'layers'?"),
        (["layers=two"], "--set layers=two: settings.layers must be a whole number, got 'two'."),
        (["split.tset=0.1"], "split.tset must be a key of split: one of method, test, valid, seed"),
        (["data.k_cor=2"], "Did you mean 'k_core'?"),
        (["model=lightgnc"], "Did you mean 'lightgcn'?"),
        (["evaluate.protocol=ful"], "Did you mean 'full'?"),
        (["evaluate.k=0"], "evaluate.k must be a whole number of at least 1, got 0."),
        (["seed=-1"], "seed must be a whole number of at least 0, got -1."),
        (["device=tpu"], "device must be one of auto, cpu, cuda, got 'tpu'."),
    ],
)
def test_what_is_not_understood_is_refused(file, overrides, words):
    with pytest.raises(ValueError) as caught:
        load_config(file, overrides)
    assert words in str(caught.value)


def test_an_unknown_key_names_the_file_and_the_nearest(tmp_path):
    path = tmp_path / "typo.yaml"
    path.write_text("modle: ease\n")
    with pytest.raises(DataError, match="model must be the word of a model, got None"):
        load_config(path)
    path.write_text("model: popularity\nevaluat: {k: 5}\n")
    with pytest.raises(DataError, match=r"typo\.yaml: evaluat must be a key.*Did you mean 'evaluate'\?"):
        load_config(path)


def test_make_model_checks_words_settings_and_types():
    assert make_model("lightgcn", {"layers": 1}).settings()["layers"] == 1
    with pytest.raises(DataError, match=r"model must be one of .*, got 'eese'. Did you mean"):
        make_model("eese")
    with pytest.raises(DataError, match=r"Did you mean 'embedding_size'\?"):
        make_model("lightgcn", {"embeding_size": 8})
    with pytest.raises(DataError, match=r"settings\.learning_rate must be a number, got 'fast'"):
        make_model("lightgcn", {"learning_rate": "fast"})
    with pytest.raises(ValueError, match="learning_rate must be"):
        make_model("lightgcn", {"learning_rate": -1.0})
    with pytest.raises(DataError, match="absent, because there is no setting of popularity"):
        make_model("popularity", {"k": 3})


# -- comparisons ---------------------------------------------------------------------------------------


def labels(plan: Plan) -> list[str]:
    return [entry.label for entry in plan.models]


def test_popularity_is_included_unless_told_otherwise():
    assert labels(load_plan(None, models=["lightgcn"])) == ["lightgcn", "popularity"]
    assert labels(load_plan(None, models=["popularity", "lightgcn"])) == ["popularity", "lightgcn"]
    assert labels(load_plan(None, models=["lightgcn"], null=False)) == ["lightgcn"]


def test_a_plan_from_a_file_has_labels_and_settings(tmp_path):
    path = tmp_path / "table.yaml"
    path.write_text(
        "models:\n  lightgcn:\n  shallow: {model: lightgcn, layers: 1}\nseeds: 3\nreference: best\n"
    )
    plan = load_plan(path, ["shallow.epochs=2", "split.valid=0.2"])
    assert plan.models == (
        Entry("lightgcn", "lightgcn", {}),
        Entry("shallow", "lightgcn", {"layers": 1, "epochs": 2}),
        Entry("popularity", "popularity", {}),
    )
    assert (plan.seeds, plan.reference, plan.split.valid) == ((0, 1, 2), "best", 0.2)


@pytest.mark.parametrize(
    ("models", "overrides", "words"),
    [
        ([], [], "models must be a list or a mapping of models, got None."),
        (["lightgcn", "lightgcn"], [], "models must differ"),
        (["lightgnc"], [], "Did you mean 'lightgcn'?"),
        (["lightgcn"], ["epochs=2"], "epochs must be a key of the comparison or label.setting"),
        (["lightgcn"], ["lightgnc.epochs=2"], "Did you mean 'lightgcn'?"),
        (["lightgcn"], ["lightgcn.epoch=2"], "Did you mean 'epochs'?"),
        (["lightgcn"], ["seeds=0"], "seeds must be"),
        (["lightgcn"], ["seeds=[1, 1]"], "seeds must be different from each other"),
        (["lightgcn"], ["reference=bset"], "Did you mean 'best'?"),
    ],
)
def test_bad_plans_are_refused(models, overrides, words):
    with pytest.raises(ValueError) as caught:
        load_plan(None, overrides, models=models)
    assert words in str(caught.value)


def test_a_number_is_no_way_to_split() -> None:
    """PF-GNR has a setting of that name; whoever means it is told how to say so."""
    with pytest.raises(
        ValueError, match=r"split must be a way to split data, got 0\.5.*settings\.split=0\.5"
    ):
        load_config(None, ["split=0.5"], flags={"model": "pf-gnr-paper"})
