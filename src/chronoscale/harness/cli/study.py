"""Run a study file by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.harness.cli.options import RESULTS, AsJson, Results
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.reproduce.registry import FILE, Study, of_file
from chronoscale.harness.study.study_file import StudyFile, load
from chronoscale.harness.sweep.address import knock
from chronoscale.interruption import at_once
from chronoscale.reports.published import PAPERS


def study(
    file: Annotated[Path, typer.Argument(help="Study file (YAML).", show_default=False)],
    out: Results = RESULTS,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work on points.")] = 1,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Of a Dask scheduler whose workers simulate; what is trained or counted stays here.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A subset, named in the notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a study file: a grid of points, and rows, tables and drawings of them. Resumable. The result stands in OUT/PAPER/NAME.json, with
    device, versions, commit and minutes."""
    own = load(file)
    named = _named(file, own)
    if named:
        own = named.file
    knock(dask)
    with at_once():
        from chronoscale.harness.reproduce import pages  # noqa: PLC0415 (a command's door)
        from chronoscale.harness.study.study_run import run_study  # noqa: PLC0415

    folder, printed = out / own.paper, named.printed if named else None
    with stage(file.stem, resumes=True, lines=True) as on_progress:
        findings = run_study(own, file.stem, printed, folder, on_progress, quick, workers, dask)
    if named:
        pages.write(named, findings, folder)
    print_table(findings.rows if as_json else pages.readable(findings), own.title or (named.title if named else file.stem), as_json)
    for note in findings.notes:
        err.print(note, highlight=False, markup=False)
    err.print(f"result: {folder / file.stem}.json")


def _named(file: Path, own: StudyFile) -> Study | None:
    """The figure or table of a paper that the file is of, by its name and its `paper`."""
    paper = own.paper or file.absolute().parent.name
    is_one = FILE.fullmatch(file.name) is not None and not own.title and paper in PAPERS
    return of_file(paper, file.name, own) if is_one else None
