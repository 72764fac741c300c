"""Reproduce a paper's figures and tables by the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.options import RESULTS, AsJson, Results
from chronoscale.harness.cli.output import err, print_rows, print_table, stage
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import KINDS, Kind
from chronoscale.interruption import at_once


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(help="Paper: real, pgt-i, fast, flaredtdg or memshare. Without one: what of all of them holds.", show_default=False),
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
    workers: Annotated[int, typer.Option(min=1, help="Processes that work on points.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A subset, named in the notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """A paper's figure or table: published beside ours, their ratio, and why they differ. Without a number: what there is."""
    asked: list[tuple[Kind, int]] = [
        (kind, number) for kind, number in zip(KINDS, (figure, table, study), strict=True) if number is not None
    ]
    if len(asked) + everything > 1:
        raise UserError("give one of --figure, --table, --study, --all")
    if paper is None:
        if asked or everything:
            raise UserError("say of which paper: chronoscale reproduce PAPER; without one it prints what stored results say of all")
        return _score(out, into, as_json)
    if into is not None and is_html(into):
        raise UserError(f"{into}: a paper's page is Markdown, give a .md file; `chronoscale reproduce --into PAGE.html` is of all papers")
    if not asked and not everything and into is None:
        return print_rows(registry.overview(paper), f"{paper}: what can be reproduced", as_json, wrapped=("shows",))
    studies = registry.of(paper) if everything else [registry.find(paper, kind, number) for kind, number in asked]

    with at_once():
        from chronoscale.harness.reproduce import document, pages  # noqa: PLC0415 (of what is made, which the listing does without)
        from chronoscale.harness.runs.run_folder import write_text  # noqa: PLC0415
        from chronoscale.harness.study.study_run import run_study  # noqa: PLC0415

    folder = out / paper
    for one in studies:
        with stage(f"{one.kind} {one.number}", resumes=True, lines=True) as on_progress:
            findings = run_study(one.file, one.file_name, one.printed, folder, on_progress, quick, workers)
            page = pages.write(one, findings, folder)
        title = f"{one.kind} {one.number}: {one.title} ({one.way})"
        print_table(findings.rows if as_json else pages.readable(findings.rows), title, as_json)
        for note in findings.notes:
            err.print(note, highlight=False, markup=False)
        err.print(f"page: {page}")
    into = into or (folder / "page.md" if everything else None)
    if into is not None:
        write_text(into, document.document(paper, out))
        err.print(f"page: {into}")


def is_html(path: Path) -> bool:
    """Return whether a page is to be HTML, by its file's name."""
    return path.suffix.lower() in (".html", ".htm")


def _score(results: Path, into: Path | None, as_json: bool) -> None:
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
