"""Document: all pages of a paper in one file; its sections, which say when they were made, can be made again one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.reproduce.pages import HOW, markdown
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import Findings
from chronoscale.reports.published import published

MADE, LISTED = "Made ", "Sections by the day that they were made on: "
_SECTION = re.compile(r"^## (?=(?:Figure|Table) \d+:)", re.MULTILINE)
_STAMP = re.compile(rf"{MADE}(\d{{4}}-\d\d-\d\d) with")


def write(paper: str, made: Sequence[tuple[Study, Findings]], out: Path, day: str) -> Path:
    """`reproduce_<paper>.md`, drawings left to the pages; `day`: ISO date. Returns it."""
    command = f"Made by `chronoscale reproduce {paper} --all`; one: `--figure N`, `--table N`, `--into` this file."
    head = f"# {published(paper).name}, reproduced\n\n{command}\n\n{LISTED}\n\n"
    path = out / f"reproduce_{paper}.md"
    write_text(path, _whole([head, *(_section(study, found, day) for study, found in made)]))
    return path


def refresh(path: Path, made: Sequence[tuple[Study, Findings]], day: str) -> None:
    """Put these sections in the place of a document's; what else is written there stays. Raises UserError where it has none of the kind."""
    try:
        parts = _SECTION.split(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a document of `reproduce`: {error}") from None
    at = {part.partition(":")[0]: i for i, part in enumerate(parts)}
    for study, found in made:
        if (name := title(study)) not in at:
            raise UserError(
                f"{path}: has no section '{name}'; `chronoscale reproduce {study.paper} --all` makes a document with all of them"
            )
        parts[at[name]] = _section(study, found, day)
    write_text(path, _whole(parts))


def title(study: Study) -> str:
    """As headings begin: 'Figure 8'."""
    return f"{study.kind.capitalize()} {study.number}"


def _section(study: Study, found: Findings, day: str) -> str:
    """Without the '## ' of its heading."""
    text = markdown(study, Findings(found.rows, (), {}, found.notes), "##").removeprefix("## ")
    how = HOW[study.way]
    return text.replace(f"{how}\n", f"{how} {MADE}{day} with chronoscale {version('chronoscale')}.\n", 1)


def _whole(parts: Sequence[str]) -> str:
    """The document, with the head's list of days brought up to its sections."""
    days: dict[str, list[str]] = {}
    for part in parts[1:]:
        stamp = _STAMP.search(part)
        days.setdefault(stamp[1] if stamp else "unknown", []).append(part.partition(":")[0])
    listed = "; ".join(f"{day}: {', '.join(names)}" for day, names in sorted(days.items(), reverse=True))
    head = re.sub(rf"^{LISTED}.*$", lambda _: f"{LISTED}{listed}.", parts[0], count=1, flags=re.MULTILINE)
    return "## ".join([head, *parts[1:]]).rstrip() + "\n"
