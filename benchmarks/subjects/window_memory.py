"""Planned peaks of sliding windows are near what torch holds, on real snapshots and two ranks.

Two epochs a strategy: the first takes the optimiser's moments, the profiler watches the second, which draws as the plan does. Exact but for
the order in which two threads take and give back. A contestant is a rank.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp
from core.case import Case, Passes, Setting, Subject
from setups.profiled import bytes_held
from setups.snapshots import sequence_of

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

CHUNKS, SNAPSHOTS = 64, 16
CASES = (
    ("full-history", "t-gcn", 1),
    ("flaredtdg", "t-gcn", 1),
    ("flaredtdg-remap", "t-gcn", 1),
    ("recent-only", "t-gcn", 1),
    ("full-history", "t-gcn", 2),
    ("flaredtdg", "t-gcn", 2),
    ("flaredtdg-no-overlap", "t-gcn", 2),
    ("flaredtdg", "mpnn-lstm", 2),
    ("flaredtdg", "evolvegcn-o", 2),
)


def on_rank(rank: int, ranks: int, data: str, name: str, kind: str, layers: int, hidden: int, folder: Path) -> None:
    """Write a rank's planned and taken bytes to a file."""
    dist.init_process_group("gloo", f"file://{folder / 'meeting'}", rank=rank, world_size=ranks)
    start, whole = time.perf_counter(), sequence_of(data)
    sequence = SnapshotSequence.from_snapshots([whole[t] for t in range(max(len(whole) - SNAPSHOTS, 0), len(whole))], data)
    chunks = cut_into_chunks(sequence, CHUNKS)
    hyper = Hyper(recency=Recency(Decay(2, 6, 0.05), CHUNKS), task="degrees")
    machine = presets.local_cpu(ranks, 1e12, Link(1e9, 1e-4))
    costs = DatasheetCosts(machine.device)
    with open_context(Settings(device="cpu")) as context:
        shape = model_shape(kind, 2, hidden, layers, 2)
        work = Workload(data, statistics_of(sequence), shape, hyper, chunking=ExactChunking(sequence, chunks))
        schedule = strategy(name).plan(work, ranks, costs)
        planned = float(peaks(schedule, replay(schedule, machine, costs))[rank])
        learner, material = learner_of(ModelChoice(kind, hidden, layers, 2), context, 2), SnapshotMaterial(sequence, 2, task="degrees")
        program, lanes = WindowProgram(schedule, material, chunks, learner, hyper, context), context.lanes(schedule)
        execute(schedule, program, lanes, "cpu")
        program.epoch = 0
        peak = bytes_held(partial(execute, schedule, program, lanes, "cpu"))
        taken = peak + 16 * shape.parameters  # parameters, gradients and moments were taken before
    figures = {"seconds": time.perf_counter() - start, "planned, MB": planned / 1e6, "taken / planned": taken / planned}
    (folder / f"rank-{rank}.json").write_text(json.dumps(figures))


def measure(ranks: int, data: str, name: str, kind: str, layers: int, hidden: int, setting: Setting) -> Passes:
    """Execute on all ranks."""
    mp.spawn(on_rank, (ranks, data, name, kind, layers, hidden, setting.scratch), nprocs=ranks)
    return {f"rank {rank}": [json.loads((setting.scratch / f"rank-{rank}.json").read_text())] for rank in range(ranks)}


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by strategies and models, on one rank and on two."""
    for data in ("growth-80",) if quick else ("math_overflow_monthly", "enron_monthly"):
        for name, kind, layers in CASES[1:2] if quick else CASES:
            for ranks in (1,) if quick else (1, 2):
                parameters = {"data": data, "strategy": name, "model": kind, "layers": layers, "ranks": ranks}
                yield Case(parameters, partial(measure, ranks, data, name, kind, layers, 4 if quick else 64))


SUBJECT = Subject(cases, 1)
