"""The mechanisms: each states its guarantee, emits its event, and is the only one that draws its noise."""

from veilrec.privacy.mechanisms.aggregation import AggregationPerturbation
from veilrec.privacy.mechanisms.functional import FunctionalMechanism, PairLoss, packed, unpacked
from veilrec.privacy.mechanisms.functional_paper import PaperFunctional
from veilrec.privacy.mechanisms.gaussian import Gaussian
from veilrec.privacy.mechanisms.graph import Edges
from veilrec.privacy.mechanisms.graph_degree import TopDegreeEncoder
from veilrec.privacy.mechanisms.graph_laplace import GaussianAdjacency, LapGraph
from veilrec.privacy.mechanisms.graph_preserving import DegreePreserving
from veilrec.privacy.mechanisms.graph_response import EdgeRand, EdgeResponse
from veilrec.privacy.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from veilrec.privacy.mechanisms.laplace import Laplace
from veilrec.privacy.mechanisms.mixed import MixedPerturber
from veilrec.privacy.mechanisms.objective import ObjectivePerturbation
from veilrec.privacy.mechanisms.piecewise import Piecewise
from veilrec.privacy.mechanisms.response import BitResponse, CategoryResponse
from veilrec.privacy.mechanisms.shares import ExponentialNormalShares, GammaShares
from veilrec.privacy.mechanisms.skellam import Skellam, modulus, quantise, whole_bounds
from veilrec.privacy.mechanisms.unary import UnaryEncoding

__all__ = [
    "AggregationPerturbation",
    "BitResponse",
    "CategoryResponse",
    "DegreePreserving",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EdgeRand",
    "EdgeResponse",
    "Edges",
    "ExponentialNormalShares",
    "FunctionalMechanism",
    "GammaShares",
    "Gaussian",
    "GaussianAdjacency",
    "LapGraph",
    "Laplace",
    "MixedPerturber",
    "ObjectivePerturbation",
    "PairLoss",
    "PaperFunctional",
    "Piecewise",
    "Skellam",
    "TopDegreeEncoder",
    "UnaryEncoding",
    "modulus",
    "packed",
    "quantise",
    "unpacked",
    "whole_bounds",
]
