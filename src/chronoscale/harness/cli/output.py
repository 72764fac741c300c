"""Output: tables, notes and progress on the terminal, or JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chronoscale.datasets.scores import score_of
from chronoscale.errors import Interrupted
from chronoscale.harness.display.cell import Cell, record

if TYPE_CHECKING:
    import pandas as pd

    from chronoscale.harness.display.fact import Fact

err = Console(stderr=True)
EVERY_S = 10  # a line of progress, in logs
PARTS = "parts of the epoch, mean of the ranks (lanes overlap, communication includes waiting)"


def print_executed_files(files: Sequence[str]) -> None:
    """Print that a dry run has executed the Python files that its experiment names: planning asks them."""
    if files:
        sentence = f"--dry-run has executed {', '.join(files)}: experiments run the Python files that they name"
        err.print(sentence, highlight=False, soft_wrap=True)


def print_table(frame: pd.DataFrame, title: str, as_json: bool) -> None:
    """Print a command's table on the terminal, or as JSON records: numbers as numbers, null for what is not finite."""
    if as_json:
        typer.echo(json.dumps([record({str(key): value for key, value in row.items()}) for row in frame.to_dict("records")]))
        return
    table = Table(box=None, header_style="bold")
    for name in frame.columns:
        table.add_column(str(name), justify="right" if frame[name].dtype.kind in "biufc" else "left", no_wrap=True)
    for row in frame.itertuples(index=False):
        table.add_row(*map(_shown, frame.columns, row))
    width = Console(width=10_000).measure(table).maximum  # a row is a line: terminals wrap it, files do not
    console = Console(width=max(Console().width, width, len(title)))
    console.print(title, style="italic", highlight=False, markup=False)
    console.print(table)


def print_facts(facts: Sequence[Fact], title: str, as_json: bool) -> None:
    """Print lines of a dataset's description, for `chronoscale data` commands; in JSON numbers are numbers."""
    if as_json:
        typer.echo(json.dumps([{"what": fact.what, "value": fact.value} for fact in facts]))
        return
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in ("what", "value"):
        table.add_column(name, no_wrap=True)
    for fact in facts:
        table.add_row(fact.what, escape(fact.shown))
    width = Console(width=10_000).measure(table).maximum
    Console(width=max(Console().width, width)).print(table)


def _shown(column: str, value: object) -> str:
    if isinstance(value, Cell):
        return value.text
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return "–"
    if (score := score_of(column)) is not None:
        return score.text(value)
    return f"{100 * value:z.1f} %" if column == "gap" else f"{value:,.4g}"


def print_rows(
    rows: Sequence[Mapping[str, object]], title: str, as_json: bool, wrapped: Sequence[str] = (), left_out: Sequence[str] = ()
) -> None:
    """Print rows of equal keys, for `chronoscale keys`, `data list` and the like, within 80 columns.

    wrapped: columns that go on in the next line. left_out: columns that only JSON has.
    """
    if as_json:
        typer.echo(json.dumps([record(row) for row in rows]))
        return
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    shown = [key for key in rows[0] if key not in left_out]
    for key in shown:
        table.add_column(key, overflow="fold", no_wrap=key not in wrapped)
    for row in rows:
        table.add_row(*(_shown(key, row[key]) for key in shown))
    Console(width=80).print(table)


@contextmanager
def stage(activity: str, resumes: bool = False, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a spinner on stderr while a command works on something; call the yielded function with a text to show beside it.

    resumes: whether the same command goes on where it was interrupted. lines: print lines where stderr is no terminal. Raises Interrupted
    for KeyboardInterrupt.
    """
    try:
        with err.status(activity) as status:
            yield _lines(activity) if lines and not err.is_terminal else lambda detail: status.update(f"{activity}: {detail}")
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while {activity}" + ("; the same command takes it up again" if resumes else "")) from None


def _lines(activity: str) -> Callable[[str], None]:
    """Print lines on stderr with the minutes so far: the first, and what comes EVERY_S or more after the last that was printed."""
    begin = time.monotonic()
    printed = -math.inf

    def on_progress(detail: str) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= EVERY_S:
            printed = now
            err.print(f"{activity}: {detail}; {(now - begin) / 60:.1f} minutes", highlight=False, markup=False, soft_wrap=True)

    return on_progress
