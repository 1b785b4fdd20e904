"""What every private system must do: reach data through its guard alone, move no release by more than is
stated when a user is really gone, and put out nothing but functions of what was released.

The neighbours are data sets that were built without the person: no id, no row, all later codes shifted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import shutil
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import veilrec as vr
from veilrec.data import Dataset, id_draws
from veilrec.privacy import Noise, UnboundedEvent, default_delta
from veilrec.privacy.mechanisms import FunctionalMechanism, Gaussian
from veilrec.systems import SYSTEMS, gerai_users, private_items
from veilrec.systems.gerai_users import GERAIUsers
from veilrec.systems.pf_gnr_sums import PFGNRSums
from veilrec.training import DataGuard, Job, PrivateTraining, Recommender, recommender

SMALL = {"epochs": 2, "embedding_size": 4, "rank": 4, "iterations": 2, "batch_size": 64, "validate_every": 1}
SMALL |= {"epsilon": 100.0}
FORMS: dict[str, dict[str, Any]] = {
    "dp-gram, sampled": {"cap": 3, "cap_by": "sample"},
    "dp-als, sampled": {"cap": 3, "cap_by": "sample"},
    "dp-spectral, sampled": {"cap": 3, "cap_by": "sample"},
    "gerai-functional, sampled": {"cap": 3, "cap_by": "sample"},
    "dp-gram, ease": {"filter": "ease"},
    "dp-gram, few items": {"popular_items": 12},
    "dprr, ngcf": {"backbone": "ngcf"},
    "gap, three hops": {"hops": 3},
    "dpmf, public": {"user_vectors": "public"},
    "pf-gnr-sums, plain": {"sums": "plain"},
}
"""Further forms, after the word of their system."""
PRIVATE = sorted(word for word in SYSTEMS if SYSTEMS[word].is_private())


def make(form: str) -> Recommender:
    word = form.split(",")[0]
    known = {field.name for field in dataclasses.fields(SYSTEMS[word]) if field.init}
    return SYSTEMS[word](
        **{name: value for name, value in SMALL.items() if name in known}, **FORMS.get(form, {})
    )


@functools.cache
def world() -> Dataset:
    """40 users, the extremes among them: somebody with every item but one, somebody with one item only, and
    somebody who alone has an item; ids that do not sort in the order in which people came."""
    plain = vr.synthetic(users=40, items=30, interactions=400, seed=3)
    user, item = plain.user.astype(np.int64), plain.item.astype(np.int64)
    keep = (item != 29) & (user != 5) & (user != 17)
    user, item = user[keep], item[keep]
    user = np.concatenate([user, np.full(29, 5), [17, 9]])
    item = np.concatenate([item, np.arange(29), [7, 29]])
    order = np.lexsort((item, user))
    rating = 1.0 + (user + 2 * item) % 5
    return dataclasses.replace(
        plain,
        user=user[order].astype(np.int32),
        item=item[order].astype(np.int32),
        rating=rating[order].astype(np.float32),
        time=None,
        links=None,
    )


def without(data: Dataset, user: int) -> Dataset:
    return data.without(data.users.take([user])[0])


def leavers(data: Dataset) -> list[int]:
    """First by id, last, in the middle, with most items, with one, the only holder of an item."""
    return [0, data.n_users - 1, data.n_users // 2, 5, 17, 9]


def less_one(data: Dataset, row: int) -> Dataset:
    return data.take(np.delete(np.arange(len(data)), row))


def other_attributes(data: Dataset, user: int) -> Dataset:
    """The same with other attributes of one person."""

    def moved(one: Any) -> Any:
        codes = one.codes.copy()
        codes[user] = (codes[user] + 1) % len(one.categories)
        return dataclasses.replace(one, codes=codes)

    return dataclasses.replace(data, attributes={name: moved(one) for name, one in data.attributes.items()})


def test_the_neighbours_are_what_they_say() -> None:
    data = world()
    for user in leavers(data):
        gone = without(data, user)
        assert (gone.n_users, gone.n_items, gone.public_users) == (39, 30, 40)
        assert data.users.take([user])[0] not in gone.users.values
        rows = {(u, i) for u, i in gone.frame().select("user", "item").rows()}
        whole = {(u, i) for u, i in data.frame().select("user", "item").rows()}
        assert whole - rows == {pair for pair in whole if pair[0] == data.users.take([user])[0]}
        assert rows <= whole
    assert int((data.item == 29).sum()) == 1


# -- the guard is the only way -------------------------------------------------------------------------


def within_reach(*roots: Any) -> Iterator[Any]:
    """Everything that can be reached from ``roots`` by attributes, items, cells of closures and arguments."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (DataGuard, type, types.ModuleType, str, bytes, int, float)):
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            todo += list(one)
        elif isinstance(one, functools.partial):
            todo += [one.func, one.args, one.keywords]
        elif isinstance(one, types.MethodType):
            todo += [one.__self__]
        elif isinstance(one, types.FunctionType):
            todo += [cell.cell_contents for cell in one.__closure__ or ()]
        elif hasattr(one, "__dict__") and not isinstance(one, (np.ndarray, torch.Tensor)):
            todo += list(vars(one).values())


