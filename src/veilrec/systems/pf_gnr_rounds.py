"""PF-GNR's collaborative training over secure sums: devices encrypt gradients, the server reads their sum.

    server      sends each device i of a batch its vector z_i, and to all the item vectors z_j and, for the
                softmax, one set of other items
    device      from its *true* labels: weight w_i, loss L_i, c_ij = dL_i / dr_ij    (``pf_gnr_clients.py``);
                sends, in whole steps of a public grid, as much as everybody else:
                    c_ij z_i of every item j | rows of all devices, 0 but the own dL_i / dz_i | w_i | L_i
    aggregator  adds what it cannot read                                                      (``crypto``)
    server      decodes the sum, divides by the sum of the w_i, which depend on labels too, pulls the gradient
                back through its graph network; one step of Adam

Every device sends the whole item table, so that which items it touched stays hidden, and takes part, with
zeros, even if it has no items. The length of a message is at most four times the largest weight w that a
device can have, over the temperature T: under the softmax, whose vectors have length 1, the table, the own
row and the loss are no longer than 2 w / T, and the root of the sum of their squares and of w^2 is below 4 w
/ T (for T up to 2; above, it is below 2 w, which is then the bound). A longer message (BPR with long vectors)
is shrunk as a whole, weight included: the sum stays that of a weighted mean. A device that sends a longer one
all the same is refused: plain sums see it, in encrypted and shared ones devices prove it. Masked sums are for
devices that keep to it.

Rounding moves the training a little; encryption moves nothing: whole numbers add up exactly, so "plain" gives
the bits of "paillier", "shared" and "masked" (a test). It changes no claim either: the server reads every
device's row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from veilrec.core import check, check_count, in_threads, stream
from veilrec.crypto import FixedPoint, SecureSum
from veilrec.data import Dataset
from veilrec.models import kernels
from veilrec.systems.device_sums import Summing, between_parties
from veilrec.systems.pf_gnr_clients import ClientGradients, client_gradients, pull_back, sent_vectors
from veilrec.training import (
    Array,
    Job,
    NegativeSampler,
    optimiser_state,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.softmax import SoftmaxModel

LEVELS = 1 << 24
"""Steps of the grid between 0 and the bound: a sum of up to 127 devices fits 32 bits."""
_CELLS = 1 << 24
"""Scores (devices x items) that are held in memory at a time."""
MOVE = 0.5
"""How far vectors move between rounds that are played after a fit, as a share of their length."""


def grid(items: int, devices: int, user_power: float, scale: float = 1.0) -> FixedPoint:
    """The public grid of a round: the bound is 4 items^user_power x scale, rounded up to a power of two.

    >>> code = grid(1682, devices=118, user_power=0.5, scale=1 / 0.2)
    >>> code.bound, code.step == 2**-14, code.slot_bits
    (1024.0, True, 32)
    """
    bound = 2.0 ** math.ceil(math.log2(4 * items**user_power * scale))
    return FixedPoint(bound, bound / LEVELS, devices)


@dataclass(frozen=True, eq=False)
class Shares:
    """What the devices ``first``, ``first`` + 1, ... of the codec's ``clients`` send, in whole steps.

    The item tables stay factors until they are needed: device n has round(left[:, n] x right[n]).

    >>> found = ClientGradients(*torch.ones(2, 1), torch.ones(1, 2), torch.ones(1, 1), torch.ones(2, 1))
    >>> shares = Shares.of(found, FixedPoint(4.0, 0.5, clients=3), first=1)
    >>> shares.message(0)  # two items, three devices, weight, loss
    array([2, 2, 0, 4, 0, 2, 2])
    """

    left: Array  # [items, devices]
    right: Array  # [devices, embedding_size]
    rows: Array  # [devices, embedding_size], whole
    scalars: Array  # [devices, 2], whole: weight, loss
    first: int
    clients: int

    @classmethod
    def of(cls, found: ClientGradients, codec: FixedPoint, first: int = 0) -> Shares:
        """Cut to the length of the bound and round; the codec's ``clients`` are the devices of the round."""
        c, z, rows = found.scores.numpy(), found.sent_users.double().numpy(), found.users.double().numpy()
        scalars = np.stack([found.weights.numpy(), found.losses.numpy()], axis=1).astype(np.float64)
        table = np.linalg.norm(c.astype(np.float64), axis=1) * np.linalg.norm(z, axis=1)
        length = np.sqrt(table**2 + np.square(np.hstack([rows, scalars])).sum(axis=1))
        good = bool(np.isfinite(length).all())
        check(good, "gradients", "finite", float(length.max()), "Lower the learning rate.")
        moved = codec.step * math.sqrt(c.shape[1] * z.shape[1] + z.shape[1] + 2) / 2  # by rounding, at most
        limit = max(0.0, codec.bound * (1 - 1e-9) - moved)
        scale = (np.minimum(1.0, limit / np.maximum(length, 1e-300)) / codec.step)[:, None]
        left = np.multiply(c.T, scale.T, out=np.empty(c.T.shape))
        whole = [np.rint(part * scale).astype(np.int64) for part in (rows, scalars)]
        return cls(left, z, whole[0], whole[1], first, codec.clients)

    def message(self, device: int) -> Array:
        """All that one device sends."""
        table = np.rint(np.outer(self.left[:, device], self.right[device])).astype(np.int64)
        rows = np.zeros((self.clients, self.rows.shape[1]), np.int64)
        rows[self.first + device] = self.rows[device]
        return np.concatenate([table.ravel(), rows.ravel(), self.scalars[device]])

    def add_to(self, total: Array) -> None:
        """Add the messages of all devices to ``total``: the same whole numbers, without a loop over them."""
        (items, devices), size = self.left.shape, self.rows.shape[1]
        table = total[: items * size].reshape(items, size)
        in_threads(kernels.add_rounded_products, items, self.left, self.right, table, block=256)
        total[items * size : -2].reshape(self.clients, size)[self.first : self.first + devices] += self.rows
        total[-2:] += self.scalars.sum(axis=0)


