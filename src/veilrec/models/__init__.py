"""Backbones and kernels: they map tensors to scores and know nothing of files, loops or devices."""

from veilrec.models.attention_gcn import AttentionGCN, Neighbourhoods, attend
from veilrec.models.debiased import DebiasedAdjacency
from veilrec.models.gat import GATBackbone
from veilrec.models.graph import LightGCNBackbone, NGCFBackbone
from veilrec.models.neumf import NeuMFBackbone
from veilrec.models.propagation import Adjacency, gather_rows, propagate, propagate_mean
from veilrec.models.sage import GraphSAGEBackbone

__all__ = [
    "Adjacency",
    "AttentionGCN",
    "DebiasedAdjacency",
    "GATBackbone",
    "GraphSAGEBackbone",
    "LightGCNBackbone",
    "NGCFBackbone",
    "Neighbourhoods",
    "NeuMFBackbone",
    "attend",
    "gather_rows",
    "propagate",
    "propagate_mean",
]
