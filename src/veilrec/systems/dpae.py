"""DPAE: an autoencoder trained by noisy gradients, after Liu et al., reference [32] of the GERAI paper.

    1.  a user's profile x, divided by its length, is squeezed to h = tanh(W x + b) and spread to D h + c
    2.  a step draws each user by an own coin; each drawn user's gradient of the loss is clipped to length C
    3.  N(0, (z C)^2) is added to every coordinate of their sum, the sum is divided by its expected number of
        users, and Adam takes a step

Guarantee. All weights together are (epsilon, delta)-DP in everything of one user, added or removed, for
outsiders and other clients who do not see who took part in a step: ``steps`` Poisson-sampled Gaussian events,
with z chosen so that they compose to epsilon. A list is made from the weights and the own profile on the
user's side (joint DP), which says nothing against somebody who sees the list.

Sources. The original could not be found: all that is known of it here is the GERAI paper's account, that the
Gaussian mechanism is combined with the stochastic gradient descent of an autoencoder-based recommender. Its
unit, clipping, batches and loss are therefore not compared. Chosen here: the unit is the user; every user has
an own coin, as the accounting asks (a shuffled loader would not do); the loss is the multinomial likelihood
of the profile, mean over its items (Liang et al., WWW 2018), because lists are wanted. Steps are fixed
beforehand: validation data choose an epoch but never stop the run, since the budget is spent in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from veilrec.core import check, check_count, check_positive
from veilrec.data import Dataset
from veilrec.privacy import (
    Claim,
    GaussianEvent,
    check_clip_norm,
    check_lattice,
    default_delta,
    gaussian_multiplier,
    remembered,
)
from veilrec.privacy.events import check_sampling_rate
from veilrec.systems.sizes import check_size
from veilrec.systems.vectors import unit_rows
from veilrec.training import (
    STOPPING,
    Array,
    Job,
    PrivateTraining,
    Recommender,
    optimiser_state,
    run_epochs,
    torch_stream,
    validation_score,
)
from veilrec.training.layout import Layout, floats

MOST_CELLS = 1 << 27
"""Users drawn for a step times items."""
_LABEL = "gradients"
_OWN = "a user's interactions for the user's own list"


@dataclass(eq=False)
class DPAE(Recommender):
    """A profile is coded in ``embedding_size`` numbers and decoded to scores; user-level private training.

    ``epsilon`` is for a whole user, at ``delta`` (None: the smaller of 1e-5 and users^-1.1).
    ``sampling_rate`` is each user's chance to be in a step; an epoch has 1 / sampling_rate steps, and all
    ``epochs`` are run. ``clip_norm`` is C.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = DPAE(embedding_size=4, epochs=2, epsilon=3.0).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 2), model.guarantee.grade
    (3.0, 'secure')
    """

    word: ClassVar[str] = "dpae"
    summary: ClassVar[str] = "an autoencoder trained by clipped and noised gradients of users"
    protects: ClassVar[str] = "a user's interactions, from outsiders and other clients"
    uncovered: ClassVar[tuple[str, ...]] = (_OWN, STOPPING)
    not_covered: ClassVar[tuple[str, ...]] = (
        "a user's own list against whoever sees it, since it is made from the user's own interactions",
        "the ids of users and items, and who took part in a step",
    )
    paper_claim: ClassVar[str] = (
        "the training phase meets the requirements of differential privacy (in the words of GERAI)"
    )

    embedding_size: int = 16
    epsilon: float = 8.0
    delta: float | None = None
    sampling_rate: float = 0.1
    clip_norm: float = 0.5
    learning_rate: float = 0.03
    epochs: int = 20
    validate_every: int = 5

    patience: int = field(default=1 << 30, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("embedding_size", "epochs", "validate_every"):
            check_count(name, getattr(self, name))
        for name in ("epsilon", "clip_norm", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_clip_norm(self.clip_norm)
        check_sampling_rate(self.sampling_rate)
        check(self.delta is None or 0 < self.delta < 1, "delta", "above 0 and below 1, or None", self.delta)

    @property
    def steps(self) -> int:
        """Private steps of a whole run."""
        return self.epochs * self._per_epoch

    @property
    def _per_epoch(self) -> int:
        return max(1, round(1 / self.sampling_rate))

    def _multiplier(self, users: int) -> float:
        return noise_multiplier(
            self.epsilon, default_delta(users, self.delta), self.steps, self.sampling_rate
        )

    def _check_data(self, public: Dataset) -> None:
        cells = self.sampling_rate * public.n_users * public.n_items
        what, because = "pairs of a user drawn and an item", "the profiles of a step are held as whole rows"
        remedy = "Lower sampling_rate, or use dp-spectral or dp-als."
        check_size(public, self.word, cells, MOST_CELLS, what, because=because, remedy=remedy)

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        z, q = self._multiplier(public.public_users), self.sampling_rate
        check_lattice(z, (2 * public.n_items + 2) * (self.embedding_size + 1))  # before anything is spent
        event = GaussianEvent(noise_multiplier=z, sampling_rate=q, count=self.steps, label=_LABEL)
        delta = default_delta(public.public_users, self.delta)
        released = ("all weights of the network",)
        return (Claim("everything of one user", "user", "add-remove", "OF", released, (event,), delta),)

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        profiles = job.guard.take("interactions", _LABEL).matrix()
        users, items = profiles.shape
        network = ProfileAutoencoder(items, self.embedding_size, torch_stream(job.seed, self.word, "init"))
        training = PrivateTraining(
            network,
            job.noise,
            users=users,
            declared=job.train.public_users,
            sampling_rate=self.sampling_rate,
            noise_multiplier=self._multiplier(job.train.public_users),
            clip_norm=self.clip_norm,
            steps=self.steps,
            label=_LABEL,
        )
        parameters = dict(network.named_parameters())
        optimiser = torch.optim.Adam(list(parameters.values()), lr=self.learning_rate, fused=True)

        def gather(chosen: Array) -> Tensor:
            return torch.from_numpy(profiles[chosen].toarray())

        def step(epoch: int) -> float:
            """Noisy steps; what is logged, the mean length of their gradients, is noisy too."""
            training.resume_at(epoch * self._per_epoch)
            lengths = []
            for index in range(self._per_epoch):
                done = (epoch + index / self._per_epoch) / self.epochs
                optimiser.param_groups[0]["lr"] = self.learning_rate * (1 - done)
                training.step(gather)
                squares = [torch.sum(p.grad**2) for p in parameters.values() if p.grad is not None]
                lengths.append(float(torch.stack(squares).sum().sqrt()))
                optimiser.step()
            return float(np.mean(lengths))

        own = job.guard.take("interactions", _OWN)
        table = own.matrix()

        def publish() -> None:
            self.shared = {name: value.detach().numpy().copy() for name, value in parameters.items()}

        def validate(valid: Dataset) -> float:
            publish()
            return validation_score(lambda codes: self._score_histories(table[codes]), own, valid)

        state = {**parameters, **optimiser_state(optimiser, parameters)}
        at = run_epochs(job, self, state=state, step=step, validate=validate, keep=tuple(parameters))
        training.resume_at(at.epoch * self._per_epoch)  # a run that had ended before has been paid for too
        publish()

    def _layout(self) -> Layout:
        size = self.embedding_size
        return Layout(
            {
                "encoder.weight": floats(size, "items"),
                "encoder.bias": floats(size),
                "decoder.weight": floats("items", size),
                "decoder.bias": floats("items"),
            }
        )

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        weights = {name: torch.from_numpy(value) for name, value in self.shared.items()}
        with torch.no_grad():
            x = torch.from_numpy(unit_rows(histories.toarray()).astype(np.float32))
            code = torch.tanh(x @ weights["encoder.weight"].T + weights["encoder.bias"])
            scores = code @ weights["decoder.weight"].T + weights["decoder.bias"]
        return scores.numpy()

    def _score(self, users: Array) -> Array:
        return self._score_histories(self.history[users])

    def _item_similarity(self, items: Array) -> Array:
        unit = unit_rows(self.shared["decoder.weight"])
        return np.asarray(unit[items] @ unit.T, dtype=np.float32)


class ProfileAutoencoder(nn.Module):
    """One hidden layer; forward gives for every profile the mean of -log softmax over its items.

    >>> network = ProfileAutoencoder(3, 2, torch.Generator().manual_seed(1))
    >>> network(torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])).shape
    torch.Size([2])
    """

    def __init__(self, items: int, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(items, size), nn.Linear(size, items)
        with torch.no_grad():
            for layer, spread in ((self.encoder, 0.5), (self.decoder, 0.01)):
                layer.weight.normal_(0.0, spread, generator=generator)
                layer.bias.zero_()

    def forward(self, profile: Tensor) -> Tensor:
        length = profile.square().sum(dim=1, keepdim=True).clamp(min=1e-12).sqrt()
        logits = self.decoder(torch.tanh(self.encoder(profile / length)))
        fit = (profile * torch.log_softmax(logits, dim=1)).sum(dim=1)
        return -fit / profile.sum(dim=1).clamp(min=1.0)


@remembered
def noise_multiplier(epsilon: float, delta: float, steps: int, sampling_rate: float) -> float:
    """The least noise for the run, remembered: claims and training must use the same number.

    >>> round(noise_multiplier(8.0, 1e-5, 300, 0.1), 2)
    1.29
    """
    return gaussian_multiplier(epsilon, delta, count=steps, sampling_rate=sampling_rate)
