"""What windows are planned to hold, against the tensors that torch holds at most in an epoch."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pairwise import fast
from torch.profiler import ProfilerActivity, profile

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE, CpuLanes
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.simulator.presets import local_cpu
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import UNUSED, DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

GRAPHS = GrowthGraph.rmat(20_000, 60_000, 11, 0.1, 2).sequence().without_self_edges()
CHUNKS = Chunks((np.arange(GRAPHS.num_nodes) % 32).astype(np.int32), 32)
HYPER = Hyper(recency=Recency(Decay(2, 4, 0.1), CHUNKS.count), task="degrees")


MODELS = [("t-gcn", 1), ("t-gcn", 2), ("mpnn-lstm", 2), ("wd-gcn", 1), ("evolvegcn-o", 1), ("evolvegcn-h", 2)]
CASES = [*((name, *model) for name in ("full-history", "flaredtdg", "recent-only") for model in MODELS), ("flaredtdg-remap", "t-gcn", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "layers"), fast(CASES, lambda number, _: number in (1, 8, 12, 18)))
def test_the_planned_peak_is_what_torch_holds(name, model, layers, tmp_path):
    shape = model_shape(model, 2, 32, layers, 2)
    work = Workload("memory", statistics_of(GRAPHS), shape, HYPER, chunking=ExactChunking(GRAPHS, CHUNKS))
    schedule, machine = strategy(name).plan(work, 1, UNUSED), local_cpu(1, 1e12, Link(1e9, 0))
    machine = replace(machine, device=replace(machine.device, streams=INLINE))
    planned = peaks(schedule, replay(schedule, machine, DatasheetCosts(machine.device)))[0]
    material, context = SnapshotMaterial(GRAPHS, 2, task="degrees"), Context()
    program = WindowProgram(schedule, material, CHUNKS, learner_of(ModelChoice(model, 32, layers, 2), context, 2), HYPER, context)
    execute(schedule, program, CpuLanes(False), "cpu")  # the optimiser's moments are there from now on
    program.epoch = 0  # the epoch that was planned
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        execute(schedule, program, CpuLanes(False), "cpu")
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event.get("name") == "[memory]"]
    held = np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])])
    taken = held.max() + 4 * 4 * shape.parameters  # parameters, gradients and moments were taken before
    assert taken == pytest.approx(planned, rel=0.1)
