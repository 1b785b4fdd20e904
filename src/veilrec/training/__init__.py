"""The `Recommender` base, evaluation, model files, and the loops that train."""

from veilrec.training.evaluation import PROTOCOLS, Evaluation, evaluate, predict_pairs, validation_score
from veilrec.training.files import read_model, save_model, sign_model, signer_of
from veilrec.training.guard import SEEN, STOPPING, Closed, DataGuard
from veilrec.training.job import Array, Job
from veilrec.training.loop import Progress, run_epochs
from veilrec.training.pairwise import bpr_loss, pair_scores
from veilrec.training.private import PrivateTraining
from veilrec.training.recommender import Recommender
from veilrec.training.released import kept_release, release_once
from veilrec.training.sampling import NegativeSampler
from veilrec.training.softmax import (
    Labels,
    descend,
    fit_softmax,
    optimiser_state,
    pick_device,
    softmax_loss,
    torch_stream,
)

__all__ = [
    "Array",
    "Closed",
    "DataGuard",
    "Evaluation",
    "Job",
    "Labels",
    "NegativeSampler",
    "PROTOCOLS",
    "PrivateTraining",
    "Progress",
    "Recommender",
    "SEEN",
    "STOPPING",
    "bpr_loss",
    "descend",
    "evaluate",
    "fit_softmax",
    "kept_release",
    "optimiser_state",
    "pair_scores",
    "pick_device",
    "predict_pairs",
    "read_model",
    "release_once",
    "run_epochs",
    "save_model",
    "sign_model",
    "signer_of",
    "softmax_loss",
    "torch_stream",
    "validation_score",
]
