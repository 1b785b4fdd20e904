"""LapGraph (Wu, Long, Zhang and Li, "LinkTeller", IEEE S&P 2022), then a graph recommender on its release.

A trusted curator adds Laplace noise to every cell of the whole graph and keeps the largest, as many as a
noisy count of edges says. Left open by the paper, which classifies nodes of one kind: here the graph has two
kinds, so a cell is a pair of user and item and is drawn once, and the released edges are labels too, since
in recommendation edges are what is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilrec.privacy.mechanisms import LapGraph
from veilrec.systems.reported_graph import ReportedGraph


@dataclass(eq=False)
class LapGraphGCN(ReportedGraph):
    """A graph network on a graph released by LapGraph; ``count_share`` of epsilon goes to the count.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = LapGraphGCN(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 9), model.guarantee.claims[0].adversaries
    (5.0, 'OF')
    """

    word: ClassVar[str] = "lapgraph"
    summary: ClassVar[str] = "graph network on a graph with Laplace noise, released by a curator"
    protects: ClassVar[str] = "single interactions, from all but a trusted curator"
    kept_from: ClassVar[str] = "OF"

    count_share: float = 0.01

    def _encoder(self) -> LapGraph:
        return LapGraph(self.epsilon, self.count_share)
