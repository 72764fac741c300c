"""Planned peaks of epochs are near what torch allocates on a CPU: snapshots on one rank, sliding windows on one and on two.

`taken / planned` is exact but for the allocator, and on two ranks for the order in which two threads take and give back. Two epochs: the
first takes the optimiser's moments, the profiler watches the second, which draws as the plan does. A contestant is a rank.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch.distributed as dist
import torch.multiprocessing as mp
from core.case import Case, Passes, Setting, Subject
from setups.data import sequence_of
from setups.process import bytes_held

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE, CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

CHUNKS, SNAPSHOTS = 64, 16
WINDOWS = (
    *(("full-history", "t-gcn", 1), ("flaredtdg", "t-gcn", 1), ("flaredtdg-remap", "t-gcn", 1), ("recent-only", "t-gcn", 1)),
    *(("full-history", "t-gcn", 2), ("flaredtdg", "t-gcn", 2), ("flaredtdg-no-overlap", "t-gcn", 2)),
    *(("flaredtdg", "mpnn-lstm", 2), ("flaredtdg", "evolvegcn-o", 2)),
)
WINDOWED = {name for name, *_ in WINDOWS}


def on_rank(rank: int, ranks: int, data: str, name: str, kind: str, layers: int, hidden: int, folder: Path) -> None:
    """Write a rank's planned and taken bytes to a file."""
    dist.init_process_group("gloo", f"file://{folder / 'meeting'}", rank=rank, world_size=ranks)
    start, whole, windowed = time.perf_counter(), sequence_of(data), name in WINDOWED
    sequence = SnapshotSequence.from_snapshots([whole[t] for t in range(max(len(whole) - SNAPSHOTS, 0), len(whole))], data)
    inputs = 2 if windowed else hidden
    shape = model_shape(kind, inputs, hidden, layers, 2) if windowed else model_shape(kind, inputs, hidden, layers)
    hyper = Hyper(recency=Recency(Decay(2, 6, 0.05), CHUNKS), task="degrees") if windowed else Hyper()
    machine = presets.local_cpu(ranks, 1e12, Link(1e9, 1e-4))
    if not windowed:
        machine = replace(machine, device=replace(machine.device, streams=INLINE))
    costs, chunks = DatasheetCosts(machine.device), cut_into_chunks(sequence, CHUNKS) if windowed else None
    with open_context(Settings(device="cpu")) as context:
        chunking = None if chunks is None else ExactChunking(sequence, chunks)
        work = Workload(data, statistics_of(sequence), shape, hyper, chunking=chunking)
        schedule = strategy(name).plan(work, ranks, costs)
        planned = float(peaks(schedule, replay(schedule, machine, costs))[rank])
        learner = learner_of(ModelChoice(kind, hidden, layers, inputs), context, *((2,) if windowed else ()))
        if chunks is not None:
            material = SnapshotMaterial(sequence, 2, task="degrees")
            program, lanes = WindowProgram(schedule, material, chunks, learner, hyper, context), context.lanes(schedule)
        else:
            material = SnapshotMaterial(sequence, inputs, weighted=shape.spatial == "gcn")
            program, lanes = SnapshotProgram(schedule, material, learner, hyper, context), CpuLanes(False)
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
    """Yield strategies on snapshots by models, layers and widths, then windows by data sets and ranks."""
    plain: list[tuple[int, str, str, str, int, int]] = [
        (1, "growth-2000-12000-10", name, kind, layers, hidden)
        for name, kind, layers, hidden in product(("psg", "blad", "real-type1", "real-reuse"), MODELS, (1, 2), (8, 32))
    ]
    windows = [(ranks, data, *one, 64) for data, one, ranks in product(("math_overflow_monthly", "enron_monthly"), WINDOWS, (1, 2))]
    chosen = [(1, "growth-80", "psg", "t-gcn", 1, 4), (1, "growth-80", "flaredtdg", "t-gcn", 1, 4)] if quick else [*plain, *windows]
    for given in chosen:
        yield Case(dict(zip(("ranks", "data", "strategy", "model", "layers", "hidden"), given, strict=True)), partial(measure, *given))


SUBJECT = Subject(cases, 1)
