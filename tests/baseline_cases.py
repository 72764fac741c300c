"""Strategies executed on this rank: `main(folder)`.

The folder holds sequences, cuts, schedules, and the labels of cases by the number of ranks that run them (`rank_cases`). Writes losses
and the bytes that every communication row moved; tests/real_exec/test_baselines.py compares them.
"""

import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from dense_trainer import RATE, iterations_of, weights
from rank_cases import serve_cases

from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import PartRegion, WholeRegion
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import COLLECTIVES, Op, Schedule
from chronoscale.strategies.snapshots.models import MODELS, ModelParts, model_shape
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.trace import Source
from chronoscale.strategies.workload import Hyper, Partition, Workload

INPUTS, HIDDEN, SEED = 6, 8, 5
CLASSES = 3  # of nodes; every fourth is unlabelled
SPREAD = ("psg", "blad", "esdg", "distdgl")  # what takes features that change
STACKED = {f"{spatial}-gru-2-last": ModelParts(spatial, "gru", recurs_last=True, depth=2) for spatial in ("gcn", "gat")}  # from outside
COSTS = DatasheetCosts(presets.cluster("h200").device)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """`data`: a sequence of the folder; `cut`: of its cuts; `ranks`: how many it is run on."""

    strategy: str
    model: str
    layers: int
    data: str = "growth"
    cut: str = "mixed"
    hyper: Hyper = field(default_factory=lambda: Hyper(groups_per_rank=2))
    forms: bool = False  # snapshots in every form, whatever they cost
    ranks: tuple[int, ...] = (1, 4)

    @property
    def label(self) -> str:
        h = self.hyper
        return (
            f"{self.strategy}-{self.model}-{self.layers}-{self.data}-{self.cut}-{h.group_size}.{h.stride}.{h.horizon}.{h.groups_per_rank}"
            + "-forms" * self.forms
            + f"-{h.task}" * (h.task != "in-degree")
        )

    @property
    def shape(self):
        task = task_of(self.hyper.task)
        with mock.patch.dict(MODELS, STACKED):
            return model_shape(self.model, task.inputs(INPUTS), HIDDEN, self.layers, task.outputs(CLASSES, self.data, HIDDEN))


class Changing:
    """Costs under which about half of the changes are incremented, the others rebuilt, and hardly any snapshot comes in full."""

    name, launch_ns = "changing", 0

    def predict(self, schedule, rows):
        full = (schedule.op[rows] == Op.H2D) & (schedule.rows[rows] == schedule.nodes[rows])
        dear = (schedule.op[rows] == Op.INCREMENT) & (schedule.edges[rows] % 2 == 1)
        free = np.isin(schedule.op[rows], [Op.INCREMENT, Op.RECONSTRUCT])
        return np.where(dear, 100, np.where(free, 1, 10 + 40 * full)).astype(np.int64), Source.SPECIFIED

    def occupies(self, schedule, rows, ns):
        return np.zeros(len(rows)), np.zeros(len(rows))


WHOLE = ("psg", "real-type1", "blad", "real-reuse", "real-g", "real-g+", "real-l")  # groups on one rank, where test_execution.py has them


def turn(*numbers: int) -> tuple[int, ...]:
    """Two ranks or four, in turn: each strategy and each model meets both."""
    return (2, 4)[sum(numbers) % 2 :][:1]


# What is spread: one layer on 1 and 2 ranks, two on 1 and 4, two of real data on 2. No rank count has a branch of its own for a depth.
CASES = [
    *(Case(s, m, n, ranks=(1, 2) if n == 1 else (1, 4)) for s in ("esdg", "distdgl") for m in MODELS for n in (1, 2)),
    *(Case(s, m, 2, "real", "striped", ranks=(2,)) for s in ("esdg", "distdgl") for m in MODELS),
    *(
        Case(s, m, 2, "real-long", "striped", forms=s.startswith("real"), ranks=turn(i, j))
        for (i, s), (j, m) in product(enumerate(WHOLE), enumerate(MODELS))
    ),
    *(
        Case(s, m, 1, "growth-long", forms=True, ranks=turn(i + 1, j))
        for (i, s), (j, m) in product(enumerate(WHOLE), enumerate(MODELS))
        if s in ("real-reuse", "real-g+")
    ),
    *(Case("distdgl", m, 2, cut="skewed", ranks=(2, 4)) for m in ("gat-lstm", "evolvegcn-h")),
    *(Case("esdg", m, 2, hyper=Hyper(group_size=3, stride=2, horizon=2), ranks=(2, 4)) for m in ("gat-lstm", "evolvegcn-h")),
    *(
        Case(
            s,
            m,
            1 + (i + j) % 2 * (task == "degrees"),
            cut="skewed" if m == "t-gcn" else "mixed",
            hyper=Hyper(task=task, groups_per_rank=2),
            ranks=(1, 2),
        )
        for (i, s), (j, m), task in product(enumerate(SPREAD), enumerate(MODELS), ("degrees", "classes"))
        if task == "degrees" or m in ("t-gcn", "evolvegcn-o")
    ),
    *(  # most nodes have no edge, and are one row
        Case(s, m, 1 + (i + j) % 2, "idle", "striped", hyper=Hyper(task="degrees", groups_per_rank=2), ranks=(1, *turn(i, j)))
        for (i, s), (j, m) in product(enumerate(("psg", "esdg", "real-g+")), enumerate(MODELS))
    ),
    *(  # one layer: a second one's weights would hardly move, by so few and small gradients
        Case(s, m, 1, data, hyper=Hyper(task="links", groups_per_rank=2, seed=3), forms=s == "real-reuse", ranks=(1, 2))
        for (s, data), m in product((("psg", "growth"), ("esdg", "growth"), ("real-reuse", "growth-long")), ("wd-gcn", "evolvegcn-h"))
    ),
    *(
        Case("distdgl", m, 1, cut=cut, hyper=Hyper(task="links", groups_per_rank=2, seed=3), ranks=(1, 2, 4))
        for m, cut in (("wd-gcn", "mixed"), ("evolvegcn-h", "skewed"), ("t-gcn", "striped"))
    ),
    *(Case("distdgl", m, 3, hyper=Hyper(group_size=1, variant="as-published")) for m in ("t-gcn", "gat-lstm")),
    *(Case(s, m, 3, ranks=turn(i, j)) for (i, s), (j, m) in product(enumerate(("esdg", "distdgl")), enumerate(STACKED))),
]


