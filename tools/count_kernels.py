"""Count the kernels of every kind of row and write strategies/costing/kernels.yaml: `python tools/count_kernels.py`; of one
family of dynamic graphs, and the others' laws stay: `python tools/count_kernels.py streams`.

Schedules of many sizes are executed on a CPU under `kernels.KernelCounter`, our own kernels emulated (tests/emulation), so that rows
take the ways that they take on CUDA. The counts of each (kind of schedule, model, operation) are then expressed as a law with integer
coefficients. A law that does not reproduce every count exactly is printed, with its error.
Takes some minutes; of streams alone, about one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import torch
import yaml
from numpy.typing import ArrayLike

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.protocol import Task as Kind_of_task
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.kernels import AbsentPeers, count_kernels
from chronoscale.real_exec.signals.forecast import walks
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import PartRegion, WholeRegion
from chronoscale.real_exec.snapshots.windows import remap
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costing import kernels
from chronoscale.strategies.costs import UNUSED, Floats
from chronoscale.strategies.flaredtdg.issue_order import one_by_one
from chronoscale.strategies.flaredtdg.kernels import law_variables
from chronoscale.strategies.flaredtdg.plan import Plan
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.signals.forecasters import DENSE_NODES, FORECASTERS, forecaster_shape
from chronoscale.strategies.signals.kernels import model_key
from chronoscale.strategies.snapshots.forms import must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.kernels import structure_name
from chronoscale.strategies.snapshots.lowering import CARRIED, Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, ModelParts, model_shape
from chronoscale.strategies.snapshots.shared_rows import can_share_rows
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.streams.kernels import EXPAND, KEEP, SENT, STATE, kernels_of
from chronoscale.strategies.streams.kernels import model_key as stream_name_of
from chronoscale.strategies.streams.models import CLOCKS, STREAM_MODELS, shape_for
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Partition, Recency, Workload

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from counted_streams import prepared_stream, trains_on
from emulation.stand_in import emulated
from kernel_terms import (
    BACKWARD,
    BLOCKS,
    CELLS,
    EVENTS,
    LOADED,
    LOADED_EVENTS,
    ROWS,
    SHARED_ROWS,
    SHARING,
    WINDOWS,
)

TARGET = Path(__file__).parents[1] / "src/chronoscale/strategies/costing/kernels.yaml"
HEAD = "# Kernels of a schedule's rows, as laws; see kernels.py. Made by tools/count_kernels.py with torch {}.\n"
EDGEWISE, LOADING = ["fast-none", "fast-sc", "fast-sc-te"], ["etc", "taser", "simple", "fast-compressed", "fast"]
LATER = {"ALLTOALL": ("RETURN", "RETURN_CANDIDATES"), "BACKWARD": ("BACKWARD_TRANSFORM",)}  # a cell's second, third row of an operation
GROUPED = ("groups", "shared")
BLOCKED, WAYS = 10, [(True, False), (True, True), (False, False)]  # chunks; whether windows shrink, and predict every snapshot
SHARED_OPS = ("TEMPORAL", "TRANSFORM")
SHARING_ROWS = Reuse(snapshots=True, groups=True, rows=True)
BASE, STEPS = 1 << 12, 30  # STEPS: of a signal
NODES, MOST = 9, 150  # nodes and events of a stream: of two ranks the second has none in the last batches of ten
SEQUENCE = GrowthGraph.rmat(60, 200, 14, 0.1, 1).sequence().without_self_edges()
OTHERS = {
    "gat-gru": ModelParts("gat", "gru"),
    "gru-evolving": ModelParts("gcn", "gru", True),
    "lstm-summarising": ModelParts("gcn", "lstm", True, True),
}
STACKED = product(("gcn", "gat"), ("lstm", "gru"))  # two cells on the last layer
OTHERS |= {f"{spatial}-{cell}-2-last": ModelParts(spatial, cell, recurs_last=True, depth=2) for spatial, cell in STACKED}


More = Callable[[Task], Mapping[str, int]]


class Coded(kernels.Kernels):
    """Counts nothing, but says in the kernels of a group's gradient pass which snapshots it has brought in and ends."""

    def count(self, name: str, **values: ArrayLike) -> Ints:
        found = {key: np.asarray(value, np.int64) for key, value in values.items()}
        if name == CARRIED:
            return np.asarray(1 + BASE * found["partial"] + BASE**2 * found["features"])
        return np.asarray(BASE**3 * found["own"] if "own" in found else 1)


