"""Command `kineto`, for traces of torch.profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.display.cell import record
from chronoscale.harness.publish.curves import fit_table
from chronoscale.harness.publish.imported_profiles import read_profiles

SHOWN = 20  # names on the terminal, those that take longest


def kineto(
    files: Annotated[list[Path], typer.Argument(help="Traces of torch.profiler.", metavar="FILE...", show_default=False)],
    schedule: Annotated[Path | None, typer.Option(help="What was executed: its rows are the samples.", show_default=False)] = None,
    device: Annotated[str, typer.Option(help="What it ran on; a GPU tells its name.", show_default=False)] = "",
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("kineto"),
    as_json: AsJson = False,
) -> None:
    """Read traces of torch.profiler: what took how long by name, a trace, samples, and costs where there are enough."""
    with stage("reading"):
        profiles = read_profiles(files, schedule, device, out)
    curves = None if profiles.costs is None else fit_table(profiles.costs)
    if as_json:
        rows = {"names": _records(profiles.names), "fits": [] if curves is None else _records(curves)}
        typer.echo(json.dumps({**rows, "said": profiles.notes}))
    else:
        print_table(profiles.names.head(SHOWN), "by name; calls of the host hold those inside them", as_json)
        if curves is not None:
            print_table(curves, "fitted costs", as_json)
    for line in profiles.notes:
        err.print(line, highlight=False, markup=False)
    err.print(f"written: {out}")


def _records(table: pd.DataFrame) -> list[dict[str, object]]:
    return [record({str(key): value for key, value in row.items()}) for row in table.to_dict("records")]
