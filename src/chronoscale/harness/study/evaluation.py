"""Evaluation: points measured here or in processes, each once, and kept in a folder so that a second run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from chronoscale.harness.advice.sweep import sweep
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.point import StudyPoint, StudyResult, content_key
from chronoscale.harness.study.replay import Testbed, measure
from chronoscale.harness.study.study_file import Runner, paper_file
from chronoscale.harness.study.testbeds.experiments import ExperimentTestbed

HOOKS = "chronoscale.harness.study.hooks"


@dataclass(frozen=True, slots=True)
class Task:
    """Study's point to evaluate, and how.

    runner: 'sweep' (simulated), 'train' (executed on this machine) or 'count'. function: hook that trains or counts it, '' for a
    sweep. metrics: names to read off a sweep. hooks: modules that define functions and metrics.
    """

    point: StudyPoint
    runner: Runner
    function: str
    metrics: tuple[str, ...]
    hooks: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return the file name for the task's kept result: it changes with the point, the testbed and the version, and with the machine of
        what is executed."""
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
    """Import a module of study hooks. name: such as 'fast_volumes'. Raises UserError where there is none, with those that there are."""
    known = sorted(module.name for module in iter_modules(import_module(HOOKS).__path__))
    if name not in known:
        raise UserError(f"hooks: unknown '{name}'; there are: {', '.join(known)}")
    return import_module(f"{HOOKS}.{name}")


def hooked(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return the public functions and classes of hook modules by name, for expressions and metrics of study files."""
    functions: dict[str, Callable[..., Any]] = {}
    for name in names:
        module = hook_module(name)
        for key, member in getmembers(module, lambda one: isfunction(one) or isclass(one) or hasattr(one, "__wrapped__")):
            if not key.startswith("_") and member.__module__ == module.__name__:
                functions[key] = member
    return functions


def testbed(point: StudyPoint) -> Testbed:
    """Return the testbed of a study's point: of its setting `experiment`, where it has one, else of its paper.

    Raises UserError for neither.
    """
    return ExperimentTestbed() if point.setting("experiment") else of_paper(point.paper)


@cache
def of_paper(paper: str) -> Testbed:
    """Return the testbed that a paper's `paper.yaml` describes. paper: its key, such as 'pgt-i'. Raises UserError where it has none."""
    given = dict(paper_file(paper).testbed)
    if (family := given.pop("family", "")) == "":
        raise UserError(f"paper '{paper}': no testbed; give the grid an axis `experiment`, with an experiment file's keys")
    bed: Testbed = import_module(f"chronoscale.harness.study.testbeds.{family}").testbed(paper, **given)
    return bed


_DONE: dict[tuple[StudyPoint, str, str], StudyResult] = {}


def evaluate(task: Task) -> StudyResult:
    """Simulate, train or count a study's point, once a process whatever study asks, and return its result.

    A hook's UserError is a result 'refused'. Raises UserError for an unknown hook or metric.
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


def evaluated(tasks: Sequence[Task], on_progress: Told, workers: int = 1, folder: Path | None = None) -> list[StudyResult]:
    """Evaluate a study's tasks and return their results in order.

    workers: processes. kept: folder whose results are read instead of made again, None: none. Raises MachineError for a lost process; what
    was done by then is in the folder.
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
