"""PF-GNR: a private graph recommender (Wang et al., Chinese J. of Computers 2025), certified and published.

``PFGNRPaper`` is the paper's algorithm 3:

    device   1.  report the own edges once, with noise on cells and degree     (algorithm 1, epsilon per edge)
    server   2.  build the graph of all reports; spread vectors over it with a graph network
    device   3.  from the vectors it is sent, compute the loss on the *true* edges and its gradient, encrypted
    server   4.  decrypt the sum over the devices, step down; again from 2

Step 3 is why it is accurate, and why no epsilon holds for what comes out: the labels enter without noise, and
encryption hides single messages, not what their sum says (``pf_gnr_clients.py``). "Post-processing" of the
report would have to leave the true edges alone.

``PFGNR`` is the certified twin A, with epsilon per edge against everybody and for everything that leaves a
device:

    device   1.  report every edge bit once by randomised response
    server   2.  spread vectors over the report, put right for its lies      (``models/debiased.py``)
             3.  learn the reported edges as labels, put right likewise; publish the item vectors
    device   4.  fit the own vector to the true edges by a ridge on the item vectors; rank what it has not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from veilrec.core import check, check_choice, check_positive
from veilrec.crypto import SUMS
from veilrec.data import Dataset
from veilrec.models import Adjacency, DebiasedAdjacency, LightGCNBackbone
from veilrec.privacy import Claim, UnboundedEvent
from veilrec.privacy.mechanisms import EdgeResponse, TopDegreeEncoder
from veilrec.systems.device_sums import check_devices, check_key_bits, check_messages, check_provable, summing
from veilrec.systems.dpmf import ridge
from veilrec.systems.pf_gnr_rounds import SeenRound, fit_rounds, largest_batch, play_rounds, round_grid
from veilrec.systems.reported_graph import (
    MOST_FALSE,
    OWN_LIST,
    ReportedGraph,
    check_report,
    kept_report,
    report_events,
    report_graph,
)
from veilrec.systems.vectors import GraphRecommender, Scored
from veilrec.training import SEEN, STOPPING, Array, Job, Labels, Recommender, pick_device, torch_stream
from veilrec.training.layout import Layout, floats, places, pointers

LABELS = "true edges as labels of the loss"
OWN = "a user's interactions for the user's own vector and list"
_REASONS = {
    "": "the true edges enter the loss without noise, and the server decrypts the sum of their gradients",
    "GNR": "graph and labels are read as they are",
    "HE": "graph and labels are read as they are; encryption hides messages, not what their sum says",
}

PRINTED: dict[str, Any] = {
    "loss": "bpr",
    "batches": 1,
    "epochs": 300,
    "learning_rate": 0.001,
    "weight_decay": 1e-8,
    "user_power": 1.0,
    "norm_power": 1.0,
    "patience": 10,
    "validate_every": 1,
}
"""The paper's settings, for PFGNRPaper(**PRINTED); docs/decisions/0005-pf-gnr.md says how they were read."""


