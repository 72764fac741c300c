"""Options: arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)]
Root = Annotated[Path, typer.Option("--runs", help="Folder of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int | None, typer.Option(help="Overrides the experiment's seed.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and stop.")]
RUNS = Path("runs")
