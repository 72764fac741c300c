"""Registry: studies by paper, kind and number."""

from __future__ import annotations

from chronoscale.errors import UserError
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.reproduce.study import Kind, Study, studies_of
from chronoscale.reports.published import PAPERS, published

FILES = [study for paper in PAPERS for study in studies_of(paper)]
STUDIES: dict[tuple[str, Kind, int], Study] = {
    (study.paper, study.kind, study.number): study for study in sorted(FILES, key=lambda s: (s.kind, s.number))
}


def find(paper: str, kind: Kind, number: int) -> Study:
    """The study of a figure or table. Raises UserError for an unknown paper or number, with the nearest one."""
    published(paper)
    if (paper, kind, number) not in STUDIES:
        known = [n for p, k, n in STUDIES if (p, k) == (paper, kind)]
        if not known:
            raise UserError(f"{paper}: no {kind} to reproduce; `chronoscale reproduce {paper}` lists what there is")
        near = min(known, key=lambda n: abs(n - number))
        raise UserError(f"{paper}: no {kind} {number} to reproduce; nearest: {near}; all: {', '.join(map(str, known))}")
    return STUDIES[paper, kind, number]


def of(paper: str) -> list[Study]:
    """All studies of a paper. Raises UserError for an unknown one."""
    published(paper)
    return [study for (name, _, _), study in STUDIES.items() if name == paper]


def overview(paper: str) -> list[dict[str, object]]:
    """One row a study: what it shows, whether it is executed, simulated or counted, and about how long it takes on one core."""
    return [
        {
            "what": f"--{study.kind} {study.number}",
            "shows": study.title,
            "section": study.printed.section,
            "how": study.way,
            "about": Cell(study.lasts_s, f"{study.lasts_s:.0f} s", "about_s"),
        }
        for study in of(paper)
    ]