def facts(one: Any) -> bool:
    """Whether it holds interactions, attributes or links of people; an array that says two things may."""
    if isinstance(one, np.ndarray | torch.Tensor):
        values = np.asarray(one).ravel()
        return values.dtype.kind in "biuf" and len(np.unique(values[~np.isnan(values.astype(float))])) > 1
    if isinstance(one, Dataset):
        told = any(not attribute.missing.all() for attribute in one.attributes.values())
        return len(one) > 0 or told or one.links is not None
    return sp.issparse(one) and one.nnz > 0


@pytest.mark.parametrize("word", PRIVATE)
def test_nothing_but_the_guard_leads_to_the_data(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = vr.split.holdout(world(), test=0.1, valid=0.2, seed=1)
    held: list[list[str]] = []
    honest = type(make(word))._fit

    def watched(self: Recommender, job: Job) -> None:
        held.append([type(one).__name__ for one in within_reach(self, job) if facts(one)])
        honest(self, job)

    monkeypatch.setattr(type(make(word)), "_fit", watched)
    model = make(word).fit(parts.train, parts.valid, progress=False, secure=False)
    assert any(facts(one) for one in within_reach(model))  # the control: afterwards the owner has histories
    model.fit(parts.train, parts.valid, progress=False, secure=False)  # an object with a past
    assert held == [[], []]


# -- a user who is really gone -------------------------------------------------------------------------

BY_USER = [form for form in (*PRIVATE, *FORMS) if make(form)._claims(world())[0].unit == "user"]


@pytest.fixture
def distances(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Dataset, int], dict[str, float]]:
    """How far a user who leaves moves each release, in sensitivities.

    Both fits see the same past: what the whole data released is replayed to the neighbour. Draws that no seed
    drives in a real fit (coins, pairs, rounding) are coupled: they belong to the person, so that those who
    stay draw the same.
    """
    tape: list[tuple[str, float, np.ndarray, np.ndarray]] = []
    replay: list[np.ndarray] | None = None
    now: Dataset = world()

    def put_out(label: str, sensitivity: float, exact: Any, noisy: Callable[[], Any]) -> np.ndarray:
        exact = np.array(exact, np.float64)
        drawn = noisy()  # in either case: the event belongs to the statement
        out = np.array(drawn if replay is None else replay[len(tape)])
        tape.append((label, sensitivity, exact, out))
        return out.copy()

    gaussian, functional = Gaussian.release, FunctionalMechanism.release
    with_noise, over, one_sum = PFGNRSums._with_noise, PFGNRSums._over_devices, PFGNRSums._sum
    step, batch = PrivateTraining.step, GERAIUsers._batch

    def own(user: int) -> np.random.Generator:
        return np.random.default_rng(int(id_draws(now.users, 1, "coupled")[user]))

    def release(self: Gaussian, values: Any, noise: Any, label: str = "") -> np.ndarray:
        return put_out(label, self.sensitivity, values, lambda: gaussian(self, values, noise, label))

    def coefficients(
        self: FunctionalMechanism, differences: Any, user: Any, noise: Any, label: str = ""
    ) -> Any:
        exact = self.coefficients(differences, user)
        found = functional(self, differences, user, noise, label)
        names = [field.name for field in dataclasses.fields(found)]
        flat = np.concatenate([np.ravel(getattr(found, name)) for name in names])
        flat = put_out(label, self.sensitivity, exact, lambda: flat)
        cuts = np.cumsum([np.size(getattr(found, name)) for name in names])[:-1]
        shaped = (
            part.reshape(np.shape(getattr(found, name)))
            for name, part in zip(names, np.split(flat, cuts), strict=True)
        )
        return type(found)(*(part if part.ndim else float(part) for part in shaped))

    def everybody(self: PrivateTraining, gather: Callable[[Any], Any]) -> None:
        before, self.sampling_rate = self.sampling_rate, 1.0  # more than any draw of coins can move
        exact: list[np.ndarray] = []
        sums = PrivateTraining._sums

        def noted(it: PrivateTraining, chosen: Any, gather: Any) -> Any:
            found = sums(it, chosen, gather)
            exact.append(torch.cat([found[name].reshape(-1) for name in it._parameters]).double().numpy())
            return found

        with monkeypatch.context() as patch:
            patch.setattr(PrivateTraining, "_sums", noted)
            step(self, gather)
        self.sampling_rate = before
        self._record(self.taken)
        grads = np.concatenate([p.grad.numpy().ravel() for p in self._parameters.values()])
        out = put_out(self.label, self.clip_norm, exact[0], lambda: grads)
        place = 0
        for parameter in self._parameters.values():
            part = out[place : place + parameter.numel()]
            parameter.grad = torch.from_numpy(part.astype(np.float32)).reshape(parameter.shape)
            place += parameter.numel()

    def own_batch(self: GERAIUsers, history: Any, reports: Any, sampler: Any, random: Any, users: Any) -> Any:
        found = [batch(self, history, reports, sampler, own(int(u)), np.array([u])) for u in users]
        most = max(part[1].shape[1] for part in found)
        wide = [
            [part[0], *(torch.nn.functional.pad(t, (0, most - t.shape[1])) for t in part[1:])]
            for part in found
        ]
        return tuple(torch.cat(tensors) for tensors in zip(*wide, strict=True))

    def own_sums(self: PFGNRSums, rows: Any, vectors: Any, random: Any) -> np.ndarray:
        assert rows.shape[0] == now.n_users  # everybody takes part
        return sum(one_sum(self, rows[u], vectors, own(u)) for u in range(rows.shape[0]))

    def noisy_sum(self: PFGNRSums, exact: Any, mechanism: Any, noise: Any, users: int) -> np.ndarray:
        def draw() -> Any:
            return with_noise(self, exact, mechanism, noise, users)

        return put_out("sum", mechanism.l2, exact, draw).astype(np.int64)

    def devices(self: PFGNRSums, device: Any, parties: Any, shape: Any, mechanism: Any, *more: Any) -> Any:
        exact = np.zeros(shape, np.int64)
        single = PFGNRSums._sum
        for n in range(parties[0]):
            with monkeypatch.context() as patch:
                patch.setattr(PFGNRSums, "_sum", lambda s, rows, v, r, n=n: one_sum(s, rows, v, own(n)))
                exact += device(n, _AllHeads())
        assert single is own_sums
        silent = functools.partial(lambda n, noise: np.zeros(shape, np.int64))
        return put_out(
            "sum", mechanism.l2, exact, lambda: exact + over(self, silent, parties, shape, mechanism, *more)
        ).astype(np.int64)

    def reports(about: Any, epsilon: float, noise: Any) -> np.ndarray:
        drawn = honest_reports(about, epsilon, noise)
        if replay is None:
            told.append(drawn)
            return drawn
        return told[-1][world().users.codes(now.users.values)]  # who stays has reported once

    told: list[np.ndarray] = []
    honest_reports = gerai_users.unary_reports
    monkeypatch.setattr(gerai_users, "unary_reports", reports)
    monkeypatch.setattr(Gaussian, "release", release)
    monkeypatch.setattr(FunctionalMechanism, "release", coefficients)
    monkeypatch.setattr(PrivateTraining, "step", everybody)
    monkeypatch.setattr(GERAIUsers, "_batch", own_batch)
    monkeypatch.setattr(PFGNRSums, "_sum", own_sums)
    monkeypatch.setattr(PFGNRSums, "_with_noise", noisy_sum)
    monkeypatch.setattr(PFGNRSums, "_over_devices", devices)
    whole: dict[str, list[Any]] = {}

    def run(form: str, data: Dataset, user: int) -> dict[str, float]:
        nonlocal now, replay
        if isinstance(make(form), PFGNRSums):
            monkeypatch.setattr(vr.privacy.Noise, "coins", lambda self, p, shape: np.ones(shape, bool))
        if form not in whole:
            tape.clear()
            now, replay = data, None
            make(form).fit(data, seed=3, progress=False, secure=False)
            whole[form] = list(tape)
        tape.clear()
        now, replay = without(data, user), [out for *_, out in whole[form]]
        make(form).fit(now, seed=3, progress=False, secure=False)
        assert [one[0] for one in tape] == [one[0] for one in whole[form]]
        worst: dict[str, float] = {}
        for (label, sensitivity, one, _), (_, same, other, _) in zip(whole[form], tape, strict=True):
            assert sensitivity == same  # and with it the noise
            worst[label] = max(worst.get(label, 0.0), float(np.linalg.norm(one - other)) / sensitivity)
        return worst

    return run


