"""Small studies: a paper's study with names in place of its own, and single points of its testbed."""

from typing import Any

from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.study import evaluation
from chronoscale.harness.study.evaluation import Task, evaluate
from chronoscale.harness.study.findings import Findings
from chronoscale.harness.study.point import Record, StudyPoint
from chronoscale.harness.study.replay import Replayed, plan_and_replay
from chronoscale.harness.study.study_file import folder, load, paper_file
from chronoscale.harness.study.study_run import run


def study_of(paper: str, kind: Any, number: int, quick: bool = True, **names: object) -> Findings:
    """What a study finds."""
    file = load(folder(paper).joinpath(f"{kind}-{number}.yaml"))
    small = file.model_copy(update={"paper": paper, "names": {**file.names, **names}})
    return run(small, f"{paper}-{kind}-{number}", registry.find(paper, kind, number).printed, lambda _: None, quick)


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
    """Run a paper's figure or table. quick: a subset of it."""
    return run(study.file, study.name, study.printed, lambda _: None, quick)