def _counted(program: Program) -> list[int]:
    with emulated():
        return [count.kernels for count in count_kernels(program)]


def learned(program: Program) -> Program:
    """With the optimiser that torch takes on CUDA, gradients looked at and transposes made as there."""
    program.learner.optimizer.param_groups[0]["foreach"], program.learner.later = True, True
    getattr(program, "grid", program).shares = False  # transposes are made at every arrival
    return program


def rows(
    section: str, name: str, schedule: Schedule, program: Program, sizes: Mapping[str, int], more: More | None = None
) -> Iterator[dict[str, int | str]]:
    """A row a task: what it is, and its count; `more` variables of a task. The first optimiser's step makes its moments and is left out."""
    seen: Counter[tuple[int, ...]] = Counter()
    stepped, sampled = False, {task.unit for task in program.tasks if task.op is Op.SAMPLE}
    loads, keeps = sizes.get("compressed") or sizes.get("cached"), any(task.op is Op.SAMPLE and task.layer == 0 for task in program.tasks)
    for task, count in zip(program.tasks, _counted(learned(program)), strict=True):
        op, cell = task.op.name, (task.op, task.unit, task.step, task.layer)
        if section in ("parts", "blocks") and op in LATER and seen[cell]:
            op = LATER[op][seen[cell] - 1]
        seen[cell] += 1
        op = _loading(task, bool(loads), keeps, op) if section == "events" else op
        code = int(schedule.kernels[task.task]) if section in GROUPED and op == "BACKWARD" else 0
        row = {
            "section": section, "name": name, "op": op, "count": count, **sizes, "upper": int(task.layer > 0), "later": int(task.step > 0),
            "top": int(task.layer == sizes.get("above")), "last": int(task.step == sizes.get("steps", 0) - 1),
            "partial": int(schedule.rows[task.task] != schedule.nodes[task.task]), "carried": code % BASE,
            "changed": code // BASE % BASE, "brought": code // BASE**2 % BASE, "own": code // BASE**3,
            "present": int(task.unit in sampled), **(more(task) if more else {}),
        }  # fmt: skip
        if (task.op is not Op.OPTIMIZE or stepped) and task.lane is not Lane.HOST:
            yield row
        stepped = stepped or task.op is Op.OPTIMIZE


def _loading(task: Task, loads: bool, keeps: bool, op: str) -> str:
    """The law of a row that brings features or node memory to a model of events."""
    if task.op in (Op.H2D, Op.GATHER) and task.layer == 0:
        return STATE
    return {Op.H2D: SENT if loads else op, Op.GATHER: KEEP if keeps else EXPAND}.get(task.op, op)


def snapshots(folder: Path) -> Iterator[dict[str, int | str]]:
    """Groups in every form of reuse, cells on one rank and as one of several."""
    MODELS.update(OTHERS)  # type: ignore[attr-defined]
    yield from blocks()
    reuses = [(Reuse(), None, 1), (Reuse(pipeline=True), None, 2)]
    reuses += [(Reuse(snapshots=True, groups=each == 2), form, each) for form in Form for each in (1, 2)]
    for name, layers, steps in product(MODELS, (1, 2, 3), (2, 4)):
        shape, hyper = model_shape(name, 12, 8, layers), Hyper(group_size=steps)
        work = Workload("w", statistics_of(SEQUENCE), shape, hyper)
        sizes = {"steps": steps, "above": layers - 1, "deep": int(layers > 1), "spread": 0}
        material = SnapshotMaterial(SEQUENCE, 12, hyper.variant, weighted=shape.spatial == "gcn")
        for reuse, form, each in reuses:
            forms = form and uniform_forms(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
            ranks = 1 + (reuse == Reuse())  # without reuse as one of two
            schedule = lower("counted", work, deal(work.groups, ranks, each), reuse, UNUSED, forms).head(2)
            context = Context(collective=AbsentPeers(ranks))
            program = SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), context), hyper, context)
            yield from rows("groups", structure_name(shape), schedule, program, {**sizes, "spread": ranks - 1})
        for planner, ranks in product((strategy("esdg"), strategy("distdgl")), (1, 2)):
            cut = VertexPartition((np.arange(SEQUENCE.num_nodes) % ranks).astype(np.int32), ranks)
            work = Workload("w", statistics_of(SEQUENCE), shape, hyper, Partition(*cut.count(SEQUENCE)))
            schedule, others = planner.plan(work, ranks, UNUSED).head(2), AbsentPeers(ranks)
            context = Context(collective=others, exchange=others)
            region = PartRegion(material, cut, 0, context.device) if planner.partitioned else WholeRegion(material)
            program = CellProgram(schedule, region, Learner(SnapshotModel(shape), context), hyper, context)
            yield from rows(planner.kind, structure_name(shape), schedule, program, {**sizes, "spread": int(ranks > 1)})


