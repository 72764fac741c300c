"""Main: where the command line starts, and where it ends badly in one line."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer

from chronoscale.errors import ChronoscaleWarning, MachineError, UserError, in_words
from chronoscale.harness.cli.commands import Commands
from chronoscale.harness.cli.output import err

app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"chronoscale {version('chronoscale')}")
        raise typer.Exit


@app.callback()
def chronoscale(
    asked: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Say the version, and stop.")] = False,
) -> None:
    """Train dynamic graph neural networks for real; predict them on the cluster you do not have."""


def _warn(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
    if issubclass(category, ChronoscaleWarning):
        err.print(f"[yellow]warning:[/] {message}", highlight=False)


def main() -> None:
    """Exit code 0; 2 for a user's mistake, 1 for a failure of the machine or an interruption, each in one line."""
    warnings.showwarning = _warn
    warnings.simplefilter("always", ChronoscaleWarning)
    try:
        app(prog_name="chronoscale")
    except UserError as error:
        sys.exit(_fail(str(error), 2))
    except MachineError as error:
        sys.exit(_fail(str(error), 1))
    except MemoryError:
        sys.exit(_fail("out of host memory", 1))
    except OSError as error:
        sys.exit(_fail(in_words(error), 1))


def _fail(line: str, code: int) -> int:
    print(f"error: {' '.join(line.split())}", file=sys.stderr)
    return code
