"""What the tests of private systems share: how far one user moves what is released, with the noise pinned."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

import veilrec as vr
from veilrec.privacy.mechanisms import Gaussian
from veilrec.training import Recommender

Furthest = Callable[[Callable[[], Recommender], vr.Dataset, Iterable[int]], dict[str, float]]


@pytest.fixture
def furthest(monkeypatch: pytest.MonkeyPatch) -> Furthest:
    """The largest distance, in sensitivities, that removing one of ``users`` moves each release.

    The user is really gone: no id, no row, all later codes shifted. A later release may depend on what an
    earlier one put out, so the outputs of the whole data are replayed to the neighbour: both see the same
    past.
    """

    def transcript(model: Recommender, data: vr.Dataset, replay: list[np.ndarray] | None) -> list:
        seen: list = []
        honest = Gaussian.release

        def release(self, values, noise, label=""):
            exact = np.array(values, np.float64)
            out = honest(self, exact, noise, label)
            out = out if replay is None else replay[len(seen)]
            seen.append((label, self.sensitivity, exact, out))
            return out.copy()

        with monkeypatch.context() as patch:
            patch.setattr(Gaussian, "release", release)
            model.fit(data, seed=3, progress=False, secure=False)
        return seen

    def run(make, data, users):
        whole = transcript(make(), data, None)
        outputs = [out for *_, out in whole]
        worst: dict[str, float] = {}
        for user in users:
            part = transcript(make(), data.without(data.users.take([user])[0]), outputs)
            assert [one[0] for one in part] == [one[0] for one in whole]
            for (label, sensitivity, with_user, _), (_, _, without, _) in zip(whole, part, strict=True):
                distance = float(np.linalg.norm(with_user - without)) / sensitivity
                worst[label] = max(worst.get(label, 0.0), distance)
        return worst

    return run


@pytest.fixture
def awkward() -> vr.Dataset:
    """30 users x 25 items with the extremes: somebody with all items, somebody with one, an item of one."""
    rng = np.random.default_rng(5)
    users, items = np.nonzero(rng.random((30, 25)) < rng.random((30, 1)) * 0.6)
    keep = (users > 3) & (items != 24)
    extra = [(0, item) for item in range(24)] + [(1, 7), (2, 24), (3, 1), (3, 2)]
    pairs = np.array([*zip(users[keep], items[keep], strict=True), *extra])
    # everybody and everything is in the vocabulary, whoever is removed
    return vr.Dataset.from_arrays([f"u{u:02d}" for u in pairs[:, 0]], [f"i{i:02d}" for i in pairs[:, 1]])
