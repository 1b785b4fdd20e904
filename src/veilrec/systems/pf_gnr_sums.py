"""PF-GNR's certified twin B: noisy secure sums of item gradients; private for whole users.

    sum 0    every device gives its row of items, scaled to length 1, and its share of the noise; the server
             reads noisy counts, and their logarithm b is a fixed part of every score
    round    the server sends the item vectors V to all devices
      device   with its own coin of ``sampling_rate``: fits its vector z to a random half of its items by a
               ridge on V, divides it by its length, and takes the gradient in V of the loss

                   L = - mean over the other half of log softmax(z . V / temperature + b),

               the outer product of c = softmax - labels / number and z; cut to length ``clip_norm``, rounded
               to a grid. A device whose coin did not fall has zeros. All add their share of the noise.
      sum      whole numbers are added under encryption: the aggregator cannot read, the server reads the sum
      server   divides by sampling_rate x users; one step of Adam
    list     the device fits z to all of its items and ranks z . V / temperature + b

No vector of a user ever leaves a device, so there is no row that a server could recover
(``pf_gnr_clients.py`` shows what happens otherwise). The optional graph of edge reports is left out: it would
cost each edge more than the whole training costs a user.

Sensitivity. A user who comes or goes moves sum 0 by a row of length 1 and a round by a vector of length
``clip_norm``, each rounded: ``whole_bounds``. Shares are sized so that (1 - ``drop_out``) of all devices less
one make the noise, whoever else drops out or is curious; more of them only add noise, and a sum of fewer is
not forwarded. The coin is the device's own secret, which makes rounds cheaper for outsiders and other
clients. The statement counts the server without that help, and this larger number is what a ledger books.

Trust. Aggregator and server must not collude, and the aggregator forwards sums only. Reference: Agarwal,
Kairouz and Liu, "The Skellam mechanism for differentially private federated learning", NeurIPS 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from veilrec.core import (
    check,
    check_choice,
    check_count,
    check_fraction,
    check_positive,
    in_threads,
    stream,
)
from veilrec.crypto import SUMS, FixedPoint
from veilrec.data import Dataset
from veilrec.models import kernels
from veilrec.privacy import (
    Claim,
    Noise,
    SkellamEvent,
    default_delta,
    gaussian_multiplier,
    remembered,
    smallest_noise,
)
from veilrec.privacy.events import check_budget, check_sampling_rate
from veilrec.privacy.mechanisms import Skellam, quantise, whole_bounds
from veilrec.systems.device_sums import (
    Summing,
    between_parties,
    check_devices,
    check_key_bits,
    check_messages,
    check_provable,
    summing,
)
from veilrec.systems.dpmf import ridge
from veilrec.systems.private_items import COUNTS, bounded_rows
from veilrec.systems.vectors import unit_rows
from veilrec.training import (
    STOPPING,
    Array,
    Job,
    Recommender,
    kept_release,
    optimiser_state,
    release_once,
    run_epochs,
    validation_score,
)
from veilrec.training.layout import Layout, floats, whole

ROUNDS = "sums of item gradients"
OWN = "a user's interactions for the user's own list"
_CELLS = 1 << 24
"""Scores (devices x items) that are held in memory at a time."""
COUNT_STEP = 2.0**-12
HEARD = "sums_of_rounds"
"""The private array that the server has beside what is published: the sum of every round, as it decrypted it,
[rounds, items, embedding_size] in whole steps of ``step`` x ``clip_norm``."""
MOST_HEARD = 1 << 32
"""Bytes of all sums together, which are held in memory and saved with the model: with more no fit begins."""


@dataclass(eq=False)
class PFGNRSums(Recommender):
    """Item vectors from noisy secure sums (PF-GNR-C/B): ``epsilon`` for all interactions of a user.

    ``epsilon`` is kept from outsiders and other clients; the server's is larger, and the statement has it. An
    epoch has 1 / ``sampling_rate`` rounds, and all ``epochs`` are run. ``count_share`` of the budget goes to
    the counts. ``step`` is the grid of the rounding, as a share of ``clip_norm``; ``shrinkage`` the ridge of
    a device's fit, as a share of the mean eigenvalue of the item vectors' Gram matrix. ``sums`` is how the
    devices are added: "" in one place, with all noise in one draw; "plain", "paillier", "shared" and "masked"
    device by device, each with its own coin and share, with the same bits for all. A device whose message is
    longer than a cut gradient and its noise can be is refused, except by "masked", which cannot see it.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = PFGNRSums(epochs=2, embedding_size=4).fit(data, progress=False)
    >>> [(claim.adversaries, round(claim.epsilon, 1)) for claim in model.guarantee.claims]
    [('S', 45.5), ('OF', 8.0)]
    """

    word: ClassVar[str] = "pf-gnr-sums"
    summary: ClassVar[str] = "item vectors from noisy secure sums of gradients; users stay on their devices"
    protects: ClassVar[str] = "a user's interactions, from others; from the server less"
    server_sees: ClassVar[tuple[str, ...] | None] = (HEARD,)
    uncovered: ClassVar[tuple[str, ...]] = (OWN, STOPPING)
    not_covered: ClassVar[tuple[str, ...]] = (
        "a user's own list against whoever sees it, since it is made from the user's own history",
        "a server that colludes with the aggregator",
        "the ids of users and items",
    )

    epsilon: float = 8.0
    delta: float | None = None
    count_share: float = 0.1
    embedding_size: int = 32
    epochs: int = 30
    sampling_rate: float = 0.1
    clip_norm: float = 0.2
    learning_rate: float = 0.01
    temperature: float = 0.2
    shrinkage: float = 0.1
    step: float = 2.0**-14
    drop_out: float = 0.1
    validate_every: int = 5
    sums: str = ""
    key_bits: int = 2048

    patience: int = field(default=1 << 30, init=False, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.epsilon, 0.0 if self.delta is None else self.delta)
        good = self.delta is None or self.delta > 0
        check(good, "delta", "above 0", self.delta, "Skellam noise has no pure epsilon.")
        check_sampling_rate(self.sampling_rate)
        check_fraction("count_share", self.count_share)
        good = isinstance(self.drop_out, int | float) and 0 <= self.drop_out < 1
        check(good, "drop_out", "at least 0 and below 1", self.drop_out)
        for name in ("embedding_size", "epochs", "validate_every"):
            check_count(name, getattr(self, name))
        for name in ("clip_norm", "learning_rate", "temperature", "shrinkage", "step"):
            check_positive(name, getattr(self, name))
        check(self.step < 1, "step", "below 1", self.step, "On a coarser grid every gradient is zero.")
        check_choice("sums", self.sums, ["", *SUMS])
        check_key_bits(self.key_bits, self.sums)
        stays = self.drop_out < 0.5 or self.sums != "masked"
        remedy = "More than half must stay to the end of a masked round."
        check(stays, "drop_out", "below 0.5 with sums='masked'", self.drop_out, remedy)

    def _check_data(self, public: Dataset) -> None:
        """Noise that cannot be drawn, or sums that no grid can hold, are refused before anything is spent."""
        users, items = public.n_users, public.n_items
        check_messages(public, self.word, self.sums, users, items * self.embedding_size)
        if self.sums:
            check_devices(users)
        said = public.public_users
        few = users >= self.arriving(said) + 1
        check(few, "declared_users", "a number of which enough are there for the noise", said)
        for mechanism, size in zip(self.mechanisms(said, items), (items, items * self.embedding_size)):
            variance = mechanism.variance / self.arriving(said) * (1 if self.sums else said)
            remedy = "Spend more, or take a larger step."
            check(variance <= 2e15, "step", "coarse enough for the noise", self.step, remedy)
            if self.sums:
                check_provable(self.sums, self._sum_grid(mechanism, users, said, size), size)
        kept = math.prod(self._heard_shape(items)) * self._whole(mechanism, max(users, said)).itemsize
        remedy = "Take fewer, a larger sampling_rate or a smaller embedding_size."
        words = f"so few that the server's sums have at most {MOST_HEARD >> 30} GiB"
        check(kept <= MOST_HEARD, "epochs", words, self.epochs, remedy)

    def _not_covered(self) -> tuple[str, ...]:
        found = []
        if self.sums == "plain":
            found.append("whoever adds plain sums: a message has the noise of a device's own share alone")
        if self.sums:
            found.append(
                "devices that pool the noise they know, alone or with the server, once they and those who "
                f"drop out are more than {self.drop_out:.0%} of all and one"
            )
            found.append("whether a device takes part in the sums at all: it brings its noise with it")
        return (*found, *self.not_covered)

    # -- the budget -----------------------------------------------------------------------------------

    @property
    def _rounds(self) -> int:
        return max(1, round(1 / self.sampling_rate))

    def mechanisms(self, users: int, items: int) -> tuple[Skellam, Skellam]:
        """The noise of the counts and that of one round, with the least that keeps the budget."""
        delta = default_delta(users, self.delta)
        bounds = whole_bounds(1.0, 1 / COUNT_STEP, items)
        z = gaussian_multiplier(self.epsilon, delta) / math.sqrt(self.count_share)
        counts = Skellam((z * bounds[0]) ** 2, *bounds)
        l2, l1 = whole_bounds(self.clip_norm, 1 / (self.step * self.clip_norm), items * self.embedding_size)
        total = self._all_rounds(SkellamEvent(variance=1.0, l2=l2, l1=l1))
        return counts, Skellam((round_noise(self.epsilon, delta, counts.event, total) * l2) ** 2, l2, l1)

    def _all_rounds(self, one: SkellamEvent) -> SkellamEvent:
        total = self.epochs * self._rounds
        return replace(one, sampling_rate=self.sampling_rate, count=total, label=ROUNDS)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        counts, one = self.mechanisms(public.public_users, public.n_items)
        delta, secret = default_delta(public.public_users, self.delta), "all interactions of a user"
        first, rounds = counts.event.named(COUNTS), self._all_rounds(one.event)
        seen = (COUNTS, "item vectors")
        told = replace(rounds, sampling_rate=1.0)
        return (
            Claim(secret, "user", "add-remove", "S", (*seen, ROUNDS), (first, told), delta),
            Claim(secret, "user", "add-remove", "OF", seen, (first, rounds), delta, restates=True),
        )

    def arriving(self, users: int) -> int:
        """How many honest shares of noise are counted on."""
        return max(1, math.floor(users * (1 - self.drop_out)) - 1)

    def _heard_shape(self, items: int) -> tuple[int, int, int]:
        return self.epochs * self._rounds, items, self.embedding_size

    def _whole(self, mechanism: Skellam, users: int) -> np.dtype[np.signedinteger[Any]]:
        """The narrowest whole numbers that hold a sum: all devices at their bound, and 60 deviations."""
        noise = 60 * math.sqrt(mechanism.variance * users / self.arriving(users)) + 400
        return np.dtype(np.int32 if users * mechanism.l2 + noise < 2**31 else np.int64)

    # -- the server -----------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        items = floats("items", wide=True)
        shared = {"counts": items, "popular": items}
        shared["item_vectors"] = floats("items", self.embedding_size, wide=True)
        rounds, _, size = self._heard_shape(1)
        return Layout(shared, {HEARD: whole(rounds, "items", size)})

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        data = job.guard.take("interactions", ROUNDS)
        history, (users, items) = data.matrix(), (job.train.public_users, job.train.n_items)
        counts, one = self.mechanisms(users, items)
        make = summing(self.sums, bits=self.key_bits) if self.sums else None
        self.shared["popular"] = self._popular(job, counts, make)
        start = stream(job.seed, self.word, "items").standard_normal((items, self.embedding_size)) * 0.1
        vectors = nn.Parameter(torch.from_numpy(start))
        optimiser = torch.optim.Adam([vectors], lr=self.learning_rate)
        grid, recorded = self.step * self.clip_norm, 0
        heard = np.zeros(self._heard_shape(items), self._whole(one, max(users, job.train.n_users)))
        for number, total in enumerate(heard, 1):
            kept = kept_release(job, f"round {number}")
            total[...] = 0 if kept is None else kept

        def book(epochs: int) -> None:
            nonlocal recorded
            if epochs > recorded:
                event = replace(self._all_rounds(one.event), count=(epochs - recorded) * self._rounds)
                job.noise.record(replace(event, sampling_rate=1.0), [event])
                recorded = epochs

        def epoch_of_rounds(epoch: int) -> float:
            book(epoch + 1)
            for turn in range(self._rounds):
                noise, number = job.noise.child(ROUNDS, epoch, turn), 1 + epoch * self._rounds + turn
                now = vectors.detach().numpy()
                draw = partial(self.round, history, now, one, noise, make, number, users)
                total = release_once(job, f"round {number}", partial(_narrow, draw, heard.dtype))
                heard[number - 1] = total
                vectors.grad = torch.from_numpy(total * (grid / (self.sampling_rate * users)))
                optimiser.step()
            return 0.0  # the loss itself would be a release

        def publish() -> None:
            self.shared["item_vectors"] = vectors.detach().numpy().copy()

        def validate(valid: Dataset) -> float:
            publish()
            return validation_score(lambda codes: self._score_histories(history[codes]), data, valid)

        state = {"vectors": vectors, **optimiser_state(optimiser, {"vectors": vectors})}
        at = run_epochs(job, self, state=state, step=epoch_of_rounds, validate=validate, keep=("vectors",))
        book(at.epoch)  # a fit that had ended before is paid for too
        publish()
        self.private[HEARD] = heard
        job.guard.take("interactions", OWN)

    def _popular(self, job: Job, mechanism: Skellam, make: Summing | None) -> Array:
        """Sum 0: the logarithm of the noisy counts; of what is below the noise, that of the noise."""
        assert job.guard is not None
        history, said = job.guard.take("interactions", COUNTS).matrix(), job.train.public_users

        def draw() -> Array:
            return np.asarray(
                self.counts(history, mechanism, job.noise.child(COUNTS), make, said) * COUNT_STEP
            )

        counts = release_once(job, COUNTS, draw)
        job.noise.record(mechanism.event.named(COUNTS))
        self.shared["counts"] = counts
        return np.asarray(np.log(np.maximum(counts, COUNT_STEP * math.sqrt(mechanism.variance))), np.float64)

    # -- the sums -------------------------------------------------------------------------------------

    def counts(
        self,
        history: sp.csr_matrix,
        mechanism: Skellam,
        noise: Noise,
        make: Summing | None = None,
        declared: int | None = None,
    ) -> Array:
        """Sum 0 of the devices with these rows, of ``declared`` ones, in whole steps, with its noise."""
        said = declared or history.shape[0]
        rows = bounded_rows(history, np.ones(history.shape[1]), 1)
        rows.data = quantise(rows.data, 1 / COUNT_STEP)
        if make is None:
            exact = np.asarray(rows.sum(axis=0), np.int64).ravel()
            return self._with_noise(exact, mechanism, noise, said)

        def device(n: int, own: Noise) -> Array:
            return np.asarray(rows[n].toarray().ravel(), np.int64)

        parties = rows.shape[0], said
        return self._over_devices(device, parties, rows.shape[1:], mechanism, noise, make, 0)

    def round(
        self,
        history: sp.csr_matrix,
        vectors: Array,
        mechanism: Skellam,
        noise: Noise,
        make: Summing | None = None,
        number: int = 1,
        declared: int | None = None,
    ) -> Array:
        """One round of the devices with these rows: the sum of their gradients, in whole steps, noisy."""
        users, said = history.shape[0], declared or history.shape[0]
        if make is None:
            chosen = np.flatnonzero(noise.coins(self.sampling_rate, (users,)))
            random = np.random.default_rng(noise.below(1 << 62, (2,)))
            return self._with_noise(self._sum(history[chosen], vectors, random), mechanism, noise, said)

        def device(n: int, own: Noise) -> Array:
            if not own.coins(self.sampling_rate, (1,))[0]:
                return np.zeros(vectors.shape, np.int64)
            return self._sum(history[n], vectors, np.random.default_rng(own.below(1 << 62, (2,))))

        return self._over_devices(device, (users, said), vectors.shape, mechanism, noise, make, number)

    def _with_noise(self, exact: Array, mechanism: Skellam, noise: Noise, users: int) -> Array:
        """The shares of all declared devices in one draw: those not counted on add to the variance."""
        return exact + noise.skellam(mechanism.variance * users / self.arriving(users), exact.shape)

    def _over_devices(
        self,
        device: Callable[[int, Noise], Array],
        parties: tuple[int, int],
        shape: tuple[int, ...],
        mechanism: Skellam,
        noise: Noise,
        make: Summing,
        number: int,
    ) -> Array:
        """The sum of what every device says and of its share of the noise, between separate parties.

        ``parties``: how many devices there are, and how many are declared.
        """
        users, said = parties
        sure = self.arriving(said)
        least = max(2, min(sure + 1, users))
        backend = make(self._sum_grid(mechanism, users, said, math.prod(shape)), math.prod(shape), least)

        def message(n: int) -> Array:
            own = noise.child("device", n)
            return np.asarray(device(n, own) + mechanism.share(sure, shape, own)).ravel()

        if backend.word == "plain":  # the same whole numbers, without keeping all messages
            total = np.zeros(math.prod(shape), np.int64)
            for n in range(users):
                total += backend.checked(message(n))
        else:
            sent = {f"device {n}": message(n) for n in range(users)}
            total = between_parties(backend, sent, number).values.astype(np.int64)
        return total.reshape(shape)

    def _sum_grid(self, mechanism: Skellam, users: int, said: int, size: int) -> FixedPoint:
        """A grid whose bound is the largest length of a message: that of the cut gradient, and of the noise.

        The squares of the noise have the mean v, the variance 2 v^2 + v and, but for tails beyond 12
        deviations, the bound t^2: by Bernstein's inequality their sum is larger than this once in e^30 times.
        """
        v = mechanism.variance / self.arriving(said)
        t = 12 * math.sqrt(v) + 40  # 40: the tail of little noise
        most = 30 * t**2 / 3
        noise = size * v + most + math.sqrt(most**2 + 60 * size * (2 * v**2 + v))
        return FixedPoint(float(math.ceil(mechanism.l2 + math.sqrt(noise))), 1.0, users)

    # -- the devices ----------------------------------------------------------------------------------

    def device(self, items: Array, vectors: Array, random: np.random.Generator) -> Array:
        """What one device with these items adds to a round, without its noise: whole numbers, like V."""
        row = sp.csr_matrix((np.ones(len(items)), (np.zeros(len(items), int), items)), (1, len(vectors)))
        return self._sum(row, vectors, random)

    def _sum(self, rows: sp.csr_matrix, vectors: Array, random: np.random.Generator) -> Array:
        """The sum of what the devices with these rows add: each rounded by itself."""
        coins = random.random(rows.nnz) < 0.5
        given, asked = (
            sp.csr_matrix((half.astype(np.float64), rows.indices, rows.indptr), rows.shape)
            for half in (coins, ~coins)
        )
        out, at_once = np.zeros(vectors.shape, np.int64), max(1, _CELLS // rows.shape[1])
        for first in range(0, rows.shape[0], at_once):
            part = slice(first, first + at_once)
            self._add(given[part], asked[part], vectors, out)
        return out

    def _add(self, given: sp.csr_matrix, asked: sp.csr_matrix, vectors: Array, out: Array) -> None:
        """Add what some devices say, who fit themselves to ``given`` and ask for ``asked``."""
        z = unit_rows(self._own(given, vectors))
        count = np.asarray(asked.sum(axis=1)).ravel()
        logits = z @ vectors.T / self.temperature + self.shared["popular"]
        c = np.exp(logits - logits.max(axis=1, keepdims=True))
        c /= c.sum(axis=1, keepdims=True)
        c -= (sp.diags(1 / np.maximum(count, 1)) @ asked).toarray()
        c[count == 0] = 0  # who has nothing to ask has nothing to say
        length = np.linalg.norm(c, axis=1) * np.linalg.norm(z, axis=1)
        wild = ~np.isfinite(length)  # no cut would bound it: such a device says nothing
        c[wild], z[wild], length[wild] = 0, 0, 0
        limit = self.clip_norm * (1 - 1e-9)  # a hair for the rounding of floats
        c *= (np.minimum(1.0, limit / np.maximum(length, 1e-300)) / (self.step * self.clip_norm))[:, None]
        in_threads(kernels.add_rounded_products, len(out), np.ascontiguousarray(c.T), z, out, block=256)

    def _own(self, rows: sp.csr_matrix, vectors: Array) -> Array:
        mean = max(float(np.square(vectors).sum()) / vectors.shape[1], 1e-12)
        return ridge(rows, vectors, self.shrinkage * mean)

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        vectors = self.shared["item_vectors"]
        z = unit_rows(self._own(histories.astype(np.float64), vectors))
        return np.asarray(z @ vectors.T / self.temperature + self.shared["popular"], np.float32)

    def _item_similarity(self, items: Array) -> Array:
        unit = unit_rows(self.shared["item_vectors"])
        return np.asarray(unit[items] @ unit.T, np.float32)


def _narrow(draw: Callable[[], Array], kind: np.dtype[Any]) -> Array:
    return draw().astype(kind)


@remembered
def round_noise(epsilon: float, delta: float, first: SkellamEvent, rounds: SkellamEvent) -> float:
    """The least noise, as a multiple of the L2 bound, for ``rounds`` that keep the budget after ``first``.

    >>> l2, l1 = whole_bounds(1.0, 2.0**14, 64)
    >>> first = SkellamEvent(variance=(9 * l2) ** 2, l2=l2, l1=l1)
    >>> round(round_noise(8.0, 1e-5, first, SkellamEvent(variance=1.0, l2=l2, l1=l1)), 2)
    0.64
    """

    def spent(multiplier: float) -> tuple[SkellamEvent, ...]:
        return first, replace(rounds, variance=(multiplier * rounds.l2) ** 2)

    return smallest_noise(spent, epsilon, delta)
