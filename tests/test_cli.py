from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from veilrec import __version__
from veilrec.cli import app
from veilrec.data import imported_dir, load
from veilrec.systems import SYSTEMS

SMALL = "synthetic:80,50,1600"
COMMANDS = [
    "demo",
    "models",
    "fit",
    "recommend",
    "evaluate",
    "compare",
    "tune",
    "reproduce",
    "report",
    "verify",
]
GROUPS = {
    "audit": ("mechanism", "mutant"),
    "budget": ("set", "show", "history"),
    "data": ("list", "info", "get", "import"),
    "keys": ("new",),
}


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    """Each test in a folder of its own, with a cache of its own and a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VEILREC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("VEILREC_DEBUG", "VEILREC_DATA"):
        monkeypatch.delenv(name, raising=False)


def call(*words: str, code: int = 0):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["veilrec", *words])
        result = CliRunner().invoke(app, list(words))
    if result.exit_code != code:
        raise AssertionError(f"{words} ended with {result.exit_code}: {result.output}") from result.exception
    return result


def machine(*words: str):
    """What ``--json`` prints: nothing but JSON on standard output."""
    return json.loads(call(*words, "--json").stdout)


# -- help ----------------------------------------------------------------------------------------------


def test_help_of_every_command_has_examples():
    top = call("--help").stdout
    for word in (*COMMANDS, *GROUPS):
        assert word in top
    pages = [(word,) for word in COMMANDS] + [(group, word) for group in GROUPS for word in GROUPS[group]]
    for words in pages:
        page = call(*words, "--help").stdout
        assert "Examples" in page
        assert f"$ veilrec {' '.join(words)}" in page


def test_version():
    assert call("--version").stdout == f"veilrec {__version__}\n"


def test_help_waits_for_nothing_heavy():
    script = (
        "import sys, time\n"
        "from veilrec.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'polars', 'numba', 'sklearn', 'scipy', 'numpy', 'matplotlib', 'optuna'}\n"
        "print(sorted(heavy & set(sys.modules)), time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded, _, seconds = done.stderr.strip().rpartition(" ")
    assert loaded == "[]"
    assert float(seconds) < 0.7


# -- one after the other, as a user would ----------------------------------------------------------------


def test_fit_evaluate_recommend_report(tmp_path):
    said = call("fit", "popularity", "--data", SMALL, "--out", "runs/pop", "--seed", "3").stdout
    assert "recall" in said
    assert "Privacy statement of popularity" in said
    record = machine("fit", "popularity", "--data", SMALL, "--out", "runs/pop", "--seed", "3")
    assert record["seed"] == 3
    judged = machine("evaluate", "runs/pop", "--k", "5,10,20")
    assert judged["metrics"] == record["evaluation"]["metrics"]
    assert "one-positive ranking" in call("evaluate", "runs/pop", "--protocol", "one-positive").stdout
    rows = machine("recommend", "runs/pop", "--user", "u17", "--user", "u2", "-k", "3")
    assert [(row["user"], row["rank"]) for row in rows] == [(u, r) for u in ("u17", "u2") for r in (1, 2, 3)]
    shown = call("recommend", "runs/pop", "--user", "u17", "-k", "3").stdout
    assert "for u17, who has interacted with" in shown
    assert rows[0]["item"] in shown
    new = machine("recommend", "runs/pop", "--history", f"{rows[0]['item']}, i9", "-k", "2")
    assert rows[0]["item"] not in [row["item"] for row in new]
    (tmp_path / "few.txt").write_text("i1\ni2\n")
    few = machine("recommend", "runs/pop", "--history", "i9", "--candidates", "few.txt")
    assert {row["item"] for row in few} == {"i1", "i2"}
    call("recommend", "runs/pop", "--all", "-k", "1", "--csv", "lists.csv")
    assert len((tmp_path / "lists.csv").read_text().splitlines()) == 81
    page = machine("report", "runs", "-o", "page.html")
    assert page["bytes"] == (tmp_path / "page.html").stat().st_size
    assert call("report", "runs").stdout == "wrote report.html\n"


def test_fit_from_a_file_with_overrides(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f"model: popularity\ndata: {SMALL}\nsplit: {{test: 0.2}}\nout: runs/a\n"
    )
    record = machine(
        "fit", "--config", "mine.yaml", "--set", "split.method=leave_one_out", "--set", "evaluate.k=3"
    )
    assert record["split"]["method"] == "leave_one_out"
    assert "recall@3" in record["evaluation"]["metrics"]
    assert record["command"].startswith("veilrec fit --config mine.yaml --set split.method=leave_one_out")
    assert (tmp_path / "runs" / "a" / "record.json").exists()
    default = machine("fit", "popularity", "--data", SMALL)
    assert default["name"] == "popularity-synthetic"


def test_finished_runs_are_kept_and_others_refused():
    words = ["fit", "popularity", "--data", SMALL, "--out", "runs/pop"]
    call(*words)
    assert "is finished already; nothing was done" in call(*words).stderr
    refused = call(*words, "--seed", "2", code=1)
    assert "seed was 0 and is 2" in refused.stderr
    assert machine(*words, "--seed", "2", "--overwrite")["seed"] == 2


def test_compare_prints_writes_and_keeps(tmp_path):
    words = ["compare", "popularity", "--data", SMALL, "--seeds", "2", "--k", "5", "--out", "runs/table"]
    first = call(*words)
    assert "recall@5" in first.stdout
    assert first.stderr.count("fitting") == 2
    for name in ("record.json", "comparison.png", "comparison.svg"):
        assert (tmp_path / "runs" / "table" / name).exists()
    again = call(*words, "--no-plot")
    assert again.stderr.count("kept") == 2
    assert machine(*words)["seeds"] == [0, 1]


def test_compare_without_matplotlib_still_ends_well(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = call("compare", "popularity", "--data", SMALL, "--out", "t")
    assert 'pip install "veilrec[plots]"' in done.stderr
    assert (tmp_path / "t" / "record.json").exists()


def test_tune_without_optuna_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused = call("tune", "neumf", "--data", SMALL, code=1)
    assert refused.stderr.startswith("error: tuning needs the package 'optuna'")
    assert 'pip install "veilrec[tune]"' in refused.stderr


def test_tune_then_fit():
    words = ["tune", "neumf", "--data", SMALL, "--trials", "2", "--set", "epochs=1", "--out", "runs/search"]
    said = call(*words)
    assert "outside any privacy guarantee" in " ".join(said.stdout.split())
    record = machine(*words)
    assert len(record["trials"]) == 2
    fitted = machine("fit", "--config", "runs/search/best.yaml", "--out", "runs/best")
    assert fitted["settings"].items() >= record["best"]["settings"].items()


def test_models_lists_every_word():
    assert [row["model"] for row in machine("models")] == list(SYSTEMS)
    shown = call("models").stdout
    for word, system in SYSTEMS.items():
        assert word in shown
        assert system.summary in shown


# -- data ----------------------------------------------------------------------------------------------


def test_data_import_list_info(tmp_path):
    rows = [f"u{u};i{(u * 3 + n) % 17};{1 + n % 5}" for u in range(30) for n in range(8)]
    (tmp_path / "events.csv").write_text("wer;was;sterne\n" + "\n".join(rows) + "\n")
    (tmp_path / "people.csv").write_text("wer;age\n" + "\n".join(f"u{u};{20 + u}" for u in range(30)) + "\n")
    words = ["data", "import", "events.csv", "--user", "wer", "--item", "was", "--rating", "sterne"]
    more = [
        "--users",
        "people.csv",
        "--rating-range",
        "1,5",
        "--attribute-range",
        "age=0,120",
        "--name",
        "shop",
    ]
    info = machine(*words, *more)
    assert (info["name"], info["interactions"], info["rating_range"]) == ("shop", 240, [1.0, 5.0])
    assert info["attributes"]["age"]["declared"] == [0.0, 120.0]
    assert "shop" in [row["name"] for row in machine("data", "list")]
    assert "shop" in call("data", "list").stdout
    assert machine("data", "info", "shop")["fingerprint"] == info["fingerprint"]
    assert "240 interactions" in call("data", "info", "shop").stdout
    assert "name must be new, got 'shop'" in call(*words, *more, code=1).stderr
    assert "Use it with --data shop" in call(*words, *more, "--overwrite").stdout
    record = machine("fit", "popularity", "--data", "shop", "--out", "runs/shop")
    assert record["data"]["fingerprint"] == info["fingerprint"]


@pytest.mark.filterwarnings("default:books.csv. 1 of 3 rows repeat")
def test_data_import_prints_and_keeps_the_account_of_every_row(tmp_path):
    text = '"User-ID";"ISBN";"Book-Rating"\n"1";"\\"0155";"5"\n"2";"x";"3"\n"2";"x";"4"\n"3";NULL;"1"\n'
    (tmp_path / "books.csv").write_text(text)
    assert "--missing drop" in call("data", "import", "books.csv", code=1).stderr
    said = call("data", "import", "books.csv", "--missing", "drop", "--escape", "backslash")
    assert (
        "interactions from books.csv: 5 lines in the file (1 header, 0 blank), 4 rows read, "
        "2 dropped (1 missing item, 1 repeated pair), 2 kept"
    ) in said.stdout
    assert "--duplicates keep" in said.stderr
    found = machine("data", "import", "books.csv", "--missing", "drop", "--overwrite")["provenance"][0]
    assert (found["rows"], found["kept"], found["lines"]["how"]["escape"]) == (4, 2, "backslash")
    assert [report.to_dict() for report in load("books").provenance] == [found]


def test_declared_categories_are_kept_and_others_known_as_read_off(tmp_path):
    (tmp_path / "events.csv").write_text("user,item\n" + "".join(f"u{n},i{n % 4}\n" for n in range(12)))
    (tmp_path / "people.csv").write_text("user,sex,job\n" + "".join(f"u{n},F,clerk\n" for n in range(12)))
    words = ["events.csv", "--users", "people.csv", "--categories", " sex = F, M", "--name", "shop"]
    machine("data", "import", *words)
    kept = load("shop").attributes
    assert (kept["sex"].categories, kept["sex"].declared) == (("F", "M"), True)
    assert (kept["job"].categories, kept["job"].declared) == (("clerk",), False)


@pytest.mark.filterwarnings("default:attribute sex has 'other'")
def test_new_people_are_read_as_those_of_the_training_data(tmp_path):
    """A column of few ages would be classes; the model says that it is a number, and of which range."""
    rows = [f"u{u},i{(u * 3 + n) % 17},{1 + n % 5}" for u in range(40) for n in range(8)]
    (tmp_path / "events.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    people = [f"u{u},{20 + u},{'FM'[u % 2]}" for u in range(40)]
    (tmp_path / "people.csv").write_text("user,age,sex\n" + "\n".join(people) + "\n")
    words = ["events.csv", "--users", "people.csv", "--rating-range", "1,5", "--attribute-range", "age=1,100"]
    machine("data", "import", *words, "--name", "shop")
    call("fit", "gerai", "--data", "shop", "--research", "--quiet", "--out", "run", "--set", "epochs=1")
    (tmp_path / "new.csv").write_text("user,item,rating\nann,i1,4\nann,i2,5\nbob,i3,1\n")
    ask = ["recommend", "run", "--new", "new.csv", "--users", "they.csv", "-k", "2", "--reports"]
    (tmp_path / "they.csv").write_text("user,age,sex\nann,31,F\nbob,44,other\n")
    said = call(*ask, "zeroth.safetensors").stderr
    assert said.startswith("warning: attribute sex has 'other', which the training data do not know")
    found = machine(*ask, "first.safetensors")
    assert [row["user"] for row in found] == ["ann", "ann", "bob", "bob"]
    (tmp_path / "they.csv").write_text("user,sex\nann,F\n")  # without an age, and bob without a row
    assert len(machine(*ask, "second.safetensors")) == 4
    (tmp_path / "they.csv").write_text("user,age\nann,31\nbob,440\n")
    said = call(*ask, "third.safetensors", code=1).stderr
    assert "they.csv, line 3: age must be a number from 1 to 100, got '440'" in said
    (tmp_path / "they.csv").write_text("user,age\nann,31\nbob,44\n")
    (tmp_path / "new.csv").write_text("user,item,rating\nann,i1,50\nbob,i3,1\n")
    said = call(*ask, "third.safetensors", code=1).stderr
    assert "new.csv, line 2: rating must be from 1 to 5, got 50" in said
    assert not (tmp_path / "third.safetensors").exists()


def test_data_import_leaves_the_names_of_known_sets_alone(tmp_path):
    (tmp_path / "ml-1m.csv").write_text("user,item\n1,2\n")
    for words in (["--name", "ml-100k"], ["--name", "gowalla", "--overwrite"], ["--name", "synthetic"], []):
        result = call("data", "import", "ml-1m.csv", *words, code=1)
        assert result.stderr.startswith("error: name must be new, and not that of a known data set, got ")
        assert result.stderr.count("\n") == 1
    assert not imported_dir().exists()


def test_data_get_refuses_what_it_cannot_fetch():
    assert "Did you mean 'ml-1m'?" in call("data", "get", "ml-10m", code=1).stderr


# -- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "popularity", "--data", "absent.csv"], "absent.csv"),
        (["fit", "popularitty"], "Did you mean 'popularity'?"),
        (["fit"], "model must be the word of a model"),
        (["fit", "lightgcn", "--set", "layer=2"], "Did you mean 'layers'?"),
        (["fit", "lightgcn", "--set", "layers"], "an override must be key=value"),
        (["fit", "--config", "absent.yaml"], "the configuration must be a file, got none"),
        (["recommend", "absent", "--user", "u1"], "path must be a saved model"),
        (["recommend", "absent"], "users must be named by one of --user, --all, --history and --new"),
        (["evaluate", "absent"], "the run must be a folder that `veilrec fit` wrote"),
        (["compare", "popularity", "--k", "five"], "--k must be whole numbers by comma, got 'five'"),
        (["compare"], "Name one or more"),
        (["report", "absent"], "runs must be a folder, got none"),
        (["data", "info", "ml-100"], "Did you mean 'ml-100k'?"),
        (["data", "import", "absent.csv", "--rating-range", "1-5"], "--rating-range must be two numbers"),
        (
            ["data", "import", "absent.csv", "--categories", "sex"],
            "--categories must be NAME=A,B,..., got 'sex'",
        ),
        (
            ["data", "import", "absent.csv", "--categories", "sex=F,,M"],
            "--categories must be without an empty word, got 'sex=F,,M'. Write, say, gender=F,M.",
        ),
        (
            ["data", "import", "absent.csv", "--categories", "sex=F,M,"],
            "--categories must be without an empty word",
        ),
        (
            ["data", "import", "absent.csv", "--categories", "sex=F", "--categories", " sex =M"],
            "--categories must be given once for each name, got 'sex' again. Leave one out.",
        ),
        (
            ["data", "import", "a.csv", "--attribute-range", "age=1,9", "--attribute-range", "age=1,5"],
            "--attribute-range must be given once for each name, got 'age' again. Leave one out.",
        ),
    ],
)
def test_mistakes_get_one_line_and_code_2(words, said):
    result = call(*words, code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_tracebacks_on_demand(monkeypatch):
    words = ["fit", "popularity", "--data", "absent.csv"]
    assert isinstance(CliRunner().invoke(app, ["--debug", *words]).exception, ValueError)
    monkeypatch.setenv("VEILREC_DEBUG", "1")
    assert isinstance(CliRunner().invoke(app, words).exception, ValueError)


def test_what_nobody_expected_keeps_its_traceback(monkeypatch):
    def broken(self, job):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(SYSTEMS["popularity"], "_fit", broken)
    result = CliRunner().invoke(app, ["fit", "popularity", "--data", SMALL])
    assert isinstance(result.exception, ZeroDivisionError)


# -- stopping ------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_a_run_that_goes_on_to_the_same_bits(tmp_path):
    words = ["fit", "bpr", "--data", SMALL, "--seed", "5", "--quiet"]
    for setting in ("epochs=150", "patience=150", "validate_every=1", "embedding_size=8"):
        words += ["--set", setting]
    script = (
        "import veilrec.training.loop as loop\n"
        "loop.CHECKPOINT_SECONDS = 0\n"
        "from veilrec.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, *words, "--out", "runs/stopped"]
    environment = {**os.environ, "COLUMNS": "200"}
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    checkpoint = tmp_path / "runs" / "stopped" / "checkpoints" / "state.safetensors"
    patience = time.monotonic() + 60
    while not checkpoint.exists() and running.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "stopped. Give the same command again to go on" in err
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "runs" / "stopped" / "record.json").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    call(*words, "--out", "runs/whole")
    for member in ("model.safetensors", "private/state.safetensors"):
        ours, theirs = (load_file(tmp_path / "runs" / name / member) for name in ("stopped", "whole"))
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    events = [json.loads(line) for line in (tmp_path / "runs/stopped/log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events if "event" in event] == ["started", "resumed", "finished"]


# -- places that cannot be written, and reports that would cost for nothing ----------------------------------


@pytest.fixture
def shop(tmp_path):
    rows = [f"u{u},i{(u * 3 + n) % 17}" for u in range(40) for n in range(8)]
    (tmp_path / "events.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    (tmp_path / "people.csv").write_text(
        "user,sex\n" + "\n".join(f"u{u},{'FM'[u % 2]}" for u in range(40)) + "\n"
    )
    (tmp_path / "new.csv").write_text("user,item\nann,i1\nbob,i3\n")
    words = ["--users", "people.csv", "--categories", "sex=F,M", "--name", "shop"]
    machine("data", "import", "events.csv", *words)
    call("fit", "ease", "--data", "shop", "--quiet", "--out", "runs/ease")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "ease", "--data", "shop", "--out", "new.csv/sub"],
        ["attack", "runs/ease", "--kind", "links", "--out", "new.csv/x.json"],
        ["attack", "runs/ease", "--kind", "links", "--plot", "new.csv/x.png"],
        ["audit", "mechanism", "unary", "--runs", "40", "-o", "new.csv/x.png"],
        ["report", "runs", "-o", "new.csv/x.html"],
        ["report", "runs", "-o", "."],
        ["recommend", "runs/ease", "--user", "u1", "--csv", "new.csv/x.csv"],
        ["recommend", "runs/ease", "--user", "u1", "--csv", "."],
        ["reproduce", "gerai-table3", "--out", "new.csv"],
        ["reproduce", "gerai-table3", "--out", "new.csv/sub"],
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(shop, words):
    said = call(*words, code=1).stderr
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "Choose another name." in said
    assert (shop / "new.csv").read_text().startswith("user,item")


@pytest.mark.filterwarnings("default::veilrec.core.DataWarning")
def test_reports_are_not_drawn_for_nothing(shop, monkeypatch):
    monkeypatch.setenv("VEILREC_LEDGER", str(shop / "budget.sqlite"))
    call(
        "fit", "gerai", "--data", "shop", "--research", "--quiet", "--out", "runs/gerai", "--set", "epochs=1"
    )
    (shop / "they.csv").write_text("user,sex\nann,F\nbob,M\n")
    (shop / "shoes.csv").write_text("user,shoe\nann,41\nbob,42\n")
    ask = ["recommend", "runs/gerai", "--new", "new.csv", "-k", "2"]
    for words, said in (
        (["--reports", "a.safetensors"], "new users must be with one of the attributes sex, got []"),
        (["--users", "shoes.csv", "--reports", "a.safetensors"], "got ['shoe']"),
        (["--users", "they.csv"], "--users must be given with --reports"),
        (["--users", "they.csv", "--reports", "new.csv/a.safetensors"], "--reports must be in a folder"),
        (["--users", "they.csv", "--reports", "runs"], "--reports must be a file, got a folder"),
    ):
        assert said in call(*ask, *words, code=1).stderr
    plain = [
        "recommend",
        "runs/ease",
        "--new",
        "new.csv",
        "--users",
        "they.csv",
        "--reports",
        "a.safetensors",
    ]
    assert "ease knows new users by their history alone" in call(*plain, code=1).stderr
    assert "run gerai, new people" not in call("budget", "history").stdout
    assert not (shop / "a.safetensors").exists()
    assert len(machine(*ask, "--users", "they.csv", "--reports", "a.safetensors")) == 4
    assert "run gerai, new people" in call("budget", "history").stdout


def test_settings_that_a_search_chose_are_named_by_the_statement(shop, monkeypatch):
    monkeypatch.setenv("VEILREC_LEDGER", str(shop / "budget.sqlite"))
    pytest.importorskip("optuna")
    call("tune", "dp-gram", "--data", "shop", "--trials", "2", "--out", "runs/tune", "--quiet")
    best = ["fit", "--config", "runs/tune/best.yaml", "--quiet"]
    said = call(*best, "--set", "split.valid=0", "--out", "runs/best").stdout
    assert "chosen on private data" in " ".join(said.split())
    said = call("fit", "dp-gram", "--data", "shop", "--quiet", "--out", "runs/plain").stdout
    assert "chosen on private data" not in " ".join(said.split())


def test_the_same_data_under_another_name_get_no_fresh_budget(shop):
    fit = ["fit", "dp-gram", "--quiet"]
    call(*fit, "--data", "shop", "--out", "runs/shop")
    machine(
        "data", "import", "events.csv", "--users", "people.csv", "--categories", "sex=F,M", "--name", "other"
    )
    for more in ([], ["--seed", "5"], ["--set", "split.method=leave_one_out"], ["--set", "data.k_core=2"]):
        said = call(*fit, "--data", "other", "--out", "runs/other", *more, code=1).stderr
        assert said.startswith(
            "error: population must be 'shop', got 'other'. The same data are booked there"
        )
        assert said.count("\n") == 1
    for name, flags in {"third": ("--rating-range", "0,10"), "fourth": ("--time", "none")}.items():
        call("data", "import", "events.csv", "--name", name, *flags)
        said = call(*fit, "--data", name, "--out", "runs/other", code=1).stderr
        assert said.startswith(
            f"error: population must be 'shop', got {name!r}. The same data are booked there"
        )
    assert not (shop / "runs" / "other").exists()
    call(*fit, "--data", "other", "--out", "runs/a", "--population", "shop")
    assert [(row["population"], row["runs"]) for row in machine("budget", "show")] == [("shop", 2)]
    call(*fit, "--data", "other", "--out", "runs/b", "--new-population")
    assert [row["population"] for row in machine("budget", "show")] == ["other", "shop"]


@pytest.mark.filterwarnings("default::veilrec.core.DataWarning")
def test_reports_of_the_same_people_are_one_population(shop):
    small = ["--research", "--quiet", "--set", "epochs=1"]
    call("fit", "gerai", "--data", "shop", "--out", "runs/gerai", *small)
    (shop / "they.csv").write_text("user,sex\nann,F\nbob,M\n")
    shutil.copy(shop / "new.csv", shop / "renamed.csv")
    ask = ["recommend", "runs/gerai", "--users", "they.csv"]
    call(*ask, "--new", "new.csv", "--reports", "1.safetensors")
    again = [*ask, "--new", "renamed.csv", "--reports", "2.safetensors"]
    assert "population must be 'new', got 'renamed'" in call(*again, code=1).stderr
    assert not (shop / "2.safetensors").exists()
    call(*again, "--population", "new")
    call(*ask, "--new", "renamed.csv", "--reports", "3.safetensors", "--new-population")
    assert [(row["population"], row["runs"]) for row in machine("budget", "show")] == [
        ("new", 2),
        ("renamed", 1),
    ]


def test_fits_that_spend_nothing_say_that_their_noise_is_for_research(shop):
    pytest.importorskip("optuna")
    found = machine("compare", "dp-gram", "ease", "--data", "shop", "--out", "runs/compare", "--no-plot")
    said = {row["label"]: row["protection"] for row in found["models"]}
    assert said["dp-gram"].endswith("; research noise")
    assert said["ease"] == "none"
    about = ["--data", "shop", "--trials", "1"]
    private = machine("tune", "dp-gram", *about, "--out", "runs/tune")
    assert "research noise, which no ledger books" in private["note"]
    assert "research noise" in (shop / "runs" / "tune" / "best.yaml").read_text()
    assert "research" not in machine("tune", "ease", *about, "--out", "runs/plain")["note"]
    assert machine("budget", "show") == []


def test_a_run_without_its_parts(shop):
    shutil.rmtree(shop / "runs" / "ease" / "private")
    said = call("evaluate", "runs/ease", code=1).stderr
    assert "the run must have its private folder (histories, user vectors) to be judged" in said
    (shop / "runs" / "ease" / "run.json").write_text("[]")
    for words in (["evaluate", "runs/ease"], ["attack", "runs/ease", "--kind", "links"]):
        assert "run.json must hold names and values" in call(*words, code=1).stderr


def test_the_noise_of_the_ledger_is_that_of_the_statement(shop, monkeypatch):
    monkeypatch.setenv("VEILREC_LEDGER", str(shop / "budget.sqlite"))
    said = call("fit", "dpmf", "--data", "shop", "--quiet", "--out", "runs/dpmf").stdout
    assert "noise: research" in said
    assert "research noise" in call("budget", "history").stdout
    said = call("fit", "blurme", "--data", "shop", "--quiet", "--out", "b", "--set", "attribute=sex").stdout
    assert "noise: none" in said


def test_a_refusal_says_what_is_left_before_the_run(shop, monkeypatch):
    monkeypatch.setenv("VEILREC_LEDGER", str(shop / "budget.sqlite"))
    call("budget", "set", "shop", "--epsilon", "100", "--delta", "1e-4")
    said = call("fit", "gerai-users", "--data", "shop", "--out", "runs/gu", "--quiet", code=1).stderr
    assert "epsilon 100 and delta 0.0001 are left of epsilon 100" in said
    said = call("fit", "gerai-paper", "--data", "shop", "--out", "runs/gp", "--quiet", code=1).stderr
    assert "without noise" in said  # that no other limit would help is said at once
