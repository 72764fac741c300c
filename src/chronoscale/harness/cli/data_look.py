"""Command `data look`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from chronoscale.harness.cli.options import AsJson, Form, Settings, Sort, Strict, settings
from chronoscale.harness.data.look import Look, look_at

WIDTH = 9  # of what a line is about


def look(
    files: Annotated[
        list[str], typer.Argument(help="A file or folder, or the files of one stream.", metavar="FILE...", show_default=False)
    ],
    form: Form = None,
    sort: Sort = False,
    strict: Strict = False,
    option: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Say what files would be read as, in ten lines, with the command that reads them so; or ask what is unclear, with a command for each
    answer."""
    look = look_at(files, form, settings(option, sort, strict))
    if as_json:
        facts = {fact.what: fact.value for fact in look.facts}
        typer.echo(json.dumps({"facts": facts, "question": look.question or None, "ways": [asdict(way) for way in look.ways]}))
        return
    for line in _lines(look, " ".join(files)):
        typer.echo(line)


def _lines(look: Look, files: str) -> list[str]:
    if not look.question:
        (way,) = look.ways
        facts = [("file", files), *((fact.what, fact.shown) for fact in look.facts), ("", ""), ("read it", way.command), ("or", way.lines)]
        return [f"{what:{WIDTH}} {text}".rstrip() for what, text in facts]
    lines = [f"{'file':{WIDTH}} {files}", f"{'question':{WIDTH}} {look.question}"]
    for way in look.ways:
        lines += ["", f"{way.meaning}:", f"  {way.command}", f"  {way.lines}"]
    return lines
