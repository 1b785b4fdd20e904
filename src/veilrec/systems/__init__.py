"""The recommenders, one file each. ``SYSTEMS`` maps their words on the command line to their classes."""

from pathlib import Path

from veilrec.crypto import VerifyKey
from veilrec.systems.attention import GCN
from veilrec.systems.blurme import BlurMe
from veilrec.systems.bpr import BPR
from veilrec.systems.dp_als import DPALS
from veilrec.systems.dp_gram import DPGram
from veilrec.systems.dp_spectral import DPSpectral
from veilrec.systems.dpae import DPAE
from veilrec.systems.dpmf import DPMF
from veilrec.systems.dpne import DPNE
from veilrec.systems.dprr import DPRR
from veilrec.systems.ease import EASE
from veilrec.systems.gap import GAP
from veilrec.systems.gat import GAT
from veilrec.systems.gerai import GERAI, GERAIPaper
from veilrec.systems.gerai_functional import GERAIFunctional
from veilrec.systems.gerai_users import GERAIUsers
from veilrec.systems.gf_cf import GFCF
from veilrec.systems.graphsage import GraphSAGE
from veilrec.systems.ials import IALS
from veilrec.systems.item_knn import ItemKNN
from veilrec.systems.lapgraph import LapGraphGCN
from veilrec.systems.lightgcn import LightGCN
from veilrec.systems.mf import MF
from veilrec.systems.neumf import NeuMF
from veilrec.systems.ngcf import NGCF
from veilrec.systems.pf_gnr import PFGNR, PFGNRPaper
from veilrec.systems.pf_gnr_sums import PFGNRSums
from veilrec.systems.popularity import Popularity
from veilrec.systems.rap import RAP
from veilrec.training import Recommender, read_model

SYSTEMS: dict[str, type[Recommender]] = {
    system.word: system
    for system in (
        Popularity,
        ItemKNN,
        EASE,
        IALS,
        GFCF,
        MF,
        BPR,
        NeuMF,
        NGCF,
        LightGCN,
        GAT,
        GraphSAGE,
        GCN,
        GERAI,
        GERAIPaper,
        GERAIUsers,
        GERAIFunctional,
        DPMF,
        BlurMe,
        DPGram,
        DPSpectral,
        DPALS,
        DPAE,
        DPNE,
        RAP,
        PFGNR,
        PFGNRPaper,
        PFGNRSums,
        LapGraphGCN,
        DPRR,
        GAP,
    )
}


def load_model(path: str | Path, *, key: VerifyKey | str | Path | None = None) -> Recommender:
    """Read a model that :meth:`Recommender.save` wrote: a folder or a ``.veil`` file.

    What is not a model is refused in a sentence, and so is a statement that was changed. With a ``key``, a
    public one or its file, the model must be signed by it; ``docs/files.md`` has what that says.

    >>> import tempfile
    >>> import veilrec as vr
    >>> model = vr.EASE().fit(vr.synthetic(users=60, items=40, interactions=900))
    >>> path = model.save(Path(tempfile.mkdtemp()) / "ease.veil")
    >>> load_model(path).recommend(["u1"], k=3).equals(model.recommend(["u1"], k=3))
    True
    """
    return read_model(path, SYSTEMS, key=key)


__all__ = [
    "BPR",
    "BlurMe",
    "DPAE",
    "DPALS",
    "DPGram",
    "DPMF",
    "DPNE",
    "DPRR",
    "DPSpectral",
    "EASE",
    "GAP",
    "GAT",
    "GCN",
    "GERAI",
    "GERAIFunctional",
    "GERAIPaper",
    "GERAIUsers",
    "GFCF",
    "GraphSAGE",
    "IALS",
    "ItemKNN",
    "LapGraphGCN",
    "LightGCN",
    "MF",
    "NGCF",
    "NeuMF",
    "PFGNR",
    "PFGNRPaper",
    "PFGNRSums",
    "Popularity",
    "RAP",
    "SYSTEMS",
    "load_model",
]
