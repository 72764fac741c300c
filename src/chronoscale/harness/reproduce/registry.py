"""Registry: the figures and tables of papers that stand as study files, and studies of what they leave open, by kind and number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from chronoscale.errors import UserError
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.study.study_file import StudyFile, Way, folder, load
from chronoscale.reports.published import PAPERS, Printed, published

Kind = Literal["figure", "table", "study"]  # study: of a question that a paper leaves open, with nothing printed beside it
KINDS: tuple[Kind, ...] = get_args(Kind)
FILE = re.compile(rf"({'|'.join(KINDS)})-(\d+)\.yaml")


@dataclass(frozen=True, slots=True)
class Study:
    """Figure or table of a paper and the study file that reproduces it, or a study of what it leaves open, for `chronoscale reproduce`."""

    paper: str
    kind: Kind
    number: int
    file: StudyFile

    @property
    def printed(self) -> Printed:
        """Return what the paper prints of the figure or table: its title, section, ranges or rows; of a study its own title."""
        if self.kind == "study":
            return Printed(title=self.file.title, section="")
        paper = published(self.paper)
        return (paper.figures if self.kind == "figure" else paper.tables)[self.number]

    @property
    def title(self) -> str:
        """Return the title that the paper gives the figure or table, and what of it the study does not reach."""
        return f"{self.printed.title}: {self.file.limit}" if self.file.limit else self.printed.title

    @property
    def file_name(self) -> str:
        """Return the name of the study's files in a paper's folder of results, without ending, such as 'figure-8'."""
        return f"{self.kind}-{self.number}"

    @property
    def name(self) -> str:
        """Return the study's name among all papers' studies, such as 'real-figure-8'."""
        return f"{self.paper}-{self.file_name}"

    @property
    def executes(self) -> bool:
        """Return whether points of it are trained or timed on this machine, however the others are made."""
        blocks = [one for given in self.file.grid.values() for one in ([given] if isinstance(given, Mapping) else given)]
        return "train" in {self.file.runner, *(block.get("runner") for block in blocks)}

    @property
    def way(self) -> Way:
        """Return how the study's numbers are made: executed, simulated, counted or modelled."""
        return self.file.way


def of_file(paper: str, name: str, file: StudyFile) -> Study:
    """Return the study of a paper's figure or table whose file has been read, for `chronoscale reproduce` and `chronoscale study`.

    paper: its key, such as 'real'. name: of the file, such as figure-1.yaml, which says the figure, table or study. Raises UserError where
    the paper prints no such one.
    """
    kind = next(kind for kind in KINDS if name.startswith(kind))
    number = int(re.sub(r"\D", "", name))
    printed = {"figure": published(paper).figures, "table": published(paper).tables}
    if kind in printed and number not in printed[kind]:
        raise UserError(f"{name}: {paper} has no {kind} {number}; give the study a `title` of its own")
    return Study(paper, kind, number, file.model_copy(update={"paper": paper}))


def find(paper: str, kind: Kind, number: int) -> Study:
    """Read and return the study of a paper's figure or table, for `chronoscale reproduce PAPER --figure N`.

    paper: its key, such as 'real'. Raises UserError for an unknown paper or number, with the nearest one.
    """
    published(paper)
    known = [n for k, n in _there(paper) if k == kind]
    if number in known:
        return _read(paper, kind, number)
    if not known:
        raise UserError(f"{paper}: no {kind} to reproduce; `chronoscale reproduce {paper}` lists what there is")
    near = min(known, key=lambda n: abs(n - number))
    raise UserError(f"{paper}: no {kind} {number} to reproduce; nearest: {near}; all: {', '.join(map(str, known))}")


def of(paper: str) -> list[Study]:
    """Read and return all studies of a paper that `chronoscale reproduce` has, figures first.

    paper: its key, such as 'real'. Raises UserError for an unknown one.
    """
    published(paper)
    return [_read(paper, kind, number) for kind, number in _there(paper)]


def every() -> list[Study]:
    """Read and return all studies of all papers that `chronoscale reproduce` has."""
    return [study for paper in PAPERS for study in of(paper)]


def overview(paper: str) -> list[dict[str, object]]:
    """Return the table that `chronoscale reproduce PAPER` prints: what can be reproduced, a row a study.

    Columns: what it shows, its section, how it is made, and about how long it takes on one core.
    """
    return [
        {
            "what": f"--{study.kind} {study.number}",
            "shows": study.title,
            "section": study.printed.section,
            "how": study.way,
            "about": Cell(study.file.about_s, f"{study.file.about_s:.0f} s", "about_s"),
        }
        for study in of(paper)
    ]


def _there(paper: str) -> list[tuple[Kind, int]]:
    """Figures, then tables, then studies, by number."""
    names = [path.name for path in folder(paper).iterdir()] if folder(paper).is_dir() else []
    numbers = {kind: sorted(int(of[2]) for name in names if (of := FILE.fullmatch(name)) and of[1] == kind) for kind in KINDS}
    return [(kind, number) for kind in KINDS for number in numbers[kind]]


def _read(paper: str, kind: Kind, number: int) -> Study:
    name = f"{kind}-{number}.yaml"
    return of_file(paper, name, load(folder(paper).joinpath(name)))
