"""Assumed points: simulated points with one assumption of their machines at other values of its range, all else as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.study.code import code_digest
from chronoscale.harness.study.evaluation import scenario_of, testbed
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.point import Assumed, StudyPoint, StudyResult, content_key
from chronoscale.harness.study.replay import Replayed, metric, read
from chronoscale.harness.study.stored_values import plain, restored
from chronoscale.harness.study.task import Task, hooked
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.simulator.engine import replay
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS, Assumption, assumptions_of

FEW = 100  # points of a study
PARTS = {True: 8, False: 2}  # of a range, at whose ends an assumption is tried: of few points, and of more


def values_of(assumption: Assumption, parts: int) -> list[float]:
    """Return the values at which an assumption is tried: the ends of so many equal parts of its range, each once."""
    return list(dict.fromkeys(assumption.value(place / parts) for place in range(parts + 1)))


def under_assumptions(task: Task, parts: int) -> dict[Assumed, StudyResult]:
    """Simulate a study's point once for each value of each assumption that matters to it and is not its usual one.

    parts: of each range, at whose ends it is tried. The plan stays as it is; what differs from draw to draw is left out. Empty for a point
    that a strategy refuses.
    """
    bed = testbed(task.point)
    try:
        scenario, workload = scenario_of(task.point), bed.workload(task.point)
    except UserError:
        return {}
    begin = time.perf_counter()
    metrics = {name: metric(name, hooked(task.hooks)) for name in task.metrics}
    results = {}
    for assumption in assumptions_of(scenario):
        if assumption.noise:
            continue
        for value in values_of(assumption, parts):
            if value != assumption.usual(scenario):
                changed = assumption.change(scenario, value)
                trace = replay(changed.schedule, changed.cluster, changed.costs)
                replayed = Replayed(task.point, bed, changed.cluster, workload, changed.schedule, trace)
                results[Assumed(assumption.name, value)] = read(replayed, metrics)
    seconds = (time.perf_counter() - begin) / max(len(results), 1)
    return {assumed: replace(result, seconds=seconds) for assumed, result in results.items()}


def all_under_assumptions(
    tasks: Sequence[Task], on_progress: Told, workers: int = 1, folder: Path | None = None
) -> dict[Assumed, Mapping[StudyPoint, StudyResult]]:
    """Simulate the points of a study that are simulated under every assumption, and return by assumption what became of the points that it
    matters to.

    on_progress: gets a line for each point that is done. workers: processes. folder: keeps a file a point, so that a second run goes on;
    None: nothing is kept. Raises as `sweep`.
    """
    simulated = [task for task in tasks if task.runner == "sweep"]
    parts = PARTS[len(simulated) <= FEW]
    done: dict[int, dict[Assumed, StudyResult]] = {}
    paths = {i: folder / f"{_key(task, parts)}.json" for i, task in enumerate(simulated)} if folder is not None else {}
    done |= {i: _load(path) for i, path in paths.items() if path.is_file()}

    def take(number: int, result: dict[Assumed, StudyResult]) -> None:
        done[number] = result
        if number in paths:
            lines = [[*assumed, asdict(one)] for assumed, one in result.items()]
            write_text(paths[number], json.dumps(plain(lines)))
        on_progress(f"assumptions: {len(done)} of {len(simulated)}: {simulated[number].point}")

    sweep(partial(under_assumptions, parts=parts), {i: task for i, task in enumerate(simulated) if i not in done}, take, workers)
    every = dict.fromkeys(assumed for i in range(len(simulated)) for assumed in done[i])
    return {one: {simulated[i].point: done[i][one] for i in range(len(simulated)) if one in done[i]} for one in every}


def _key(task: Task, parts: int) -> str:
    return content_key(task.key, parts, [f"{each.name} {each.low} {each.high}" for each in ASSUMPTIONS], code_digest(__name__))


def _load(path: Path) -> dict[Assumed, StudyResult]:
    lines = restored(json.loads(path.read_text()))
    return {Assumed(name, value): StudyResult(**{**result, "resumed": True}) for name, value, result in lines}
