"""`Dataset`, readers, named sets, the synthetic world, splits and filters."""

from veilrec.data.dataset import Attribute, Categorical, Dataset, Links, Numeric
from veilrec.data.ids import Ids, encode

__all__ = ["Attribute", "Categorical", "Dataset", "Ids", "Links", "Numeric", "encode"]