@dataclass(eq=False)
class PFGNRPaper(ReportedGraph):
    """PF-GNR as published: reports of ``epsilon`` per edge, a ``split`` of it for the cells; true labels.

    PF-NGCF, PF-GAT and PF-GSage are ``backbone`` "ngcf", "gat" and "graphsage". ``ablation`` has the paper's
    names: "GNR" takes graph and labels as they are, "LDP" (GNR+LDP) learns from the report alone, "HE"
    (GNR+HE) encrypts only: over ``sums`` it differs from GNR by rounding, in one place not at all. ``loss``
    is "bpr" in the paper: see ``PRINTED``.

    ``sums`` is how the devices' gradients are added: "" differentiates the loss in one place; "plain",
    "paillier" (with a key of ``key_bits``, 2048 or 3072), "shared" and "masked" play the rounds of
    ``pf_gnr_rounds.py``, with the same bits for all. None changes a claim: encryption hides single messages,
    and what the server decrypts has no noise.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = PFGNRPaper(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> [(claim.secret, round(claim.epsilon, 9)) for claim in model.guarantee.claims]
    [('one interaction, in the report alone', 5.0), ('one interaction of a user', inf)]
    """

    word: ClassVar[str] = "pf-gnr-paper"
    summary: ClassVar[str] = "graph network on perturbed edges, trained on true ones, as published"
    protects: ClassVar[str] = "single interactions in the upload; not after training"
    uncovered: ClassVar[tuple[str, ...]] = (LABELS, STOPPING)
    paper_claim: ClassVar[str] = (
        "epsilon-edge-LDP from collecting the data to releasing the model, by post-processing"
    )

    split: float = 0.9
    ablation: Literal["", "GNR", "LDP", "HE"] = ""
    sums: str = ""
    key_bits: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ablation", self.ablation, ["", "GNR", "LDP", "HE"])
        check_choice("sums", self.sums, ["", *SUMS])
        nothing = bool(self.sums) and self.ablation in ("GNR", "LDP")
        remedy = "It has no devices that hold labels, so there is nothing to encrypt."
        check(not nothing, "sums", f"'' with ablation {self.ablation!r}", self.sums, remedy)
        check_key_bits(self.key_bits, self.sums)

    def _check_data(self, public: Dataset) -> None:
        if self.ablation not in ("GNR", "HE"):
            check_report(public, self.word, self._encoder())
        if self.sums:
            check_devices(public.n_users)
            code = round_grid(self, public.n_items, public.n_users)  # refuses what no grid can hold
            widest = self.embedding_size * (self.layers + 1)  # NGCF's vectors have all layers side by side
            check_provable(self.sums, code, (public.n_items + public.n_users) * widest + 2)
            most = largest_batch(self.batches, public.n_users)
            length = (public.n_items + most) * (
                widest if self.backbone == "ngcf" else self.embedding_size
            ) + 2
            check_messages(public, self.word, self.sums, most, length)

    def _encoder(self) -> TopDegreeEncoder:
        return TopDegreeEncoder(self.epsilon, self.split)

    @property
    def _leak(self) -> UnboundedEvent:
        return UnboundedEvent(reason=_REASONS[self.ablation], label=LABELS)

    def _layout(self) -> Layout:
        found = super()._layout()
        if self.ablation not in ("GNR", "HE"):
            return found
        own = {name: spec for name, spec in found.private.items() if name not in self.reports}
        return Layout(found.shared, own)  # nothing is reported

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        if self.ablation == "LDP":
            return super()._claims(public)
        seen = ("sums that the server decrypts", "model", "lists")
        training = Claim(
            "one interaction of a user", "interaction", "add-remove", "OXSF", seen, (self._leak,)
        )
        if self.ablation:
            return (training,)
        words, events = "one interaction, in the report alone", report_events(self._encoder())
        about = (words, "interaction", "add-remove", "OXSF", ("the report of the graph",))
        return Claim(*about, events, per_user=public.n_items), training  # type: ignore[arg-type]

    def _fit(self, job: Job) -> None:
        if self.ablation == "LDP":
            super()._fit(job)
            return
        known = job.take_bare("interactions", self._leak)
        graph = known.matrix() if self.ablation else self._report(job)
        self._train(job, self._graph(graph, job), Labels(known.matrix()), known)

    def _train(
        self, job: Job, graph: Adjacency, labels: Labels, seen: Dataset, scored: Scored | None = None
    ) -> None:
        if not self.sums:
            super()._train(job, graph, labels, seen, scored)
            return
        backbone = self._backbone(graph, torch_stream(job.seed, self.word, "init"))

        def final() -> tuple[Array, Array]:
            with torch.no_grad():
                return self._scored(*backbone())

        make = summing(self.sums, bits=self.key_bits)
        fit_rounds(job, self, backbone, final, labels.matrix, seen, make)
        self.private["user_vectors"], self.shared["item_vectors"] = final()
        self._finish(backbone, graph)

    def view(self, adversary: str = "X") -> dict[str, Any]:
        """What an adversary sees (:meth:`GraphRecommender.view`); "S" has the ``sums`` of training too.

        ``sums(rounds)`` gives what the server decrypts in so many rounds, a tuple for each
        (``pf_gnr_rounds.SeenRound``). A model keeps no transcript of its training, so the rounds are played
        on the fitted one; with ``sums=""`` too, which computes in one place what a server would decrypt.
        "GNR" and "LDP" have no devices that hold labels, and no sums.

        >>> import veilrec as vr
        >>> model = PFGNRPaper(epochs=1, embedding_size=4).fit(vr.synthetic(60, 40, 900), progress=False)
        >>> [one.rows.shape for one in model.view("S")["sums"](2)]
        [(60, 4), (60, 4)]
        """
        seen = super().view(adversary)
        if adversary == "S" and self.ablation in ("", "HE") and self._history is not None:
            seen["sums"] = self._play
        return seen

    def _play(self, rounds: int, devices: Array | None = None, seed: int = 0) -> list[SeenRound]:
        vectors = self.private["user_vectors"], self.shared["item_vectors"]
        return play_rounds(self, vectors, self.history, rounds, devices, seed)


