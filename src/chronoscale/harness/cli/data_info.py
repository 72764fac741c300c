"""Command `data info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson, Form, Graph, Settings, Sort, Strict, settings
from chronoscale.harness.cli.output import print_facts
from chronoscale.harness.data import description
from chronoscale.harness.keys.graphs import parse_graph


def info(
    names: Annotated[list[str], typer.Argument(help="Name or path, or the paths of one stream.", metavar="NAME...", show_default=False)],
    form: Form = None,
    sort: Sort = False,
    strict: Strict = False,
    option: Settings = None,
    graph: Graph = None,
    picture: Annotated[Path | None, typer.Option(help="Draw a signal's graph to this file, .svg or .png.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Print how a dataset was understood, its contents, and what papers print of it."""
    keys = None if graph is None else parse_graph(graph)
    print_facts(description.describe(names, form, settings(option, sort, strict), keys, picture), " ".join(names), as_json)
