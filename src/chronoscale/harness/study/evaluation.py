"""Evaluation: points measured here or in processes, each once, and kept in a folder so that a second run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from inspect import getmembers, isclass, isfunction
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np

from chronoscale.errors import UserError, unknown
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.point import StudyPoint, StudyResult, content_key
from chronoscale.harness.study.replay import PointInputs, Testbed, measure
from chronoscale.harness.study.study_file import Runner, paper_file
from chronoscale.harness.study.testbeds.experiments import ExperimentTestbed
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.simulator import presets
from chronoscale.strategies.plugins import names_file

HOOKS = "chronoscale.harness.study.hooks"


@dataclass(frozen=True, slots=True)
class Task:
    """Point of a study's grid to evaluate, and how: by simulation, by training here, or by counting.

    runner: 'sweep' (simulated), 'train' (executed on this machine) or 'count'. function: name of the hook (a function in
    `harness/study/hooks`) that trains or counts the point, '' for a sweep. metrics: names of what is read off a simulated epoch, such as
    'epoch_s'. hooks: modules that define such functions and metrics.
    """

    point: StudyPoint
    runner: Runner
    function: str
    metrics: tuple[str, ...]
    hooks: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return the file name under which the point's result is kept: it changes with the point, the testbed and the version, and with
        the machine of what is executed."""
        machine = (_machine(),) if self.runner == "train" else ()
        return content_key(asdict(self), dict(paper_file(self.point.paper).testbed), version("chronoscale"), *machine)


def _machine() -> dict[str, str]:
    """What seconds of an executed point depend on, besides the point."""
    import torch  # noqa: PLC0415 (of what is executed alone)

    from chronoscale.real_exec.measurement.environment import device_name  # noqa: PLC0415 (imports torch)

    kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    devices = {kind: device_name(torch.device(kind)) for kind in kinds}
    return {**devices, "torch": str(torch.__version__), "threads": str(torch.get_num_threads())}


def hook_module(name: str) -> ModuleType:
    """Import a module of `harness/study/hooks`, a paper's own equations and measurements for study files.

    name: of the module, such as 'fast_volumes'. Raises UserError where there is none, with those that there are.
    """
    known = sorted(module.name for module in iter_modules(import_module(HOOKS).__path__))
    if name not in known:
        raise UserError(f"hooks: unknown '{name}'; there are: {', '.join(known)}")
    return import_module(f"{HOOKS}.{name}")


def hooked(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return what a study file's expressions and metrics may call of the hook modules that it names: public functions and classes, by name.

    names: modules of `harness/study/hooks`, such as 'fast_volumes'. Raises UserError for one that is not there.
    """
    functions: dict[str, Callable[..., Any]] = {}
    for name in names:
        module = hook_module(name)
        for key, member in getmembers(module, lambda one: isfunction(one) or isclass(one) or hasattr(one, "__wrapped__")):
            if not key.startswith("_") and member.__module__ == module.__name__:
                functions[key] = member
    return functions


def testbed(point: StudyPoint) -> Testbed:
    """Return the testbed (cluster, workload, planner and costs) that a study's point is simulated on.

    A point with a setting `experiment` is planned from those keys, any other as its paper's `paper.yaml` says. Raises UserError where there
    is neither.
    """
    return ExperimentTestbed() if point.setting("experiment") else of_paper(point.paper)


@cache
def of_paper(paper: str) -> Testbed:
    """Return the testbed that a paper's `paper.yaml` describes, for that paper's studies; made once a process.

    paper: its key, such as 'pgt-i'. Raises UserError where the file describes none.
    """
    given = dict(paper_file(paper).testbed)
    if (family := given.pop("family", "")) == "":
        raise UserError(f"paper '{paper}': no testbed; give the grid an axis `experiment`, with an experiment file's keys")
    bed: Testbed = import_module(f"chronoscale.harness.study.testbeds.{family}").testbed(paper, **given)
    return bed


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
        named = point.setting("experiment") or presets.is_file(point.cluster) or names_file(point.strategy)
        return cls(task, PointInputs.of(point, testbed(point)) if named else None)

    def measure(self) -> StudyResult:
        """Simulate the point. What an earlier sweep of this process has found is not taken: it may be of other files."""
        task = self.task
        return measure(task.point, testbed(task.point), task.metrics, hooked(task.hooks), self.inputs)


def evaluated(
    tasks: Sequence[Task], on_progress: Told, workers: int = 1, folder: Path | None = None, dask: str | None = None
) -> list[StudyResult]:
    """Evaluate all points of a study, in parallel processes, and return their results in the order of `tasks`.

    on_progress: gets a line for each point that is done. workers: processes. folder: keeps a file a point, and results already there are
    read instead of made again; None: nothing is kept. dask: address of a scheduler whose workers simulate; what is trained or counted stays
    here. Raises as `sweep`; what was done by then stays in the folder.
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
            write_text(folder / f"{tasks[number].key}.json", json.dumps(_plain(asdict(result))))
        on_progress(f"{len(results)} of {len(tasks)}: {tasks[number].point}")

    if dask is not None:
        simulated = {i: task for i, task in enumerate(tasks) if i not in results and task.runner == "sweep"}
        sent: dict[int, SentPoint] = {}
        for i, task in simulated.items():
            with suppress(UserError):  # of data that are not there: `evaluate` below says it
                sent[i] = SentPoint.of(task)
        sweep(SentPoint.measure, sent, take, dask=dask)
    sweep(evaluate, {i: task for i, task in enumerate(tasks) if i not in results}, take, workers)
    return [results[i] for i in range(len(tasks))]


def _load(path: Path) -> StudyResult | None:
    try:
        data = json.loads(path.read_text())
        return StudyResult(data["status"], data["message"], _restored(data["values"]), resumed=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or of an interrupted write: it is made again


def _plain(value: Any) -> Any:
    """What JSON holds; arrays say so, and numbers as keys."""
    if isinstance(value, np.ndarray):
        return {"__array__": value.tolist()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        return {"__pairs__": [[_plain(key), _plain(one)] for key, one in value.items()]}
    if isinstance(value, tuple | list):
        return {"__tuple__": [_plain(one) for one in value]} if isinstance(value, tuple) else [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "__array__" in value:
        return np.asarray(value["__array__"])
    if "__tuple__" in value:
        return tuple(_restored(one) for one in value["__tuple__"])
    if "__pairs__" in value:
        return {_restored(key): _restored(one) for key, one in value["__pairs__"]}
    return {key: _restored(one) for key, one in value.items()}
