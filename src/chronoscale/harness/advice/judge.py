"""Judging of one candidate by simulation, in this process, in another one, or on another machine."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import psutil

from chronoscale import modules
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.candidates import variant
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import cluster_costs
from chronoscale.harness.planning.estimate import Estimate
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.plan_and_replay import plan_and_replay
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import presets
from chronoscale.simulator.critical_path import critical_path, path_shares
from chronoscale.simulator.engine import replaying_with
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.evaluation.metrics import occupied_ns
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CandidateInputs:
    """What one candidate of `chronoscale advise` is planned and replayed with, read from all files. warnings: given meanwhile."""

    experiment: Experiment
    planner: Strategy
    work: Workload
    cluster: Cluster
    costs: CostModel
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """Input of a process that simulates one candidate of `chronoscale advise`.

    keys: of the candidate's experiment, as a file has them. cuts: METIS's graph partitions, path in a run's piece -> content of the file.
    inputs: read already, for a process that has none of the files; None: the process reads them.
    """

    candidate: Candidate
    keys: Mapping[str, Any]
    cuts: Mapping[str, bytes] = field(default_factory=dict)
    inputs: CandidateInputs | None = None

    @classmethod
    def of(cls, experiment: Experiment, candidate: Candidate) -> Task:
        """Return the task of simulating a candidate, without graph partitions. Raises UserError as `variant`."""
        varied = variant(experiment, candidate.cluster, candidate.settings)
        named = varied.strategies if "strategies" in experiment.model_fields_set else ()
        names = dict(zip(planners(varied), named, strict=True)) if named else {}  # a file's strategy is found by its file
        point = {"strategies": [names.get(candidate.strategy, candidate.strategy)], "gpus": [candidate.gpus]}
        return cls(candidate, _anywhere(varied.model_dump(mode="json", exclude_unset=True)) | point)

    def cut(self, run: Run) -> Task:
        """Return the task with the graph partitions that its strategy plans with, made once a `run` and kept there: METIS may answer
        otherwise the next time.
        """
        experiment = parse(self.keys, "advise")
        (planner,) = planners(experiment).values()
        if not (planner.partitioned or planner.chunked):
            return self
        partitions = _partitions_run(run, experiment)
        with suppress(UserError), warnings.catch_warnings(action="ignore", category=ChronoscaleWarning):  # `judge` tells both
            workflow_of(experiment.family).partition_for_simulation(experiment, workload(experiment), experiment.gpus, partitions)
        files = [file for file in sorted(partitions.folder.rglob("*")) if file.is_file()]
        return replace(self, cuts={str(file.relative_to(partitions.folder)): file.read_bytes() for file in files})

    def read(self, run: Run) -> Task:
        """Return the task with its files read, so that any machine can simulate it; one that is refused meanwhile, as it is. Graph
        partitions are made once a `run`, as by `cut`."""
        try:
            inputs, texts = _with_warnings(lambda: _inputs(self, lambda experiment: _partitions_run(run, experiment)))
        except UserError:
            return self
        return replace(self, inputs=replace(inputs, warnings=texts))


def _partitions_run(run: Run, experiment: Experiment) -> Run:
    """Where a run keeps the graph partitions of a candidate's experiment."""
    return Run(run.folder / "cuts" / _partition_key(experiment))


def _partition_key(experiment: Experiment) -> str:
    """A name that is the same for experiments whose graph is cut alike: models do not matter."""
    return experiment.digest(*(key for key in experiment.work if key != "model"))


def _anywhere(keys: dict[str, Any]) -> dict[str, Any]:
    """The keys with files named by absolute paths: who simulates may stand in another folder."""
    anywhere, data = dict(keys), dict(keys["dataset"])
    if isinstance(path := data.get("path"), str):
        data["path"] = str(Path(path).absolute())
    elif path:
        data["path"] = [str(Path(file).absolute()) for file in path]
    if isinstance(graph := data.get("graph"), dict) and isinstance(path := graph.get("path"), str):
        data["graph"] = graph | {"path": str(Path(path).absolute())}
    for key, is_file in (("cluster", presets.is_file), ("costs", lambda name: name not in ("auto", "datasheet", "fitted"))):
        if is_file(name := anywhere.get(key, "auto")):
            anywhere[key] = str(Path(name).absolute())
    return anywhere | {"dataset": data}


