"""Data info."""

from __future__ import annotations

from typing import Annotated

import typer

from chronoscale.harness import describe
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import say


def info(name: Annotated[str, typer.Argument(help="Name or path.", show_default=False)], as_json: AsJson = False) -> None:
    """What a dataset holds, and what the papers print of it."""
    say(describe.dataset(name), name, as_json)
