"""Rivals on windows on this rank: `main(folder)`; test_sampled.py and test_hybrid.py compare what it writes."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from dense_trainer import RATE, weights
from rank_cases import run_on_ranks, serve_cases

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.hybrid.program import HybridProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.sampled.program import SampledProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, Recency, Workload

SEED, INPUTS, HIDDEN, NODES, EPOCHS = 5, 6, 8, 60, 3
RANKS = (1, 2, 4)
COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = GrowthGraph.rmat(NODES, 400, 11, 0.1, 1).sequence().without_self_edges()


@dataclass(frozen=True)
class Case:
    """`fanout`: of every layer; 1000 covers all degrees."""

    model: str
    layers: int
    task: str
    fanout: int
    window: int = 3

    @property
    def label(self):
        return f"{self.model}-{self.layers}-{self.task}-{self.fanout}-{self.window}"

    @property
    def hyper(self):
        return Hyper(recency=Recency(Decay(self.window, 0, 1.0), 4, apart=True), task=self.task, fanout=(self.fanout,), seed=7)

    @property
    def shape(self):
        task = task_of(self.task)
        return model_shape(self.model, task.inputs(INPUTS), HIDDEN, self.layers, task.outputs(0, "", HIDDEN))

    def workload(self):
        chunks = Chunks((np.arange(NODES) % 4).astype(np.int32), 4)
        return Workload("w", statistics_of(GRAPHS), self.shape, self.hyper, chunking=ExactChunking(GRAPHS, chunks))


CASES = [
    Case("t-gcn", 1, "degrees", 1000),
    Case("t-gcn", 2, "in-degree", 2),
    Case("wd-gcn", 2, "degrees", 3, window=1),
    Case("mpnn-lstm", 3, "degrees", 3, window=4),
    Case("evolvegcn-o", 1, "in-degree", 1),
    Case("evolvegcn-o", 2, "degrees", 3),
]


def learner_of(case, context):
    """Of plain gradient descent, which does not hide a gradient that counts twice."""
    learner = Learner(SnapshotModel(case.shape, SEED), context)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
    return learner


def sampled(case, context, ranks):
    """Losses of all epochs, whether what moved is what was planned, bytes that moved, what is left on the device; and the weights."""
    schedule = strategy("dynagraph").plan(case.workload(), ranks, COSTS)
    material, learner = SnapshotMaterial(GRAPHS, case.shape.inputs, task=case.task), learner_of(case, context)
    program = SampledProgram(schedule, material, learner, case.hyper, context)
    losses = [execute(schedule, program, context.lanes(schedule), "cpu").losses.tolist()]
    planned = {t.task: t.bytes for t in program.tasks if t.op in COLLECTIVES - {Op.ALLREDUCE}}
    equal = planned == program.exchange.moved
    losses += [execute(schedule, program, context.lanes(schedule), "cpu").losses.tolist() for _ in range(EPOCHS - 1)]
    left = len(program.grid._there) + len(program.grid.sums) + len(program.grid.cells)
    return {"losses": losses, "equal": equal, "exchanged": sum(planned.values()), "left": left}, weights(learner.model)


def hybrid(case, context, ranks):
    """As `sampled`, and the sizes of all batches."""
    work = case.workload()
    schedule = strategy("dynahb").plan(work, ranks, COSTS)
    material, learner = SnapshotMaterial(GRAPHS, case.shape.inputs, task=case.task), learner_of(case, context)
    program = HybridProgram(schedule, material, work.chunking.chunks, learner, case.hyper, context)
    program.adapts = True
    losses, choices, equal = [], [], []
    for _ in range(EPOCHS):
        losses.append(execute(schedule, program, context.lanes(schedule), "cpu").losses.tolist())
        choices.append([(program.choices[i].window, program.choices[i].vertices) for i in range(schedule.iterations)])
        if not equal:
            sent = [task for task in program.tasks if task.op in (Op.GATHER, Op.H2D) and choices[0][task.iteration] == choices[0][0]]
            equal = [task.bytes == program.moved[task.task] * (1 + (task.op is Op.GATHER)) for task in sent]
    summary = {"losses": losses, "equal": all(equal) and len(equal) > 0, "left": len(program.batches), "choices": choices}
    return summary, weights(learner.model)


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    """The cases of these labels on this rank; a file of what they gave."""
    with open_context(Settings(device="cpu")) as context:
        for train in (sampled, hybrid):
            results = {case.label: train(case, context, ranks) for case in CASES if case.label in labels}
            path = folder / f"{train.__name__}-{ranks}-{rank}"
            path.with_suffix(".json").write_text(json.dumps({label: one for label, (one, _) in results.items()}))
            np.savez(path.with_suffix(".npz"), **{label: trained for label, (_, trained) in results.items()})


def run_everywhere(folder: Path, numbers: Iterable[int]) -> Path:
    """Run all cases on these numbers of ranks."""
    labels = [case.label for case in CASES]
    run(folder, 0, 1, labels)
    run_on_ranks("rival_cases", folder, {ranks: labels for ranks in numbers if ranks > 1})
    return folder


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
