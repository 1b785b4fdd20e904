"""PF-GNR-C/B: what a device can move, what noise is drawn, and that encryption changes no bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import veilrec as vr
from veilrec.attacks import two_world_epsilon
from veilrec.crypto import SUMS
from veilrec.data import Dataset
from veilrec.federated import Wire
from veilrec.privacy import Ledger, Noise, epsilon_of, gaussian_multiplier
from veilrec.privacy.mechanisms import whole_bounds
from veilrec.systems import PFGNRSums, device_sums, pf_gnr_sums
from veilrec.systems.device_sums import summing
from veilrec.training import evaluate

SMALL = {"embedding_size": 4, "epochs": 2, "sampling_rate": 0.5}


def fit(model: PFGNRSums, data: Dataset, seed: int = 1) -> PFGNRSums:
    return model.fit(data, seed=seed, progress=False, secure=False)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


@pytest.fixture(scope="module")
def fitted(data) -> PFGNRSums:
    return fit(PFGNRSums(**SMALL), data)


# -- the statement -------------------------------------------------------------------------------------------


def test_the_server_is_counted_without_sampling(fitted) -> None:
    server, outside = fitted.guarantee.claims
    assert outside.epsilon == pytest.approx(8.0, abs=0.01)
    assert (outside.adversaries, server.adversaries) == ("OF", "S")
    assert server.epsilon > outside.epsilon
    assert [event.sampling_rate for event in server.events] == [1.0, 1.0]
    said = fitted.guarantee.to_dict()["protection"]
    words = "user: epsilon {:.4g} at delta 1e-05 against S; user: epsilon 8 at delta 1e-05 against O, F; "
    words += "simulated; research noise"
    assert said == words.format(server.epsilon)


def test_a_ledger_books_what_the_server_learns(data, tmp_path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    model = PFGNRSums(**SMALL).fit(data, progress=False, secure=False, ledger=ledger, population="shop")
    (account,) = ledger.accounts("shop")
    assert account.epsilon == pytest.approx(model.guarantee.epsilon)
    assert account.epsilon > 1.1 * model.epsilon


def test_the_server_sees_the_sum_of_every_round(data, monkeypatch) -> None:
    """What is handed to an attack on the server is all that it decrypted, round by round."""
    made, honest = [], PFGNRSums.round

    def noted(self, *given):
        made.append(honest(self, *given))
        return made[-1]

    monkeypatch.setattr(PFGNRSums, "round", noted)
    (seen,) = fit(PFGNRSums(**SMALL), data).view("S")["server"].values()
    assert len(made) == 4
    np.testing.assert_array_equal(seen, made)


def test_every_sum_gets_the_noise_of_the_statement(data, monkeypatch) -> None:
    """As much as the event says, and what the shares that were not counted on add."""
    drawn = []
    original = Noise.skellam
    monkeypatch.setattr(
        Noise,
        "skellam",
        lambda self, variance, shape: drawn.append((variance, shape)) or original(self, variance, shape),
    )
    model = fit(PFGNRSums(**SMALL), data)
    counts, one = model.mechanisms(60, 40)
    extra = 60 / model.arriving(60)
    assert drawn[0] == (pytest.approx(counts.variance * extra), (40,))
    assert len(drawn) == 1 + 2 * 2
    assert all(found == (pytest.approx(one.variance * extra), (40, 4)) for found in drawn[1:])
    assert sum(event.count for event in model.guarantee.claims[0].events) == 1 + 2 * 2


def test_shares_that_are_counted_on_arrive() -> None:
    for users in (3, 60, 6040):
        for drop_out in (0.0, 0.1, 0.5):
            sure = PFGNRSums(drop_out=drop_out).arriving(users)
            assert 1 <= sure <= max(1, users * (1 - drop_out) - 1)


# -- a device ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [True, False], ids=["cut", "broken: not cut"])
def test_a_device_moves_a_round_by_no_more_than_the_bound(fitted, good) -> None:
    """A device that cuts at ten times the length it promised breaks the bound."""
    model = PFGNRSums(**SMALL)
    model.shared = fitted.shared
    l2, l1 = whole_bounds(model.clip_norm, 1 / (model.step * model.clip_norm), 40 * 4)
    if not good:
        model.clip_norm *= 10
        model.step /= 10  # the same grid
    random, vectors = np.random.default_rng(3), 3 * np.random.default_rng(1).standard_normal((40, 4))
    found = [
        model.device(random.choice(40, size, replace=False), vectors, random) for size in (1, 2, 3, 9, 40)
    ]
    lengths = [np.linalg.norm(one.astype(float)) for one in found]
    assert max(lengths) > 0.9 * l2
    assert (max(lengths) <= l2) == good
    assert (max(np.abs(one).sum() for one in found) <= l1) or not good


def test_the_sum_is_that_of_the_devices(fitted, data) -> None:
    history, vectors = data.matrix(), fitted.shared["item_vectors"]
    together = fitted._sum(history[:20], vectors, np.random.default_rng(5))
    random = np.random.default_rng(5)
    apart = sum(
        fitted.device(history.indices[history.indptr[u] : history.indptr[u + 1]], vectors, random)
        for u in range(20)
    )
    assert np.abs(together - apart).max() <= 1  # a product on the edge between two whole numbers


def test_a_device_without_items_says_nothing(fitted) -> None:
    nobody = fitted.device(np.empty(0, np.int64), fitted.shared["item_vectors"], np.random.default_rng(1))
    assert not nobody.any()


# -- over the wire -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few() -> Dataset:
    """Whole rounds of every device are dear under encryption: nine devices, twelve items."""
    return vr.synthetic(users=9, items=12, interactions=50, seed=2)


def over_devices(few: Dataset, sums: str) -> PFGNRSums:
    return fit(PFGNRSums(embedding_size=2, epochs=2, sampling_rate=0.5, sums=sums), few)


def test_encryption_changes_no_bit(few) -> None:
    plain = over_devices(few, "plain").shared
    for sums in ("masked", "paillier", "shared"):
        other = over_devices(few, sums).shared
        assert all(np.array_equal(plain[name], other[name]) for name in plain)
    noisier = fit(PFGNRSums(embedding_size=2, epochs=2, sampling_rate=0.5, sums="plain", epsilon=7.9), few)
    assert not np.array_equal(plain["item_vectors"], noisier.shared["item_vectors"])


def test_the_grid_holds_the_message_of_every_device_and_little_more() -> None:
    """A message is a cut gradient and a share of the noise: so long may it be, and hardly longer."""
    model, users, items = PFGNRSums(), 943, 1682
    for mechanism, size in zip(model.mechanisms(users, items), (items, items * model.embedding_size)):
        bound, noise = model._sum_grid(mechanism, users, users, size).bound, Noise.research(1)
        shares = [mechanism.share(model.arriving(users), (size,), noise) for _ in range(5)]
        longest = mechanism.l2 + max(np.linalg.norm(one.astype(float)) for one in shares)
        assert longest < bound < 1.6 * longest


def test_devices_add_up_to_the_central_sum(fitted, data, monkeypatch) -> None:
    """Without noise, and with every device in: the same whole numbers but for the halves that they draw."""
    monkeypatch.setattr(Noise, "skellam", lambda self, variance, shape: np.zeros(shape, np.int64))
    counts, _ = fitted.mechanisms(60, 40)
    noise = Noise.research(3)
    central = fitted.counts(data.matrix(), counts, noise)
    np.testing.assert_array_equal(fitted.counts(data.matrix(), counts, noise, summing("plain")), central)


@pytest.mark.parametrize("drop_out", [0.1, 0.5])
def test_shares_of_devices_have_the_variance_of_the_statement(data, drop_out) -> None:
    """Of rows without items only the noise is left: that of 60 shares, 53 or 29 of which were counted on."""
    model, nobody = PFGNRSums(drop_out=drop_out, **SMALL), data.matrix()[:, :] * 0
    nobody.eliminate_zeros()
    counts, _ = model.mechanisms(60, 40)
    drawn = [model.counts(nobody, counts, Noise.research(5, n), summing("plain")) for n in range(60)]
    wanted = counts.variance * 60 / model.arriving(60)
    assert model.arriving(60) == {0.1: 53, 0.5: 29}[drop_out]
    assert np.var(drawn) == pytest.approx(wanted, rel=0.12)  # 2400 numbers: 4 standard deviations


@pytest.mark.parametrize("scaled", [True, False], ids=["as it is", "broken: rows not scaled"])
@pytest.mark.parametrize("sums", ["", "plain"])
def test_nobody_moves_the_counts_by_more_than_the_bound(fitted, sums, scaled, monkeypatch) -> None:
    """However many items a device has: its row of sum 0 has length 1, in steps."""
    monkeypatch.setattr(Noise, "skellam", lambda self, variance, shape: np.zeros(shape, np.int64))
    if not scaled:
        monkeypatch.setattr(pf_gnr_sums, "bounded_rows", lambda history, *_: history.astype(np.float64))
    counts, _ = fitted.mechanisms(60, 40)
    make, lengths = summing(sums) if sums else None, []
    for held in (1, 2, 8, 40):
        rows = np.zeros((60, 40), np.float32)
        rows[0, :held] = 1
        history = sp.csr_matrix(rows)
        lengths.append(np.linalg.norm(fitted.counts(history, counts, Noise.research(1), make)))
    assert (max(lengths) <= counts.l2) == scaled
    assert min(lengths) > 0.99 * counts.l2 / (1 + 1e-3)


@pytest.mark.parametrize("coins", [True, False], ids=["as it is", "broken: everybody is in"])
@pytest.mark.parametrize("sums", ["", "plain"])
def test_every_device_is_in_a_round_by_its_own_coin(sums, coins, monkeypatch) -> None:
    """Inclusions are binomial at the sampling rate and independent of each other; the claim rests on it."""
    model, users, rounds = PFGNRSums(embedding_size=2, epochs=2, sampling_rate=0.3), 40, 60
    rows = sp.csr_matrix(np.eye(users, dtype=np.float32))  # everybody has an item of their own
    seen = []

    def noted(self, chosen, vectors, random):
        seen[-1][chosen.indices] = 1
        return np.zeros(vectors.shape, np.int64)

    monkeypatch.setattr(PFGNRSums, "_sum", noted)
    if not coins:
        monkeypatch.setattr(Noise, "coins", lambda self, rate, shape: np.ones(shape, bool))
    _, one = model.mechanisms(users, users)
    make = summing(sums) if sums else None
    for number in range(rounds):
        seen.append(np.zeros(users))
        model.round(rows, np.zeros((users, 2)), one, Noise.research(7, number), make)
    drawn = np.array(seen)
    error = np.sqrt(0.3 * 0.7 / drawn.size)
    assert (abs(drawn.mean() - 0.3) < 4 * error) == coins
    if coins:
        assert np.abs(drawn.mean(axis=0) - 0.3).max() < 4.5 * np.sqrt(0.21 / rounds)
        assert np.var(drawn.sum(axis=1)) == pytest.approx(users * 0.21, rel=0.75)  # no common coin
        others = np.corrcoef(drawn.T)[np.triu_indices(users, 1)]
        assert abs(np.nanmean(others)) < 0.05


@pytest.mark.parametrize(
    ("settings", "users", "words"),
    [
        ({"epsilon": 0.1, "step": 2.0**-24}, 60, "step must be coarse enough for the noise"),
        ({"sums": "plain"}, 1, "users must be two or more where sums are made"),
        ({"sums": "masked"}, 1, "users must be two or more where sums are made"),
    ],
)
def test_what_cannot_be_drawn_or_added_is_refused_before_it_is_paid(settings, users, words, tmp_path) -> None:
    ledger = Ledger(tmp_path / "budget.sqlite")
    people = vr.synthetic(users=60, items=40, interactions=900, seed=1)
    if users == 1:
        people = Dataset.from_arrays(["ann", "ann"], ["tea", "mate"])
    with pytest.raises(ValueError, match=words):
        PFGNRSums(**{**SMALL, **settings}).fit(people, progress=False, ledger=ledger, population="shop")
    with pytest.raises(ValueError, match="Known are: none yet"):
        ledger.history("shop")


@pytest.mark.parametrize("what", ["counts", "round"])
def test_devices_may_drop_out_as_many_as_were_counted_on(few, what, monkeypatch) -> None:
    """With one more there is too little noise, and no sum is read."""
    model, users = fit(PFGNRSums(drop_out=0.4, **SMALL), few), few.n_users
    least = model.arriving(users) + 1
    assert least < users
    for lost, good in ((users - least, True), (users - least + 1, False)):
        cut = {f"device {n}": 0 for n in range(lost)}
        monkeypatch.setattr(device_sums, "Wire", lambda cut=cut: Wire(cut))
        if good:
            assert made(model, few, what).any()
        else:
            with pytest.raises(ValueError, match=f"from {least} to {users}, got {least - 1}"):
                made(model, few, what)


def made(model: PFGNRSums, data: Dataset, what: str) -> np.ndarray:
    """One sum over masked messages, as a fit makes it."""
    history, (counts, one) = data.matrix(), model.mechanisms(data.n_users, data.n_items)
    if what == "counts":
        return model.counts(history, counts, Noise.research(3), summing("masked"))
    vectors = np.full((data.n_items, model.embedding_size), 0.1)
    return model.round(history, vectors, one, Noise.research(3), summing("masked"))


def test_a_fit_that_was_killed_in_an_epoch_draws_no_round_twice(data, tmp_path, monkeypatch) -> None:
    """Secure noise: what the server has read before the kill is read back, not drawn again."""
    honest, drawn = PFGNRSums.round, []

    def counted(self, history, vectors, one, noise, make, number, declared):
        if len(drawn) == 7:
            drawn.append(-1)
            raise KeyboardInterrupt
        drawn.append(number)
        return honest(self, history, vectors, one, noise, make, number, declared)

    monkeypatch.setattr(PFGNRSums, "round", counted)
    about = {"progress": False, "checkpoint": tmp_path}
    model = PFGNRSums(**SMALL | {"sampling_rate": 0.2})  # 2 epochs of 5 rounds
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, **about)
    left = sorted(file.name for file in tmp_path.glob("released-round-*"))
    assert left == [f"released-round-{number}.safetensors" for number in range(1, 8)]
    model.fit(data, **about)
    assert sorted(set(drawn) - {-1}) == list(range(1, 11))
    assert len(drawn) == 11


@pytest.mark.parametrize("sums", ["", *SUMS])
def test_the_statement_says_who_holds_the_rows_and_reads_more_than_the_sum(few, sums) -> None:
    found = fit(PFGNRSums(sums=sums, **SMALL), few).guarantee
    said, plain = found.not_covered, "whoever adds plain sums"
    assert any(one.startswith(plain) for one in said) == (sums == "plain")
    assert "simulated: whoever runs this process holds every row" in str(found)
    assert ("simulated cryptography, not reviewed" in str(found)) == (sums not in ("", "plain"))


# -- audit and use -------------------------------------------------------------------------------------------


BUDGET, RUNS, LEVEL = 1.0, 400, 1e-3
"""Enough for a bound of 3.3 where there is no noise."""
ALL = {"epsilon": BUDGET, "embedding_size": 2, "epochs": 1, "sampling_rate": 1.0, "count_share": 0.5}
SAMPLED = ALL | {"epochs": 2, "sampling_rate": 0.5}


def rows(own: list[int]) -> sp.csr_matrix:
    """Thirty users, of whom the last one alone has items, or none: others would only blur the trace."""
    whole = np.zeros((30, 20), np.float32)
    whole[-1, own] = 1
    return sp.csr_matrix(whole)


def audited(what: str) -> float:
    """A lower bound of epsilon by the clearest trace of the canary in a sum, or in all sums of a fit.

    In "all rounds" devices have their coins, and whoever reads the sums does not know them: the claim against
    outsiders and other clients. In the others all take part.
    """
    model = PFGNRSums(**SAMPLED if what == "all rounds" else ALL)
    counts, one = model.mechanisms(30, 20)
    vectors, random = np.repeat([[1.0, 0.0], [-1.0, 0.5]], [8, 12], axis=0), np.random.default_rng(2)
    model.shared["popular"] = np.repeat([0.0, 20.0], [8, 12])  # the canary's items are pulled up, never down
    own = [0] if what == "counts" else list(range(8))
    trace = np.mean([model.device(np.array(own), vectors, random) for _ in range(99)], axis=0)
    worlds: list[list[float]] = []
    for items in (own, []):
        history, found = rows(items), []
        for run in range(RUNS):
            noise = Noise.research(run, what, len(items))
            if what == "counts":
                found.append(float(model.counts(history, counts, noise)[0]))
            else:
                turns = range(model.epochs * model._rounds)
                sums = [model.round(history, vectors, one, noise.child(turn)) for turn in turns]
                found.append(float((np.sum(sums, axis=0) * trace).sum()))
        worlds.append(found)
    return two_world_epsilon(*worlds, level=LEVEL)


SUMS = pytest.mark.parametrize("what", ["counts", "a round", "all rounds"])


@SUMS
def test_a_canary_does_not_break_it(what) -> None:
    assert audited(what) <= BUDGET


@SUMS
@pytest.mark.parametrize("share", [1e-4, 0.05])
def test_a_canary_would_with_little_noise_or_none(what, share, monkeypatch) -> None:
    original = Noise.skellam
    monkeypatch.setattr(Noise, "skellam", lambda self, v, shape: original(self, v * share**2, shape))
    assert audited(what) > BUDGET


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_every_budget_has_its_noise(epsilon) -> None:
    """Sampled rounds used to have a floor that no noise could go below."""
    model = PFGNRSums(epsilon=epsilon)
    counts, one = model.mechanisms(6040, 3706)
    events = counts.event, model._all_rounds(one.event)
    assert 0.999 * epsilon < epsilon_of(events, 1e-5) <= epsilon
    gaussian = gaussian_multiplier(epsilon, 1e-5, count=300, sampling_rate=0.1)
    assert 1 < np.sqrt(one.variance) / one.l2 / gaussian < 1.2  # the accountant of Gaussian noise is exact


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_settings_that_overflow_move_no_sum_beyond_the_bound(few, monkeypatch) -> None:
    monkeypatch.setattr("veilrec.training.recommender.check_sizes", lambda settings: None)
    for wild in ({"learning_rate": 1e200}, {"temperature": 1e-310}):
        model = fit(PFGNRSums(**SMALL | wild), few)
        vectors, random = model.shared["item_vectors"], np.random.default_rng(1)
        limit = whole_bounds(model.clip_norm, 1 / (model.step * model.clip_norm), vectors.size)[0]
        for items in (np.arange(5), np.arange(12)):
            assert np.linalg.norm(model.device(items, vectors, random).astype(float)) <= limit


def test_it_learns() -> None:
    parts = vr.split.holdout(vr.synthetic(users=600, items=80, interactions=18_000, seed=4), test=0.2, seed=1)
    model = fit(PFGNRSums(epsilon=30.0, embedding_size=8, epochs=15), parts.train)
    null = vr.Popularity().fit(parts.train, progress=False)
    ours, theirs = (evaluate(m, parts, 10, progress=False).mean()["ndcg@10"] for m in (model, null))
    assert ours > 1.1 * theirs


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.0},
        {"delta": 0.0},
        {"drop_out": 1.0},
        {"sampling_rate": 0.0},
        {"clip_norm": -1.0},
        {"count_share": 1.5},
        {"step": 100.0},
        {"sums": "aes"},
        {"drop_out": 0.5, "sums": "masked"},
        {"key_bits": 1024, "sums": "paillier"},
        {"key_bits": 3072, "sums": "masked"},
    ],
)
def test_bad_settings(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        PFGNRSums(**settings)
