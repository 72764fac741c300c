"""State: whether a study's stored result is up to date, and if not, why; how long the study takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import Kind, Study
from chronoscale.harness.study.origin import Origin
from chronoscale.harness.study.results import load_result

CHANGED = {"study": "what its files say", "code": "its code", "data": "its data"}


@dataclass(frozen=True, slots=True)
class StudyState:
    """Study of a paper and what its stored result is worth now.

    folder: of its result. why: it is not up to date, '' where it is. seconds: how long it takes by its last run, or by its file where that
    says more.
    """

    study: Study
    folder: Path
    why: str
    seconds: float

    @classmethod
    def of(cls, study: Study, results: Path) -> StudyState:
        """Compare a study's result with the files, code and data that it would be made of now. results: folder with
        `<paper>/<study>.json`."""
        folder, about = results / study.paper, study.file.about_s
        path = folder / f"{study.file_name}.json"
        if not path.is_file():
            return cls(study, folder, "no result", about)
        try:
            result = load_result(path)
        except UserError:
            return cls(study, folder, "a damaged file", about)
        changed = [CHANGED[name] for name in Origin.of(study.file).changed(result.made_of)]
        if result.quick:
            why = "a quick subset"
        elif not result.made_of:
            why = "no record of what it is made of"
        else:
            why = f"changed: {', '.join(changed)}" if changed else ""
        partial = result.quick or result.untimed
        return cls(study, folder, why, max(60 * result.minutes, about) if partial else 60 * result.minutes)

    @property
    def name(self) -> str:
        """Return the study's paper and file, such as 'real figure-8'."""
        return f"{self.study.paper} {self.study.file_name}"


def states(results: Path, papers: Sequence[str], numbers: Sequence[tuple[Kind, int]]) -> list[StudyState]:
    """Return the state of the studies of papers, in their order.

    results: folder with `<paper>/<study>.json`. papers: keys, such as 'real'. numbers: kinds and numbers, of which a paper need not have
    all; none: all. Raises UserError for an unknown paper, and where no paper has what is asked for.
    """
    studies = [study for paper in papers for study in registry.of(paper) if not numbers or (study.kind, study.number) in numbers]
    if not studies:
        named = ", ".join(f"{kind} {number}" for kind, number in numbers)
        raise UserError(f"no {named} in {', '.join(papers)}; `chronoscale reproduce all --list` shows what there is")
    return [StudyState.of(study, results) for study in studies]
