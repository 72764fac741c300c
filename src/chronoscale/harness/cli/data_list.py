"""Data list."""

from __future__ import annotations

from chronoscale.datasets import entries
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import listed


def data_list(as_json: AsJson = False) -> None:
    """All datasets that the catalogue knows."""
    rows: list[dict[str, object]] = []
    count, table = (exactly, " table ") if as_json else (shortly, " ")  # a terminal is narrow
    for name in entries.names():
        entry = entries.entry(name)
        first = entry.published[0] if entry.published else None
        rows.append(
            {
                "name": name,
                "family": entry.family,
                "origin": entry.origin,
                "nodes": "" if first is None else count(first.nodes),
                "edges": "" if first is None or first.edges is None else count(first.edges),
                "papers": ", ".join(f"{p.paper}{table}{p.table}" for p in entry.published),
                "source": entry.source,
            }
        )
    listed(rows, "datasets", as_json, wrapped=("papers",), left_out=("source",))


def exactly(count: int) -> str:
    """All digits."""
    return f"{count:,}"


def shortly(count: int) -> str:
    """Three digits and a unit."""
    power = min((len(str(count)) - 1) // 3, 3)
    return f"{count / 1000**power:.3g}{['', ' k', ' M', ' G'][power]}"
