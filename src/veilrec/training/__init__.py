"""The `Recommender` base, evaluation, model files, and the loops that train."""

from veilrec.training.files import read_model, save_model
from veilrec.training.recommender import Array, Job, Recommender

__all__ = ["Array", "Job", "Recommender", "read_model", "save_model"]
