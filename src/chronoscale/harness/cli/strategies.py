"""Command `strategies`."""

from __future__ import annotations

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows
from chronoscale.strategies.registry import installed_strategies


def strategies(as_json: AsJson = False) -> None:
    """Strategies by name: what each does, and its source."""
    rows = [
        {
            "name": strategy.name,
            "title": strategy.title,
            "does": strategy.summary or strategy.title,
            "family": strategy.family,
            "source": strategy.source,
        }
        for strategy in installed_strategies().values()
    ]
    print_rows(rows, "strategies", as_json, wrapped=("does", "source"), left_out=("title",))
