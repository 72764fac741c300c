"""Judge: one candidate simulated, wherever: in this process, in another one, or on another machine."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import psutil

from chronoscale import modules
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.advice.candidates import Candidate, variant
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.harness.execute.profiles import simulated_costs
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.planners import planners
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.estimate import Estimate
from chronoscale.harness.simulate.plan_and_replay import simulated
from chronoscale.harness.simulate.simulation import partitioned
from chronoscale.simulator import presets
from chronoscale.simulator.critical_path import critical_path, path_shares
from chronoscale.strategies.evaluation.metrics import occupied_ns

_ONE = Lock()  # at a time in a process: Dask's workers run tasks in threads, and warnings are caught for all threads alike


@dataclass(frozen=True, slots=True)
class Task:
    """A candidate, the keys of its experiment with no strategies but its own, and how its graph was cut, where it is: all that travels to
    whoever simulates it. cuts: files of a run's pieces by their paths in it."""

    candidate: Candidate
    keys: Mapping[str, Any]
    cuts: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment, candidate: Candidate) -> Task:
        """With nothing cut. Raises UserError as `variant`."""
        found = variant(experiment, candidate.cluster, candidate.settings)
        named = found.strategies if "strategies" in experiment.model_fields_set else ()
        names = dict(zip(planners(found), named, strict=True)) if named else {}  # a file's strategy is found by its file
        own = {"strategies": [names.get(candidate.strategy, candidate.strategy)], "gpus": [candidate.gpus]}
        return cls(candidate, _anywhere(found.model_dump(mode="json", exclude_unset=True)) | own)

    def cut(self, run: Run) -> Task:
        """With its cuts, made once a `run`: METIS may answer otherwise the next time."""
        experiment = parse(self.keys, "advise")
        (planner,) = planners(experiment).values()
        if not (planner.partitioned or planner.chunked):
            return self
        kept = Run(run.folder / "cuts" / _divided(experiment))
        with suppress(UserError), warnings.catch_warnings(action="ignore", category=ChronoscaleWarning):  # `judge` tells both
            partitioned(experiment, workload(experiment), kept)
        files = [file for file in sorted(kept.folder.rglob("*")) if file.is_file()]
        return replace(self, cuts={str(file.relative_to(kept.folder)): file.read_bytes() for file in files})


def _divided(experiment: Experiment) -> str:
    """The same for experiments whose graph is cut alike: models do not matter."""
    return experiment.digest(*(key for key in experiment.work if key != "model"))


def _anywhere(keys: dict[str, Any]) -> dict[str, Any]:
    """The same with files named by absolute paths: who simulates may stand in another folder."""
    found, data = dict(keys), dict(keys["dataset"])
    if isinstance(path := data.get("path"), str):
        data["path"] = str(Path(path).absolute())
    elif path:
        data["path"] = [str(Path(one).absolute()) for one in path]
    for key, is_file in (("cluster", presets.is_file), ("costs", lambda name: name not in ("auto", "datasheet", "fitted"))):
        if is_file(name := found.get(key, "auto")):
            found[key] = str(Path(name).absolute())
    return found | {"dataset": data}


def judge(task: Task) -> Verdict:
    """Simulate it. What it is refused for, or does not fit by, is part of the verdict."""
    with _ONE, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ChronoscaleWarning)
        try:
            found = _judged(task)
        except UserError as error:
            found = Verdict(None, refused=str(error))
        texts = [str(one.message) for one in said if issubclass(one.category, ChronoscaleWarning)]
    return replace(found, warnings=tuple(dict.fromkeys(texts)))


def _judged(task: Task) -> Verdict:
    for file in task.keys.get("modules", ()):
        modules.load(file)
    experiment, gpus = parse(task.keys, "advise"), task.candidate.gpus
    (planner,) = planners(experiment).values()
    work = workload(experiment)
    Estimate(planner.name, gpus, planner.rows(work, gpus)).check(psutil.virtual_memory().available / 1e9)
    for name, content in task.cuts.items():
        file = _scratch() / _divided(experiment) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    work = partitioned(experiment, work, Run(_scratch() / _divided(experiment)))[gpus]
    cluster = presets.cluster(experiment.cluster)
    costs = simulated_costs(experiment, cluster)
    found = simulated(experiment, planner, work, gpus, cluster, costs)
    schedule, trace = found.schedule, found.trace
    path = critical_path(schedule, trace, cluster.device, found.launches)
    occupied = occupied_ns(trace)
    return Verdict(
        found.point,
        trace.span_ns / 1e9,
        schedule.iterations,
        path_shares(path, schedule, trace, found.machines, found.crossed),
        float(occupied.max() - occupied.mean()) / max(trace.span_ns, 1),
    )


def workload(experiment: Experiment) -> Any:
    """As `Trained.workload`; candidates that train the same share it. Raises UserError as it."""
    keys = experiment.model_dump(mode="json", exclude_unset=True, exclude={"cluster", "gpus", "strategies", "launch", "costs"})
    return _workload(json.dumps(keys, sort_keys=True))


@lru_cache(maxsize=2)
def _workload(keys: str) -> Any:
    experiment = parse(json.loads(keys), "advise")
    return practice_of(experiment).workload(experiment)


@cache
def _scratch_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="chronoscale-advise-")


def _scratch() -> Path:
    """Where this process keeps how graphs are cut, until it ends."""
    return Path(_scratch_folder().name)
