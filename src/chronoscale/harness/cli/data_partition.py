"""Command `data partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows, stage
from chronoscale.harness.data.partitioning import (
    ALL,
    DETAIL,
    FEATURE_BYTES,
    MEMORY_BYTES,
    Cutting,
    by_part,
    events_of,
    named,
    row,
    row_bytes,
)


def partition(
    name: Annotated[str, typer.Argument(help="A stream of events, by name or path.", metavar="DATASET", show_default=False)],
    parts: Annotated[int, typer.Option(help="How many parts.")] = 8,
    policy: Annotated[
        list[str] | None, typer.Option(help=f"Partitioner; may be repeated, or '{ALL}'.", show_default="shared-nodes")
    ] = None,
    shared: Annotated[float, typer.Option(help="Share of the nodes that all parts have (MemShare's k).")] = 0.1,
    decay: Annotated[
        float | None, typer.Option(help="Of past events, by the stream's unit of time.", show_default="1 / the stream's span")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is random.")] = 0,
    batch: Annotated[int, typer.Option(help="Events a part in a batch; balance is that of batches of parts x batch.")] = 3000,
    neighbours: Annotated[int, typer.Option(min=0, help="Of an event's end, whose rows are fetched; 0: rows are not counted.")] = 10,
    node_bytes: Annotated[
        int | None, typer.Option(min=0, help="Of a node's row.", show_default=f"{MEMORY_BYTES}, and the features that nodes have")
    ] = None,
    edge_bytes: Annotated[
        int | None, typer.Option(min=0, help="Of an event's row.", show_default=f"the features of events, {FEATURE_BYTES} without any")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the parts, and gives them if it has them; of several partitioners, a folder each in it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cut a stream of events into parts, around the nodes that all share, and say what they fetch of each other and how even they are.

    node rows, event rows, MB: fetched from other parts for the ends of events and their latest neighbours, each once a batch, without
    negatives. cut: events whose ends have different parts, neither shared. total: events of the largest part over the mean. batch, worst:
    the same of each batch, the mean and the worst of them. s: seconds that cutting took. With --json more: shares of remote ends, and bytes
    an event by MemShare's eq. 25.
    """
    policies = named(policy or ["shared-nodes"])
    rows = []
    with stage(f"partitioning {name}") as on_progress:
        stream = events_of(name, seed)
        cutting = Cutting(parts, shared, decay, seed, batch, neighbours, row_bytes(stream, node_bytes, edge_bytes))
        for one in policies:
            on_progress(one)
            rows.append(row(stream, one, cutting, out / one if out is not None and len(policies) > 1 else out))
    print_rows(rows, f"{name} in {parts} parts", as_json, left_out=DETAIL)
    if len(rows) == 1 and not as_json:
        print_rows(by_part(rows[0]), "by part", as_json)
