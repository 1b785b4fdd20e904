"""All tables and figures that `veilrec reproduce` knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veilrec.core import check_choice
from veilrec.experiments.gerai_tables import GERAI_TABLES
from veilrec.experiments.pfgnr_tables import PFGNR_TABLES
from veilrec.experiments.tables import PaperTable, reproduce_table

TABLES: dict[str, PaperTable] = {**GERAI_TABLES, **PFGNR_TABLES}


def reproduce(name: str, out: str | Path, **options: Any) -> dict[str, Any]:
    """The record of a paper's table beside ours; ``options`` are those of :func:`reproduce_table`.

    >>> reproduce("gerai-table9", "nowhere")
    Traceback (most recent call last):
        ...
    ValueError: table must be one of gerai-table2, ..., got 'gerai-table9'. Did you mean 'gerai-table...'?
    """
    check_choice("table", name, TABLES)
    return reproduce_table(name, TABLES[name], out, **options)
