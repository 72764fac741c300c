"""Command `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import stage
from chronoscale.harness.publish.page import write_page
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.report_folder import DATA


def report(
    folders: Annotated[list[Path], typer.Argument(help="Runs.", metavar="RUN...", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """Write one HTML page over runs, with the tables as CSV and Markdown and the figures as SVG and PNG."""
    with stage("drawing"):
        page = write_page([Run(folder) for folder in folders], out)
    typer.echo(json.dumps({"page": str(page), **json.loads((page.parent / DATA).read_text())}) if as_json else str(page))
