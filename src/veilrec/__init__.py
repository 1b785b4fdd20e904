"""veilrec: recommenders that keep their users' secrets, say which, from whom and at what price.

>>> import veilrec as vr
>>> parts = vr.split.holdout(vr.synthetic(users=60, items=40, interactions=900), test=0.2, seed=1)
>>> model = vr.EASE(regularization=50).fit(parts.train)
>>> list(model.recommend(["u17"], k=3).columns)
['user', 'item', 'rank', 'score']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from veilrec.attacks import attack as attack
    from veilrec.data import Dataset as Dataset
    from veilrec.data import Split as Split
    from veilrec.data import describe as describe
    from veilrec.data import filters as filters
    from veilrec.data import load as load
    from veilrec.data import read as read
    from veilrec.data import split as split
    from veilrec.data import synthetic as synthetic
    from veilrec.experiments.compare import compare as compare
    from veilrec.privacy import Guarantee as Guarantee
    from veilrec.systems import BPR as BPR
    from veilrec.systems import DPAE as DPAE
    from veilrec.systems import DPALS as DPALS
    from veilrec.systems import DPMF as DPMF
    from veilrec.systems import DPNE as DPNE
    from veilrec.systems import DPRR as DPRR
    from veilrec.systems import EASE as EASE
    from veilrec.systems import GAP as GAP
    from veilrec.systems import GAT as GAT
    from veilrec.systems import GCN as GCN
    from veilrec.systems import GERAI as GERAI
    from veilrec.systems import GFCF as GFCF
    from veilrec.systems import IALS as IALS
    from veilrec.systems import MF as MF
    from veilrec.systems import NGCF as NGCF
    from veilrec.systems import PFGNR as PFGNR
    from veilrec.systems import RAP as RAP
    from veilrec.systems import BlurMe as BlurMe
    from veilrec.systems import DPGram as DPGram
    from veilrec.systems import DPSpectral as DPSpectral
    from veilrec.systems import GERAIFunctional as GERAIFunctional
    from veilrec.systems import GERAIPaper as GERAIPaper
    from veilrec.systems import GERAIUsers as GERAIUsers
    from veilrec.systems import GraphSAGE as GraphSAGE
    from veilrec.systems import ItemKNN as ItemKNN
    from veilrec.systems import LapGraphGCN as LapGraphGCN
    from veilrec.systems import LightGCN as LightGCN
    from veilrec.systems import NeuMF as NeuMF
    from veilrec.systems import PFGNRPaper as PFGNRPaper
    from veilrec.systems import PFGNRSums as PFGNRSums
    from veilrec.systems import Popularity as Popularity
    from veilrec.systems import load_model as load_model
    from veilrec.training import Evaluation as Evaluation
    from veilrec.training import Recommender as Recommender
    from veilrec.training import evaluate as evaluate

_ROOM_OF = {
    "BPR": "systems",
    "BlurMe": "systems",
    "DPAE": "systems",
    "DPALS": "systems",
    "DPGram": "systems",
    "DPMF": "systems",
    "DPNE": "systems",
    "DPRR": "systems",
    "DPSpectral": "systems",
    "Dataset": "data",
    "EASE": "systems",
    "Evaluation": "training",
    "GAP": "systems",
    "GAT": "systems",
    "GCN": "systems",
    "GERAI": "systems",
    "GERAIFunctional": "systems",
    "GERAIPaper": "systems",
    "GERAIUsers": "systems",
    "GFCF": "systems",
    "GraphSAGE": "systems",
    "Guarantee": "privacy",
    "IALS": "systems",
    "ItemKNN": "systems",
    "LapGraphGCN": "systems",
    "LightGCN": "systems",
    "MF": "systems",
    "NGCF": "systems",
    "NeuMF": "systems",
    "PFGNR": "systems",
    "PFGNRPaper": "systems",
    "PFGNRSums": "systems",
    "Popularity": "systems",
    "RAP": "systems",
    "Recommender": "training",
    "Split": "data",
    "attack": "attacks",
    "compare": "experiments",
    "describe": "data",
    "evaluate": "training",
    "filters": "data",
    "load": "data",
    "load_model": "systems",
    "read": "data",
    "split": "data",
    "synthetic": "data",
}

__all__ = sorted(_ROOM_OF)


def __getattr__(name: str) -> Any:
    """Import on first use, so that `veilrec --help` does not wait for torch."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'veilrec' has no attribute {name!r}")
    return getattr(importlib.import_module(f"veilrec.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_ROOM_OF, "__version__"])
