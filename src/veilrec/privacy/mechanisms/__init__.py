"""The mechanisms: each states its guarantee, emits its event, and is the only one that draws its noise."""

from veilrec.privacy.mechanisms.gaussian import Gaussian
from veilrec.privacy.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from veilrec.privacy.mechanisms.laplace import Laplace
from veilrec.privacy.mechanisms.mixed import MixedPerturber
from veilrec.privacy.mechanisms.piecewise import Piecewise
from veilrec.privacy.mechanisms.response import BitResponse, CategoryResponse
from veilrec.privacy.mechanisms.shares import ExponentialNormalShares, GammaShares
from veilrec.privacy.mechanisms.skellam import Skellam, modulus, quantise, whole_bounds
from veilrec.privacy.mechanisms.unary import UnaryEncoding

__all__ = [
    "BitResponse",
    "CategoryResponse",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialNormalShares",
    "GammaShares",
    "Gaussian",
    "Laplace",
    "MixedPerturber",
    "Piecewise",
    "Skellam",
    "UnaryEncoding",
    "modulus",
    "quantise",
    "whole_bounds",
]