def plan(case: Case, folder: Path, ranks: int) -> None:
    """The case's schedule, as a file: planned once, for whichever process runs it."""
    sequence = store.load(folder / case.data)
    cut = VertexPartition(np.load(folder / f"{case.data}-{case.cut}-{ranks}.npy"), ranks)
    work = Workload("w", statistics_of(sequence), case.shape, case.hyper, Partition(*cut.count(sequence)))
    schedule = strategy(case.strategy).plan(work, ranks, Changing() if case.forms else COSTS)
    assert not case.forms or {Op.INCREMENT, Op.RECONSTRUCT} <= {Op(op) for op in schedule.op} or case.strategy == "real-g"
    schedule.save(folder / f"{case.label}-{ranks}.parquet")


def train(case: Case, model: SnapshotModel, folder: Path, context: Context):
    """One epoch: its losses; planned and moved bytes of this rank's communication rows; what is left on the device."""
    rank, ranks = context.rank, context.ranks
    sequence, schedule = store.load(folder / case.data), Schedule.load(folder / f"{case.label}-{ranks}.parquet")
    cut = VertexPartition(np.load(folder / f"{case.data}-{case.cut}-{ranks}.npy"), ranks)
    case_key = (case.shape.inputs, case.hyper.variant)
    material = SnapshotMaterial(sequence, *case_key, weighted=case.shape.spatial == "gcn", task=case.hyper.task, hyper=case.hyper)
    learner, steps = Learner(model, context), iterations_of(schedule)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
    if schedule.kind == "groups":
        program = SnapshotProgram(schedule, material, learner, case.hyper, context)
        return execute(schedule, program, CpuLanes(False), "cpu").losses, {}, len(program.device_state.snapshots), steps
    region = WholeRegion(material) if case.strategy == "esdg" else PartRegion(material, cut, rank, CPU)
    program = CellProgram(schedule, region, learner, case.hyper, context)
    losses = execute(schedule, program, CpuLanes(False), "cpu").losses
    for task in schedule.tasks(Op.H2D):  # what is planned is what is copied
        if schedule.rank[task] == rank:
            snapshot = schedule.unit[task] * case.hyper.stride + schedule.step[task]
            fold = program.grid.fold(int(schedule.unit[task]))
            assert schedule.bytes[task] == region.graph(snapshot, fold).nbytes + region.features(snapshot, fold).nbytes
            assert bool(fold.rows) == (case.data == "idle")
    exchanged = COLLECTIVES - {Op.ALLREDUCE}
    planned = {t.task: t.bytes for t in program.tasks if t.op in exchanged}
    assert planned == program.exchange.moved, "planned and moved bytes differ"
    return losses, planned, len(program.grid._held) + len(program.grid.cells), steps


def run(folder: Path, rank: int, ranks: int, labels: list[str]) -> None:
    """The cases of these labels on this rank; a file of what they gave."""
    losses_by_label, trained = {}, {}
    with open_context(Settings(device="cpu")) as context:
        for case in CASES:
            if case.label in labels:
                model = SnapshotModel(case.shape, SEED)
                losses, planned, left, steps = train(case, model, folder, context)
                trained[case.label] = weights(model)
                losses_by_label[case.label] = {"losses": losses.tolist(), "planned": sum(planned.values()), "left": left, "steps": steps}
    (folder / f"found-{ranks}-{rank}.json").write_text(json.dumps(losses_by_label))
    np.savez(folder / f"weights-{ranks}-{rank}.npz", **trained)


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)