def add_up(parts: Iterator[Shares], backend: SecureSum, round: int) -> Array:
    """The decoded sum of a round. Where nothing is encrypted, devices are added without making messages.

    >>> found = ClientGradients(*torch.ones(2, 2), torch.ones(2, 1), torch.ones(2, 1), torch.ones(1, 1))
    >>> code = FixedPoint(4.0, 0.5, clients=2)
    >>> from veilrec.systems.device_sums import summing
    >>> add_up(iter([Shares.of(found, code)]), summing("masked")(code, 5), 0)
    array([2., 1., 1., 2., 2.])
    """
    codec = backend.codec
    if backend.word == "plain":
        total = np.zeros(backend.length, np.int64)
        for part in parts:
            part.add_to(total)
        return codec.decode(codec.checked(total, codec.clients))
    messages = (part.message(device) for part in parts for device in range(len(part.rows)))
    values = {f"device {place}": one * codec.step for place, one in enumerate(messages)}
    return between_parties(backend, values, round).values


def take_apart(total: Array, devices: int, size: int) -> tuple[Tensor, Tensor, float, float]:
    """The decoded sum as the server uses it: user rows, item table, weight, loss.

    >>> rows, table, weight, loss = take_apart(np.arange(8.0), devices=2, size=1)
    >>> rows.tolist(), table.tolist(), weight, loss
    ([[4.0], [5.0]], [[0.0], [1.0], [2.0], [3.0]], 6.0, 7.0)
    """
    vectors = torch.from_numpy(total[:-2].astype(np.float32).reshape(-1, size))
    return vectors[-devices:], vectors[:-devices], float(total[-2]), float(total[-1])


def encrypted_loss(losses: Array, weights: Array, make: Summing, bound: float = 1024.0) -> float:
    """The mean loss as the paper prints it: devices encrypt scalars, the server decrypts their sum.

    For the record: nothing can be learnt from it. The server gets a number; of which scores it is made, and
    with which signs, only the devices know. So it has no gradient: hence the rest of this file.

    >>> from veilrec.systems.device_sums import summing
    >>> encrypted_loss(np.array([1.0, 3.0]), np.array([1.0, 3.0]), summing("masked"))
    1.0
    """
    check(len(losses) == len(weights), "weights", f"one for each of {len(losses)} losses", len(weights))
    codec = FixedPoint(bound, 2.0 ** math.ceil(math.log2(bound)) / LEVELS, len(losses))
    shares = {f"device {n}": pair for n, pair in enumerate(np.stack([losses, weights], axis=1))}
    total = between_parties(make(codec, 2), shares)
    most = f"together at most {bound:g} long"
    check(not total.refused, "losses and weights", most, total.refused, "Give a larger bound.")
    loss, weight = total.values
    check(weight > 0, "sum of weights", "above 0", float(weight), "Somebody must like something.")
    return float(loss / weight)


