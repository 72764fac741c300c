"""Planned peaks of epochs are near what torch allocates on a CPU: snapshots on one rank, sliding windows on one and on two.

`taken / planned` is exact but for the allocator: all rows run on one thread, ranks are virtual, and the plan is replayed alike, for torch's
profiler sees one thread alone. `planned beside, MB` is the plan where rows run beside communication, at a datasheet's times, as users
see it. Two epochs: the first takes the optimiser's moments, the profiler watches the second, which draws as the plan does. A contestant
is a rank.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from core.case import Case, Passes, Setting, Subject
from setups.data import sequence_of
from setups.process import bytes_held

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual
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
MONTHLY = ("math_overflow_monthly", "enron_monthly")  # whose features are degrees, so that groups fold nodes without edges


def measure(ranks: int, data: str, name: str, kind: str, layers: int, hidden: int, setting: Setting) -> Passes:
    """Execute on all ranks, once to watch each of them."""
    return {f"rank {rank}": [figures(rank, ranks, data, name, kind, layers, hidden)] for rank in range(ranks)}


def figures(watched: int, ranks: int, data: str, name: str, kind: str, layers: int, hidden: int) -> dict[str, float]:
    """Return a rank's planned and taken bytes."""
    start, whole, windowed, varies = time.perf_counter(), sequence_of(data), name in WINDOWED, data in MONTHLY or name in WINDOWED
    sequence = SnapshotSequence.from_snapshots([whole[t] for t in range(max(len(whole) - SNAPSHOTS, 0), len(whole))], data)
    inputs = 2 if varies else hidden
    shape = model_shape(kind, inputs, hidden, layers, 2) if varies else model_shape(kind, inputs, hidden, layers)
    hyper = Hyper(recency=Recency(Decay(2, 6, 0.05), CHUNKS), task="degrees") if varies else Hyper()
    beside = presets.local_cpu(ranks, 1e12, Link(1e9, 1e-4))
    machine = replace(beside, device=replace(beside.device, streams=INLINE))
    costs, chunks = DatasheetCosts(machine.device), cut_into_chunks(sequence, CHUNKS) if windowed else None
    chunking = None if chunks is None else ExactChunking(sequence, chunks)
    schedule = strategy(name).plan(Workload(data, statistics_of(sequence), shape, hyper, chunking=chunking), ranks, costs)
    planned, planned_beside = (float(peaks(schedule, replay(schedule, each, costs))[watched]) for each in (machine, beside))

    def epochs(rank: VirtualRank) -> int:
        """Execute two epochs; return the bytes that the watched rank holds in the second, 0 for others."""
        with open_context(Settings(device="cpu"), rank) as context:
            learner = learner_of(ModelChoice(kind, hidden, layers, inputs), context, *((2,) if varies else ()))
            program: WindowProgram | SnapshotProgram
            if chunks is not None:
                material = SnapshotMaterial(sequence, 2, task="degrees")
                program = WindowProgram(schedule, material, chunks, learner, hyper, context)
            else:
                material = SnapshotMaterial(sequence, inputs, weighted=shape.spatial == "gcn", task=hyper.task)
                program = SnapshotProgram(schedule, material, learner, hyper, context)
            epoch = partial(execute, schedule, program, context.lanes(schedule), "cpu")
            epoch()
            program.epoch = 0
            if rank.rank == watched:
                return bytes_held(epoch)
            epoch()
            return 0

    before = 16 * shape.parameters if windowed else schedule.resident  # parameters, gradients, moments, what folded groups predict
    taken = max(run_virtual(epochs, ranks, name)) + before
    sizes = {"planned, MB": planned / 1e6, "planned beside, MB": planned_beside / 1e6, "taken / planned": taken / planned}
    return {"seconds": time.perf_counter() - start, **sizes}


def cases(quick: bool) -> Iterator[Case]:
    """Yield strategies on snapshots by models, layers and widths, then windows by data sets and ranks."""
    plain: list[tuple[int, str, str, str, int, int]] = [
        (1, "growth-2000-12000-10", name, kind, layers, hidden)
        for name, kind, layers, hidden in product(("psg", "blad", "real-type1", "real-reuse"), MODELS, (1, 2), (8, 32))
    ]
    shared = product((1, 2), ("psg", "real-g+"), ("wd-gcn", "t-gcn", "gat-lstm"))
    plain += [(ranks, "growth-20000-60000-12", name, kind, 1, 64) for ranks, name, kind in shared]  # real-g+ shares rows there
    plain += [(1, data, name, kind, layers, 32) for data, name, kind, layers in product(MONTHLY, ("psg", "real-reuse"), MODELS, (1, 2))]
    windows = [(ranks, data, *one, 64) for data, one, ranks in product(MONTHLY, WINDOWS, (1, 2))]
    chosen = [(1, "growth-80", "psg", "t-gcn", 1, 4), (1, "growth-80", "flaredtdg", "t-gcn", 1, 4)] if quick else [*plain, *windows]
    for given in chosen:
        yield Case(dict(zip(("ranks", "data", "strategy", "model", "layers", "hidden"), given, strict=True)), partial(measure, *given))


SUBJECT = Subject(cases, 1)
