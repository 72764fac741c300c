"""Commands `cluster list` and `cluster fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.simulator import presets
from chronoscale.simulator.network.measured.comparison import fit_and_compare


def cluster_list(as_json: AsJson = False) -> None:
    """List the clusters that can be simulated by name, with what their links reach."""
    rows = []
    for name in presets.names():
        cluster = presets.cluster(name)
        links = {key: link.rate / 1e9 for key, link in (("inside", cluster.intra), ("between", cluster.inter), ("bus", cluster.device.h2d))}
        of = {"cluster": name, "device": cluster.device.name, "machines": cluster.nodes, "gpus": cluster.gpus}
        rows.append({**of, **{f"{key}_gb_s": rate for key, rate in links.items()}, "origin": cluster.origin})
    print_table(pd.DataFrame(rows), "clusters; what links reach in one direction, a GPU's share", as_json)


def fit(
    files: Annotated[
        list[Path],
        typer.Argument(help="Outputs of nccl-tests, OSU, nvbandwidth, ib_write_bw.", metavar="FILE...", show_default=False),
    ],
    base: Annotated[str, typer.Option(help="Cluster that it was measured on: a name, or its file (YAML).", show_default=False)],
    out: Annotated[Path, typer.Option(help="Cluster file (YAML) to write.")] = Path("cluster.yaml"),
    held_out: Annotated[list[Path] | None, typer.Option(help="A table to compare with, and not to fit to.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a cluster's links to measurements, write its file, and say how far it is off on what was held out: every other size of each
    table, and whole ones."""
    if out.exists():
        raise UserError(f"{out}: there already")
    with stage("fitting"):
        result = fit_and_compare(base, files, held_out or [])
    out.write_text(result.text, encoding="utf-8")
    print_table(result.table, "predicted over measured, less 1: medians, and the most", as_json)
    err.print(f"written: {out}")
