"""`Dataset`, readers, named sets, the synthetic world, splits and filters."""

from veilrec.data import filters, split
from veilrec.data.dataset import Attribute, Categorical, Dataset, Links, Numeric
from veilrec.data.frames import to_kind
from veilrec.data.ids import Ids, encode
from veilrec.data.info import describe
from veilrec.data.split import Split
from veilrec.data.synthetic import synthetic

__all__ = [
    "Attribute",
    "Categorical",
    "Dataset",
    "Ids",
    "Links",
    "Numeric",
    "Split",
    "describe",
    "encode",
    "filters",
    "split",
    "synthetic",
    "to_kind",
]
