"""User-level DP-SGD for any torch module: clipped per-user gradients, Poisson sampling, noise on the sum.

Guarantee. Unit: a user with everything they have; relation: adding or removing one. A step takes part of the
users by an own coin each, clips every user's gradient over all parameters jointly to ``clip_norm`` C, adds
them up, adds N(0, (noise_multiplier C)^2) to every coordinate and divides by sampling_rate x users, a number
fixed beforehand. Adding a user adds one vector of norm at most C to the sum, so a step is one Poisson-sampled
Gaussian event, and whatever an optimiser makes of the gradients is post-processing. The coins are a secret:
the amplification by sampling does not hold against somebody who sees who took part. ``users`` is taken as
public. Reference: Abadi et al., "Deep learning with differential privacy", CCS 2016; McMahan et al.,
"Learning differentially private recurrent language models", ICLR 2018 (users instead of examples).

Rounding. Gradients are clipped to C (1 - 1e-5). Research noise: single precision, where the computed norm is
right to about 1e-6, so the clipped norm stays below C. Secure noise: the module, the norms and the sums run
in double precision. With n addends a norm or a sum is wrong by at most n 2^-53 of the sum of lengths, and a
user's gradient by some 1e-15 depending on who else is in the batch (products of other shapes round
otherwise); for 600 users of 200 rows all of it together is below 1e-8 C, and the 1e-5 left free covers it a
thousandfold. The sum then goes to the lattice of ``Noise.add_gaussian`` with sensitivity C and the number of
all coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veilrec.core import check, check_count, check_positive, warn
from veilrec.privacy import GaussianEvent, Noise, check_clip_norm, gaussian_multiplier
from veilrec.privacy.events import check_sampling_rate
from veilrec.training.private_check import refuse_layers, try_first_users
from veilrec.training.private_sum import add_clipped, as_batch, as_leaves

_BLOCK = 1 << 16
"""Coordinates that get their noise at a time."""

Gather = Callable[[NDArray[np.int64]], Tensor | Sequence[Tensor]]


class PrivateTraining:
    """Private gradients of a module, step by step, for any optimiser.

    ``module(*batch)`` is called with tensors whose first dimension is the user and gives one loss per user.
    ``gather(users)`` makes that batch for the sampled users. Parameters that do not require a gradient are
    left alone. Nothing else comes out of a step: a loss without noise would be a release of its own.

    >>> class Taste(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.items, self.tower = nn.Embedding(50, 8), nn.Linear(8, 8)
    ...     def forward(self, history, liked, other):
    ...         own = self.tower(self.items(history).mean(1))
    ...         gap = ((self.items(liked) - self.items(other)) @ own.unsqueeze(2)).squeeze(2)
    ...         return nn.functional.softplus(-gap).mean(1)
    >>> from veilrec.core import stream
    >>> rows = torch.from_numpy(stream(1, "demo").integers(0, 50, (200, 3, 5)))
    >>> module, noise = Taste(), Noise.research(1, "demo")
    >>> training = PrivateTraining.for_budget(
    ...     module, noise, 4.0, 1e-5, users=200, sampling_rate=0.1, clip_norm=0.5, steps=20
    ... )
    >>> training.event.count, round(training.noise_multiplier, 2)  # known before any data is touched
    (20, 0.95)
    >>> optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    >>> for _ in range(3):
    ...     training.step(lambda users: rows[users].unbind(1))
    ...     optimiser.step()
    >>> training.taken, noise.events[0].count, noise.events[0].sampling_rate
    (3, 3, 0.1)
    """

    def __init__(
        self,
        module: nn.Module,
        noise: Noise,
        *,
        users: int,
        declared: int | None = None,
        sampling_rate: float,
        noise_multiplier: float,
        clip_norm: float,
        steps: int,
        label: str = "training",
        at_once: int = 1024,
    ) -> None:
        """``users`` are there, and each has a coin; the sum is divided by the expected number of users in a
        step, of ``declared`` ones (None: of ``users``): a public figure that stays when one of them leaves.
        ``at_once``: users in one pass of the module; more of them take more memory.

        With research noise the coins and the noise of step t are a function of t and of a number drawn
        from ``noise`` here; so a run that is taken up again needs a ``noise`` that was made in the same way.
        """
        check_count("users", users)
        check_sampling_rate(sampling_rate)
        check_positive("noise_multiplier", noise_multiplier)
        check_clip_norm(clip_norm)
        check_count("steps", steps)
        check_count("at_once", at_once)
        refuse_layers(module)
        self.module, self.noise = module, noise
        self.users, self.steps, self.at_once = users, steps, at_once
        self.declared = users if declared is None else declared
        check_count("declared", self.declared)
        self.sampling_rate, self.noise_multiplier = float(sampling_rate), float(noise_multiplier)
        self.clip_norm, self.label = float(clip_norm), label
        self.dropped = 0
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        remedy = "Let a parameter require a gradient."
        check(
            bool(self._parameters), "module", "something that can be trained", type(module).__name__, remedy
        )
        self._key = None if noise.grade == "secure" else int(noise.below(1 << 62, (1,))[0])
        self._taken = 0
        self._recorded: GaussianEvent | None = None
        self._notes: bool | None = None  # whether notes suffice; unknown until two users were tried

    @classmethod
    def for_budget(
        cls,
        module: nn.Module,
        noise: Noise,
        epsilon: float,
        delta: float,
        *,
        users: int,
        sampling_rate: float,
        clip_norm: float,
        steps: int,
        label: str = "training",
        at_once: int = 1024,
    ) -> PrivateTraining:
        """The least noise with which all ``steps`` together keep (epsilon, delta)."""
        return cls(
            module,
            noise,
            users=users,
            sampling_rate=sampling_rate,
            noise_multiplier=gaussian_multiplier(epsilon, delta, count=steps, sampling_rate=sampling_rate),
            clip_norm=clip_norm,
            steps=steps,
            label=label,
            at_once=at_once,
        )

    @property
    def event(self) -> GaussianEvent:
        """The whole run, for a reservation before any data is touched."""
        return self._event(self.steps)

    @property
    def taken(self) -> int:
        """Steps taken, those before a resume included."""
        return self._taken

    @property
    def left(self) -> int:
        """Steps that may still be taken."""
        return self.steps - self._taken

    def resume_at(self, taken: int) -> None:
        """Go on with a run that had taken so many steps; they are recorded at once. Never goes back.

        >>> noise = Noise.research(1)
        >>> training = PrivateTraining(
        ...     nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), noise, users=9, sampling_rate=0.5,
        ...     noise_multiplier=1.0, clip_norm=1.0, steps=30,
        ... )
        >>> training.resume_at(10)
        >>> training.left, noise.events[0].count
        (20, 10)
        """
        check_count("taken", taken, minimum=0)
        good = self._taken <= taken <= self.steps
        check(good, "taken", f"from {self._taken} to {self.steps}", taken, "A step once taken stays taken.")
        self._record(taken)

    def step(self, gather: Gather) -> None:
        """Draw the users, and leave the noisy mean gradient in ``.grad`` of every trained parameter.

        The step counts from just before its noise is drawn: one that fails earlier has released nothing.
        A user whose gradient is not finite adds nothing; ``dropped`` counts them (the owner's number).
        """
        remedy = "Its budget covers no more; start another run."
        check(self.left > 0, "steps", f"at most {self.steps} in this run", self.steps + 1, remedy)
        noise = self.noise if self._key is None else Noise.research(self._key, "step", self._taken)
        for parameter in self._parameters.values():
            parameter.grad = None
        chosen = np.flatnonzero(noise.coins(self.sampling_rate, (self.users,))).astype(np.int64)
        sums = self._sums(chosen, gather)
        self._record(self._taken + 1)
        coordinates = sum(parameter.numel() for parameter in self._parameters.values())
        sigma, share = self.noise_multiplier * self.clip_norm, 1 / (self.sampling_rate * self.declared)
        for name, parameter in self._parameters.items():
            sum_ = sums.pop(name) if name in sums else torch.zeros_like(parameter)
            flat = sum_.detach().cpu().reshape(-1)
            for part in torch.split(flat, _BLOCK):  # a block at a time, in place: no second copy of the model
                noisy = noise.add_gaussian(part.double().numpy(), sigma, self.clip_norm, coordinates)
                part.copy_(torch.from_numpy(noisy).mul_(share))
            parameter.grad = flat.reshape(parameter.shape).to(parameter.device, parameter.dtype)

    def _sums(self, chosen: NDArray[np.int64], gather: Gather) -> dict[str, Tensor]:
        """The clipped gradients of the chosen users, added up, without noise."""
        double = self._key is None
        leaves = as_leaves(self.module, double)
        sums: dict[str, Tensor] = {}
        if not len(chosen):
            return sums
        batch = as_batch(gather(chosen), len(chosen), double)
        if self._notes is None and len(chosen) > 1:
            self._notes = try_first_users(self.module, leaves, batch)
        for start in range(0, len(chosen), self.at_once):
            part = [tensor[start : start + self.at_once] for tensor in batch]
            dropped = add_clipped(sums, self.module, leaves, part, self.clip_norm, bool(self._notes))
            if dropped and not self.dropped:
                text = "some users' gradients are not finite and were left out. Look for log(0) or 0/0."
                warn(text, RuntimeWarning)
            self.dropped += dropped
        return sums

    def _event(self, count: int) -> GaussianEvent:
        z, q = self.noise_multiplier, self.sampling_rate
        return GaussianEvent(noise_multiplier=z, sampling_rate=q, count=count, label=self.label)

    def _record(self, taken: int) -> None:
        """One event stands for the run; its count grows."""
        if taken == 0:
            return
        events, event = self.noise.events, self._event(taken)
        if self._recorded is None:
            self.noise.record(event)
        else:
            place = next(i for i, known in enumerate(events) if known is self._recorded)
            events[place] = event
        self._recorded, self._taken = event, taken
