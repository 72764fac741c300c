"""Command `data partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows, stage
from chronoscale.harness.data.partitioning import ALL, DETAIL, Cutting, by_part, events_of, named, row
from chronoscale.strategies.memshare.communication import RowBytes


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
    neighbours: Annotated[int, typer.Option(min=0, help="Of a root, for the bytes fetched an event; 0: no estimate.")] = 10,
    node_bytes: Annotated[int, typer.Option(min=0, help="Of a node's row and of its memory.")] = 400,
    edge_bytes: Annotated[int, typer.Option(min=0, help="Of an event's features.")] = 688,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the parts, and gives them if it has them; of several partitioners, a folder each in it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cut a stream of events into parts, around the nodes that all share, and say what is cut and how even it is.

    cut: events whose ends have different parts, neither shared. remote: ends of events that the event's part does not have. max/mean: the
    largest load of a part in a batch over the mean, mean of the batches, and the worst of them. B, θ: bytes fetched from other parts for an
    event's ends, where that share of the remote neighbours is sampled, each row as often as it is read (MemShare, eq. 25, corrected).
    """
    policies, cutting = (
        named(policy or ["shared-nodes"]),
        Cutting(parts, shared, decay, seed, batch, neighbours, RowBytes(node_bytes, edge_bytes, node_bytes)),
    )
    rows = []
    with stage(f"partitioning {name}") as on_progress:
        stream = events_of(name, seed)
        for one in policies:
            on_progress(one)
            rows.append(row(stream, one, cutting, out / one if out is not None and len(policies) > 1 else out))
    print_rows(rows, f"{name} in {parts} parts", as_json, left_out=DETAIL)
    if len(rows) == 1 and not as_json:
        print_rows(by_part(rows[0]), "by part", as_json)
