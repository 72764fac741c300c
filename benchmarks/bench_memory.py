"""Planned peaks against what torch allocates on CPU: `python benchmarks/bench_memory.py`. Exact but for the allocator: no repeats."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch.profiler import ProfilerActivity, profile

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE, CpuLanes
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Workload

GRAPHS = GrowthGraph.rmat(2000, 12000, 10, 0.1, 2).sequence().without_self_edges()
HIDDEN = (8, 32)
STRATEGIES = ("psg", "blad", "real-type1", "real-reuse")


def ratio(name: str, model: str, layers: int, hidden: int) -> float:
    """Bytes that torch held at most in an epoch, over the schedule's planned peak."""
    machine = presets.local_cpu(1, 1e12, Link(1e9, 0))
    machine = replace(machine, device=replace(machine.device, streams=INLINE))
    costs, shape = DatasheetCosts(machine.device), model_shape(model, hidden, hidden, layers)
    work = Workload("memory", statistics_of(GRAPHS), shape)
    schedule = strategy(name).plan(work, 1, costs)
    planned = peaks(schedule, replay(schedule, machine, costs))[0]
    material = SnapshotMaterial(GRAPHS, hidden, weighted=shape.spatial == "gcn")
    context = Context()
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), context), work.hyper, context)
    execute(schedule, program, CpuLanes(False), "cpu")  # the optimiser's moments are there from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        execute(schedule, program, CpuLanes(False), "cpu")
    with tempfile.TemporaryDirectory() as folder:
        seen.export_chrome_trace(path := str(Path(folder) / "trace.json"))
        events = [event for event in json.loads(Path(path).read_text())["traceEvents"] if event.get("name") == "[memory]"]
    held = np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])])
    return float((held.max() + schedule.resident) / planned)  # parameters, gradients and moments were taken before


def main() -> None:
    print("| model | strategy | 1 layer, taken / planned | 2 layers, taken / planned |\n|---|---|---|---|")
    for model in MODELS:
        for name in STRATEGIES:
            cells = [", ".join(f"{ratio(name, model, layers, hidden):.2f}" for hidden in HIDDEN) for layers in (1, 2)]
            print(f"| {model} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
