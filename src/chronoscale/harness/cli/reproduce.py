"""Reproduce."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.options import AsJson
from chronoscale.harness.cli.output import err, print_rows, print_table, stage
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import KINDS, Kind
from chronoscale.interruption import at_once


def reproduce(
    paper: Annotated[str, typer.Argument(help="Paper: real, pgt-i, fast, flaredtdg or memshare.", show_default=False)],
    figure: Annotated[int | None, typer.Option(help="Number of a figure.")] = None,
    table: Annotated[int | None, typer.Option(help="Number of a table.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("reproduced"),
    everything: Annotated[bool, typer.Option("--all", help="Every figure and table, and one document of them.")] = False,
    into: Annotated[
        Path | None, typer.Option(help="A document of --all, whose sections of these are made again.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A subset, named in the notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """A paper's figure or table: published beside ours, their ratio, and why they differ. Without a number: what there is."""
    asked: list[tuple[Kind, int]] = [(kind, number) for kind, number in zip(KINDS, (figure, table), strict=True) if number is not None]
    if len(asked) + everything > 1:
        raise UserError("give one of --figure, --table, --all")
    if not asked and not everything:
        return print_rows(registry.overview(paper), f"{paper}: what can be reproduced", as_json, wrapped=("shows",))
    studies = registry.of(paper) if everything else [registry.find(paper, *asked[0])]

    with at_once():
        from chronoscale.harness.reproduce import document, pages  # noqa: PLC0415 (of what is made, which the listing does without)

    made = []
    for study in studies:
        with stage(f"{study.kind} {study.number}") as told:
            found = study.run(told, quick)
            page = pages.write(study, found, out)
        title = f"{study.kind} {study.number}: {study.title} ({study.way})"
        print_table(found.rows if as_json else pages.readable(found.rows), title, as_json)
        for note in found.notes:
            err.print(note, highlight=False, markup=False)
        err.print(f"page: {page}")
        made.append((study, found))
    day = date.today().isoformat()
    if into is not None:
        document.refresh(into, made, day)
        err.print(f"document: {into}")
    elif everything:
        err.print(f"document: {document.write(paper, made, out, day)}")