def shared(folder: Path) -> Iterator[dict[str, int | str]]:
    """Steps and gradient passes of groups that share rows, one or two on a rank, of models that can."""
    MODELS.update(OTHERS)  # type: ignore[attr-defined]
    for name, layers, steps in product(MODELS, (1, 2, 3), (2, 4)):
        shape, hyper = model_shape(name, 12, 8, layers), Hyper(group_size=steps)
        work = Workload("w", statistics_of(SEQUENCE), shape, hyper)
        sizes = {"steps": steps, "above": layers - 1, "deep": int(layers > 1), "spread": 0}
        material = SnapshotMaterial(SEQUENCE, 12, hyper.variant, weighted=shape.spatial == "gcn")
        for form, each in product(Form, (1, 2)) if can_share_rows(work) else ():
            forms = uniform_forms(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
            schedule = lower("counted", work, deal(work.groups, 1, each), SHARING_ROWS, UNUSED, forms).head(2)
            program = SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), Context()), hyper, Context())
            found = rows("shared", structure_name(shape), schedule, program, sizes, partial(_sharing, program))
            yield from (row for row in found if row["op"] == "BACKWARD" or (row["op"] in SHARED_OPS and not row["upper"]))


def _sharing(program: SnapshotProgram, task: Task) -> Mapping[str, int]:
    """Of a row of a group."""
    chain = next((chain for chain in program.plan.chains if task.unit in chain), ())
    into = (task.unit, task.step) in program.plan.incremented
    return {"into": int(into), "follows": int(chain[:1] != (task.unit,)), "leads": int(len(chain) > 1 and chain[0] == task.unit)}


def blocks() -> Iterator[dict[str, int | str]]:
    """Windows that shrink or not, that predict their newest snapshot or every one, on one rank and as one of two."""
    remap.kept_ids = remap.sorted_ids  # as on a GPU
    sequence = GrowthGraph.rmat(60, 880, 8, 0.1, 1).sequence().without_self_edges()  # one segment; at every level remote rows are read
    chunks = Chunks((np.arange(sequence.num_nodes) % BLOCKED).astype(np.int32), BLOCKED)
    ways = [(name, layers) for name, layers in product(MODELS, (1, 2, 3)) if MODELS[name].spatial == "gcn"]
    for (name, layers), ranks, (shrinks, each), decay in product(ways, (1, 2), WAYS, (Decay(2, 2, 0.5), Decay(1, 3, 0.5, (2,)))):
        if decay.lags and (not shrinks or ranks > 1):  # what a snapshot had when it was last whole is there, or not: no law tells
            continue
        shape, hyper = model_shape(name, 12, 8, layers), Hyper(recency=Recency(decay, BLOCKED))
        work = Workload("w", statistics_of(sequence), shape, hyper, chunking=ExactChunking(sequence, chunks))
        plan = Plan("counted", work, ranks, WindowRetention(decay, each), one_by_one, shrinks)
        schedule, others = plan.schedule(UNUSED), AbsentPeers(ranks)
        context = Context(collective=others, exchange=others)
        material = SnapshotMaterial(sequence, 12, hyper.variant)
        program = WindowProgram(schedule, material, chunks, Learner(SnapshotModel(shape), context), hyper, context)
        sizes = {"steps": len(plan.level), "above": layers - 1, "spread": ranks - 1, "anew": int(not shrinks), "each": int(each)}
        yield from rows("blocks", structure_name(shape), schedule, program, sizes, partial(_told, plan))


def _told(plan: Plan, task: Task) -> Mapping[str, int]:
    """Of a row of a snapshot of a window."""
    if task.step < 0:
        return {}
    masks = plan.first[[task.unit]], plan.seen_first(task.step)[[task.unit]]
    found = law_variables(plan.level, task.step, task.layer, *masks, plan.shrinks)
    return {name: int(np.asarray(value).item()) for name, value in found.items()}


