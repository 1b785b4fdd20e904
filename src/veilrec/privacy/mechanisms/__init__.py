"""The mechanisms: each states its guarantee, emits its event, and is the only one that draws its noise."""

from veilrec.privacy.mechanisms.gaussian import Gaussian
from veilrec.privacy.mechanisms.laplace import Laplace
from veilrec.privacy.mechanisms.response import BitResponse, CategoryResponse

__all__ = [
    "BitResponse",
    "CategoryResponse",
    "Gaussian",
    "Laplace",
]
