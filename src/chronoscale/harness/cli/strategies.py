"""Strategies."""

from __future__ import annotations

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows
from chronoscale.strategies.registry import installed


def strategies(as_json: AsJson = False) -> None:
    """Strategies by name, with their source."""
    rows = [{"name": one.name, "title": one.title, "family": one.family, "source": one.source} for one in installed().values()]
    print_rows(rows, "strategies", as_json, wrapped=("title", "source"))
