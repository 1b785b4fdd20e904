"""The recommenders, one file each. ``SYSTEMS`` maps their words on the command line to their classes."""

from pathlib import Path

from veilrec.systems.lightgcn import LightGCN
from veilrec.systems.neumf import NeuMF
from veilrec.systems.ngcf import NGCF
from veilrec.systems.popularity import Popularity
from veilrec.training import Recommender, read_model

SYSTEMS: dict[str, type[Recommender]] = {
    system.word: system for system in (Popularity, NeuMF, NGCF, LightGCN)
}


def load_model(path: str | Path) -> Recommender:
    """Read a model that :meth:`Recommender.save` wrote: a folder or a ``.veil`` file."""
    return read_model(path, SYSTEMS)


__all__ = ["NGCF", "SYSTEMS", "LightGCN", "NeuMF", "Popularity", "load_model"]
