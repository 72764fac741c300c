"""Command `replay`, for traces of other tools. It needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.publish.imported_traces import replay_chakra
from chronoscale.reports.strategy_result import EXTRAPOLATED
from chronoscale.reports.table_formats import MARKED


def replay(
    files: Annotated[list[Path], typer.Argument(help="A Chakra execution trace, a file a rank.", metavar="FILE...", show_default=False)],
    cluster: Annotated[str, typer.Option(help="A cluster's name, or its file (YAML).")] = "h200",
    device: Annotated[str, typer.Option(help="What was traced, where the trace does not say.", show_default=False)] = "",
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("replayed"),
    as_json: AsJson = False,
) -> None:
    """Replay a Chakra execution trace on a cluster: computation as recorded, scaled to another device; the network as the cluster's."""
    with stage("replaying"):
        table = replay_chakra(files, cluster, device, out)
    print_table(table, f"recorded, and replayed on {cluster}", as_json)
    if table["sources"].str.contains(EXTRAPOLATED).any():
        err.print(MARKED, highlight=False, markup=False)
    err.print(f"schedule, trace, timeline: {out}")
