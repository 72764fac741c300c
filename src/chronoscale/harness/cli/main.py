"""Main: where the command line starts, and where errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer

from chronoscale import interruption
from chronoscale.errors import ChronoscaleWarning, Interrupted, MachineError, UserError, in_words
from chronoscale.harness.cli.commands import Commands
from chronoscale.harness.cli.output import err
from chronoscale.harness.runs import begun
from chronoscale.real_exec.ranks.starter import Starter

app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"chronoscale {version('chronoscale')}")
        raise typer.Exit


@app.callback()
def chronoscale(
    wanted: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Say the version, and stop.")] = False,
) -> None:
    """Train dynamic graph neural networks for real; predict them on the cluster you do not have."""


def _warn(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
    if issubclass(category, ChronoscaleWarning):
        err.print(f"[yellow]warning:[/] {message}", highlight=False)


def main() -> None:
    """Run the command line. Exit code 0; 2 for a user's mistake, 1 for a failure of the machine, 130 for Ctrl-C, each in one line."""
    begun.forget()
    warnings.showwarning = _warn
    warnings.simplefilter("always", ChronoscaleWarning)
    try:
        with interruption.handled():
            _run()
    except Interrupted as error:
        sys.exit(_say(str(error), interruption.CODE))
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) else 1
        if code == interruption.CODE or (code and interruption.came()):  # what it has become on its way does not matter
            sys.exit(_say("interrupted", interruption.CODE))
        sys.exit(_failed(error))


def _run() -> None:
    """Run the command; where another launcher has started several processes, in the first one alone, and attend it in the others."""
    if (starter := Starter.here()) is None:
        app(prog_name="chronoscale")
        return
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # names that cannot be resolved, and stacks of lost connections, are no news
    from chronoscale.harness.execute.attendance import attend, lead  # noqa: PLC0415 (torch, for those who need it)

    if starter.rank:
        sys.exit(attend(starter))
    lead(starter, lambda: app(prog_name="chronoscale"))


def _failed(error: BaseException) -> int:
    """Print a failure in one line, and return its exit code. Reraises defects of this software, and exits that a command has chosen
    itself."""
    if isinstance(error, UserError):
        begun.leave_nothing(error)
        return _say(f"error: {error}", 2)
    if isinstance(error, MachineError):
        return _say(f"error: {error}", 1)
    if isinstance(error, MemoryError):
        return _say("error: out of host memory", 1)
    if isinstance(error, OSError):
        return _say(f"error: {in_words(error)}", 1)
    raise error


def _say(line: str, code: int) -> int:
    print(" ".join(line.split()), file=sys.stderr)
    return code
