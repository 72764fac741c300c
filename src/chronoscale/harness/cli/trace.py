"""Command `trace`: traces of a run for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.publish.export import export
from chronoscale.harness.runs.run_folder import Run


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
