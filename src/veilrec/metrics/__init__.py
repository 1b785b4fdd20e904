"""Ranking and rating metrics as pure functions, the ranking of all items, intervals and paired tests."""

from veilrec.metrics.exposure import coverage, exposure_gini, popularity
from veilrec.metrics.patterns import evaluated_users
from veilrec.metrics.rank import ScoreBlock, rank_all
from veilrec.metrics.ranking import (
    average_precision,
    hit,
    ndcg,
    precision,
    ranking_metrics,
    recall,
    reciprocal_rank,
)
from veilrec.metrics.rating import mae, per_user, rmse, user_mae, user_rmse
from veilrec.metrics.sampled import PositiveRanks, one_positive_ranks, sampled_ranks
from veilrec.metrics.stats import (
    Interval,
    PairedTest,
    bootstrap_interval,
    cliffs_delta,
    cohen_dz,
    holm,
    mean_interval,
    paired_t,
    seed_interval,
    sign_flip_test,
    wilcoxon,
)
from veilrec.metrics.topk import top_k

__all__ = [
    "Interval",
    "PairedTest",
    "PositiveRanks",
    "ScoreBlock",
    "average_precision",
    "bootstrap_interval",
    "cliffs_delta",
    "cohen_dz",
    "coverage",
    "evaluated_users",
    "exposure_gini",
    "hit",
    "holm",
    "mae",
    "mean_interval",
    "ndcg",
    "one_positive_ranks",
    "paired_t",
    "per_user",
    "popularity",
    "precision",
    "rank_all",
    "ranking_metrics",
    "recall",
    "reciprocal_rank",
    "rmse",
    "sampled_ranks",
    "seed_interval",
    "sign_flip_test",
    "top_k",
    "user_mae",
    "user_rmse",
    "wilcoxon",
]