class _AllHeads:
    """Coins that all fall on heads; what is drawn from them otherwise is not used."""

    def coins(self, probability: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.ones(shape, bool)

    def below(self, limit: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, np.int64)


@pytest.mark.parametrize("form", BY_USER)
def test_a_user_who_is_gone_moves_no_release_by_more_than_stated(form: str, distances) -> None:
    worst: dict[str, float] = {}
    for user in leavers(world()):
        for label, distance in distances(form, world(), user).items():
            worst[label] = max(worst.get(label, 0.0), distance)
    limit = 1 + (1e-5 if "gerai-users" in form or "dpae" in form else 1e-9)  # research sums are in float32
    assert max(worst.values()) <= limit, worst
    assert min(worst.values()) > 0.01, worst  # a test that looks at nothing would pass


def test_draws_by_position_are_found(distances, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the fault that was there once, draws dealt out by a user's code."""

    def by_code(data: Dataset, most: int, seed: int) -> sp.csr_matrix:
        histories = data.matrix()
        key = np.random.default_rng(seed).random(histories.nnz)
        rows = np.repeat(np.arange(histories.shape[0]), np.diff(histories.indptr))
        order = np.lexsort((key, rows))
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows)) - np.repeat(histories.indptr[:-1], np.diff(histories.indptr))
        kept = place < most
        return sp.csr_matrix((np.ones(kept.sum()), (rows[kept], histories.indices[kept])), histories.shape)

    monkeypatch.setattr(private_items, "drawn_items", by_code)
    assert max(distances("dp-gram, sampled", world(), 0).values()) > 2


