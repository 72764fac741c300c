"""Reproduce a paper's figures and tables by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.all_papers import Selection, is_html, list_all, print_scorecard, reproduce_all
from chronoscale.harness.cli.options import RESULTS, AsJson, Results
from chronoscale.harness.cli.output import err, print_rows, print_table, stage
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import KINDS, Kind
from chronoscale.interruption import at_once

ALL = "all"  # in place of a paper


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            help="Paper: real, pgt-i, fast, flaredtdg or memshare; all: what is not up to date of all of them. Without one: what of them "
            "holds.",
            show_default=False,
        ),
    ] = None,
    papers: Annotated[
        list[str] | None, typer.Option("--paper", help="With all: of this paper alone; may be repeated.", show_default=False)
    ] = None,
    figure: Annotated[int | None, typer.Option(help="Number of a figure.")] = None,
    table: Annotated[int | None, typer.Option(help="Number of a table.")] = None,
    study: Annotated[int | None, typer.Option(help="Number of a study of what the paper leaves open.")] = None,
    out: Results = RESULTS,
    everything: Annotated[bool, typer.Option("--all", help="Every figure and table.")] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Write the page, of all results that are in OUT, to this file: Markdown; of all papers HTML, too.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes: of a paper on points, by default 1; of all on studies, by default one a core.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With all: begin no study that would end later, such as 2h or 45m.", show_default=False),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is, with all whether it is up to date, and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A subset, named in the notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """A paper's figure or table: published beside ours, their ratio, and why they differ. Without a number: what there is. Of all papers:
    every study whose result is not of the code and the data that are there now."""
    numbers: list[tuple[Kind, int]] = [
        (kind, number) for kind, number in zip(KINDS, (figure, table, study), strict=True) if number is not None
    ]
    if paper == ALL or (paper is None and listing):
        if everything or quick:
            raise UserError(f"{ALL} makes whole studies that are not up to date, without --all and --quick")
        selection = Selection(papers or (), numbers, out)
        return list_all(selection, as_json) if listing else reproduce_all(selection, budget, workers, into, as_json)
    if papers or budget is not None:
        raise UserError(f"--paper and --budget are of all papers: chronoscale reproduce {ALL}")
    if len(numbers) + everything > 1:
        raise UserError("give one of --figure, --table, --study, --all")
    if paper is None:
        if numbers or everything:
            raise UserError(
                f"say of which paper: chronoscale reproduce PAPER, or {ALL}; without one it prints what stored results say of all"
            )
        return print_scorecard(out, into, as_json)
    if into is not None and is_html(into):
        raise UserError(f"{into}: a paper's page is Markdown, give a .md file; `chronoscale reproduce --into PAGE.html` is of all papers")
    if listing or (not numbers and not everything and into is None):
        return print_rows(registry.overview(paper), f"{paper}: what can be reproduced", as_json, wrapped=("shows",))
    studies = registry.of(paper) if everything else [registry.find(paper, kind, number) for kind, number in numbers]

    with at_once():
        from chronoscale.harness.reproduce import document, pages  # noqa: PLC0415 (of what is made, which the listing does without)
        from chronoscale.harness.runs.run_folder import write_text  # noqa: PLC0415
        from chronoscale.harness.study.study_run import run_study  # noqa: PLC0415

    folder = out / paper
    for one in studies:
        with stage(f"{one.kind} {one.number}", resumes=True, lines=True) as on_progress:
            findings = run_study(one.file, one.file_name, one.printed, folder, on_progress, quick, workers or 1)
            page = pages.write(one, findings, folder)
        title = f"{one.kind} {one.number}: {one.title} ({one.way})"
        print_table(findings.rows if as_json else pages.readable(findings), title, as_json)
        for note in findings.notes:
            err.print(note, highlight=False, markup=False)
        err.print(f"page: {page}")
    into = into or (folder / "page.md" if everything else None)
    if into is not None:
        write_text(into, document.document(paper, out))
        err.print(f"page: {into}")
