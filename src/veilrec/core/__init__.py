"""Errors, argument checks, named random streams, progress, atomic files and threads: what every room uses."""

from veilrec.core.checks import (
    check,
    check_choice,
    check_count,
    check_fraction,
    check_non_negative,
    check_positive,
)
from veilrec.core.environment import environment
from veilrec.core.errors import BudgetExhausted, CannotFoldIn, DataError, DataWarning, MissingExtra, NotFitted
from veilrec.core.extras import require
from veilrec.core.files import atomic_dir, atomic_path, sha256_file, write_json, write_text
from veilrec.core.progress import bar, track
from veilrec.core.random import stream, stream_seed
from veilrec.core.threads import in_threads, thread_count
from veilrec.core.warn import warn

__all__ = [
    "BudgetExhausted",
    "CannotFoldIn",
    "DataError",
    "DataWarning",
    "MissingExtra",
    "NotFitted",
    "atomic_dir",
    "atomic_path",
    "bar",
    "check",
    "check_choice",
    "check_count",
    "check_fraction",
    "check_non_negative",
    "check_positive",
    "environment",
    "in_threads",
    "require",
    "sha256_file",
    "stream",
    "stream_seed",
    "thread_count",
    "track",
    "warn",
    "write_json",
    "write_text",
]
