"""All papers by the command line: which of their studies are not up to date, these made anew, and the scorecard."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.output import err, print_rows, print_table, stage
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.reproduce.registry import Kind
from chronoscale.interruption import at_once
from chronoscale.reports.published import PAPERS

if TYPE_CHECKING:
    from chronoscale.harness.reproduce.making import MadeStudy
    from chronoscale.harness.reproduce.state import StudyState


@dataclass(frozen=True, slots=True)
class Selection:
    """Studies that `chronoscale reproduce all` is to make. papers: keys, none: all. numbers: kinds and numbers, none: all. results: folder
    with `<paper>/<study>.json`."""

    papers: Sequence[str]
    numbers: Sequence[tuple[Kind, int]]
    results: Path

    def states(self) -> list[StudyState]:
        """Return the state of each study. Raises UserError for an unknown paper or number."""
        with at_once():
            from chronoscale.harness.reproduce.state import states  # noqa: PLC0415 (a command's door: results are tables)

        return states(self.results, tuple(dict.fromkeys(self.papers)) or PAPERS, self.numbers)


def list_all(selection: Selection, as_json: bool) -> None:
    """Print each study with how it is made, how long it takes and whether its result is up to date."""
    states = selection.states()
    stale = [state for state in states if state.why]
    rows = [
        {
            "paper": state.study.paper,
            "what": f"--{state.study.kind} {state.study.number}",
            "how": state.study.way,
            "about": Cell(state.seconds, _time(state.seconds), "about_s"),
            "result": state.why or "up to date",
        }
        for state in states
    ]
    title = f"{len(stale)} of {len(states)} studies are not up to date, {_time(sum(one.seconds for one in stale))} of work"
    print_rows(rows, title, as_json, wrapped=("result",))


def reproduce_all(selection: Selection, budget: str | None, workers: int | None, into: Path | None, as_json: bool) -> None:
    """Make the studies that are not up to date, say of each what became of it, and print the scorecard of all results. Exit code 1 where a
    study has failed."""
    budget_s = inf if budget is None else _seconds(budget)
    with at_once():
        from chronoscale.harness.reproduce.making import make_all  # noqa: PLC0415 (a command's door)

    states = selection.states()
    stale = [state for state in states if state.why]
    err.print(f"{len(states) - len(stale)} of {len(states)} studies are up to date", highlight=False)
    begin, ended = time.monotonic(), 0

    def on_made(made: MadeStudy, left_s: float) -> None:
        nonlocal ended
        if made.status != "left":
            ended += 1
            became = f"made in {_time(made.seconds)}" if made.status == "made" else f"failed: {made.error}"
            so_far = f"{_time(time.monotonic() - begin)} so far, about {_time(left_s)} left"
            line = f"{ended} of {len(stale)}: {made.state.name} ({made.state.why}): {became}; {so_far}"
            err.print(line, highlight=False, markup=False, soft_wrap=True)

    with stage("reproducing", resumes=True, lines=True) as on_progress:
        made = make_all(stale, workers or os.cpu_count() or 1, budget_s, on_made, on_progress)
    left, failed = ([one for one in made if one.status == status] for status in ("left", "failed"))
    if left:
        names = ", ".join(one.state.name for one in left)
        line = f"left for another time, as {budget} would not do: {names}; {_time(sum(one.state.seconds for one in left))}"
        err.print(line, highlight=False, markup=False, soft_wrap=True)
    try:
        print_scorecard(selection.results, into, as_json)
    except UserError as error:
        if into is not None and not failed:
            raise
        err.print(f"no scorecard: {error}", highlight=False, markup=False, soft_wrap=True)
    for one in failed:
        err.print(f"failed: {one.state.name}: {one.error}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def print_scorecard(results: Path, into: Path | None, as_json: bool) -> None:
    """Print what of all papers holds, from stored results alone, and write its page, if one is asked for."""
    with at_once():
        from chronoscale.harness.reproduce.scorecard import scorecards  # noqa: PLC0415 (of what is made, which the listing does without)
        from chronoscale.harness.reproduce.scorecard_html import html_page  # noqa: PLC0415
        from chronoscale.harness.reproduce.scorecard_page import claimed, page, sentences, summary  # noqa: PLC0415
        from chronoscale.harness.runs.run_folder import write_text  # noqa: PLC0415

    cards = scorecards(results)
    if not as_json:
        for card in cards:
            typer.echo(" ".join(sentences(card)))
        print_table(claimed(cards), "what the papers claim", as_json)
    print_table(summary(cards), f"what of the papers holds, by the results in {results}", as_json)
    if into is not None:
        write_text(into, (html_page if is_html(into) else page)(cards))
        err.print(f"page: {into}")


def is_html(path: Path) -> bool:
    """Return whether a page is to be HTML, by its file's name."""
    return path.suffix.lower() in (".html", ".htm")


def _seconds(text: str) -> float:
    """Read a time such as '2h', '1h30m' or '90 min'. Raises UserError for what is none, and for one that is not above 0."""
    import pandas as pd  # noqa: PLC0415 (a command's door)

    try:
        seconds = float("nan") if text.strip().isdigit() else pd.Timedelta(text).total_seconds()
    except ValueError:
        seconds = float("nan")
    if not seconds > 0:
        raise UserError(f"--budget {text}: expected a time with its unit, such as 2h, 1h30m or 45m")
    return seconds


def _time(seconds: float) -> str:
    """Return a time as people read it: '1 h 05 min', '12 min', '40 s'."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