def signals(folder: Path) -> Iterator[dict[str, int | str]]:
    """Every forecaster, dense and sparse, in both variants."""
    planner = strategy("index")
    for nodes in (5, DENSE_NODES + 8):
        ring = np.arange(nodes)
        edges = np.stack([ring, (ring + 1) % nodes]).astype(np.int32)
        values = np.random.default_rng(2).uniform(0, 1, (STEPS, nodes, 2)).astype(np.float32)
        store.save(folder / str(nodes), Signal(values, edges, np.ones(nodes, np.float32), calendar=1))
    for name, nodes, variant in product(FORECASTERS, (5, DENSE_NODES + 8), ("exact", "as-published")):
        kind = FORECASTERS[name]
        sizes = product(
            ((4, 2), (6, 4), (6, 2)), (0, 2)[: 1 + kind.stacks], (1, 3)[: 1 + kind.diffuses], (0.0, 0.1)[: 1 + kind.drops],
            (1, 2)[: 1 + (nodes == 5)],
        )  # fmt: skip
        for (window, horizon), more, hops, dropout, ranks in sizes:
            layers = kind.least_layers(window) + more
            hyper = Hyper(batch_size=2, window=window, horizon=horizon, variant=variant, batches=2)
            choice = ModelChoice(name, 4, layers, hops=hops, heads=2, dropout=dropout)
            shape = forecaster_shape(choice, nodes, 2, window, horizon, variant, calendar=1)
            work = Workload("w", SignalStatistics(STEPS, nodes, 2, nodes, calendar=1), shape, hyper)
            before = folder / f"{name}-{nodes}-{variant}-{window}-{horizon}-{layers}-{hops}-{dropout}-{ranks}.parquet"
            planner.prepare(work, 1, UNUSED).save(before)
            schedule, context = planner.plan(work, ranks, UNUSED), Context()
            item = Item("counted", "", str(folder / str(nodes)), hyper, prepare=str(before))
            run_preparation(item, choice, context)
            program = bind_program(item, schedule, choice, replace(context, collective=AbsentPeers(ranks)))
            last = schedule.iterations  # one validation batch tells all
            program.tasks = [task for task in program.tasks if task.unit <= last or task.op is Op.ALLREDUCE]
            counted = {
                "window": window,
                "horizon": horizon,
                "layers": layers,
                "hops": hops,
                "spread": ranks - 1,
                "dropout": int(dropout > 0),
            }
            yield from rows("windows", model_key(work), schedule, program, counted)


def streams(folder: Path) -> Iterator[dict[str, int | str]]:
    """Every model of events and both tasks, on one rank and as one of two; of two the second one's last batches are empty. Not the first
    batches, where levels without a neighbour have one row, which needs no copy to be laid out by heads. Ways to load are counted with
    the plainest model, operators edge by edge with every one that has them."""
    folders = [prepared_stream(folder, NODES, MOST, *which) for which in product((0, 3), (0, 2), get_args(Kind_of_task))]
    for data, name in product(folders, STREAM_MODELS):
        kind, statistics = STREAM_MODELS[name], stream_statistics(PreparedStream.load(data))
        if not trains_on(kind, statistics):
            continue
        sizes = product(
            kind.depths, (2, 3) if kind.windowed else (1,), CLOCKS if kind.clock else CLOCKS[:1],
            (1, 2)[: 1 + kind.attends], (0.0, 0.1)[: 1 + kind.drops], ((1, 0), (2, 0), (2, 1)),
        )  # fmt: skip
        for layers, windows, clock, heads, dropout, (ranks, rank) in sizes:
            plainest = (clock, heads, dropout) == (CLOCKS[0], 1, 0.0)
            if ranks > 1 and not plainest:
                continue
            events = EventHyper(windows=windows, duration=20.0 * (windows > 1), cache_ratio=0.5)
            hyper = Hyper(batch_size=10, fanout=(3,), events=events)
            choice = ModelChoice(name, 4, layers, 4, heads=heads, time=3, mails=2, dropout=dropout, clock=clock)
            shape = shape_for(choice, statistics, hyper)
            work = Workload("w", statistics, shape, hyper)
            planners = [
                "tgl-unique",
                *EDGEWISE * (kind.spatial == "attention"),
                *LOADING * plainest,
                *["tgl", "fast-merged"] * shape.pairwise,
            ]
            for planner in map(strategy, planners):
                assert isinstance(planner, StreamStrategy)
                schedule = planner.plan(work, ranks, UNUSED)
                context = Context(rank=rank, collective=AbsentPeers(ranks))
                program = bind_program(Item("counted", "", str(data), hyper), schedule, choice, context)
                last = schedule.iterations - 2  # of training: two batches tell all
                program.tasks = [task for task in program.tasks if task.unit >= last or (task.op is Op.SAMPLE and task.layer == 0)]
                sizes_of = kernels_of(work, ranks, planner.feeding).sizes
                yield from rows("events", stream_name_of(shape, planner.feeding), schedule, program, sizes_of)


