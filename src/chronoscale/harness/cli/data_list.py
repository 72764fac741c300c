"""Data list."""

from __future__ import annotations

from chronoscale.datasets import entries
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import listed


def data_list(as_json: AsJson = False) -> None:
    """All datasets that the catalogue knows."""
    rows, table = [], " table " if as_json else " "  # on a terminal a paper's table is its number
    for name in entries.names():
        entry = entries.entry(name)
        first = entry.published[0] if entry.published else None
        rows.append(
            {
                "name": name,
                "family": entry.family,
                "origin": entry.origin,
                "nodes": "" if first is None else f"{first.nodes:,}",
                "edges": "" if first is None or first.edges is None else f"{first.edges:,}",
                "papers": ", ".join(f"{p.paper}{table}{p.table}" for p in entry.published),
                "source": entry.source,
            }
        )
    listed(rows, "datasets", as_json, wrapped=("papers",), left_out=("source",))
