"""What `veilrec tune` searches: for each model the range of each setting worth tuning.

A range is a pair of numbers or a list of choices; ``log`` draws evenly in the exponent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veilrec.core import check


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; whole ones if both ends are.

    >>> Range(1, 4).whole, Range(1e-4, 1e-1, log=True).whole
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check(self.low < self.high, "low", f"below high, {self.high!r}", self.low)
        check(not self.log or self.low > 0, "low", "above 0 where log is set", self.low)

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True)
class Choice:
    """One of a few values.

    >>> SPACES["ials"]["embedding_size"]
    Choice(values=(16, 32, 64, 128))
    """

    values: tuple[Any, ...]


_GRAPH: Mapping[str, Range | Choice] = {
    "embedding_size": Choice((32, 64, 128)),
    "layers": Range(1, 4),
    "temperature": Range(0.05, 0.4, log=True),
    "learning_rate": Range(1e-3, 5e-2, log=True),
    "weight_decay": Range(1e-8, 1e-4, log=True),
    "user_power": Range(0.0, 1.0),
    "norm_power": Range(0.0, 1.0),
}

_ATTENTION: Mapping[str, Range | Choice] = {
    "embedding_size": Choice((20, 40, 60, 80, 100)),
    "learning_rate": Range(1e-3, 2e-2, log=True),
    "weight_decay": Range(1e-5, 1e-2, log=True),
}

SPACES: Mapping[str, Mapping[str, Range | Choice]] = {
    "item-knn": {"neighbours": Range(10, 500, log=True), "shrinkage": Range(0.1, 1000.0, log=True)},
    "ease": {"regularization": Range(1.0, 5000.0, log=True)},
    "ials": {
        "embedding_size": Choice((16, 32, 64, 128)),
        "alpha": Range(0.1, 50.0, log=True),
        "regularization": Range(1e-3, 10.0, log=True),
    },
    "gf-cf": {"rank": Range(8, 512, log=True), "alpha": Range(0.01, 3.0, log=True)},
    "mf": {"embedding_size": Choice((4, 8, 16, 32, 64)), "regularization": Range(1e-3, 10.0, log=True)},
    "bpr": {
        "embedding_size": Choice((16, 32, 64, 128)),
        "learning_rate": Range(5e-3, 0.3, log=True),
        "regularization": Range(1e-4, 0.1, log=True),
    },
    "neumf": {
        "embedding_size": Choice((8, 16, 32, 64)),
        "negatives": Range(1, 8),
        "learning_rate": Range(3e-4, 1e-2, log=True),
        "weight_decay": Range(1e-8, 1e-4, log=True),
    },
    "ngcf": {**_GRAPH, "dropout": Range(0.0, 0.5)},
    "lightgcn": _GRAPH,
    "gat": _GRAPH,
    "graphsage": _GRAPH,
    "gcn": _ATTENTION,
    "gerai": _ATTENTION,
    "gerai-paper": _ATTENTION,
    "gerai-users": {
        "embedding_size": Choice((8, 16, 32)),
        "learning_rate": Range(2e-3, 5e-2, log=True),
        "clip_norm": Range(0.05, 2.0, log=True),
        "epochs": Range(5, 60),
    },
    "gerai-functional": {
        "popular_items": Choice((100, 200, 400, 1000)),
        "embedding_size": Choice((8, 16, 32)),
        "scale": Range(0.5, 10.0, log=True),
        "exponent": Range(0.0, 1.0),
    },
    "dpmf": {"embedding_size": Choice((8, 16, 32, 64)), "regularization": Range(1.0, 1000.0, log=True)},
    "blurme": {
        "embedding_size": Choice((16, 32, 64, 128)),
        "learning_rate": Range(5e-3, 0.3, log=True),
        "regularization": Range(1e-4, 0.1, log=True),
    },
    "dp-gram": {
        "popular_items": Choice((100, 200, 400, 1000)),
        "filter": Choice(("pca", "ease")),
        "rank": Range(8, 256, log=True),
        "shrinkage": Range(0.3, 1.5),
        "exponent": Range(0.0, 1.0),
    },
    "dp-spectral": {
        "rank": Range(8, 128, log=True),
        "iterations": Range(1, 6),
        "clip": Range(0.05, 1.0, log=True),
        "exponent": Range(0.0, 1.0),
    },
    "dp-als": {
        "embedding_size": Choice((8, 16, 32)),
        "rounds": Range(1, 6),
        "alpha": Range(0.1, 20.0, log=True),
        "regularization": Range(1e-3, 1.0, log=True),
        "item_ridge": Range(0.01, 10.0, log=True),
    },
    "dpae": {
        "embedding_size": Choice((4, 8, 16, 32)),
        "learning_rate": Range(3e-3, 0.1, log=True),
        "clip_norm": Range(0.05, 2.0, log=True),
        "epochs": Range(5, 40),
    },
    "dpne": {"embedding_size": Choice((8, 16, 32, 64)), "regularization": Range(1.0, 1000.0, log=True)},
    "rap": {
        "embedding_size": Choice((16, 32, 64)),
        "alpha": Range(0.01, 1.0, log=True),
        "learning_rate": Range(1e-3, 5e-2, log=True),
        "weight_decay": Range(1e-6, 1e-3, log=True),
    },
    "pf-gnr": {**_GRAPH, "shrinkage": Range(1e-3, 10.0, log=True)},
    "pf-gnr-sums": {
        "embedding_size": Choice((16, 32, 64)),
        "learning_rate": Range(3e-3, 3e-2, log=True),
        "clip_norm": Range(0.05, 0.5, log=True),
        "temperature": Range(0.1, 0.5, log=True),
        "epochs": Range(5, 60),
    },
    "pf-gnr-paper": {**_GRAPH, "split": Range(0.5, 0.95)},
    "lapgraph": _GRAPH,
    "dprr": {**_GRAPH, "split": Range(0.5, 0.95)},
    "gap": {
        "embedding_size": Choice((16, 32, 64, 128)),
        "hops": Range(2, 5),
        "learning_rate": Range(3e-3, 5e-2, log=True),
        "weight_decay": Range(1e-6, 1e-2, log=True),
    },
}
"""What is searched for each model; popularity has nothing to tune."""
