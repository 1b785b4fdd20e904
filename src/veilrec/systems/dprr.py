"""DPRR (Hidano and Murakami, Transactions on Data Privacy 2024), then a graph recommender on the reports.

Each user alone answers by randomised response and thins the answer so that its length is about the degree.
Left open by the paper, which classifies whole graphs of one kind of node: here a user reports only edges to
items, an item reports nothing, and the reported edges are labels too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilrec.privacy.mechanisms import DegreePreserving
from veilrec.systems.reported_graph import ReportedGraph


@dataclass(eq=False)
class DPRR(ReportedGraph):
    """A graph network on reports by degree-preserving randomised response.

    ``split`` of epsilon goes to the response, the rest to the degree.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = DPRR(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> round(model.guarantee.epsilon, 9), model.guarantee.claims[0].adversaries
    (5.0, 'OSF')
    """

    word: ClassVar[str] = "dprr"
    summary: ClassVar[str] = "graph network on edges told by randomised response that keeps degrees"
    protects: ClassVar[str] = "single interactions, but for a user's own list"

    split: float = 0.9

    def _encoder(self) -> DegreePreserving:
        return DegreePreserving(self.epsilon, self.split)
