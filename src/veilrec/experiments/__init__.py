"""A spec in, a JSON record out: runs, comparisons, tuning, and the files they leave behind."""

from veilrec.experiments.compare import Comparison, compare, run_plan
from veilrec.experiments.config import load_config, load_plan, make_model
from veilrec.experiments.pages import plot_table, table_page, write_table
from veilrec.experiments.papers import TABLES, reproduce
from veilrec.experiments.plots import plot_comparison
from veilrec.experiments.records import (
    attack_record,
    command_line,
    find_records,
    leading_metrics,
    metric_parts,
    read_record,
    write_record,
)
from veilrec.experiments.run import Run, evaluate_run, fit_run, open_run
from veilrec.experiments.sources import load_data, make_split
from veilrec.experiments.spaces import SPACES, Choice, Range
from veilrec.experiments.specs import NULL_MODEL, DataSpec, Entry, EvaluateSpec, Experiment, Plan, SplitSpec
from veilrec.experiments.tune import Tuning, tune

__all__ = [
    "Choice",
    "Comparison",
    "DataSpec",
    "Entry",
    "EvaluateSpec",
    "Experiment",
    "NULL_MODEL",
    "Plan",
    "Range",
    "Run",
    "SPACES",
    "SplitSpec",
    "TABLES",
    "Tuning",
    "attack_record",
    "command_line",
    "compare",
    "evaluate_run",
    "find_records",
    "fit_run",
    "leading_metrics",
    "load_config",
    "load_data",
    "load_plan",
    "make_model",
    "make_split",
    "metric_parts",
    "open_run",
    "plot_comparison",
    "plot_table",
    "read_record",
    "reproduce",
    "run_plan",
    "table_page",
    "tune",
    "write_record",
    "write_table",
]
