"""One transpose a snapshot, shared by its copies, against one at every arrival, on CPU: `python benchmarks/bench_transposes.py`.

Epochs of both in turn, in one process; the backward rows and the whole epoch.
"""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Workload

PASSES = 11
WIDTH = 32
GRAPHS = {
    "2,000 nodes, 12,000 edges": GrowthGraph.rmat(2_000, 12_000, 10, 0.1, 2),
    "20,000 nodes, 400,000 edges": GrowthGraph.rmat(20_000, 400_000, 8, 0.1, 2),
}


def main() -> None:
    torch.set_num_threads(1)
    print("| graphs | model | layers | backward, anew | shared | shared / anew | epoch, anew | shared | shared / anew |")
    print("|---|---|---|---|---|---|---|---|---|")
    for label, graph in GRAPHS.items():
        graphs = graph.sequence().without_self_edges()
        for model, layers in (("wd-gcn", 2), ("t-gcn", 2), ("gat-lstm", 1), ("gat-lstm", 2)):
            shape = model_shape(model, WIDTH, WIDTH, layers)
            work = Workload("transposes", statistics_of(graphs), shape)
            schedule, context = strategy("psg").plan(work, 1, UNUSED), Context()
            material = SnapshotMaterial(graphs, WIDTH, weighted=shape.spatial == "gcn")
            program = SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), context), work.hyper, context)
            times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for _ in range(PASSES):
                for program.shares in (False, True):
                    trace = execute(schedule, program, CpuLanes(False), "cpu").trace
                    times[program.shares].append((trace.duration_ns[trace.op == Op.BACKWARD].sum() / 1e6, trace.span_ns / 1e6))
            cells = []
            for at in (0, 1):
                found = {shares: np.array([one[at] for one in of[1:]]) for shares, of in times.items()}  # the first warms up
                spread = {shares: np.subtract(*np.quantile(v, [0.75, 0.25])) / 2 / np.median(v) for shares, v in found.items()}
                cells += [f"{np.median(found[shares]):.1f} ms (±{spread[shares]:.0%})" for shares in (False, True)]
                cells.append(f"{np.median(found[True]) / np.median(found[False]):.2f}")
            print(f"| {label} | {model} | {layers} | {' | '.join(cells)} |")
    print(f"\n{device_name(torch.device('cpu'))}, one thread, torch {torch.__version__}; psg, width {WIDTH}, median of {PASSES - 1} epochs")


if __name__ == "__main__":
    main()
