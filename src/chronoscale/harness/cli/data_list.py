"""Command `data list`."""

from __future__ import annotations

from chronoscale.datasets import entries
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows


def data_list(as_json: AsJson = False) -> None:
    """List all datasets that the catalogue knows."""
    rows: list[dict[str, object]] = []
    table = " table " if as_json else " "  # a terminal is narrow
    for name in entries.names():
        entry = entries.entry(name)
        first = entry.published[0] if entry.published else None
        rows.append(
            {
                "name": name,
                "family": entry.family,
                "origin": entry.origin,
                "nodes": count(None if first is None else first.nodes, as_json),
                "edges": count(None if first is None else first.edges, as_json),
                "papers": ", ".join(f"{p.paper}{table}{p.table}" for p in entry.published),
                "source": entry.source,
            }
        )
    print_rows(rows, "datasets", as_json, wrapped=("papers",), left_out=("source",))


def count(count: int | None, as_json: bool) -> int | str | None:
    """Return a dataset's count for `chronoscale data list`: the number itself for JSON; for people three digits and a unit."""
    if as_json:
        return count
    if count is None:
        return ""
    power = min((len(str(count)) - 1) // 3, 3)
    return f"{count / 1000**power:.3g}{['', ' k', ' M', ' G'][power]}"
