"""Graph recommenders that know the user-item graph from a *report* alone.

    1.  an encoder with noise turns the graph into a report, once        (``privacy/mechanisms/graph_*.py``)
    2.  a graph network spreads its vectors over the report and learns the reported edges as its labels
    3.  lists leave out what the user has, on the user's side

Nothing after step 1 reads the graph, so vectors, scores and everything else computed from them keep the
encoder's epsilon per edge. The lists as shown do not quite: step 3 leaves out true edges, so whoever sees a
person's own list (X) sees that, and no claim is made against them.

The encoders differ, the rest is shared: ``lapgraph.py``, ``dprr.py``, and GNR+LDP in ``pf_gnr.py``.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from veilrec.core import check_choice
from veilrec.data import Dataset
from veilrec.models import Adjacency
from veilrec.privacy import Claim, Event
from veilrec.systems.gat import GAT
from veilrec.systems.graphsage import GraphSAGE
from veilrec.systems.lightgcn import LightGCN
from veilrec.systems.ngcf import NGCF
from veilrec.systems.sizes import check_size
from veilrec.systems.vectors import NETWORK, GraphRecommender
from veilrec.training import SEEN, STOPPING, Job, Labels, Recommender, release_once
from veilrec.training.layout import Layout, places, pointers

GRAPH = "graph report"
MOST_FALSE = 10_000_000
"""Edges that are reported where there are none."""
OWN_LIST = "a user's own list against whoever sees it, since it leaves out what the user has"

BACKBONES: dict[str, type[GraphRecommender]] = {
    system.word: system for system in (LightGCN, NGCF, GAT, GraphSAGE)
}


def report_events(encoder: Any) -> tuple[Event, ...]:
    """What one edge pays for the report, under the labels that :func:`report_graph` draws it with.

    >>> from veilrec.privacy.mechanisms import EdgeResponse, TopDegreeEncoder
    >>> [event.label for event in report_events(TopDegreeEncoder(5.0))]
    ['graph report: cells', 'graph report: degree']
    >>> [event.label for event in report_events(EdgeResponse(5.0))]
    ['graph report']
    """
    if not hasattr(encoder, "events"):
        return (encoder.event.named(GRAPH),)
    return tuple(event.named(f"{GRAPH}: {event.label}") for event in encoder.events)


def check_report(public: Dataset, word: str, encoder: Any) -> None:
    """Refuse noise that would report far more edges than there are, as an epsilon near 0 does.

    >>> import veilrec as vr
    >>> from veilrec.privacy.mechanisms import EdgeResponse
    >>> check_report(vr.synthetic(60, 40, 900), "pf-gnr", EdgeResponse(5.0))
    """
    what = "reported edges that noise adds"
    because, remedy = "a report is held edge by edge", "Spend a larger epsilon, or drop rare items or users."
    got = encoder.added_edges(public.n_users, public.n_items)
    check_size(public, word, got, MOST_FALSE, what, because=because, remedy=remedy)


def report_graph(job: Job, encoder: Any) -> sp.csr_matrix:
    """The report of the job's graph, drawn once; a fit that goes on reads it back.

    >>> import veilrec as vr
    >>> from veilrec.privacy.mechanisms import EdgeResponse
    >>> from veilrec.training import DataGuard
    >>> guard = DataGuard(vr.synthetic(60, 40, 900))
    >>> job = Job(guard.public, None, 0, "cpu", None, False, guard=guard)
    >>> report_graph(job, EdgeResponse(5.0)).shape, guard.looks
    ((60, 40), (('interactions', 'graph report'),))
    """
    assert job.guard is not None
    graph = job.guard.take("interactions", GRAPH).matrix()
    users, items = graph.shape

    def draw() -> Any:
        label = f"{GRAPH}:" if hasattr(encoder, "events") else GRAPH
        told = sp.csr_matrix(encoder.perturb(graph, job.noise.child(GRAPH), label))
        return np.repeat(np.arange(users, dtype=np.int64), np.diff(told.indptr)) * items + told.indices

    rows, columns = np.divmod(release_once(job, GRAPH, draw), items)
    pointer = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=users))])
    ones = np.ones(len(rows), np.float32)
    return sp.csr_matrix((ones, columns.astype(np.int32), pointer.astype(np.int32)), (users, items))


def kept_report(model: Recommender) -> sp.csr_matrix:
    """The reported graph that a fitted model keeps, users x items.

    >>> import veilrec as vr
    >>> model = vr.PFGNR(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
    >>> kept_report(model).shape
    (60, 40)
    """
    pointer, columns = model.private["graph_indptr"], model.private["graph_indices"]
    ones = np.ones(len(columns), np.float32)
    return sp.csr_matrix((ones, columns, pointer), shape=(len(model.users), len(model.items)))


@dataclass(eq=False)
class ReportedGraph(GraphRecommender, ABC):
    """Steps 1 to 3 with an encoder of ``epsilon`` per edge; see the head of this file.

    ``backbone`` is the word of a plain graph recommender (lightgcn, ngcf, gat, graphsage), which gets the
    settings that they have in common; networks with weights want a ``learning_rate`` of 0.005.
    """

    protects: ClassVar[str] = "single interactions"
    reports: ClassVar[tuple[str, ...]] = ("graph_indptr", "graph_indices")
    uncovered: ClassVar[tuple[str, ...]] = (STOPPING, SEEN)
    not_covered: ClassVar[tuple[str, ...]] = (OWN_LIST, "the ids of users and items")
    kept_from: ClassVar[str] = "OSF"
    """Adversaries: with the server if the user encodes alone, without it if a curator encodes for all."""

    epsilon: float = 5.0
    backbone: str = "lightgcn"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("backbone", self.backbone, BACKBONES)
        self._encoder()  # refuses bad settings

    @abstractmethod
    def _encoder(self) -> Any:
        """The mechanism: ``perturb(graph, noise, label)``, and ``event`` or ``events``."""

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return self._plain()._backbone(graph, generator)

    def _plain(self) -> GraphRecommender:
        """The recommender whose backbone this one has."""
        common = [field.name for field in dataclasses.fields(GraphRecommender) if field.init]
        return BACKBONES[self.backbone](**{name: getattr(self, name) for name in common})

    def _check_data(self, public: Dataset) -> None:
        check_report(public, self.word, self._encoder())

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        seen = ("the report of the graph", "everything computed from it: vectors and scores")
        events = report_events(self._encoder())
        about = ("one interaction of a user", "interaction", "add-remove", self.kept_from, seen)
        return (Claim(*about, events, per_user=public.n_items),)  # type: ignore[arg-type]

    def _layout(self) -> Layout:
        graph = {
            "graph_indptr": pointers("users", "graph_indices", rising="strictly"),
            "graph_indices": places("items", "entries"),
        }
        network = {NETWORK + name: spec for name, spec in self._plain()._network_layout().items()}
        return super()._layout() | Layout({}, graph | network)

    def _report(self, job: Job) -> sp.csr_matrix:
        """Step 1; the report is kept as what it is: released."""
        report = report_graph(job, self._encoder())
        self.private |= {"graph_indptr": report.indptr, "graph_indices": report.indices}
        return report

    def _seen(self, job: Job) -> Dataset:
        """What validation leaves out of the lists, if there is any validation."""
        assert job.guard is not None
        return job.train if job.valid is None else job.guard.take("interactions", SEEN)

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        seen, report = self._seen(job), self._report(job)
        job.guard.close("interactions")
        self._train(job, self._graph(report, job), Labels(report), seen)

    def _spread_over(self) -> sp.csr_matrix | None:
        """The report; ablations that report nothing read the graph as it is."""
        return kept_report(self) if "graph_indptr" in self.private else self._history