@pytest.mark.parametrize("form", BY_USER)
def test_the_number_of_users_is_the_declared_one(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise, delta and denominators follow from a public figure, not from how many rows there are."""
    divided: list[int] = []
    honest = PrivateTraining.step

    def noted(self: PrivateTraining, gather: Any) -> None:
        divided.append(self.declared)
        honest(self, gather)

    monkeypatch.setattr(PrivateTraining, "step", noted)
    said = 41 if form.startswith("pf-gnr-sums") else 400_000  # devices must be there, for the noise
    both = world(), without(world(), 9)
    fits = [make(form).fit(data, progress=False, declared_users=said) for data in both]
    for claims in zip(*(model.guarantee.claims for model in fits), strict=True):
        assert claims[0].events == claims[1].events
        if claims[0].unit == "user":
            assert [claim.delta for claim in claims] == [default_delta(said)] * 2
    assert set(divided) <= {said}
    assert bool(divided) == (form in ("dpae", "gerai-users"))


# -- exits: nothing but functions of what was released -------------------------------------------------


def neighbours(form: str, data: Dataset) -> list[Dataset]:
    """Data sets that differ in one unit of the finite claims."""
    units = {
        claim.unit
        for claim in make(form)._claims(data)
        if math.isfinite(claim.epsilon) and not claim.restates and "alone" not in claim.secret
    }
    found = []
    if "user" in units:
        found += [without(data, 20), without(data, 9)]
    elif "interaction" in units:
        found += [less_one(data, 150), less_one(data, int(np.flatnonzero(data.item == 29)[0]))]
    if "attribute" in units:
        found.append(other_attributes(data, 20))
    return found


BOUNDED = [form for form in (*PRIVATE, *FORMS) if neighbours(form, world())]
"""Systems with a finite claim about the whole of what comes out."""


@pytest.fixture
def replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Recommender, Recommender]]:
    """Two fits: the second, on a neighbour, is given every release of the first in place of its own."""
    monkeypatch.setattr(recommender, "fit_key", lambda *arguments: "one key for both")
    step = PrivateTraining.step

    def run(form: str, data: Dataset, neighbour: Dataset) -> tuple[Recommender, Recommender]:
        grads: list[list[torch.Tensor]] = []
        turn = 0

        def noted(self: PrivateTraining, gather: Any) -> None:
            step(self, gather)
            grads.append([p.grad.clone() for p in self._parameters.values()])

        def again(self: PrivateTraining, gather: Any) -> None:
            nonlocal turn
            self._record(self.taken + 1)
            for parameter, grad in zip(self._parameters.values(), grads[turn], strict=True):
                parameter.grad = grad.clone()
            turn += 1

        folders = tmp_path / "one", tmp_path / "other"
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        with monkeypatch.context() as patch:
            patch.setattr(PrivateTraining, "step", noted)
            first = make(form).fit(data, seed=3, progress=False, secure=False, checkpoint=folders[0])
        shutil.copytree(folders[0], folders[1])
        for file in folders[1].iterdir():
            if not file.name.startswith("released"):
                file.unlink()
            elif "profile-reports" in file.name and neighbour.n_users < data.n_users:
                stays = data.users.codes(neighbour.users.values)
                with safe_open(file, framework="numpy") as saved:
                    kept, notes = saved.get_tensor("values"), saved.metadata()
                save_file({"values": kept[stays]}, file, metadata=notes)  # who is gone reports nothing
        with monkeypatch.context() as patch:
            patch.setattr(PrivateTraining, "step", again)
            second = make(form).fit(neighbour, seed=3, progress=False, secure=False, checkpoint=folders[1])
        assert turn == len(grads)
        return first, second

    return run


def published(model: Recommender, tmp_path: Path) -> dict[str, bytes]:
    """All that anybody but the owner gets: lists of other people, what can be asked of the model, shared
    arrays, reports and shareable files; the files last, since asking may change what is in them."""
    asked = {"lists": model.recommend(OTHERS, k=29).rows(), "scores": model.scores(OTHERS).tobytes()}
    for name, ask in (
        ("similar", lambda: model.similar_items(model.items.values.to_list(), k=5).rows()),
        ("probe", lambda: model.view("O")["probe"](world().matrix()[[1, 2, 3]]).tobytes()),
    ):
        with contextlib.suppress(TypeError):  # models that cannot answer say so
            asked[name] = ask()
    found = {name: repr(answer).encode() for name, answer in asked.items()}
    found |= {name: array.tobytes() for name, array in model.shared.items()}
    found |= {
        f"report {name}": model.private[name].tobytes() for name in model.reports if name in model.private
    }
    folder = model.save(tmp_path / "shareable", part="shareable")
    found |= {f"file {file.name}": file.read_bytes() for file in sorted(folder.iterdir())}
    shutil.rmtree(folder)
    return found


OTHERS = world().users.take([1, 2, 3]).to_list()
"""People whose data do not differ."""


@pytest.mark.parametrize("form", BOUNDED)
def test_what_is_published_is_a_function_of_what_was_released(form: str, replayed, tmp_path: Path) -> None:
    for neighbour in neighbours(form, world()):
        first, second = replayed(form, world(), neighbour)
        one, other = published(first, tmp_path), published(second, tmp_path)
        if form.startswith("gerai-users") and neighbour.n_users < 40:  # who is gone has no row of reports
            del one["report reports"], other["report reports"]
        assert one.keys() == other.keys()
        different = [name for name in one if one[name] != other[name]]
        assert not different


@pytest.mark.parametrize("form", BOUNDED)
def test_what_is_released_has_noise_in_it(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release, given those before it, is another one when only the noise is another."""
    monkeypatch.setattr(recommender, "fit_key", lambda *arguments: "one key for all")
    research = Noise.research.__func__

    def fit(folder: Path, turn: int) -> None:
        again = classmethod(lambda cls, seed, *names: research(cls, seed, "turn", turn, *names))
        with monkeypatch.context() as patch:
            patch.setattr(Noise, "research", again)
            model = make(form)
            for name in ("epsilon", "attribute_epsilon"):
                if hasattr(model, name):
                    setattr(model, name, 1.0)
            model.fit(world(), seed=3, progress=False, secure=False, checkpoint=folder)

    fit(tmp_path / "0", 0)
    kept = json.loads((tmp_path / "0" / "kept.json").read_text())["files"]
    releases = [name for name in kept if name.startswith("released")]
    releases.sort(key=lambda name: (tmp_path / "0" / name).stat().st_mtime_ns)
    if not releases:
        pytest.skip("steps of private training, whose noise test_private.py measures")
    for place, name in enumerate(releases):
        folder = tmp_path / f"{place + 1}"
        folder.mkdir()
        for earlier in releases[:place]:
            shutil.copy(tmp_path / "0" / earlier, folder)
        fit(folder, place + 1)
        one, other = (load_file(at / name)["values"] for at in (tmp_path / "0", folder))
        if one.shape == other.shape and one.dtype.kind == "f" and "reports" not in name:
            noisy = np.mean(one.astype(np.float64) != other, axis=None)
            assert noisy > 0.9, name
        else:
            assert one.shape != other.shape or (one != other).any(), name


class _Leaky(vr.systems.DPGram):
    """Exact counts in what is published: the fault that no test saw once."""

    def _fit(self, job: Job) -> None:
        super()._fit(job)
        self.shared["counts"] = self.exact.astype(np.float32)

    def _bounded(self, job: Job) -> sp.csr_matrix:
        rows = super()._bounded(job)
        self.exact = np.asarray(rows.sum(axis=0)).ravel()
        return rows


def test_exact_counts_in_what_is_published_are_found(replayed, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(SYSTEMS, "dp-gram", _Leaky)
    first, second = replayed("dp-gram", world(), without(world(), 20))
    assert published(first, tmp_path)["counts"] != published(second, tmp_path)["counts"]


def test_every_private_system_is_held_to_something() -> None:
    """Those that no test above fits on neighbours have no finite claim about what comes out."""
    for word in set(PRIVATE) - set(BOUNDED):
        events = [event for claim in make(word)._claims(world()) for event in claim.events]
        assert any(isinstance(event, UnboundedEvent) for event in events), word
