"""`Dataset`, readers, named sets, the synthetic world, splits and filters."""

from veilrec.data import filters, split
from veilrec.data.dataset import Attribute, Categorical, Dataset, Links, Numeric
from veilrec.data.draws import id_draws, id_normals, mixed
from veilrec.data.fetch import get
from veilrec.data.format_lightgcn import read_lightgcn
from veilrec.data.frames import to_kind
from veilrec.data.ids import Ids, encode
from veilrec.data.info import Info, describe
from veilrec.data.named import available, cache_dir, imported_dir, load, predefined_split
from veilrec.data.newcomers import extremes_of, like, read_newcomers, scheme_of
from veilrec.data.profiles import (
    AS_NUMBERS,
    Profiles,
    are_numbers,
    binned,
    check_edges,
    profiles,
    rating_statistics,
)
from veilrec.data.read import read
from veilrec.data.split import Split, load_split
from veilrec.data.store import load_dataset, save_dataset
from veilrec.data.synthetic import synthetic

__all__ = [
    "AS_NUMBERS",
    "Attribute",
    "Categorical",
    "Dataset",
    "Ids",
    "Info",
    "Links",
    "Numeric",
    "Profiles",
    "Split",
    "are_numbers",
    "available",
    "binned",
    "cache_dir",
    "check_edges",
    "describe",
    "encode",
    "extremes_of",
    "filters",
    "get",
    "id_draws",
    "id_normals",
    "imported_dir",
    "like",
    "load",
    "load_dataset",
    "load_split",
    "mixed",
    "predefined_split",
    "profiles",
    "rating_statistics",
    "read",
    "read_lightgcn",
    "read_newcomers",
    "save_dataset",
    "scheme_of",
    "split",
    "synthetic",
    "to_kind",
]
