"""Planned peaks of sliding windows against what torch holds, on real snapshots and several ranks.

    python benchmarks/bench_window_memory.py [--datasets math_overflow_monthly enron_monthly] [--snapshots 16] [--ranks 2] …

Two epochs a strategy: the first takes the optimiser's moments, the profiler watches the second, which draws as the plan does. Exact but for
the order in which two threads take and give back: no repeats. Prints the fullest rank, planned and taken, and the ratio of every rank.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile

from chronoscale.batching.snapshots.chunks import Chunks, Counted, chunked
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
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

CHUNKS = 64
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


def held(path: Path) -> int:
    """The most bytes that a profile saw held at once, beside what was there before."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    return int(np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]).max())


def measured(rank: int, options: argparse.Namespace, sequence: SnapshotSequence, chunks: Chunks, port: int, folder: str) -> None:
    """All cases on a rank; a file of planned and taken bytes."""
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.ranks)
    hyper = Hyper(recency=Recency(Decay(options.full, options.decayed, options.alpha), CHUNKS), task="degrees")
    machine, found = presets.local_cpu(options.ranks, 1e12, Link(1e9, 1e-4)), []
    costs = DatasheetCosts(machine.device)
    with open_context(Settings(device="cpu")) as context:
        for name, kind, layers in CASES:
            shape = model_shape(kind, 2, options.hidden, layers, 2)
            work = Workload(sequence.name, statistics_of(sequence), shape, hyper, chunking=Counted(sequence, chunks))
            schedule = strategy(name).plan(work, options.ranks, costs)
            planned = peaks(schedule, replay(schedule, machine, costs))[rank]
            learner = learner_of(ModelChoice(kind, options.hidden, layers, 2), context, 2)
            material = SnapshotMaterial(sequence, 2, task="degrees")
            program, lanes = WindowProgram(schedule, material, chunks, learner, hyper, context), context.lanes(schedule)
            execute(schedule, program, lanes, "cpu")
            program.epoch = 0
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
                execute(schedule, program, lanes, "cpu")
            trace = Path(folder) / f"trace-{rank}.json"
            seen.export_chrome_trace(str(trace))
            found.append((int(planned), held(trace) + 16 * shape.parameters))  # parameters, gradients and moments were taken before
    (Path(folder) / f"found-{rank}.json").write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["math_overflow_monthly", "enron_monthly"])
    parser.add_argument("--snapshots", type=int, default=16, help="the last ones")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--full", type=int, default=2)
    parser.add_argument("--decayed", type=int, default=6)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--port", type=int, default=29631)
    options = parser.parse_args()
    print("| data | strategy | model | layers | planned, MB | taken, MB | taken / planned by rank |\n|---|---|---|---|---|---|---|")
    for data in options.datasets:
        try:
            sequence = load(data)
        except UserError as error:
            sys.exit(f"bench_window_memory: {error}")
        assert isinstance(sequence, SnapshotSequence)
        last = [sequence[t] for t in range(max(len(sequence) - options.snapshots, 0), len(sequence))]
        sequence = SnapshotSequence.from_snapshots(last, data).without_self_edges()
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(measured, (options, sequence, chunked(sequence, CHUNKS), options.port, folder), nprocs=options.ranks)
            found = [json.loads((Path(folder) / f"found-{rank}.json").read_text()) for rank in range(options.ranks)]
        for (name, kind, layers), *each in zip(CASES, *found, strict=True):
            planned, taken = (max(column) / 1e6 for column in zip(*each, strict=True))
            by_rank = ", ".join(f"{own / plan:.3f}" for plan, own in each)
            print(f"| {data} | {name} | {kind} | {layers} | {planned:.1f} | {taken:.1f} | {by_rank} |", flush=True)


if __name__ == "__main__":
    main()