def round_grid(model: SoftmaxModel, items: int, devices: int) -> FixedPoint:
    """The public grid of a round of ``model``.

    >>> from veilrec.systems import PFGNRPaper
    >>> round_grid(PFGNRPaper(), items=1682, devices=118).bound
    1024.0
    """
    scale = max(0.5, 1 / model.temperature) if model.loss == "softmax" else 1.0
    return grid(items, devices, model.user_power, scale)


def _shares(
    model: SoftmaxModel,
    labels: sp.csr_matrix,
    sent: tuple[Tensor, Tensor],
    batch: Array,
    drawn: Array,
    code: FixedPoint,
) -> Iterator[Shares]:
    """The devices of a batch, some at a time; with BPR ``drawn`` has an item for each of their labels."""
    told = np.diff(labels.indptr)
    share = np.power(np.maximum(told, 1.0), model.user_power - 1.0).astype(np.float32)
    ends, at_once = np.concatenate([[0], np.cumsum(told[batch])]), max(1, _CELLS // labels.shape[1])
    for first in range(0, len(batch), at_once):
        part = batch[first : first + at_once]
        rows = labels[part]
        rows.data = np.repeat(share[part], told[part])
        others = drawn[ends[first] : ends[first + len(part)]] if model.loss == "bpr" else drawn
        own = sent[0][torch.from_numpy(part)].cpu()
        found = client_gradients(
            own, sent[1].cpu(), rows, others, loss=model.loss, temperature=model.temperature
        )
        yield Shares.of(found, code, first)


def round_count(batches: int, devices: int) -> int:
    """The rounds of an epoch: of two devices or more, since the sum of one would be that device's message.

    >>> round_count(8, 6)
    3
    """
    return max(1, min(batches, devices // 2))


def largest_batch(batches: int, devices: int) -> int:
    """How many devices the largest round of an epoch has.

    >>> largest_batch(8, 943)
    118
    """
    return math.ceil(devices / round_count(batches, devices))


def fit_rounds(
    job: Job,
    model: SoftmaxModel,
    module: nn.Module,
    final: Callable[[], tuple[Array, Array]],
    labels: sp.csr_matrix,
    seen: Dataset,
    make: Summing,
) -> None:
    """Train ``module`` as ``fit_softmax`` does, same batches and same randomness, over the sums of ``make``.

    >>> import veilrec as vr
    >>> data = vr.synthetic(users=60, items=40, interactions=900)
    >>> model = vr.PFGNRPaper(sums="plain", epochs=2, embedding_size=4).fit(data, progress=False)
    >>> [entry["epoch"] for entry in model.facts["log"]]
    [1.0, 2.0]
    """
    (devices, items), told = labels.shape, np.diff(labels.indptr)
    batches = round_count(model.batches, devices)
    sampler = NegativeSampler(labels) if model.loss == "bpr" else None
    parameters = dict(module.named_parameters())
    optimiser = torch.optim.Adam(list(parameters.values()), lr=model.learning_rate, fused=True)

    def step(epoch: int) -> float:
        random = stream(job.seed, model.word, "epoch", epoch)
        dropout = torch_stream(job.seed, model.word, "dropout", epoch)
        mean = 0.0
        for index, batch in enumerate(np.array_split(random.permutation(devices), batches)):
            rate = 1 + math.cos(math.pi * (epoch + index / batches) / model.epochs)
            optimiser.param_groups[0]["lr"] = 0.5 * model.learning_rate * rate
            if sampler is None:
                drawn = np.sort(random.choice(items, min(model.negatives, items), replace=False))
            else:
                drawn = sampler.draw(np.repeat(batch, told[batch]), random)
            sent = sent_vectors(partial(module, dropout), model.loss)  # type: ignore[arg-type]
            size, code = sent[1].shape[1], round_grid(model, items, len(batch))
            sums = make(code, (items + len(batch)) * size + 2)
            total = add_up(_shares(model, labels, sent, batch, drawn, code), sums, epoch * batches + index)
            rows, table, weight, loss = take_apart(total, len(batch), size)
            if weight == 0:
                continue  # nobody of this batch likes anything
            optimiser.zero_grad()
            pull_back(sent, batch, rows.to(sent[0].device), table.to(sent[1].device), weight)
            for parameter in parameters.values():
                assert parameter.grad is not None
                parameter.grad.add_(parameter.detach(), alpha=model.weight_decay)
            optimiser.step()
            mean += loss / weight / batches
        return mean

    def validate(valid: Dataset) -> float:
        vectors = final()
        return validation_score(lambda codes: vectors[0][codes] @ vectors[1].T, seen, valid)

    state = {**parameters, **optimiser_state(optimiser, parameters)}
    run_epochs(job, model, state=state, step=step, validate=validate, keep=tuple(parameters))


class SeenRound(NamedTuple):
    """What the server has of a round: the vectors that it sent and the rows dL_i / dz_i that it decrypted.

    ``others`` are the items of the softmax at ``temperature``; both are None under BPR, where each device
    draws other items of its own.

    >>> SeenRound(np.zeros((2, 3)), np.eye(4, 3), np.zeros((2, 3)), None, None).rows.shape
    (2, 3)
    """

    users: Array  # z_i [devices, size]
    items: Array  # z_j [items, size]
    rows: Array  # dL_i / dz_i [devices, size]
    others: Array | None
    temperature: float | None


def play_rounds(
    model: SoftmaxModel,
    vectors: tuple[Array, Array],
    labels: sp.csr_matrix,
    rounds: int,
    devices: Array | None = None,
    seed: int = 0,
) -> list[SeenRound]:
    """So many rounds with all devices, as the server of a training sees them: what it sent, and their rows.

    A fitted model keeps no transcript, so rounds are played anew. The server sends the fitted ``vectors`` of
    users and items, each moved at random by ``MOVE`` of its length: its own choice, which no device can tell
    from a step of training. ``devices`` are the users whose rows are wanted (None: all); the rows of others
    stand beside them in the sum and change nothing. Rows are in whole steps of the grid, like in training,
    and no backend would change a bit of them.

    >>> from veilrec.systems import PFGNRPaper
    >>> labels, random = sp.csr_matrix(np.eye(3, 5, dtype=np.float32)), np.random.default_rng(1)
    >>> vectors = random.normal(size=(3, 2)), random.normal(size=(5, 2))
    >>> first, second = play_rounds(PFGNRPaper(), vectors, labels, rounds=2)
    >>> first.rows.shape, np.array_equal(first.items, second.items)
    ((3, 2), False)
    """
    check_count("rounds", rounds)
    users, items = labels.shape
    chosen = np.arange(users) if devices is None else np.asarray(devices, np.int64)
    told, code = np.diff(labels.indptr)[chosen], round_grid(model, items, users)
    sampler = NegativeSampler(labels) if model.loss == "bpr" else None
    found = []
    for turn in range(rounds):
        random = stream(seed, model.word, "played round", turn)
        sent = sent_vectors(partial(_moved, vectors, random), model.loss)  # type: ignore[arg-type]
        if sampler is None:
            drawn = np.sort(random.choice(items, min(model.negatives, items), replace=False))
        else:
            drawn = sampler.draw(np.repeat(chosen, told), random)
        parts = [one.rows for one in _shares(model, labels, sent, chosen, drawn, code)]
        own, table = sent[0][torch.from_numpy(chosen)].numpy(), sent[1].numpy()
        about = (drawn, model.temperature) if sampler is None else (None, None)
        found.append(SeenRound(own, table, np.concatenate(parts) * code.step, *about))
    return found


def _moved(vectors: tuple[Array, Array], random: np.random.Generator) -> tuple[Tensor, ...]:
    """Each vector with a random one added that is ``MOVE`` as long, on average."""
    scale = [MOVE * np.linalg.norm(one, axis=1, keepdims=True) / math.sqrt(one.shape[1]) for one in vectors]
    moved = [one + by * random.standard_normal(one.shape) for one, by in zip(vectors, scale)]
    return tuple(torch.from_numpy(one).float() for one in moved)
