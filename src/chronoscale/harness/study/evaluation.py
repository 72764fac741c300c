"""Evaluation: points measured here or in processes, each once, and kept in a folder so that a second run goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import import_module
from math import nan
from pathlib import Path

from chronoscale.errors import UserError, unknown
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.axes import TESTBED
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.origin import EXPERIMENT, TESTBEDS
from chronoscale.harness.study.point import StudyPoint, StudyResult
from chronoscale.harness.study.replay import PointInputs, Testbed, measure
from chronoscale.harness.study.stored_values import plain, restored
from chronoscale.harness.study.study_file import paper_file
from chronoscale.harness.study.task import Task, hooked
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.simulator import presets
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.spec import CERTAIN
from chronoscale.strategies.plugins import names_file


def testbed(point: StudyPoint) -> Testbed:
    """Return the testbed (cluster, workload, planner and costs) that a study's point is simulated on.

    A point with a setting `experiment` is planned from those keys, any other as its paper's `paper.yaml` says. Raises UserError where there
    is neither.
    """
    return of_experiments() if point.setting(EXPERIMENT) else of_paper(point.paper, point.setting(TESTBED, "{}"))


@cache
def of_experiments() -> Testbed:
    """Return the testbed of points that are planned from an experiment file's keys; only studies that have some import it."""
    bed: Testbed = import_module(f"{TESTBEDS}.{EXPERIMENT}s").ExperimentTestbed()
    return bed


@cache
def of_paper(paper: str, changed: str = "{}") -> Testbed:
    """Return the testbed that a paper's `paper.yaml` describes, for that paper's studies; made once a process.

    paper: its key, such as 'pgt-i'. changed: keys to take in place of the file's, JSON. Raises UserError where the file describes none.
    """
    given = {**paper_file(paper).testbed, **json.loads(changed)}
    if (family := given.pop("family", "")) == "":
        raise UserError(f"paper '{paper}': no testbed; give the grid an axis `experiment`, with an experiment file's keys")
    bed: Testbed = import_module(f"{TESTBEDS}.{family}").testbed(paper, **given)
    return bed


def scenario_of(point: StudyPoint) -> Scenario:
    """Return what a study's point is simulated with, and how its epoch is read, for draws of what is assumed. Raises UserError as a
    replay."""
    bed = testbed(point)
    inputs = PointInputs.of(point, bed)
    schedule = inputs.planner.plan(inputs.workload, point.gpus, inputs.costs)
    seconds = partial(bed.epoch_s, point)
    return Scenario(schedule, inputs.cluster, inputs.costs, CERTAIN, inputs.workload.constant_bytes, seconds).explicit


_DONE: dict[tuple[StudyPoint, str, str], StudyResult] = {}


def evaluate(task: Task) -> StudyResult:
    """Simulate, train or count one point of a study's grid and return its metrics by name.

    A point that several studies ask for is evaluated once a process. Where a hook raises UserError, the result's status is 'refused' and
    its message says why. Raises UserError for an unknown hook or metric.
    """
    place = (task.point, task.runner, task.function)
    known = _DONE.get(place)
    if task.runner == "sweep":
        if known is None or not set(task.metrics) <= set(known.values):
            metrics = tuple(dict.fromkeys((*task.metrics, *(known.values if known else ()))))
            known = _DONE[place] = measure(task.point, testbed(task.point), metrics, hooked(task.hooks))
        return StudyResult(known.status, known.message, {name: known.values[name] for name in task.metrics})
    if known is None:
        functions = hooked(task.hooks)
        if task.function not in functions:
            raise unknown("hook", task.function, functions)
        try:
            known = StudyResult(values=functions[task.function](task.point))
        except UserError as error:
            known = StudyResult("refused", str(error))
        _DONE[place] = known
    return known


def timed(work: Callable[[], StudyResult]) -> StudyResult:
    """Do the work of a point and return its result with the seconds that it took."""
    begin = time.perf_counter()
    result = work()
    return replace(result, seconds=time.perf_counter() - begin)


def _evaluate_timed(task: Task) -> StudyResult:
    return timed(partial(evaluate, task))


@dataclass(frozen=True, slots=True, eq=False)
class SentPoint:
    """Point of a study's grid to be simulated on another machine, which has this package and none of the user's files.

    inputs: what it is planned and replayed with, where that comes of the user's files; None: all is in the package.
    """

    task: Task
    inputs: PointInputs | None

    @classmethod
    def of(cls, task: Task) -> SentPoint:
        """Read the files that a point names. Raises UserError as its testbed."""
        point = task.point
        named = point.setting(EXPERIMENT) or presets.is_file(point.cluster) or names_file(point.strategy)
        return cls(task, PointInputs.of(point, testbed(point)) if named else None)

    def measure(self) -> StudyResult:
        """Simulate the point. What an earlier sweep of this process has found is not taken: it may be of other files."""
        task = self.task
        return timed(lambda: measure(task.point, testbed(task.point), task.metrics, hooked(task.hooks), self.inputs))


def evaluated(
    tasks: Sequence[Task], on_progress: Told, workers: int = 1, folder: Path | None = None, dask: str | None = None
) -> list[StudyResult]:
    """Evaluate all points of a study, in parallel processes, and return their results in the order of `tasks`.

    on_progress: gets a line for each point that is done. workers: processes; what is trained, and timed with it, comes after all else, one
    point at a time. folder: keeps a file a point, and results already there are read instead of made again; None: nothing is kept. dask:
    address of a scheduler whose workers simulate; what is trained or counted stays here. Raises as `sweep`; what was done by then stays in
    the folder.
    """
    results: dict[int, StudyResult] = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        results = {i: loaded for i, task in enumerate(tasks) if (loaded := _load(folder / f"{task.key}.json")) is not None}
    if results:
        on_progress(f"{len(results)} of {len(tasks)} points are there from before")

    def take(number: int, result: StudyResult) -> None:
        results[number] = result
        if folder is not None:
            write_text(folder / f"{tasks[number].key}.json", json.dumps(plain(asdict(result))))
        on_progress(f"{len(results)} of {len(tasks)}: {tasks[number].point}")

    if dask is not None:
        simulated = {i: task for i, task in enumerate(tasks) if i not in results and task.runner == "sweep"}
        sent: dict[int, SentPoint] = {}
        for i, task in simulated.items():
            with suppress(UserError):  # of data that are not there: `evaluate` below says it
                sent[i] = SentPoint.of(task)
        sweep(SentPoint.measure, sent, take, dask=dask)
    sweep(_evaluate_timed, {i: task for i, task in enumerate(tasks) if i not in results and task.runner != "train"}, take, workers)
    sweep(_evaluate_timed, {i: task for i, task in enumerate(tasks) if i not in results}, take)
    return [results[i] for i in range(len(tasks))]


def _load(path: Path) -> StudyResult | None:
    try:
        data = json.loads(path.read_text())
        return StudyResult(data["status"], data["message"], restored(data["values"]), True, data.get("seconds", nan))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or of an interrupted write: it is made again
