"""Splits: exact counts, an obvious oracle, independence of seeds and parts, files and refusals."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.core import DataError
from veilrec.data import split as vs
from veilrec.data.dataset import Dataset

needs_data = pytest.mark.skipif(not os.environ.get("VEILREC_DATA"), reason="VEILREC_DATA is not set")


def made(sizes: list[int], *, times: bool = True, seed: int = 0) -> Dataset:
    """Users 0, 1, ... with these numbers of rows; items count up, times are a random permutation."""
    user = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(user))
    time = rng.permutation(len(user)) if times else None
    return Dataset.from_arrays(user[order], np.arange(len(user))[order], time=time)


def sizes_by_user(part: Dataset | None, n_users: int) -> list[int]:
    return [0] * n_users if part is None else part.user_counts.tolist()


def rounded(fraction: float, size: int) -> int:
    return math.floor(round(fraction * size, 9) + 0.5)


def rows(part: Dataset) -> set[tuple[int, int]]:
    return set(zip(part.user.tolist(), part.item.tolist()))


def all_splits(data: Dataset, seed: int = 0) -> list[vs.Split]:
    mask = np.random.default_rng(9).random(len(data)) < 0.3
    return [
        vs.holdout(data, 0.25, 0.25, seed),
        *vs.k_fold(data, 3, seed),
        vs.leave_one_out(data),
        vs.temporal(data, 0.25, 0.25),
        vs.global_temporal(data, 0.25, 0.25),
        vs.predefined(data, mask),
        vs.predefined(data, mask, 0.3, seed),
    ]


def test_parts_cover_the_source_once_and_share_its_vocabulary() -> None:
    data = made([4, 9, 1, 6])
    for split in all_splits(data):
        parts = [split.train, split.test] + ([] if split.valid is None else [split.valid])
        together = sorted(row for part in parts for row in rows(part))
        assert together == sorted(rows(data))
        for part in parts:
            assert part.users is data.users
            assert part.items is data.items
            assert part.name == data.name
        assert split.source_fingerprint == data.fingerprint
        assert len(split.parts) == len(data)
        assert rows(data.take(split.parts == 2)) == rows(split.test)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    test=st.sampled_from([0.1, 0.2, 0.29, 0.5, 0.6]),
    valid=st.sampled_from([0.0, 0.1, 0.2, 0.39]),
    seed=st.integers(0, 3),
)
def test_holdout_and_temporal_take_rounded_counts(
    sizes: list[int], test: float, valid: float, seed: int
) -> None:
    sizes = [*sizes, 20]  # so that no part is empty
    data = made(sizes)
    wanted_test = [min(rounded(test, n), n - 1) for n in sizes]
    wanted_valid = [min(rounded(valid, n), n - 1 - t) for n, t in zip(sizes, wanted_test)]
    for split in (vs.holdout(data, test, valid, seed), vs.temporal(data, test, valid)):
        assert sizes_by_user(split.test, len(sizes)) == wanted_test
        assert sizes_by_user(split.valid, len(sizes)) == wanted_valid
        assert min(sizes_by_user(split.train, len(sizes))) >= 1


def test_halves_round_up_and_binary_noise_does_not_matter() -> None:
    assert len(vs.holdout(made([5]), 0.1).test) == 1  # 0.5
    assert len(vs.holdout(made([15]), 0.1).test) == 2  # 1.5
    assert len(vs.holdout(made([25]), 0.1).test) == 3  # 2.5
    assert 0.29 * 50 < 14.5
    assert len(vs.holdout(made([50]), 0.29).test) == 15  # 14.5


def test_the_test_part_does_not_depend_on_the_validation_part() -> None:
    data = made([30, 17, 5])
    assert rows(vs.holdout(data, 0.2, 0.3, 4).test) == rows(vs.holdout(data, 0.2, 0.0, 4).test)


def test_seeds_repeat_and_differ() -> None:
    data = made([40, 30])
    for make in (vs.holdout, vs.k_fold):
        first, again, other = (make(data, seed=seed) for seed in (1, 1, 2))
        firsts, agains, others = ([x] if isinstance(x, vs.Split) else x for x in (first, again, other))
        assert [x.fingerprint for x in firsts] == [x.fingerprint for x in agains]
        assert rows(firsts[0].test) != rows(others[0].test)


def test_holdout_draws_each_row_equally_often() -> None:
    data = made([10] * 4)
    taken = np.zeros(len(data))
    repeats = 600
    for seed in range(repeats):
        taken += vs.holdout(data, 0.2, seed=seed).parts == 2
    # each row is tested with probability 0.2; five standard errors are 5 * sqrt(.16 / 600) = 0.082
    assert np.abs(taken / repeats - 0.2).max() < 0.082
    # users draw independently: rows of different users coincide in 4 % of the splits, not in 20 %
    both = [(p := vs.holdout(data, 0.2, seed=s).parts == 2)[0] and p[10] for s in range(repeats)]
    assert np.mean(both) < 0.09


def test_default_split_is_80_10_10() -> None:
    split = vs.default_split(made([10, 20, 30]), seed=3)
    assert split.valid is not None
    assert (len(split.train), len(split.valid), len(split.test)) == (48, 6, 6)
    assert split.settings == {"test": 0.1, "valid": 0.1, "seed": 3, "draw": "each user alone"}


# -- what others have moves nobody's rows ---------------------------------------------------------------


def parts_by_pair(split: vs.Split, data: Dataset) -> dict[tuple[str, str], int]:
    frame = data.frame()
    return dict(zip(zip(map(str, frame["user"]), map(str, frame["item"])), split.parts.tolist()))


def moved(data: Dataset, keep: np.ndarray, *, joint: bool) -> set[tuple[str, str]]:
    """The pairs that are left whose part differs, in a holdout or in a carved validation part."""

    def parts(d: Dataset) -> list[dict[tuple[str, str], int]]:
        carved = vs.carve_validation(vs.predefined(d, d.item % 7 == 0), 0.3, seed=3, joint=joint)
        return [parts_by_pair(one, d) for one in (vs.holdout(d, 0.2, 0.1, seed=3, joint=joint), carved)]

    pairs = zip(parts(data), parts(data.take(keep)))
    return {pair for before, after in pairs for pair in after if after[pair] != before[pair]}


def company(seed: int = 5) -> Dataset:
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, 40 * 60, 900))
    return Dataset.from_arrays([f"u{c // 60}" for c in cells], [f"i{c % 60}" for c in cells])


def test_without_one_user_all_others_keep_their_parts() -> None:
    data = company()
    for user in (0, 17, 39):
        assert not moved(data, data.user != user, joint=False)
    # one stream for everybody: the control
    assert len({pair[0] for pair in moved(data, data.user != 0, joint=True)}) > 30


def test_a_user_who_is_not_even_in_the_vocabulary_moves_nobody() -> None:
    data = company()
    left = data.frame().filter(data.user != 3)
    smaller = Dataset.from_arrays(left["user"].to_list(), left["item"].to_list())
    assert smaller.n_users == data.n_users - 1
    before = parts_by_pair(vs.holdout(data, 0.2, 0.1, seed=3), data)
    after = parts_by_pair(vs.holdout(smaller, 0.2, 0.1, seed=3), smaller)
    assert all(before[pair] == part for pair, part in after.items())


@pytest.mark.parametrize(("valid", "most_others"), [(0.0, 1), (0.2, 3)])
def test_without_one_interaction_few_other_rows_of_the_same_user_move(valid, most_others) -> None:
    data, most = company(), 0
    for row in range(0, len(data), 2):
        keep = np.arange(len(data)) != row
        before = parts_by_pair(vs.holdout(data, 0.2, valid, seed=3), data)
        after = parts_by_pair(vs.holdout(data.take(keep), 0.2, valid, seed=3), data.take(keep))
        other = {pair for pair in after if after[pair] != before[pair]}
        owner = str(data.users.take([int(data.user[row])])[0])
        assert {user for user, _ in other} <= {owner}
        most = max(most, len(other))
    assert 1 <= most <= most_others
    assert len(moved(data, np.arange(len(data)) != 0, joint=True)) > 100  # the control


def test_a_pair_and_its_reverse_are_drawn_apart() -> None:
    """Users and items that share ids, as in a graph of followers."""
    cells = [(a, b) for a in range(30) for b in range(30) if a != b]
    data = Dataset.from_arrays([a for a, _ in cells], [b for _, b in cells])
    told = [
        vs.holdout(data, 0.5, seed=seed).parts.reshape(30, 29) == 2 for seed in range(4)
    ]  # row a: all b but a, rising
    square = np.zeros((4, 30, 30))
    for number, one in enumerate(told):
        for a in range(30):
            square[number, a, [b for b in range(30) if b != a]] = one[a]
    above = np.triu_indices(30, 1)
    pairs = square[:, above[0], above[1]].ravel(), square[:, above[1], above[0]].ravel()
    assert abs(np.corrcoef(*pairs)[0, 1]) < 4 / np.sqrt(len(pairs[0]))


def test_repeated_pairs_are_drawn_one_by_one() -> None:
    data = Dataset.from_arrays([1] * 40, ["a"] * 20 + ["b"] * 20)
    taken = np.stack([vs.holdout(data, 0.5, seed=seed).parts == 2 for seed in range(300)])
    assert np.abs(taken.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(300)
    assert 0 < taken[:, :20].sum(axis=1).std() < 5  # not all of a pair on one side


def test_splits_that_look_at_everybody_say_so(tmp_path: Path) -> None:
    data = made([9, 8, 7])
    for split, words in (
        (vs.holdout(data), ()),
        (vs.holdout(data, joint=True), ("a split drawn for all users together",)),
        (vs.k_fold(data, 3)[0], ("a split drawn for all users together",)),
        (vs.leave_one_out(data), ()),
        (vs.temporal(data), ()),
        (vs.global_temporal(data), ("the cut in time",)),
        (vs.carve_validation(vs.holdout(data), 0.2), ()),
        (vs.carve_validation(vs.holdout(data), 0.2, joint=True), ("a split drawn for all users together",)),
        (vs.carve_validation(vs.holdout(data, joint=True), 0.2, joint=True), ("a split drawn",)),
    ):
        assert len(split.train.shaped) == len(words)
        assert all(said.startswith(word) for said, word in zip(split.train.shaped, words))
        assert split.source_fingerprint == data.fingerprint
        assert vs.load_split(split.save(tmp_path), data).train.shaped == split.train.shaped


def test_joint_splits_are_those_of_the_records() -> None:
    split = vs.holdout(made([10, 20, 30]), 0.2, 0.1, seed=3, joint=True)
    assert split.settings == {"test": 0.2, "valid": 0.1, "seed": 3}
    assert split.fingerprint.startswith("f791421172f3e9cc")  # as before joint splits had a name
    with pytest.raises(ValueError, match="joint must be False with last=True"):
        vs.carve_validation(vs.holdout(made([10])), 0.2, last=True, joint=True)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(2, 6))
def test_k_fold_tests_each_row_once_in_even_folds(sizes: list[int], k: int) -> None:
    data = made([*sizes, 7])
    folds = vs.k_fold(data, k, seed=1)
    tested = [row for split in folds for row in rows(split.test)]
    assert sorted(tested) == sorted(rows(data))
    lengths = [len(split.test) for split in folds]
    assert max(lengths) - min(lengths) <= 1
    per_user = np.array([split.test.user_counts for split in folds])
    assert (per_user.max(axis=0) - per_user.min(axis=0) <= 1).all()
    assert len({split.fingerprint for split in folds}) == k


def test_k_fold_is_a_sequence_made_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    made_parts: list[int] = []
    take = Dataset.take
    monkeypatch.setattr(Dataset, "take", lambda data, *rest: made_parts.append(1) or take(data, *rest))
    folds = vs.k_fold(made([9, 8]), 3, seed=1)
    assert (len(folds), len(made_parts)) == (3, 0)
    prints = [split.fingerprint for split in folds]
    assert folds[-1].fingerprint == folds[2].fingerprint == prints[2]
    assert [split.fingerprint for split in folds[1:]] == prints[1:]
    with pytest.raises(IndexError):
        folds[3]


def test_leave_one_out_takes_the_latest() -> None:
    data = Dataset.from_arrays(
        ["a", "a", "a", "b", "b", "c"], ["v", "w", "x", "v", "w", "v"], time=[30, 10, 20, 1, 2, 7]
    )
    split = vs.leave_one_out(data)
    assert split.valid is not None
    assert split.test.frame().rows() == [("a", "v", 30), ("b", "w", 2)]
    assert split.valid.frame().rows() == [("a", "x", 20)]
    assert len(split.train) == 3
    assert vs.leave_one_out(data, valid=False).valid is None


def test_leave_one_out_without_times_takes_the_last_given() -> None:
    data = Dataset.from_arrays(["b", "a", "b", "a"], ["v", "x", "u", "w"])
    assert vs.leave_one_out(data, valid=False).test.frame().rows() == [("a", "w"), ("b", "u")]


def test_temporal_equals_a_slow_loop() -> None:
    data = made([7, 12, 3, 1], seed=5)
    assert data.time is not None
    split = vs.temporal(data, 0.2, 0.2)
    histories = defaultdict(list)
    for user, item, time in zip(data.user.tolist(), data.item.tolist(), data.time.tolist()):
        histories[user].append((time, user, item))
    test, valid = set(), set()
    for history in histories.values():
        history.sort()
        n_test = min(rounded(0.2, len(history)), len(history) - 1)
        n_valid = min(rounded(0.2, len(history)), len(history) - 1 - n_test)
        for _ in range(n_test):
            test.add(history.pop()[1:])
        for _ in range(n_valid):
            valid.add(history.pop()[1:])
    assert split.valid is not None
    assert rows(split.test) == test
    assert rows(split.valid) == valid


def test_global_temporal_cuts_once_and_keeps_ties_together() -> None:
    data = Dataset.from_arrays(
        [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], list(range(10)), time=[1, 2, 3, 4, 5, 6, 7, 7, 7, 8]
    )
    split = vs.global_temporal(data, test=0.2, valid=0.2)  # the second latest row ties with two others
    assert split.valid is not None
    assert split.test.time is not None
    assert split.train.time is not None
    assert sorted(split.test.time.tolist()) == [7, 7, 7, 8]
    assert split.valid.time is not None
    assert split.valid.time.tolist() == [5, 6]
    assert split.train.time.tolist() == [1, 2, 3, 4]
    assert split.test.n_users == 5  # users 4 and 5 are new to the model, and kept

    even = vs.global_temporal(made([50, 50]), test=0.1, valid=0.2)
    assert even.valid is not None
    assert (len(even.train), len(even.valid), len(even.test)) == (70, 20, 10)
    assert even.train.time is not None
    assert even.valid.time is not None
    assert even.test.time is not None
    assert even.train.time.max() < even.valid.time.min() <= even.valid.time.max() < even.test.time.min()


def test_predefined_keeps_the_given_mask() -> None:
    data = made([10, 10])
    mask = data.item % 4 == 0
    split = vs.predefined(data, mask, valid=0.25, seed=2)
    assert rows(split.test) == rows(data.take(mask))
    assert split.valid is not None
    wanted = [rounded(0.25, n) for n in data.take(~mask).user_counts.tolist()]
    assert sizes_by_user(split.valid, 2) == wanted


def test_carve_validation_leaves_the_test_part_alone() -> None:
    whole = vs.holdout(made([20, 11, 1]), 0.2, seed=1)
    carved = vs.carve_validation(whole, 0.1, seed=7)
    assert carved.test is whole.test
    assert carved.valid is not None
    assert rows(carved.train) | rows(carved.valid) == rows(whole.train)
    assert sizes_by_user(carved.valid, 3) == [2, 1, 0]  # 10 % of 16, 9 and 1
    assert carved.settings["carve_seed"] == 7
    assert carved.fingerprint != whole.fingerprint
    with pytest.raises(DataError, match="no validation part yet"):
        vs.carve_validation(carved)


def test_fingerprint_covers_method_settings_source_and_rows() -> None:
    data = made([10, 10])
    base = vs.holdout(data, 0.2, seed=0)
    assert base.fingerprint == vs.holdout(data, 0.2, seed=0).fingerprint
    others = [
        vs.holdout(data, 0.2, seed=1),
        vs.holdout(data, 0.3, seed=0),
        vs.predefined(data, base.parts == 2),  # the same rows by another method
        vs.holdout(made([10, 10], seed=1), 0.2, seed=0),
    ]
    assert len({base.fingerprint, *(split.fingerprint for split in others)}) == 5


def test_save_and_load(tmp_path: Path) -> None:
    data = made([9, 8, 7])
    for split in all_splits(data):
        path = split.save(tmp_path / "splits")
        assert path.name == f"{split.fingerprint[:16]}.split"
        back = vs.load_split(path, data)
        assert back.fingerprint == split.fingerprint
        assert (back.method, back.settings) == (split.method, split.settings)
        assert (back.valid is None) == (split.valid is None)
        for part in ("train", "test"):
            assert getattr(back, part).fingerprint == getattr(split, part).fingerprint
    assert not list((tmp_path / "splits").glob("*.part"))


def test_load_refuses_another_data_set_and_broken_files(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    data = made([9, 8])
    split = vs.holdout(data)
    path = split.save(tmp_path)
    with pytest.raises(DataError, match="must belong to this data set"):
        vs.load_split(path, made([9, 8], seed=3))
    with pytest.raises(DataError, match="must be a file"):
        vs.load_split(tmp_path / "none.split", data)
    broken = tmp_path / "broken.split"
    broken.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="not a saved split"):
        vs.load_split(broken, data)
    save_file(load_file(path), broken)  # without its header
    with pytest.raises(DataError, match="not a saved split"):
        vs.load_split(broken, data)
    header = {
        "method": split.method,
        "settings": json.dumps(dict(split.settings)),
        "source_fingerprint": split.source_fingerprint,
        "fingerprint": split.fingerprint,
    }
    save_file({"parts": np.roll(split.parts, 1)}, broken, metadata=header)
    with pytest.raises(DataError, match="its own fingerprint"):
        vs.load_split(broken, data)
    save_file({"parts": split.parts[1:]}, broken, metadata=header)
    with pytest.raises(DataError, match="a part for each row"):
        vs.load_split(broken, data)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, float("nan"), "0.2"])
def test_fractions_out_of_range(bad: float) -> None:
    data = made([10])
    for make in (vs.holdout, vs.temporal, vs.global_temporal, vs.carve_validation):
        source = vs.holdout(data) if make is vs.carve_validation else data
        with pytest.raises(ValueError, match="must be strictly between 0 and 1"):
            make(source, bad)  # type: ignore[operator]


def test_other_refusals() -> None:
    data = made([10, 3])
    for valid in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="valid must be"):
            vs.holdout(data, 0.2, valid)
    with pytest.raises(ValueError, match=r"test \+ valid must be below 1"):
        vs.holdout(data, 0.5, 0.5)
    for make in (vs.temporal, vs.global_temporal):
        with pytest.raises(DataError, match="needs times"):
            make(made([10], times=False))
    for k in (1, 0, 2.0, True):
        with pytest.raises(ValueError, match="k must be a whole number of at least 2"):
            vs.k_fold(data, k)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be at most the number of interactions, 13, got 14"):
        vs.k_fold(data, 14)
    with pytest.raises(DataError, match="test part must have at least one row"):
        vs.holdout(made([1, 1, 1]))
    with pytest.raises(DataError, match="test part must have at least one row"):
        vs.leave_one_out(made([1, 1]))
    with pytest.raises(DataError, match="validation part must have at least one row"):
        vs.leave_one_out(made([2, 2]))
    with pytest.raises(DataError, match="validation part must have at least one row"):
        vs.holdout(data, 0.2, 0.01)
    same_time = Dataset.from_arrays([1, 1, 2], [1, 2, 3], time=[5, 5, 5])
    with pytest.raises(DataError, match="train part must have at least one row"):
        vs.global_temporal(same_time)
    for mask in (np.zeros(3, bool), np.zeros(13), [True]):
        with pytest.raises(ValueError, match="test_mask must be 13 booleans"):
            vs.predefined(data, mask)
    with pytest.raises(DataError, match="test part must have at least one row"):
        vs.predefined(data, np.zeros(13, bool))


@needs_data
def test_ml_100k_has_exactly_80_000_training_rows() -> None:
    table = np.loadtxt(Path(os.environ["VEILREC_DATA"]) / "ml-100k" / "u.data", dtype=np.int64)
    data = Dataset.from_arrays(table[:, 0], table[:, 1], rating=table[:, 2], time=table[:, 3])
    split = vs.holdout(data, test=0.2, seed=1)
    assert (len(split.train), len(split.test)) == (80_000, 20_000)


def test_carving_the_last_rows_keeps_the_order() -> None:
    data = Dataset.from_arrays([1] * 10 + [2] * 5, [*range(10), *range(5)])
    base = vs.predefined(data, np.isin(np.arange(15), [9, 14]))
    carved = vs.carve_validation(base, 0.3, last=True)
    assert carved.valid is not None
    assert carved.valid.frame().rows() == [(1, 6), (1, 7), (1, 8), (2, 3)]
    assert carved.train.frame()["item"].to_list() == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert carved.fingerprint != vs.carve_validation(base, 0.3).fingerprint
