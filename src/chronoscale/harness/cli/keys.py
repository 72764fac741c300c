"""Command `keys`."""

from __future__ import annotations

from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import print_rows
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.keys import reference


def keys(
    key: Annotated[str | None, typer.Argument(help="One key, as in `training.window`, or what starts with it.", show_default=False)] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/experiments.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """The keys of an experiment file: type, default, family, meaning."""
    if markdown:
        return typer.echo(reference.document(), nl=False)
    rows = [{**row._asdict(), "default": Cell(row.value, row.default)} for row in reference.keys(key or "")]
    print_rows(rows, "keys of an experiment file", as_json, wrapped=("type", "default", "meaning"))
