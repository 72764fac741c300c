"""Epochs take less time where nodes without an edge in a group of snapshots are one row than with a row for every node.

One rank, real snapshots of a month each, task degrees (features are degrees), one layer, hidden 64, the last 16 snapshots. Contestants take
turns, an epoch each: psg and real-reuse with folded nodes and with a row for every node (`rows`: idle nodes are not counted). All take two
groups a step of the optimiser, and their losses are asserted to agree. `own rows, %`: rows that are computed of all nodes, the mean over
groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Figures, Passes, Setting, Subject
from core.turns import in_turns
from setups.data import sequence_of

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.folding import computed_rows
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

SNAPSHOTS, INPUTS, OUTPUTS = 16, 2, 2  # in-degree and out-degree
HYPER = Hyper(task="degrees", groups_per_rank=2)
STRATEGIES, ALLOWED = ("psg", "real-reuse"), {"mpnn-lstm": 3e-3}  # rounding parts its losses by so much after four epochs of Adam


def trainer(name: str, folds: bool, sequence: SnapshotSequence, kind: str, hidden: int, context: Context) -> Callable[[], Figures]:
    """Return what trains an epoch and returns its figures, `loss` the sum of its losses."""
    stats = statistics_of(sequence)
    work = Workload(sequence.name, stats if folds else replace(stats, lasting=None), model_shape(kind, INPUTS, hidden, 1, OUTPUTS), HYPER)
    schedule = strategy(name).plan(work, 1, DatasheetCosts(presets.cluster("h200").device))
    material = SnapshotMaterial(sequence, INPUTS, weighted=work.model.spatial == "gcn", task=HYPER.task)
    learner = learner_of(ModelChoice(kind, hidden, 1, INPUTS), context, OUTPUTS)
    program = SnapshotProgram(schedule, material, learner, HYPER, context)
    share = 100 * float(np.mean(computed_rows(work, np.arange(work.groups), HYPER.group_size)) / stats.num_nodes)

    def epoch() -> Figures:
        begin = time.perf_counter()
        done = execute(schedule, program, context.lanes(schedule), "cpu")
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "loss": float(done.losses.sum()), "steps": schedule.iterations, "own rows, %": share}

    return epoch


def measure(data: str, kind: str, hidden: int, setting: Setting) -> Passes:
    """Train in turns after an epoch of each to warm up, and assert that losses agree."""
    whole = sequence_of(data)
    sequence = SnapshotSequence.from_snapshots([whole[t] for t in range(max(len(whole) - SNAPSHOTS, 0), len(whole))], data)
    with open_context(Settings(device="cpu", threads=setting.threads)) as context:
        contestants = {
            name + ("" if folds else " rows"): trainer(name, folds, sequence, kind, hidden, context)
            for name, folds in product(STRATEGIES, (True, False))
        }
        passes = in_turns(contestants, 1 + setting.repeats)
    losses, steps = (np.array([[one[figure] for one in each] for each in passes.values()]) for figure in ("loss", "steps"))
    assert (steps == steps[0, 0]).all(), f"steps of the optimiser differ: {steps[:, 0]}"
    np.testing.assert_allclose(losses, losses[:1].repeat(len(losses), 0), rtol=ALLOWED.get(kind, 1e-4))
    return {who: each[1:] for who, each in passes.items()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets by models."""
    if quick:
        yield Case({"data": "growth-80", "model": "t-gcn"}, partial(measure, "growth-80", "t-gcn", 4))
        return
    models = ("wd-gcn", "t-gcn", "gat-lstm", "evolvegcn-o", "evolvegcn-h", "mpnn-lstm")
    for data, kind in product(("math_overflow_monthly", "enron_monthly"), models):
        yield Case({"data": data, "model": kind}, partial(measure, data, kind, 64))


SUBJECT = Subject(cases, 5)
