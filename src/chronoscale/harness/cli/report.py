"""Reports of runs, and their traces for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import stage
from chronoscale.harness.publish.collect import write_page
from chronoscale.harness.publish.export import export
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.report_folder import DATA


def report(
    folders: Annotated[list[Path], typer.Argument(help="Runs.", metavar="RUN...", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """One HTML page over runs, with the tables as CSV and Markdown and the figures as SVG and PNG."""
    with stage("drawing"):
        page = write_page([Run(folder) for folder in folders], out)
    typer.echo(json.dumps({"page": str(page), **json.loads((page.parent / DATA).read_text())}) if as_json else str(page))


def trace(
    folder: Annotated[Path, typer.Argument(help="A run.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("traces"),
    form: Annotated[
        str, typer.Option("--format", help="perfetto (Chrome trace-event JSON), chakra (execution traces), or simgrid (a script).")
    ] = "perfetto",
    as_json: AsJson = False,
) -> None:
    """Export the traces of a run for a timeline viewer or another simulator."""
    written = export(Run(folder), form, out)
    typer.echo(json.dumps([str(path) for path in written]) if as_json else "\n".join(str(path) for path in written))