def judge(task: Task) -> Verdict:
    """Simulate one candidate of `chronoscale advise`, in a worker process.

    A strategy that refuses the experiment, or memory that does not suffice, is part of the verdict.
    """
    verdict, texts = _with_warnings(lambda: _judged(task))
    before = task.inputs.warnings if task.inputs is not None else ()
    return replace(verdict, warnings=tuple(dict.fromkeys((*before, *texts))))


def _with_warnings(call: Callable[[], R]) -> tuple[R, tuple[str, ...]]:
    """Return what a call returns, and the texts of its warnings, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        result = call()
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, ChronoscaleWarning)]
    return result, tuple(dict.fromkeys(texts))


def _judged(task: Task) -> Verdict:
    try:
        return _simulated(task.inputs or _inputs(task, lambda experiment: _unpacked(task, experiment)), task.candidate.gpus)
    except UserError as error:
        return Verdict(None, refused=str(error))


def _inputs(task: Task, partitions_run: Callable[[Experiment], Run]) -> CandidateInputs:
    """Read what a candidate is simulated with.

    partitions_run: called for the run that has its graph partitions. Raises UserError for one that its strategy, the memory of this
    machine, or the data refuse.
    """
    for file in task.keys.get("modules", ()):
        modules.load(file)
    experiment, gpus = parse(task.keys, "advise"), task.candidate.gpus
    (planner,) = planners(experiment).values()
    work = workload(experiment)
    _check_memory(planner, work, gpus)
    work = workflow_of(experiment.family).partition_for_simulation(experiment, work, experiment.gpus, partitions_run(experiment))[gpus]
    cluster = replace(presets.cluster(experiment.cluster), contention=experiment.contention)
    return CandidateInputs(experiment, planner, work, cluster, cluster_costs(experiment, cluster))


def _check_memory(planner: Strategy, work: Workload, gpus: int) -> None:
    Estimate(planner.name, gpus, planner.rows(work, gpus)).check(psutil.virtual_memory().available / 1e9)


def _unpacked(task: Task, experiment: Experiment) -> Run:
    """Write the graph partitions that a task brings to this process's temporary folder, and return that as the run that keeps them."""
    for name, content in task.cuts.items():
        file = _scratch() / _partition_key(experiment) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return Run(_scratch() / _partition_key(experiment))


def _simulated(inputs: CandidateInputs, gpus: int) -> Verdict:
    experiment, cluster = inputs.experiment, inputs.cluster
    _check_memory(inputs.planner, inputs.work, gpus)
    with replaying_with(experiment.engine):
        epoch = plan_and_replay(inputs.planner, inputs.work, gpus, cluster, inputs.costs, experiment.uncertainty, experiment.seed)
    schedule, trace = epoch.schedule, epoch.trace
    path = critical_path(schedule, trace, cluster.device, epoch.launches)
    occupied = occupied_ns(trace)
    return Verdict(
        epoch.point,
        trace.span_ns / 1e9,
        schedule.iterations,
        path_shares(path, schedule, trace, epoch.machines, epoch.crossed),
        float(occupied.max() - occupied.mean()) / max(trace.span_ns, 1),
    )


def workload(experiment: Experiment) -> Workload:
    """Return what to plan a candidate of `chronoscale advise` with: counts of the data, the model's shape, hyper-parameters.

    Made once in a process for candidates that train the same. Raises UserError as `Workflow.workload`.
    """
    keys = experiment.model_dump(mode="json", exclude_unset=True, exclude={"cluster", "gpus", "strategies", "launch", "costs"})
    return _workload(json.dumps(keys, sort_keys=True))


@lru_cache(maxsize=2)
def _workload(keys: str) -> Workload:
    experiment = parse(json.loads(keys), "advise")
    return workflow_of(experiment.family).workload(experiment)


@cache
def _scratch_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="chronoscale-advise-")


def _scratch() -> Path:
    """Return the temporary folder of this process for partitions of graphs; it is removed when the process ends."""
    return Path(_scratch_folder().name)
