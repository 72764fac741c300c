"""Small studies: a paper's study with names in place of its own, and single points of its testbed."""

from typing import Any

import pytest

from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.study import conclusions, evaluation
from chronoscale.harness.study.conclusions import Claim
from chronoscale.harness.study.evaluation import evaluate
from chronoscale.harness.study.findings import Findings
from chronoscale.harness.study.point import Record, StudyPoint
from chronoscale.harness.study.replay import Replayed, plan_and_replay
from chronoscale.harness.study.study_file import StudyFile, folder, load, paper_file
from chronoscale.harness.study.study_run import run
from chronoscale.harness.study.task import Task
from chronoscale.reports.published import Printed
from chronoscale.simulator.uncertainty.joint import Conclusion


def study_of(paper: str, kind: Any, number: int, quick: bool = True, **names: object) -> Findings:
    """What a study finds; its claims are made, and not simulated."""
    file = load(folder(paper).joinpath(f"{kind}-{number}.yaml"))
    small = file.model_copy(update={"paper": paper, "names": {**file.names, **names}})
    return _run(small, f"{paper}-{kind}-{number}", registry.find(paper, kind, number).printed, quick)


def _concluded(claim: Claim, draws: int) -> Conclusion:
    """A conclusion that nothing was simulated for."""
    one, other = conclusions._names(claim)
    assert one != other and claim.what and not claim.printed <= 0
    return Conclusion(one, other, 2.0, 1.0, 1.5, 2.0, 2.5, draws, 0)


def names_of(paper: str, kind: str, number: int) -> dict[str, Any]:
    """Constants of a study's file."""
    return dict(load(folder(paper).joinpath(f"{kind}-{number}.yaml")).names)


def replayed(point: StudyPoint) -> Replayed:
    """Schedule and trace of a point."""
    return plan_and_replay(point, evaluation.testbed(point))


def measured(point: StudyPoint, *metrics: str) -> Record:
    """A point with these metrics, or its paper's."""
    shared = paper_file(point.paper)
    return Record(point, evaluate(Task(point, "sweep", "", metrics or tuple(shared.metrics), tuple(shared.hooks))))


def run_registered(study: Study, quick: bool) -> Findings:
    """Run a paper's figure or table; its claims are made, and not simulated. quick: a subset of it."""
    return _run(study.file, study.name, study.printed, quick)


def _run(file: StudyFile, name: str, printed: Printed | None, quick: bool) -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conclusions, "_conclude", _concluded)
        return run(file, name, printed, lambda _: None, quick)
