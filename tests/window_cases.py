"""Strategies on sliding windows executed on this rank: `main(folder)`.

As `baseline_cases.py`: the folder holds a sequence, its chunks and schedules. Writes losses and weights after two epochs;
tests/real_exec/test_windows.py compares them.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from dense_trainer import RATE, weights
from rank_cases import serve_cases

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.flaredtdg import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, Recency, Workload

INPUTS, HIDDEN, SEED, CHUNKS, EPOCHS = 6, 8, 5, 16, 2
CLASSES = 3  # of nodes; every fourth is unlabelled
MODELS = ("t-gcn", "wd-gcn", "mpnn-lstm", "evolvegcn-o", "evolvegcn-h")
NAMES = ("FLAREDTDG", "ROUND_ROBIN", "IN_ORDER", "REMAPPED", "FULL_HISTORY", "RECENT_ONLY", "RECENT_STATES")
STRATEGIES = {one.name: one for one in (getattr(strategy, name) for name in NAMES)}
COSTS = DatasheetCosts(presets.cluster("h200").device)
DECAY = Decay(2, 3, 0.25)


@dataclass(frozen=True)
class Case:
    """`decay` of which `chunks`; `ranks`: how many it is run on."""

    strategy: str
    model: str
    layers: int
    task: str = "degrees"
    decay: Decay = DECAY
    chunks: int = CHUNKS
    variant: str = "exact"
    horizon: int = 1
    apart: bool = False  # windows do not cross the split of an epoch
    ranks: tuple[int, ...] = (1, 2, 4)

    @property
    def label(self) -> str:
        decay = self.decay
        decay_label = f"{decay.full}.{decay.decayed}.{decay.alpha:g}.{self.chunks}" + "".join(f".lag{lag}" for lag in decay.lags)
        ahead = f"-ahead{self.horizon}" * (self.horizon > 1)
        return (
            f"{self.strategy}-{self.model}-{self.layers}-{self.task}-{decay_label}{ahead}"
            + "-published" * (self.variant != "exact")
            + "-apart" * self.apart
        )

    @property
    def shape(self):
        task = task_of(self.task)
        return model_shape(self.model, task.inputs(INPUTS), HIDDEN, self.layers, task.outputs(CLASSES, "growth", HIDDEN))

    @property
    def hyper(self) -> Hyper:
        recency = Recency(self.decay, self.chunks, self.apart)
        return Hyper(task=self.task, horizon=self.horizon, variant=self.variant, recency=recency, seed=3)

    @property
    def trains(self) -> Hyper:
        """What an oracle keeps: the strategy's own windows."""
        return replace(self.hyper, recency=Recency(STRATEGIES[self.strategy].keeps(self.hyper.recency), self.chunks, self.apart))


def others(name: str, model: str, layers: int, **changed) -> Case:
    return Case(name, model, layers, ranks=(1, 2), **changed)


CASES = [
    *(Case("flaredtdg", m, n, task) for m in MODELS for n in (1, 2) for task in ("degrees", "classes")),
    *(others(name, m, 2) for name in STRATEGIES if name != "flaredtdg" for m in ("t-gcn", "mpnn-lstm", "evolvegcn-h")),
    *(others("flaredtdg", m, 2, decay=Decay(2, 3, 1.0)) for m in ("t-gcn", "mpnn-lstm", "evolvegcn-h")),
    *(others("flaredtdg", m, 2, decay=Decay(1, 4, 0.25, (3,))) for m in ("t-gcn", "wd-gcn", "evolvegcn-o")),
    *(others(name, "t-gcn", 2, decay=Decay(1, 4, 0.25, (4, 2))) for name in ("flaredtdg", "flaredtdg-remap")),
    *(others("flaredtdg", m, 2, decay=Decay(1, 4, 0.001)) for m in ("wd-gcn", "evolvegcn-o")),  # nothing is kept of the oldest
    others("flaredtdg", "t-gcn", 3, decay=Decay(1, 0)),
    others("flaredtdg", "t-gcn", 2, horizon=2),
    others("flaredtdg", "t-gcn", 2, apart=True),
    *(others(name, m, 1, task="links") for name, m in (("flaredtdg", "t-gcn"), ("flaredtdg-remap", "evolvegcn-h"))),
    *(others(name, "evolvegcn-h", 1, task="links") for name in ("flaredtdg", "flaredtdg-no-overlap")),
    *(
        Case("flaredtdg", m, 2, task, variant="as-published", apart=True)
        for m in ("t-gcn", "evolvegcn-o")
        for task in ("degrees", "classes")
    ),
    Case("flaredtdg-remap", "t-gcn", 2, variant="as-published", apart=True),
    Case("flaredtdg", "evolvegcn-h", 2, decay=Decay(2, 3, 1.0), variant="as-published"),
]


def plan(case: Case, folder: Path, ranks: int) -> None:
    """The case's schedule, as a file: planned once, for whichever process runs it."""
    sequence, chunks = store.load(folder / "growth"), Chunks(np.load(folder / f"chunks-{case.chunks}.npy"), case.chunks)
    work = Workload("w", statistics_of(sequence), case.shape, case.hyper, chunking=ExactChunking(sequence, chunks))
    STRATEGIES[case.strategy].plan(work, ranks, COSTS).save(folder / f"{case.label}-{ranks}.parquet")


def train(case: Case, model: SnapshotModel, folder: Path, context: Context):
    """Losses of all epochs, bytes that this rank's rows of communication moved, and what is left on the device."""
    sequence, schedule = store.load(folder / "growth"), Schedule.load(folder / f"{case.label}-{context.ranks}.parquet")
    chunks = Chunks(np.load(folder / f"chunks-{case.chunks}.npy"), case.chunks)
    material = SnapshotMaterial(sequence, case.shape.inputs, case.variant, task=case.task, hyper=case.hyper)
    learner = Learner(model, context)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
    program = WindowProgram(schedule, material, chunks, learner, case.hyper, context)
    losses, planned = [], {t.task: t.bytes for t in program.tasks if t.op in (Op.ALLTOALL, Op.ALLGATHER)}
    for epoch in range(EPOCHS):
        losses.append(execute(schedule, program, context.lanes(schedule), "cpu").losses.tolist())
        if epoch == 0:  # of which the plan is
            assert planned == program.exchange.moved, "planned and moved bytes differ"
        assert not program.grid._there and not program.grid._built and not program.grid.cells, "something is left on the device"
        assert not program.grid.host_blocks._rows, "something that was sent is left on the host"
    return losses, sum(planned.values())


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    """The cases of these labels on this rank; a file of what they gave."""
    losses_by_label, trained = {}, {}
    with open_context(Settings(device="cpu")) as context:
        for case in CASES:
            if case.label in labels:
                model = SnapshotModel(case.shape, SEED)
                losses, planned = train(case, model, folder, context)
                trained[case.label] = weights(model)
                losses_by_label[case.label] = {"losses": losses, "planned": planned}
    (folder / f"found-{ranks}-{rank}.json").write_text(json.dumps(losses_by_label))
    np.savez(folder / f"weights-{ranks}-{rank}.npz", **trained)


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
