"""Study: one figure or table of a paper as something that can be run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from chronoscale.errors import UserError
from chronoscale.harness.study.findings import Findings, Told
from chronoscale.harness.study.study_file import StudyFile, Way, folder, load
from chronoscale.reports.published import Printed, published

Kind = Literal["figure", "table"]
KINDS: tuple[Kind, ...] = ("figure", "table")
FILE = re.compile(r"(figure|table)-(\d+)\.yaml")


@dataclass(frozen=True, slots=True)
class Study:
    """run: takes a listener of progress and whether a subset is asked for, which the notes then name. lasts_s: about, on one core.

    limit: what of the figure is not reached, said in its title. file: its study file.
    """

    kind: Kind
    number: int
    way: Way
    lasts_s: float
    run: Callable[[Told, bool], Findings]
    limit: str = ""
    paper: str = "real"
    file: StudyFile | None = None

    @property
    def printed(self) -> Printed:
        """What the paper prints of it."""
        paper = published(self.paper)
        return (paper.figures if self.kind == "figure" else paper.tables)[self.number]

    @property
    def title(self) -> str:
        """The paper's title, and what of it is not reached."""
        return f"{self.printed.title}: {self.limit}" if self.limit else self.printed.title

    @property
    def file_name(self) -> str:
        """What files of a paper's folder are called, without their ending: 'figure-8'."""
        return f"{self.kind}-{self.number}"

    @property
    def name(self) -> str:
        """What it is called among all papers' studies: 'real-figure-8'."""
        return f"{self.paper}-{self.file_name}"


def studies_of(paper: str) -> list[Study]:
    """Return the studies that stand as files. Raises UserError for one that is wrong."""
    if not folder(paper).is_dir():
        return []
    return [of_file(paper, path.name, load(path)) for path in folder(paper).iterdir() if FILE.fullmatch(path.name)]


def of_file(paper: str, name: str, file: StudyFile) -> Study:
    """Return the study of a file called `figure-1.yaml` or `table-1.yaml`. Raises UserError where the paper prints no such one."""
    kind: Kind = "figure" if name.startswith("figure") else "table"
    number = int(re.sub(r"\D", "", name))
    known = published(paper).figures if kind == "figure" else published(paper).tables
    if number not in known:
        raise UserError(f"{name}: {paper} has no {kind} {number}; give the study a `title` of its own")
    own, named = file.model_copy(update={"paper": paper}), f"{paper}-{kind}-{number}"
    return Study(kind, number, file.way, file.about_s, partial(run_file, own, named, known[number]), file.limit, paper, own)


def run_file(file: StudyFile, name: str, printed: Printed, told: Told, quick: bool) -> Findings:
    """Return what the study of a figure or table finds."""
    from chronoscale.harness.study.study_run import run  # noqa: PLC0415 (of what is run, which the listing does without)

    return run(file, name, printed, told, quick)
