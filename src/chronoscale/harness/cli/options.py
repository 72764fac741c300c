"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import UserError

File = Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)]
Root = Annotated[Path, typer.Option("--runs", help="Folder of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int | None, typer.Option(help="Overrides the experiment's seed.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and stop.")]
Dask = Annotated[
    str | None, typer.Option("--dask", metavar="ADDRESS", help="Of a Dask scheduler whose workers simulate.", show_default=False)
]
Tornado = Annotated[bool, typer.Option("--tornado", help="Print what each assumption alone does, at both ends of its range.")]
Form = Annotated[str | None, typer.Option("--format", help="Format, where the file does not tell.", show_default=False)]
Sort = Annotated[bool, typer.Option("--sort", help="Sort events by time without a notice: --option sort=true.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse events that are not in the order of time: --option strict=true.")]
Results = Annotated[Path, typer.Option("--out", help="Folder of results; a second run goes on with what is there.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Of the format's reader, such as columns=src,dst,weight,time; may be repeated.",
        show_default=False,
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="KEYS",
        help="Build a signal's graph: '{kind: knn, path: sensors.csv}'; keys as under dataset.graph.",
        show_default=False,
    ),
]
RUNS, RESULTS = Path("runs"), Path("results")


def settings(entries: list[str] | None, sort: bool, strict: bool) -> dict[str, str]:
    """Return the options of a file's reader that `chronoscale data` commands are given: name -> value.

    entries: texts of the form NAME=VALUE. Raises UserError for one that is not, or a name that comes twice.
    """
    options = {name: "true" for name, asked in (("sort", sort), ("strict", strict)) if asked}
    for entry in entries or []:
        name, separator, value = entry.partition("=")
        if not separator:
            raise UserError(f"--option {entry}: expected NAME=VALUE")
        if name in options:
            raise UserError(f"--option {entry}: {name} is given twice")
        options[name] = value
    return options
