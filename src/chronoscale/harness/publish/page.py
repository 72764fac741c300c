"""Page: the report over finished runs, drawn and written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chronoscale.harness.publish.readable import collect_readable
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.report_folder import write


def write_page(runs: Sequence[Run], out: Path) -> Path:
    """Write the HTML page of `chronoscale report` over runs, with tables and figures, to the folder `out`; return its index.html.

    Raises UserError as `collect_readable`.
    """
    return write(collect_readable(runs), out)
