"""Command `data info`."""

from __future__ import annotations

from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson, Form, Settings, Sort, Strict, settings
from chronoscale.harness.cli.output import print_facts
from chronoscale.harness.data import description


def info(
    names: Annotated[list[str], typer.Argument(help="Name or path, or the paths of one stream.", metavar="NAME...", show_default=False)],
    form: Form = None,
    sort: Sort = False,
    strict: Strict = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """What was understood of a dataset, what it holds, and what the papers print of it."""
    print_facts(description.describe(names, form, settings(option, sort, strict)), " ".join(names), as_json)
