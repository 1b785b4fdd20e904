"""Where noise comes from, and the log of what was drawn.

Secure noise: the operating system's randomness, added on a lattice. A value is rounded to a multiple of a
tiny step and a whole number of steps is added by an exact sampler, so the possible outputs are the same for
every input and the low bits of a float give nothing away (Mironov, "On significance of the least significant
bits for differential privacy", 2012). Rounding moves two neighbouring inputs apart by at most one step per
coordinate (two are reckoned, for the division); the noise is enlarged by just that much, so the event that
the mechanism states stays true.

Research noise: a seeded generator and floating-point formulas. Fast, repeatable, and the statement says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilrec.core import check, check_positive, stream
from veilrec.privacy import samplers
from veilrec.privacy.events import Event
from veilrec.privacy.words import Source, below, coins, secure_words, seeded_words, uniforms

Floats = NDArray[np.float64]

# Steps of the lattice per sigma, and per Laplace scale.
GAUSSIAN_STEPS = 1 << 24
LAPLACE_STEPS = 1 << 28
# Up to here dividing by the step errs by a quarter of a step: two neighbours are rounded apart by less than
# two steps more.
_LARGEST = 2.0**51
_ROOM = 0.1  # of the sensitivity, at most, is rounding
_APART = 2


class Noise:
    """A source of randomness for mechanisms; ``events`` lists every release that drew from it.

    >>> Noise.secure().grade, Noise.research(1, "demo").grade
    ('secure', 'research')
    >>> Noise.research(1).coins(0.5, (3,)).shape
    (3,)
    """

    def __init__(self, source: Source, generator: np.random.Generator | None) -> None:
        self._source, self._generator = source, generator
        self._name: tuple[str | int, ...] = ()
        self.events: list[Event] = []
        self.slices: list[Event] = []
        self._floats: list[str] = []

    @classmethod
    def secure(cls) -> Noise:
        """Noise for a real release: from the operating system, on a lattice, not repeatable."""
        return cls(secure_words, None)

    @classmethod
    def research(cls, seed: int, *names: str | int) -> Noise:
        """Seeded noise for experiments. Whoever knows the seed knows the noise: never publish with it."""
        generator = stream(seed, "noise", *names)
        made = cls(seeded_words(generator), generator)
        made._name = (seed, *names)
        return made

    def child(self, *names: str | int) -> Noise:
        """A source of its own for the purpose ``names``, with the same log.

        Research noise of a child depends on its names alone, not on what was drawn before: so a fit that was
        stopped draws in step 7 what an uninterrupted one does.

        >>> one, other = Noise.research(1, "fit"), Noise.research(1, "fit")
        >>> _ = one.normals((5,))
        >>> bool((one.child("step", 7).normals((3,)) == other.child("step", 7).normals((3,))).all())
        True
        """
        made = (
            Noise(self._source, None)
            if self._generator is None
            else Noise.research(int(self._name[0]), *self._name[1:], *names)
        )
        made.events, made.slices, made._floats = self.events, self.slices, self._floats
        return made

    def seal(self) -> None:
        """Nothing secure may be drawn any more, from this source or its children to come: all was drawn.

        >>> noise = Noise.secure()
        >>> noise.seal()
        >>> noise.coins(0.5, (3,))
        Traceback (most recent call last):
            ...
        ValueError: noise must be drawn once, got a second draw. What was drawn before is kept: read it back.
        """
        if self._generator is None:
            self._source = _sealed

    @classmethod
    def choose(cls, secure: bool, seed: int | None, *names: str | int) -> Noise:
        """Secure noise, which takes no seed, or research noise, which needs one.

        >>> Noise.choose(True, 1)
        Traceback (most recent call last):
            ...
        ValueError: seed must be None when noise is secure, got 1. Say secure=False for repeatable research.
        """
        if secure:
            remedy = "Say secure=False for repeatable research."
            check(seed is None, "seed", "None when noise is secure", seed, remedy)
            return cls.secure()
        check(seed is not None, "seed", "a whole number when noise is not secure", seed)
        return cls.research(int(seed or 0), *names)

    @property
    def grade(self) -> str:
        """``secure`` or ``research``."""
        return "secure" if self._generator is None else "research"

    @property
    def in_floats(self) -> bool:
        """Whether something was released by a floating-point formula."""
        return bool(self._floats)

    def record(self, event: Event, slices: Iterable[Event] = (), *, in_floats: bool = False) -> None:
        """Called by the mechanism that draws: the release becomes part of the statement.

        ``slices`` are what the same draw costs smaller units (one attribute out of several reported
        together): claims may speak of them, and they are not spent again. ``in_floats``: the release is a
        floating-point formula, so that the statement may not call it secure.
        """
        if in_floats:
            self._floats.append(event.label or event.kind)
        self.events.append(event)
        self.slices.extend(dict.fromkeys(slices))  # of one draw, each is named once

    # -- bits and whole numbers: the same code for both grades ---------------------------------------

    def coins(self, probability: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Independent coins that fall on True with the given probability."""
        return coins(self._source, probability, shape)

    def below(self, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Uniform whole numbers from 0 to ``limit`` - 1."""
        return below(self._source, limit, shape)

    def uniforms(self, shape: tuple[int, ...]) -> Floats:
        """Uniform numbers, multiples of 2^-53, for choices that are not released themselves."""
        return uniforms(self._source, shape)

    def subsets(self, rows: int, among: int, size: int) -> NDArray[np.int64]:
        """For each row ``size`` different whole numbers below ``among``, every subset equally likely.

        >>> Noise.research(1).subsets(2, 5, 5).sum(axis=1).tolist()
        [10, 10]
        """
        keys = self._source(rows * among).reshape(rows, among)
        return np.argpartition(keys, size - 1, axis=1)[:, :size].astype(np.int64)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers with P(x) proportional to exp(-|x| / scale)."""
        return self._whole(samplers.discrete_laplace, scale, shape)

    def discrete_gaussian(self, sigma: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers with P(x) proportional to exp(-x^2 / 2 sigma^2)."""
        return self._whole(samplers.discrete_gaussian, sigma, shape)

    def skellam(self, variance: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Differences of two Poisson counts."""
        return self._whole(samplers.skellam, variance, shape)

    # -- real numbers ---------------------------------------------------------------------------------

    def add_gaussian(
        self, values: ArrayLike, sigma: float, sensitivity: float, coordinates: int | None = None
    ) -> Floats:
        """``values`` plus N(0, sigma^2), for values that a neighbour moves by at most ``sensitivity`` (L2).

        ``coordinates``: how many coordinates one neighbour can touch (all of them unless said).
        """
        x = _finite(values)
        if self._generator is not None:
            return np.asarray(x + sigma * self._generator.standard_normal(x.shape))
        moved = _APART * math.sqrt(x.size if coordinates is None else coordinates)
        sigma, step = _enlarged(sigma, sensitivity, moved, GAUSSIAN_STEPS)
        return _on_lattice(x, step, lambda shape: self.discrete_gaussian(GAUSSIAN_STEPS, shape))

    def add_laplace(
        self, values: ArrayLike, scale: float, sensitivity: float, coordinates: int | None = None
    ) -> Floats:
        """``values`` plus Laplace noise; a neighbour moves them by at most ``sensitivity`` (L1)."""
        x = _finite(values)
        if self._generator is not None:
            return np.asarray(x + self._generator.laplace(0.0, scale, x.shape))
        scale = self.laplace_scale(scale, sensitivity, x.size if coordinates is None else coordinates)
        return _on_lattice(
            x, scale / LAPLACE_STEPS, lambda shape: self.discrete_laplace(LAPLACE_STEPS, shape)
        )

    def laplace_scale(self, scale: float, sensitivity: float, coordinates: int) -> float:
        """The scale that :meth:`add_laplace` draws with when asked for ``scale``; secure noise is wider.

        >>> Noise.research(1).laplace_scale(2.0, 1.0, 5), Noise.secure().laplace_scale(2.0, 1.0, 5) > 2
        (2.0, True)
        """
        if self._generator is not None:
            return scale
        return _enlarged(scale, sensitivity, _APART * coordinates, LAPLACE_STEPS)[0]

    @property
    def laplace_step(self) -> float:
        """Twice the step of the lattice of Laplace noise, as a share of its scale; 0 without a lattice.

        >>> Noise.research(1).laplace_step, Noise.secure().laplace_step < 1e-8
        (0.0, True)
        """
        return 0.0 if self._generator is not None else 2 / LAPLACE_STEPS

    def normals(self, shape: tuple[int, ...]) -> Floats:
        """Standard normal numbers that are an ingredient, not themselves what hides a value."""
        return self.add_gaussian(np.zeros(shape), 1.0, 1.0, coordinates=1)

    def exponentials(self, shape: tuple[int, ...]) -> Floats:
        """Exponential numbers of mean 1, as an ingredient of shares."""
        return np.asarray(-np.log1p(-self.uniforms(shape)))

    def _whole(
        self, sampler: Callable[[Source, float, int], NDArray[np.int64]], value: float, shape: Any
    ) -> NDArray[np.int64]:
        return sampler(self._source, value, int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _sealed(count: int) -> NDArray[np.uint64]:
    remedy = "What was drawn before is kept: read it back."
    raise ValueError(f"noise must be drawn once, got a second draw. {remedy}")


def _finite(values: ArrayLike) -> Floats:
    x = np.asarray(values, np.float64)
    check(bool(np.isfinite(x).all()), "values", "finite numbers", _first_bad(x))
    return x


def _first_bad(x: Floats) -> float | None:
    bad = x[~np.isfinite(x)]
    return float(bad[0]) if bad.size else None


def check_laplace_lattice(noise_multiplier: float, numbers: int) -> None:
    """Refuse, before anything is drawn, Laplace noise that so many numbers cannot hold.

    >>> check_laplace_lattice(1e6, 1890)
    Traceback (most recent call last):
        ...
    ValueError: epsilon must be large enough for noise on 1,890 numbers, got a noise multiplier of 1e+06. \
Spend more, or release fewer numbers.
    """
    _check_room(_APART * numbers * noise_multiplier / LAPLACE_STEPS, noise_multiplier, numbers)


def check_lattice(noise_multiplier: float, numbers: int) -> None:
    """Refuse, before anything is drawn, Gaussian noise that so many numbers cannot hold.

    >>> check_lattice(30_000, 1_000_000)
    Traceback (most recent call last):
        ...
    ValueError: epsilon must be large enough for noise on 1,000,000 numbers, got a noise multiplier of \
3e+04. Spend more, or release fewer numbers.
    """
    _check_room(_APART * math.sqrt(numbers) * noise_multiplier / GAUSSIAN_STEPS, noise_multiplier, numbers)


def _check_room(share: float, noise_multiplier: float, numbers: int) -> None:
    wide, got = (
        f"large enough for noise on {numbers:,} numbers",
        f"a noise multiplier of {noise_multiplier:.3g}",
    )
    if not share < _ROOM:
        raise ValueError(f"epsilon must be {wide}, got {got}. Spend more, or release fewer numbers.")


def _enlarged(width: float, sensitivity: float, moved: float, steps: int) -> tuple[float, float]:
    """The width of the noise that still covers the rounding, and the step of its lattice.

    Rounding adds at most ``moved`` steps to the sensitivity, and a step is width / steps: solve
    width' / (sensitivity + moved width' / steps) = width / sensitivity.
    """
    check_positive("sensitivity", sensitivity)
    share = moved * width / (steps * sensitivity)
    remedy = "Release them in parts, or spend more: so little epsilon asks for more noise than it can hold."
    check(share < _ROOM, "values", "few enough for the lattice", moved, remedy)
    width /= 1 - share
    return width, width / steps


def _on_lattice(x: Floats, step: float, draw: Callable[[tuple[int, ...]], NDArray[np.int64]]) -> Floats:
    scaled = x / step
    remedy = "Clip the values to the range that the sensitivity speaks of."
    largest = float(np.abs(scaled).max(initial=0))
    check(largest < _LARGEST, "values", "below 2^51 steps of the lattice", largest, remedy)
    return np.asarray((np.rint(scaled).astype(np.int64) + draw(x.shape)) * step)