@dataclass(eq=False)
class PFGNR(GraphRecommender):
    """PF-GNR's certified twin A: ``epsilon`` per edge, pure, for all that leaves a device.

    ``thinning`` is the share of the reported edges that is sent; None is the largest that keeps the expected
    number of false ones below ten million, which follows from users, items and epsilon alone. ``shrinkage``
    is the ridge of a device's own fit, as a share of the mean eigenvalue of the item vectors' Gram matrix. A
    new user is served in the same way, from their own items. With ``loss`` "bpr", which is not linear in the
    labels, these are the report as it is.

    >>> from veilrec.data import synthetic
    >>> data = synthetic(users=60, items=40, interactions=900, seed=1)
    >>> model = PFGNR(epochs=2, embedding_size=8).fit(data, progress=False)
    >>> model.guarantee.epsilon, model.guarantee.claims[0].adversaries
    (5.0, 'OSF')
    """

    word: ClassVar[str] = "pf-gnr"
    summary: ClassVar[str] = "LightGCN on edges told by randomised response; own vectors stay on the device"
    protects: ClassVar[str] = "single interactions, but for a user's own list"
    reports: ClassVar[tuple[str, ...]] = ("graph_indptr", "graph_indices")
    server_sees: ClassVar[tuple[str, ...] | None] = (*reports, "reported_user_vectors")
    uncovered: ClassVar[tuple[str, ...]] = (OWN, STOPPING, SEEN)
    not_covered: ClassVar[tuple[str, ...]] = (
        OWN_LIST + ", and is made from it",
        "the ids of users and items",
    )

    norm_power: float = 1.0
    epsilon: float = 5.0
    thinning: float | None = None
    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("shrinkage", self.shrinkage)
        self.encoder(1, 1)  # refuses bad settings

    @classmethod
    def paper(cls, **settings: object) -> PFGNRPaper:
        """The system as published.

        >>> PFGNR.paper(ablation="LDP").word
        'pf-gnr-paper'
        """
        return PFGNRPaper(**settings)  # type: ignore[arg-type]

    @classmethod
    def variants(cls) -> dict[str, type[Recommender]]:
        """The certified twins by what they protect.

        >>> sorted(PFGNR.variants())
        ['edges', 'users']
        """
        from veilrec.systems.pf_gnr_sums import PFGNRSums

        return {"edges": PFGNR, "users": PFGNRSums}

    def encoder(self, users: int, items: int) -> EdgeResponse:
        """Randomised response, thinned by the public rule.

        >>> PFGNR(epsilon=5).encoder(6040, 3706).thinning
        1.0
        >>> round(PFGNR(epsilon=1).encoder(29858, 40981).thinning, 3)
        0.03
        """
        if self.thinning is not None:
            return EdgeResponse(self.epsilon, self.thinning)
        whole = EdgeResponse(self.epsilon)
        return EdgeResponse(self.epsilon, min(1.0, MOST_FALSE / max(whole.p0 * users * items, 1e-12)))

    def _check_data(self, public: Dataset) -> None:
        check_report(public, self.word, self.encoder(public.public_users, public.n_items))

    def _claims(self, public: Dataset) -> tuple[Claim, ...]:
        seen = ("the report of the graph", "everything computed from it: item vectors, the whole server")
        events = report_events(self.encoder(public.public_users, public.n_items))
        about = ("one interaction of a user", "interaction", "add-remove", "OSF", seen)
        return (Claim(*about, events, per_user=public.n_items),)  # type: ignore[arg-type]

    def _layout(self) -> Layout:
        report = {
            "graph_indptr": pointers("users", "graph_indices", rising="strictly"),
            "graph_indices": places("items", "entries"),
            "reported_user_vectors": floats("users", "size"),
        }
        return super()._layout() | Layout({}, report)

    def _backbone(self, graph: Adjacency, generator: torch.Generator) -> nn.Module:
        return LightGCNBackbone(graph, self.embedding_size, self.layers, generator)

    def _fit(self, job: Job) -> None:
        assert job.guard is not None
        seen = job.train if job.valid is None else job.guard.take("interactions", SEEN)
        own = job.guard.take("interactions", OWN).matrix()  # stays on the devices
        encoder = self.encoder(job.train.public_users, job.train.n_items)
        report = report_graph(job, encoder)
        job.guard.close("interactions")
        self.private |= {"graph_indptr": report.indptr, "graph_indices": report.indices}
        graph = DebiasedAdjacency(report, encoder.p1, encoder.p0, pick_device(job.device))

        def scored(users: Tensor, items: Tensor) -> tuple[Array, Array]:
            vectors = self._scored(users, items)[1]
            return self._own_vectors(own, vectors), vectors

        self._train(job, graph, Labels(report, encoder.p1, encoder.p0), seen, scored)

    def _operator(self, graph: sp.csr_matrix) -> Adjacency:
        users = graph.shape[0] if self._plan is None else self._plan.users
        encoder = self.encoder(users, graph.shape[1])
        return DebiasedAdjacency(graph, encoder.p1, encoder.p0)

    def _spread_over(self) -> sp.csr_matrix | None:
        """The report, which is the server's."""
        return kept_report(self) if "graph_indptr" in self.private else None

    def _finish(self, backbone: nn.Module, graph: Adjacency) -> None:
        with torch.no_grad():
            self.private["reported_user_vectors"] = backbone()[0].cpu().numpy()

    def _own_vectors(self, rows: sp.csr_matrix, items: Array) -> Array:
        """Step 4 on every device at once: argmin_z |r_u - V z|^2 + shrinkage (mean eigenvalue) |z|^2."""
        design = items.astype(np.float64)
        mean = max(float(np.square(design).sum()) / design.shape[1], 1e-12)
        return ridge(rows, design, self.shrinkage * mean).astype(np.float32)

    def _score_histories(self, histories: sp.csr_matrix) -> Array:
        items = self.shared["item_vectors"]
        return np.asarray(self._own_vectors(histories, items) @ items.T, np.float32)
