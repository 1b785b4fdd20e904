from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.core import DataError
from veilrec.experiments.values import Values, build, convert, nearest, parse_override, read_values


@dataclass(frozen=True)
class Spec:
    count: int
    rate: float = 0.5
    kind: Literal["near", "far"] = "near"
    sizes: tuple[int, ...] = (1,)
    pair: tuple[float, float] | None = None
    name: str | None = None
    fast: bool = False
    column: str | Literal[False] | None = None


def make(text: str, tmp_path) -> Spec:
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    values = read_values(file)
    return build(Spec, values, values.tree, "", "key")


def test_every_type_is_read(tmp_path):
    text = (
        "count: 3\nrate: 1e-3\nkind: far\nsizes: [2, 4]\npair: [1, 5]\nname: x\nfast: true\ncolumn: false\n"
    )
    assert make(text, tmp_path) == Spec(3, 0.001, "far", (2, 4), (1.0, 5.0), "x", True, False)


def test_whole_numbers_serve_as_numbers_and_single_values_as_lists(tmp_path):
    made = make("count: 3.0\nrate: 2\nsizes: 7", tmp_path)
    assert made == Spec(3, 2.0, sizes=(7,))
    assert isinstance(made.rate, float)
    assert isinstance(made.count, int)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("count: ten", "count must be a whole number, got 'ten'."),
        ("count: 2.5", "count must be a whole number, got 2.5."),
        ("count: true", "count must be a whole number, got True."),
        ("count: 1\nrate: high", "rate must be a number, got 'high'."),
        ("count: 1\nrate: false", "rate must be a number, got False."),
        ("count: 1\nfast: 1", "fast must be true or false, got 1."),
        ("count: 1\nname: 3", "name must be text or null, got 3."),
        ("count: 1\nkind: fat", "kind must be one of near, far, got 'fat'. Did you mean 'far'?"),
        ("count: 1\nsizes: [1, a]", "sizes must be a list, each a whole number, got [1, 'a']."),
        ("count: 1\npair: [1, 2, 3]", "pair must be a list, each a number or null, got [1, 2, 3]."),
        (
            "count: 1\nnaem: x",
            "naem must be a key: one of count, rate, kind, sizes, pair, name, fast, column, ",
        ),
        ("count: 1\nnaem: x", "Did you mean 'name'?"),
        ("rate: 1", "count must be given."),
        ("count: 1\ncount: 2", "line 2: YAML cannot be read: the key 'count' stands twice."),
        ("- a\n- b", "the configuration must be a mapping of keys to values, got something else."),
        ("count: [", "YAML cannot be read"),
        ("count: !!python/object/apply:os.getcwd []", "YAML cannot be read"),
    ],
)
def test_bad_values_are_named(text, words, tmp_path):
    with pytest.raises(DataError) as caught:
        make(text, tmp_path)
    assert words in str(caught.value)
    assert str(tmp_path / "spec.yaml") in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataError, match="must be a file, got none"):
        read_values(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="must be a text file"):
        read_values(tmp_path / "binary.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_values(tmp_path / "empty.yaml").tree == {}


def test_overrides_are_scalars_not_code():
    assert parse_override("a.b=__import__('os').getcwd()") == ("a.b", "__import__('os').getcwd()")
    assert parse_override("a=null") == ("a", None)
    assert parse_override("a=") == ("a", None)
    assert parse_override("a=b=c") == ("a", "b=c")
    for text in ("nothing", "=3"):
        with pytest.raises(DataError, match="must be key=value"):
            parse_override(text)


def test_origins_go_with_the_keys():
    values = Values({"a": {"b": 1}}, "file.yaml")
    values.put("a.c", 2, "--set a.c=2")
    assert values.tree == {"a": {"b": 1, "c": 2}}
    assert values.where("a.b") == "file.yaml"
    assert values.where("a.c") == values.where("a.c.d") == "--set a.c=2"
    with pytest.raises(DataError, match="must be inside a mapping, got b: 1"):
        values.put("a.b.c", 2, "--set")


@given(st.text(min_size=1), st.lists(st.text(min_size=1), min_size=1))
def test_nearest_always_names_a_known_word(word, known):
    assert nearest(word, known) in {f"Did you mean {one!r}?" for one in known}


@given(st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.integers())))
def test_only_numbers_are_numbers(value):
    with pytest.raises(DataError, match="must be a number"):
        convert(value, float, "rate", None)
