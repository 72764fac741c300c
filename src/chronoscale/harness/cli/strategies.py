"""Command `strategies`."""

from __future__ import annotations

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows
from chronoscale.strategies.registry import installed


def strategies(as_json: AsJson = False) -> None:
    """Strategies by name, with their source."""
    rows = [
        {"name": strategy.name, "title": strategy.title, "family": strategy.family, "source": strategy.source}
        for strategy in installed().values()
    ]
    print_rows(rows, "strategies", as_json, wrapped=("title", "source"))