def law(part: pd.DataFrame, terms: Sequence[str]) -> tuple[dict[str, int], float]:
    """The law of fewest terms that fits as well as all of them, and its largest error in kernels."""
    columns = {term: np.prod([part[name] for name in term.split("*") if name != "1"] or np.ones((1, len(part))), 0) for term in terms}
    counts, kept = part["count"].to_numpy(np.float64), []
    for term in terms:
        if np.linalg.matrix_rank(np.stack([columns[other] for other in (*kept, term)], 1)) > len(kept):
            kept.append(term)

    def solved(chosen: Sequence[str]) -> tuple[Floats, float]:
        features = np.stack([columns[term] for term in chosen], 1)
        coefficients = np.rint(np.linalg.lstsq(features, counts, rcond=None)[0])
        return coefficients, float(np.abs(features @ coefficients - counts).max())

    for term in reversed(list(kept)):
        fewer = [other for other in kept if other != term]
        if fewer and solved(fewer)[1] <= solved(kept)[1]:
            kept = fewer
    found, error = solved(kept)
    return {term: int(factor) for term, factor in zip(kept, found, strict=True) if factor}, error


FAMILIES: Mapping[str, Callable[[Path], Iterator[dict[str, int | str]]]] = {
    "snapshots": snapshots,
    "shared": shared,
    "signals": signals,
    "streams": streams,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the kernels of rows and write their laws.")
    parser.add_argument("family", nargs="*", help=f"count these again, and keep the others: {', '.join(FAMILIES)} (default: all)")
    families = parser.parse_args().family or list(FAMILIES)
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; families are {', '.join(FAMILIES)}")
    torch.set_num_threads(1)
    walks.SPARSE = 0  # graphs have the form that they have on a GPU
    known = kernels.read_laws()
    kernels.Kernels.of_model = classmethod(lambda cls, kind, model, sizes: Coded({}, {"above": 0, **sizes}))  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        table = pd.DataFrame([row for family in families for row in FAMILIES[family](Path(folder))]).fillna(0).drop_duplicates()
    counted_anew = set(table["section"])
    laws = {section: {name: dict(of) for name, of in known[section].items()} for section in set(known) - counted_anew}
    for (section, name, op), part in table.groupby(["section", "name", "op"]):
        if section in GROUPED and op == "H2D":  # arrays, counted by the planner
            continue
        ends = section in GROUPED and op == "BACKWARD"
        terms = {
            "groups": [*BACKWARD, *LOADED] if ends else ROWS,
            "shared": [*SHARING, *LOADED] if ends else SHARED_ROWS,
            "windows": WINDOWS,
            "events": EVENTS,
            "blocks": BLOCKS,
        }.get(section, CELLS)
        found, error = law(part, LOADED_EVENTS if op in (SENT, EXPAND, KEEP) else terms)
        if error:
            print(f"{section} {name} {op}: off by up to {error:g} of {part['count'].mean():.0f}: {found}")
        into = laws.setdefault(section, {}).setdefault(name, {})
        into[op] = {term: factor for term, factor in found.items() if term not in LOADED}
        if ends:
            renamed = {"carried": "1", "changed": "partial", "brought": "features"}
            parts = {term: "*".join(filter("1".__ne__, (renamed.get(p, p) for p in term.split("*")))) or "1" for term in LOADED}
            into[CARRIED] = {parts[term]: factor for term, factor in found.items() if term in LOADED}
    TARGET.write_text(HEAD.format(torch.__version__) + yaml.safe_dump(laws, default_flow_style=None, width=200, sort_keys=True))


if __name__ == "__main__":
    main()
